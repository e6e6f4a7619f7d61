//! Cuts copies of partitions.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use topicfs::format::batch::Limits;
use topicfs::format::names::PartitionDir;
use topicfs::log::append::owned::{OpenError, OwnedDirectory};
use topicfs::log::append::recovery::{Known, Plan};
use topicfs::log::files::disk::{Disk, SystemDisk};
use topicfs::log::upkeep::truncation::Truncation;
use topicfs::units::{Offset, TopicPartition};

use super::fixtures;

/// The name of a partition's directory.
pub fn name_of(partition: &Path) -> TopicPartition {
    let name = partition.file_name().and_then(|name| name.to_str()).expect("UTF-8");
    PartitionDir::parse(name).expect("a partition").partition
}

/// A data directory in `root` that was stopped in order, with a copy of one partition; its directory.
pub fn data_of(root: &Path, partition: &Path, log_start: i64) -> PathBuf {
    let data = root.join("data");
    let copy = data.join(partition.file_name().expect("a name"));
    fixtures::copy_into(partition, &copy);
    fs::write(data.join(".kafka_cleanshutdown"), "").expect("a file can be written");
    let name = name_of(partition);
    let known = Known {
        recovery_point: Offset(i64::MAX),
        log_start: None,
        index_interval_bytes: 4096,
        limits: Limits::default(),
    };
    let end = Plan::new(&copy, &name, &known).expect("a log").end.0;
    for (file, offset) in [
        ("log-start-offset-checkpoint", log_start),
        ("recovery-point-offset-checkpoint", end),
        ("replication-offset-checkpoint", end),
        ("cleaner-offset-checkpoint", log_start),
    ] {
        let text = format!("0\n1\n{} {} {offset}\n", name.topic, name.partition);
        fs::write(data.join(file), text).expect("a file can be written");
    }
    copy
}

/// Locks a data directory.
pub fn own(data: &Path, disk: Arc<dyn Disk>) -> OwnedDirectory {
    OwnedDirectory::open(data, disk, Limits::default()).expect("nobody has it")
}

/// Cuts a partition in its data directory and closes that.
pub fn truncate(
    partition: &Path,
    to: i64,
    interval: u64,
    keep: Option<&Path>,
) -> Result<Truncation, OpenError> {
    let owned = own(partition.parent().expect("a directory"), Arc::new(SystemDisk));
    let name = name_of(partition);
    let truncation = owned.truncation(&name, partition, Offset(to), interval)?;
    owned.truncate(&truncation, keep).expect("it can be cut");
    owned.close().expect("it can be closed");
    Ok(truncation)
}

/// The offset that a checkpoint of the data directory says.
pub fn checkpoint(partition: &Path, file: &str) -> Option<i64> {
    let text = fs::read_to_string(partition.parent()?.join(file)).ok()?;
    text.lines().nth(2)?.rsplit_once(' ')?.1.parse().ok()
}
