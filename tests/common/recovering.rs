//! Recovers copies of partitions, and compares what is there before and after without a line of topicfs.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest, Sha256};
use topicfs::format::batch::Limits;
use topicfs::log::append::owned::OwnedDirectory;
use topicfs::log::append::recovery::Plan;
use topicfs::log::append::written_down;
use topicfs::log::files::disk::SystemDisk;

/// Locks an unclean data directory.
pub fn own(data: &Path) -> OwnedDirectory {
    let mut owned = None;
    // A process that is being started by another test may hold our lock for a moment.
    super::mounted::wait_until("it can be locked", || {
        owned = OwnedDirectory::open(data, Arc::new(SystemDisk), Limits::default()).ok();
        owned.is_some()
    });
    owned.expect("it was waited for")
}

/// Recovers all partitions of a data directory that was not stopped in order, and closes it as one that is.
pub fn recover_all(data: &Path, quarantine: &Path) -> Vec<Plan> {
    let owned = own(data);
    let plans = written_down::partitions(data)
        .expect("partitions")
        .iter()
        .map(|(name, path)| {
            owned.recover(name, path, 4096, Some(quarantine)).expect("recovered").expect("a plan")
        })
        .collect();
    owned.recovered().expect("checkpoints can be written");
    owned.close().expect("it can be closed");
    plans
}

/// Takes away what says that a data directory was stopped in order, and how far it is durable.
pub fn make_unclean(data: &Path) {
    for name in [".kafka_cleanshutdown", "recovery-point-offset-checkpoint"] {
        match fs::remove_file(data.join(name)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => panic!("{name}: {error}"),
            _ => {}
        }
    }
}

/// The bytes of each `.log` of a partition, by name; of a set of `.swap` files too.
pub fn logs(partition: &Path) -> BTreeMap<String, Vec<u8>> {
    let is_log = |name: &str| name.len() == 24 && name.ends_with(".log") && name[..20].parse::<u64>().is_ok();
    let files = super::salvaged::files(partition).into_iter();
    files
        .filter(|(name, path)| is_log(name) && path.is_file())
        .map(|(name, path)| (name, fs::read(path).expect("a log can be read")))
        .collect()
}

/// What lies in a quarantine of a partition: by log, the positions and bytes of the pieces.
pub fn quarantined(quarantine: &Path, partition: &str) -> BTreeMap<String, Vec<(u64, Vec<u8>)>> {
    let directory = quarantine.join(partition);
    let mut pieces: BTreeMap<String, Vec<(u64, Vec<u8>)>> = BTreeMap::new();
    if directory.exists() {
        for (name, path) in super::salvaged::files(&directory) {
            let (log, position) = name.split_once(".cut-at-").expect("the name of a piece");
            let position = position.parse().expect("a position");
            pieces.entry(log.to_owned()).or_default().push((position, fs::read(path).expect("a piece")));
        }
    }
    pieces
}

/// Every log of before is the log of now, which may have another name, and the piece that was cut from it, byte for byte.
pub fn assert_nothing_is_lost(
    what: &str,
    before: &BTreeMap<String, Vec<u8>>,
    partition: &Path,
    quarantine: &Path,
) {
    let after = logs(partition);
    let name = partition.file_name().and_then(|name| name.to_str()).expect("a name");
    let mut pieces = quarantined(quarantine, name);
    for (number, (log, bytes)) in before.iter().enumerate() {
        let now = if after.len() == before.len() { after.values().nth(number) } else { after.get(log) };
        let mut whole = now.cloned().unwrap_or_default();
        for (position, piece) in pieces.remove(log).unwrap_or_default() {
            assert_eq!(whole.len() as u64, position, "{what}: {log}");
            whole.extend(piece);
        }
        assert!(whole == *bytes, "{what}: {log}: {} of {} bytes", whole.len(), bytes.len());
    }
    assert!(pieces.is_empty(), "{what}: pieces of {:?}", pieces.keys());
}

/// What a file is: its hash, length, and when it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    hash: Vec<u8>,
    len: u64,
    written: (i64, i64),
}

/// All files below a directory, but for the lock.
pub fn states(directory: &Path) -> BTreeMap<PathBuf, State> {
    let mut found = BTreeMap::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        for (name, path) in super::salvaged::files(&directory) {
            let metadata = fs::symlink_metadata(&path).expect("metadata");
            if metadata.is_dir() {
                directories.push(path);
            } else if name != ".lock" {
                let bytes = fs::read(&path).unwrap_or_default();
                let state = State {
                    hash: Sha256::digest(&bytes).to_vec(),
                    len: metadata.len(),
                    written: (metadata.mtime(), metadata.mtime_nsec()),
                };
                found.insert(path, state);
            }
        }
    }
    found
}

/// The same without times.
pub fn hashes(directory: &Path) -> BTreeMap<PathBuf, (Vec<u8>, u64)> {
    states(directory).into_iter().map(|(path, state)| (path, (state.hash, state.len))).collect()
}
