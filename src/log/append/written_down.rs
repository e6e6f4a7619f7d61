//! What a data directory has written down about its partitions: offsets in checkpoints, and whether it was stopped in order.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::format::checkpoint;
use crate::format::names::{self, Kind, PartitionDir};
use crate::log::LogError;
use crate::log::files::disk::{self, Disk};
use crate::log::source::checkpoints;
use crate::log::upkeep::survey::Bounds;
use crate::units::{Offset, TopicPartition};

/// What Kafka writes since 3.7 where it knows no broker epoch; that the file is there is what counts.
const CLEAN: &[u8] = br#"{"version":0,"brokerEpoch":-1}"#;

/// Offsets by partition.
type Offsets = BTreeMap<TopicPartition, Offset>;

/// What is written down in a data directory.
#[derive(Debug, Clone, Default)]
pub struct WrittenDown {
    /// `recovery-point-offset-checkpoint`: below these offsets all is durable.
    pub recovery_points: Offsets,
    /// `replication-offset-checkpoint`: the high watermarks.
    pub high_watermarks: Offsets,
    /// `log-start-offset-checkpoint`, for partitions that don't start with their first segment.
    pub log_starts: Offsets,
    /// `cleaner-offset-checkpoint`: up to where logs were compacted.
    pub cleaned: Offsets,
    /// Whether it was stopped in order.
    pub is_clean: bool,
}

impl WrittenDown {
    /// Reads what a directory says. A checkpoint that is missing or malformed says nothing, as for Kafka's loader: then all is
    /// read again.
    pub fn read(directory: &Path) -> Self {
        Self {
            recovery_points: checkpoints::read(&directory.join(names::RECOVERY_POINTS)),
            high_watermarks: checkpoints::read(&directory.join(names::HIGH_WATERMARKS)),
            log_starts: checkpoints::read(&directory.join(names::LOG_STARTS)),
            cleaned: checkpoints::read(&directory.join(names::CLEANER_OFFSETS)),
            is_clean: directory.join(names::CLEAN_SHUTDOWN).exists(),
        }
    }

    /// Writes the recovery points and the high watermarks; the others stay as they are.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn write(&self, disk: &dyn Disk, directory: &Path) -> Result<(), LogError> {
        let files = [
            (names::RECOVERY_POINTS, &self.recovery_points),
            (names::HIGH_WATERMARKS, &self.high_watermarks),
        ];
        for (name, offsets) in files {
            disk::replace(disk, &directory.join(name), checkpoint::format_offsets(offsets).as_bytes())?;
        }
        disk::sync_directory(disk, directory)
    }

    /// What is written down of a partition.
    pub fn bounds(&self, name: &TopicPartition) -> Bounds {
        Bounds {
            log_start: self.log_starts.get(name).copied(),
            high_watermark: self.high_watermarks.get(name).copied(),
            cleaned: self.cleaned.get(name).copied(),
            open: None,
        }
    }

    /// Writes the checkpoints that say something else than `before`.
    ///
    /// # Errors
    /// The system's.
    pub(in crate::log) fn write_changes(
        &self,
        before: &Self,
        disk: &dyn Disk,
        directory: &Path,
    ) -> Result<(), LogError> {
        let files = [
            (names::RECOVERY_POINTS, &self.recovery_points, &before.recovery_points),
            (names::HIGH_WATERMARKS, &self.high_watermarks, &before.high_watermarks),
            (names::LOG_STARTS, &self.log_starts, &before.log_starts),
            (names::CLEANER_OFFSETS, &self.cleaned, &before.cleaned),
        ];
        for (name, offsets, _) in files.iter().filter(|(_, now, before)| now != before) {
            disk::replace(disk, &directory.join(name), checkpoint::format_offsets(offsets).as_bytes())?;
        }
        disk::sync_directory(disk, directory)
    }

    /// Forgets a partition that is there no more.
    pub(super) fn forget(&mut self, name: &TopicPartition) {
        let Self { recovery_points, high_watermarks, log_starts, cleaned, .. } = self;
        for offsets in [recovery_points, high_watermarks, log_starts, cleaned] {
            offsets.remove(name);
        }
    }
}

/// Says that the directory is stopped in order.
///
/// # Errors
/// The system's.
pub(super) fn mark_clean(disk: &dyn Disk, directory: &Path) -> Result<(), LogError> {
    disk::replace(disk, &directory.join(names::CLEAN_SHUTDOWN), CLEAN)?;
    disk::sync_directory(disk, directory)
}

/// Says that it isn't, before anything changes (KAFKA-10471).
///
/// # Errors
/// The system's.
pub(super) fn mark_unclean(disk: &dyn Disk, directory: &Path) -> Result<(), LogError> {
    disk::remove_if_there(disk, &directory.join(names::CLEAN_SHUTDOWN))?;
    disk::sync_directory(disk, directory)
}

/// The partitions that a broker would load from a directory, and their own directories. Not the metadata log, which KRaft reads
/// by its own rules, and nothing that waits to be deleted or was set aside.
///
/// # Errors
/// Those of listing.
pub fn partitions(directory: &Path) -> Result<Vec<(TopicPartition, PathBuf)>, LogError> {
    let entries = std::fs::read_dir(directory).map_err(|error| LogError::io(directory, "list", error))?;
    let mut found: Vec<(TopicPartition, PathBuf)> = entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|of| of.is_dir()))
        .filter_map(|entry| {
            let parsed = PartitionDir::parse(entry.file_name().to_str()?)?;
            let is_loaded = matches!(parsed.kind, Kind::Current | Kind::Future { .. });
            let is_metadata =
                [names::METADATA_TOPIC, names::METADATA_TOPIC_2_8].contains(&&*parsed.partition.topic);
            (is_loaded && !is_metadata).then(|| (parsed.partition, entry.path()))
        })
        .collect();
    found.sort();
    Ok(found)
}

/// The same without those that are on their way to another disk: these belong to a broker.
///
/// # Errors
/// Those of listing.
pub fn current_partitions(directory: &Path) -> Result<Vec<(TopicPartition, PathBuf)>, LogError> {
    let mut partitions = partitions(directory)?;
    partitions.retain(|(name, path)| path.ends_with(name.to_string()));
    Ok(partitions)
}
