//! A whole partition directory, through the engine and all views, without a mount.

mod keyed;
mod numbered;
mod shown;
mod tools;

use std::cell::RefCell;
use std::collections::HashSet;

use topicfs::format::batch::{Batch, Decoder};
use topicfs::fs::Fs;
use topicfs::fs::options::{From, OnDamage, Options, UpTo};
use topicfs::fs::topic_options::{TopicChoices, TopicOptions};

use super::batch::records;
use crate::LIMITS;
use crate::archive::Archive;
use crate::damage::Numbers;
use crate::memory::bounded;
use crate::oracle::{self, Plain};
use crate::tree::Tree;

/// What all views of one input may take: decoders, windows and caches, whose sizes don't depend on it.
const MEMORY: usize = 24 << 20;
/// How often the source may be read over all views of one input, and bytes for small files beside it.
const READS: u64 = 2_000;
const SMALL_READS: u64 = 16 << 20;
/// Records in `tail`.
const TAIL: usize = 3;

/// What the first bytes of an archive choose.
#[derive(Debug, Clone, Copy)]
pub struct Settings([u8; 4]);

impl Settings {
    fn repairs(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// Whether the partition's directory is SOURCE, not the data directory around it.
    fn is_alone(self) -> bool {
        self.0[0] & 2 != 0
    }

    fn options(self) -> Options {
        let topic = TopicOptions {
            from: if self.0[0] & 4 == 0 { From::LogStart } else { From::FirstSegment },
            up_to: if self.0[0] & 8 == 0 { UpTo::LogEnd } else { UpTo::HighWatermark },
            formats_listed: ["txt", "jsonl", "tsv", "log"].map(str::to_owned).to_vec(),
            tail_records: TAIL as u64,
            by_key_listed: true,
            ..TopicOptions::default()
        };
        Options {
            topic: topic.choices(),
            max_batch_bytes: LIMITS.max_batch_bytes,
            max_decoded_bytes: LIMITS.max_decoded_bytes,
            ..Options::default()
        }
    }

    fn numbers(self) -> Numbers {
        Numbers::new(u64::from(u32::from_le_bytes(self.0)))
    }
}

/// Everything in an archive that has a right checksum, wherever it is.
#[derive(Debug, Default)]
pub struct Sound {
    entries: HashSet<Vec<u8>>,
    records: HashSet<Plain>,
}

impl Sound {
    fn of(archive: &Archive) -> Self {
        let mut sound = Self::default();
        let mut decoder = Decoder::default();
        for entry in archive.partition().flat_map(|(_, bytes)| oracle::sound_entries(bytes)) {
            let Ok(batch) = Batch::parse(entry) else { continue };
            if sound.entries.insert(entry.to_vec()) && !batch.header.is_control {
                sound.records.extend(records(&batch, &mut decoder).unwrap_or_default());
            }
        }
        sound
    }
}

/// Checks one input.
pub fn check(data: &[u8]) {
    thread_local!(static TREE: RefCell<Tree> = RefCell::default());
    let mut archive = Archive::decode(data);
    let settings = Settings(archive.settings);
    if settings.repairs() {
        for (_, bytes) in archive.files.iter_mut().filter(|(name, _)| name.contains(".log")) {
            oracle::repair(bytes);
        }
    }
    TREE.with_borrow(|tree| {
        tree.write(&archive);
        let sound = Sound::of(&archive);
        let before = bytes_read();
        bounded(MEMORY, || check_views(tree, &archive, settings, &sound));
        let most = READS * (data.len() as u64 + 1024) + SMALL_READS;
        let read = bytes_read().saturating_sub(before);
        assert!(read <= most, "{read} bytes were read from {} bytes", data.len());
        tools::check(tree, &archive);
        tree.assert_untouched(&archive);
    });
}

fn check_views(tree: &Tree, archive: &Archive, settings: Settings, sound: &Sound) {
    let options = settings.options();
    let spec = if settings.is_alone() { format!("{}/t-0", tree.spec()) } else { tree.spec() };
    let open = |options: &Options| Fs::open(&spec, options.clone(), String::new());
    let Ok(fs) = open(&options) else { return };
    if fs.resolve("t/0").is_err() {
        return;
    }
    let fresh = open(&options).expect("it was opened before");
    let mut numbers = settings.numbers();
    let view = |name: &str, numbers: &mut Numbers| {
        let shown = shown::check(&fs, &fresh, name, sound, numbers);
        numbered::check(&fs, name, &shown, numbers);
        keyed::check(&fs, name, &shown);
        shown
    };
    let all = view("t/0", &mut numbers);
    let committed = view("t/0@committed", &mut numbers);
    let offsets: HashSet<i64> = all.records.iter().map(|record| record.offset).collect();
    assert!(committed.records.iter().all(|record| offsets.contains(&record.offset)));
    shown::check_files(&fs, archive);
    shown::check_problems(&fs, archive);
    let topic = TopicChoices { on_damage: Some(OnDamage::Error), ..options.topic };
    let strict = open(&Options { topic, ..options }).expect("it was opened before");
    shown::check_strict(&strict, &all);
}

/// How many bytes this thread has read with system calls so far, 0 where the kernel doesn't tell.
fn bytes_read() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/io").unwrap_or_default();
    let count = text.lines().find_map(|line| line.strip_prefix("rchar: ")).and_then(|n| n.parse().ok());
    count.unwrap_or(0)
}
