//! Partitions that are made, appended to, flushed, closed, opened again and removed by chance; what came of it, and when.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kafka_protocol::records::RecordBatchDecoder;
use topicfs::format::batch::{Codec, Limits};
use topicfs::format::batch_builder::NewRecord;
use topicfs::format::compression::encoder::Compression;
use topicfs::format::partition_metadata;
use topicfs::format::uuid::Uuid;
use topicfs::log::append::appender::Appender;
use topicfs::log::append::config::LogConfig;
use topicfs::log::append::owned::OwnedDirectory;
use topicfs::log::append::{topics, written_down};
use topicfs::log::source::{Source, SourceOptions};
use topicfs::log::verify::Plan;
use topicfs::units::{Timestamp, TopicPartition};

use super::disk::RecordingDisk;
use super::model::Numbers;
use super::salvaged;

/// `index.interval.bytes` of all topics.
const INTERVAL: u64 = 300;
const NOW: i64 = 1_700_000_000_000;

/// What happens, but for chance.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    pub codec: Codec,
    /// How often the directory is opened.
    pub rounds: usize,
    /// What is done each time.
    pub steps: usize,
    pub segment_bytes: u64,
    /// Values are shorter.
    pub value_len: usize,
    pub seed: u64,
}

impl Shape {
    /// How its logs are written.
    pub fn config(&self) -> LogConfig {
        LogConfig {
            compression: Compression { codec: self.codec, level: None },
            segment_bytes: self.segment_bytes,
            index_interval_bytes: INTERVAL,
            ..LogConfig::default()
        }
    }
}

/// What happened to a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    Created,
    /// It is there, though making it has failed.
    Found,
    /// So many records are in the log.
    Appended(usize),
    /// So many are durable.
    Durable(usize),
    Removing,
    Removed,
}

/// A partition and what is known of it.
#[derive(Debug)]
pub struct Told {
    pub name: TopicPartition,
    pub id: Uuid,
    /// The values that were appended.
    pub values: Vec<Vec<u8>>,
    /// How many records there were after each batch.
    pub ends: BTreeSet<usize>,
    /// What happened after so many operations of the disk.
    pub events: Vec<(usize, Event)>,
}

/// A story as far as it is told.
pub struct Story {
    pub partitions: Vec<Told>,
    /// What failed, and when the directory was open for the how-manieth time.
    pub errors: Vec<(usize, String)>,
    shape: Shape,
    root: PathBuf,
    disk: RecordingDisk,
    numbers: Numbers,
    round: usize,
    /// How many values were tried.
    tried: usize,
}

/// Where the data directory is below the root of a disk.
pub fn data(root: &Path) -> PathBuf {
    root.join("data")
}

/// Where what is cut goes.
pub fn quarantine(root: &Path) -> PathBuf {
    root.join("quarantine")
}

/// Locks the directory below `root`.
pub fn open(root: &Path, disk: &RecordingDisk) -> Result<OwnedDirectory, String> {
    OwnedDirectory::open(&data(root), Arc::new(disk.clone()), Limits::default()).map_err(text)
}

/// Recovers all partitions; how many of them lost more than a torn or zero tail.
pub fn recover(owned: &OwnedDirectory, root: &Path) -> Result<usize, String> {
    let mut cut = 0;
    for (name, path) in written_down::partitions(owned.path()).map_err(text)? {
        let plan = owned.recover(&name, &path, INTERVAL, None).map_err(text)?.map_err(text)?;
        if plan.needs_quarantine() {
            cut += 1;
            owned.recover(&name, &path, INTERVAL, Some(&quarantine(root))).map_err(text)?.map_err(text)?;
        }
    }
    owned.recovered().map_err(text)?;
    Ok(cut)
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl Story {
    /// Tells one on an empty disk. What fails is tried once more where that makes sense.
    pub fn tell(shape: Shape, root: &Path, disk: &RecordingDisk) -> Self {
        fs::create_dir_all(data(root)).expect("a directory");
        fs::create_dir_all(quarantine(root)).expect("a directory");
        let told = |topic: &str| Told {
            name: TopicPartition { topic: topic.to_owned(), partition: 0 },
            id: topics::new_topic_id(),
            values: Vec::new(),
            ends: BTreeSet::from([0]),
            events: Vec::new(),
        };
        let (disk, root, numbers) = (disk.clone(), root.to_owned(), Numbers::new(shape.seed));
        let partitions = ["notes", "orders", "scrap"].map(told).into();
        let mut story =
            Self { partitions, errors: Vec::new(), shape, root, disk, numbers, round: 0, tried: 0 };
        for round in 0..shape.rounds {
            story.round = round;
            story.tell_round();
        }
        story
    }

    /// The partitions' directories.
    pub fn directory(&self, number: usize) -> PathBuf {
        data(&self.root).join(self.partitions[number].name.to_string())
    }

    fn tell_round(&mut self) {
        let (root, disk) = (self.root.clone(), self.disk.clone());
        let owned = self.again(|| open(&root, &disk));
        if !owned.is_sound() {
            let cut = self.again(|| recover(&owned, &root));
            assert_eq!(cut, 0, "nothing but a process stopped");
            self.all_durable();
        }
        for step in 0..self.shape.steps {
            self.tell_step(&owned, step);
        }
        // The last but one stop is that of a killed process.
        if self.round + 2 != self.shape.rounds {
            let closed = owned.close();
            if self.note(closed).is_some() {
                self.all_durable();
            }
        }
    }

    fn tell_step(&mut self, owned: &OwnedDirectory, step: usize) {
        let number = self.numbers.below(20) % 2;
        match self.numbers.below(10) {
            0..=5 => self.append(owned, number),
            6 | 7 => self.flush(owned, number),
            8 => {
                let written = owned.checkpoint();
                self.note(written);
            }
            _ if self.round == 0 && step * 2 < self.shape.steps => self.append(owned, 2),
            _ => self.remove(owned),
        }
    }

    fn append(&mut self, owned: &OwnedDirectory, number: usize) {
        if self.has(number, Event::Removing) {
            return;
        }
        let appender = self.appender(owned, number);
        for _ in 0..=self.numbers.below(3) {
            let values: Vec<Vec<u8>> = (0..=self.numbers.below(3)).map(|_| self.value()).collect();
            let mut appending = appender.begin(Timestamp(NOW));
            for value in &values {
                let timestamp = Timestamp(NOW + i64::try_from(self.tried).expect("few"));
                let record = NewRecord { timestamp, key: None, value: Some(value), headers: &[] };
                appending.push(&record).expect("a batch has room for it");
            }
            let (_, appended) = appending.finish();
            if self.note(appended).is_some() {
                let told = &mut self.partitions[number];
                told.values.extend(values);
                told.ends.insert(told.values.len());
                let count = told.values.len();
                self.happened(number, Event::Appended(count));
            }
            let count = self.partitions[number].values.len();
            assert_eq!(usize::try_from(appender.end().0), Ok(count), "what failed is not in the log");
        }
    }

    fn flush(&mut self, owned: &OwnedDirectory, number: usize) {
        if !self.is_there(number) {
            return;
        }
        let appender = self.appender(owned, number);
        let flushed = appender.flush();
        if self.note(flushed).is_some() {
            let count = self.partitions[number].values.len();
            self.happened(number, Event::Durable(count));
        }
    }

    /// Removes the third partition.
    fn remove(&mut self, owned: &OwnedDirectory) {
        if !self.is_there(2) || self.has(2, Event::Removing) {
            return;
        }
        self.happened(2, Event::Removing);
        let removed = owned.delete_partition(&self.partitions[2].name);
        if self.note(removed).is_some() {
            self.happened(2, Event::Removed);
        }
    }

    fn appender(&mut self, owned: &OwnedDirectory, number: usize) -> Arc<Appender> {
        let (directory, config) = (self.directory(number), self.shape.config());
        let (name, id) = (self.partitions[number].name.clone(), self.partitions[number].id);
        if !self.is_there(number) {
            let made = self.again(|| match owned.create_partition(&name, id) {
                Err(_) if directory.exists() => Ok(Event::Found),
                made => made.map(|_| Event::Created),
            });
            self.happened(number, made);
        }
        self.again(|| owned.appender(&name, &directory, &config))
    }

    fn value(&mut self) -> Vec<u8> {
        self.tried += 1;
        let mut value = format!("{} ", self.tried).into_bytes();
        let len = self.numbers.below(self.shape.value_len);
        value.extend(self.numbers.bytes(len));
        value
    }

    fn is_there(&self, number: usize) -> bool {
        self.has(number, Event::Created) || self.has(number, Event::Found)
    }

    fn has(&self, number: usize, event: Event) -> bool {
        self.partitions[number].events.iter().any(|(_, one)| *one == event)
    }

    fn happened(&mut self, number: usize, event: Event) {
        self.partitions[number].events.push((self.disk.done(), event));
    }

    fn all_durable(&mut self) {
        for number in 0..self.partitions.len() {
            if !self.is_there(number) || self.has(number, Event::Removing) {
                continue;
            }
            let count = self.partitions[number].values.len();
            self.happened(number, Event::Durable(count));
        }
    }

    fn note<T, E: std::fmt::Display>(&mut self, result: Result<T, E>) -> Option<T> {
        result.map_err(|error| self.errors.push((self.round, error.to_string()))).ok()
    }

    /// Does it again if it fails.
    fn again<T, E: std::fmt::Display>(&mut self, mut act: impl FnMut() -> Result<T, E>) -> T {
        let first = act();
        self.note(first).unwrap_or_else(|| act().unwrap_or_else(|error| panic!("again: {error}")))
    }
}

impl Told {
    /// What is known of it after so many operations: whether its directory is there, and the fewest and most records in it.
    pub fn at(&self, count: usize, after_power_failure: bool) -> (Option<bool>, usize, usize) {
        let before = self.events.iter().filter(|(at, _)| *at <= count).map(|(_, event)| *event);
        let (mut is_there, mut fewest) = (None, 0);
        for event in before {
            match event {
                Event::Created => is_there = Some(true),
                Event::Appended(records) if !after_power_failure => fewest = records,
                Event::Durable(records) => (is_there, fewest) = (Some(true), records),
                Event::Removing => is_there = None,
                Event::Removed => is_there = Some(false),
                Event::Appended(_) | Event::Found => {}
            }
        }
        let next = self.events.iter().find_map(|(at, event)| match event {
            Event::Appended(records) if *at > count => Some(*records),
            _ => None,
        });
        (is_there, fewest, next.unwrap_or(self.values.len()))
    }
}

/// The values of a partition, decoded by kafka-protocol: whole segments, whose offsets leave none out.
pub fn values(directory: &Path) -> Vec<Vec<u8>> {
    let mut values = Vec::new();
    for (name, path) in salvaged::files(directory) {
        let Some(base) = name.strip_suffix(".log") else { continue };
        assert_eq!(base.parse::<usize>().ok(), Some(values.len()), "{name}: its base offset");
        for batch in salvaged::batches(&fs::read(&path).expect("a log")) {
            for record in RecordBatchDecoder::decode(&mut &batch[..]).expect("a sound batch").records {
                assert_eq!(usize::try_from(record.offset), Ok(values.len()), "{name}");
                assert_eq!(record.partition_leader_epoch, 0, "{name}");
                values.push(record.value.expect("a value").to_vec());
            }
        }
    }
    values
}

/// The topic's id in a partition's directory.
pub fn id(directory: &Path) -> Option<Uuid> {
    partition_metadata::parse(&fs::read(directory.join("partition.metadata")).ok()?).ok()
}

/// What `topicfs verify` says of a data directory.
pub fn verify(data: &Path) -> Vec<String> {
    let how = SourceOptions { limits: Limits::default(), follow_symlinks: false };
    let source = Source::open(data.to_str().expect("UTF-8"), how).expect("a source");
    let mut found = Vec::new();
    Plan::new(&source).run(1, &|_| (), &mut |report| {
        let lines = report.problems.iter().map(|problem| problem.line(&problem.file.to_string_lossy()));
        found.extend(lines);
    });
    found
}
