//! What a file of a data directory is, as far as its name tells.

use crate::format::names::{
    self, FileState, FileType, KraftSnapshot, PackedSegment, RemoteIndexFile, SegmentFile, TieredFile,
    TieredType,
};
use crate::units::Offset;

/// What a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileKind {
    /// The word for it, as in [`FileKind::WORDS`].
    pub word: &'static str,
    /// Whether it is in use; all but a segment's files and KRaft's snapshots are.
    pub state: FileState,
    /// The base offset in the name of a segment's file.
    pub base: Option<Offset>,
}

impl FileKind {
    /// Every word, with what it stands for.
    pub const WORDS: [(&'static str, &'static str); 21] = [
        ("segment", "record batches"),
        ("packed-segment", "a segment that gzip or zstd has compressed"),
        ("renamed-segment", "a segment under a name that Kafka doesn't give"),
        ("offset-index", ".index"),
        ("time-index", ".timeindex"),
        ("transaction-index", ".txnindex"),
        ("producer-snapshot", ".snapshot"),
        ("kraft-snapshot", ".checkpoint"),
        ("leader-epochs", "leader-epoch-checkpoint"),
        ("partition-metadata", "partition.metadata"),
        ("quorum-state", "quorum-state"),
        ("offset-checkpoint", "a data directory's checkpoints"),
        ("meta-properties", "meta.properties"),
        ("clean-shutdown", ".kafka_cleanshutdown"),
        ("lock", ".lock"),
        ("bootstrap-checkpoint", "bootstrap.checkpoint"),
        ("tiered-indexes", ".indexes of Aiven's plugin"),
        ("tiered-manifest", ".rsm-manifest of Aiven's plugin"),
        ("symlink", "a symbolic link, not followed"),
        ("special", "a device, FIFO or socket, not opened"),
        ("other", "anything else"),
    ];

    /// The kind of a file of this name.
    pub fn of_name(name: &str) -> Self {
        if let Some(SegmentFile { base, file_type, state }) = SegmentFile::parse(name) {
            return Self { word: type_word(file_type), state, base: Some(base) };
        }
        if let Some(snapshot) = KraftSnapshot::parse(name) {
            return Self { word: "kraft-snapshot", state: snapshot.state, base: None };
        }
        if let Some(packed) = PackedSegment::parse(name) {
            return Self { base: Some(packed.base), ..Self::live("packed-segment") };
        }
        if let Some(file) = TieredFile::parse(name) {
            return Self { base: Some(file.base), ..Self::live(tiered_word(file.file_type)) };
        }
        if let Some(file) = RemoteIndexFile::parse(name) {
            return Self { base: Some(file.start), ..Self::live(type_word(file.file_type)) };
        }
        Self::live(match name {
            names::LEADER_EPOCHS => "leader-epochs",
            names::PARTITION_METADATA => "partition-metadata",
            names::QUORUM_STATE => "quorum-state",
            names::META_PROPERTIES => "meta-properties",
            names::CLEAN_SHUTDOWN => "clean-shutdown",
            names::LOCK => "lock",
            names::BOOTSTRAP_CHECKPOINT => "bootstrap-checkpoint",
            names::RECOVERY_POINTS | names::HIGH_WATERMARKS | names::LOG_STARTS | names::CLEANER_OFFSETS => {
                "offset-checkpoint"
            }
            _ => "other",
        })
    }

    /// A kind without state and base.
    pub const fn live(word: &'static str) -> Self {
        Self { word, state: FileState::Live, base: None }
    }

    /// Whether such a file holds record batches.
    pub fn is_segment(&self) -> bool {
        matches!(self.word, "segment" | "packed-segment" | "renamed-segment")
    }
}

const fn type_word(file_type: FileType) -> &'static str {
    match file_type {
        FileType::Log => "segment",
        FileType::OffsetIndex => "offset-index",
        FileType::TimeIndex => "time-index",
        FileType::TxnIndex => "transaction-index",
        FileType::Snapshot => "producer-snapshot",
    }
}

const fn tiered_word(file_type: TieredType) -> &'static str {
    match file_type {
        TieredType::File(file_type) => type_word(file_type),
        TieredType::LeaderEpochs => "leader-epochs",
        TieredType::Indexes => "tiered-indexes",
        TieredType::RsmManifest => "tiered-manifest",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_their_kinds() {
        for (name, word, state, base) in [
            ("00000000000000000042.log", "segment", FileState::Live, Some(42)),
            ("00000000000000000042.log.deleted", "segment", FileState::Deleted, Some(42)),
            ("00000000000000000042.timeindex.swap", "time-index", FileState::Swap, Some(42)),
            ("00000000000000000042.log.gz", "packed-segment", FileState::Live, Some(42)),
            (
                "00000000000000000042-0000000007.checkpoint.deleted",
                "kraft-snapshot",
                FileState::Deleted,
                None,
            ),
            ("00000000000000000042-JhPHoiVBRJGDIRxlxxJDRg.log", "segment", FileState::Live, Some(42)),
            (
                "00000000000000000042-JhPHoiVBRJGDIRxlxxJDRg.indexes",
                "tiered-indexes",
                FileState::Live,
                Some(42),
            ),
            ("42_JhPHoiVBRJGDIRxlxxJDRg.txnindex", "transaction-index", FileState::Live, Some(42)),
            ("leader-epoch-checkpoint", "leader-epochs", FileState::Live, None),
            ("log-start-offset-checkpoint", "offset-checkpoint", FileState::Live, None),
            ("copy of 00000000000000000042.log", "other", FileState::Live, None),
        ] {
            let kind = FileKind::of_name(name);
            assert_eq!(kind, FileKind { word, state, base: base.map(Offset) }, "{name}");
            assert!(FileKind::WORDS.iter().any(|(known, _)| *known == word), "{word}");
        }
    }
}
