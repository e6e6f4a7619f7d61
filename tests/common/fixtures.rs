//! The test data of `tests/data`: unpacked once, listed case by case, with what Kafka said of each.
//!
//! Layout and meaning of the files: `tests/data/fixtures.md` and `tests/data/fixtures-old.md`. All tests share the
//! unpacked files, so none may write to them: [`copy`] makes a directory of one's own.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Deserializer};
use tempfile::TempDir;

/// Raised when the way of unpacking changes, so that directories unpacked before are not taken.
const UNPACKING: u32 = 1;

/// Files are written in pieces of this size; a piece of zeros becomes a hole.
const PIECE_BYTES: usize = 64 * 1024;

/// Everything of `tests/data/*.tar.zst`, unpacked: `kafka-VERSION/CASE`, `damage/CASE`, `tiered/CASE`.
pub fn dir() -> &'static Path {
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    DIR.get_or_init(|| {
        let archives = archives();
        let mut hash = crc32fast::Hasher::new();
        hash.update(&UNPACKING.to_be_bytes());
        for archive in &archives {
            hash.update(&fs::read(archive).expect("archive can be read"));
        }
        let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
        unpack_once(&archives, &target.join(format!("fixtures-{:08x}", hash.finalize())))
    })
}

/// The packed archives, sorted by name.
pub fn archives() -> Vec<PathBuf> {
    let mut archives = entries(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data"));
    archives.retain(|path| path.to_string_lossy().ends_with(".tar.zst"));
    archives
}

/// Every case of a whole data directory: `kafka-*` and `tiered`, by version and name.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for folder in entries(dir()) {
        for case in entries(&folder) {
            let name = file_name(&case);
            match file_name(&folder).strip_prefix("kafka-") {
                Some(version) => cases.push(Case { version: version.to_owned(), name, dir: case }),
                None if folder.ends_with("tiered") => {
                    let version = name.strip_prefix("local-").expect("local-VERSION").to_owned();
                    cases.push(Case { version, name: "tiered".to_owned(), dir: case });
                }
                None => {}
            }
        }
    }
    cases
}

/// The case of this version and name, as in `case("4.4.0", "txn")`.
pub fn case(version: &str, name: &str) -> Case {
    let mut cases = cases();
    cases.retain(|case| case.version == version && case.name == name);
    cases.pop().unwrap_or_else(|| panic!("no case {name} of Kafka {version}"))
}

/// Every damaged copy, by name; `sound` and `sound-gzip` are the undamaged ones.
pub fn damage_cases() -> Vec<DamageCase> {
    let case = |dir: PathBuf| DamageCase {
        expect: parse(&dir.join("expect.json")),
        recover: parse(&dir.join("expect/recover.json")),
        name: file_name(&dir),
        dir,
    };
    entries(&dir().join("damage")).into_iter().map(case).collect()
}

/// A copy of what is in the directory `from`, with modification times and holes; gone when dropped.
pub fn copy(from: &Path) -> TempDir {
    let to = tempfile::tempdir().expect("temporary directory");
    copy_into(from, to.path());
    to
}

/// Copies what is in the directory `from` to the directory `to`, which is made.
pub fn copy_into(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("directory can be made");
    for path in entries(from) {
        let target = to.join(path.file_name().expect("an entry has a name"));
        if path.is_dir() {
            copy_into(&path, &target);
            continue;
        }
        let mut source = File::open(&path).expect("fixture can be opened");
        let modified = source.metadata().and_then(|m| m.modified()).expect("modification time");
        write_file(&mut source, &target, modified).expect("fixture can be copied");
    }
}

/// One data directory, or several of one broker or cluster, and what Kafka said of them.
#[derive(Debug, Clone)]
pub struct Case {
    /// The version of the broker that wrote it, as in `4.4.0`.
    pub version: String,
    /// Unique within a version.
    pub name: String,
    /// Holds `data`, or `data-a` and so on, and `expect`.
    pub dir: PathBuf,
}

impl Case {
    /// The only data directory. Panics in the cases that have several.
    pub fn data(&self) -> PathBuf {
        let mut dirs = self.data_dirs();
        assert_eq!(dirs.len(), 1, "{} {} has several data directories", self.version, self.name);
        dirs.remove(0)
    }

    /// `data`; in `jbod` `data-a` and `data-b`, of one broker; in `replicas*` `data-1` to `data-3`, one a broker.
    pub fn data_dirs(&self) -> Vec<PathBuf> {
        let mut dirs = entries(&self.dir);
        dirs.retain(|path| path.is_dir() && file_name(path).starts_with("data"));
        dirs
    }

    /// Where Kafka's answers are: `expect/TOPIC-PARTITION/`, in `replicas*` `expect/data-N/TOPIC-PARTITION/`.
    pub fn expect(&self) -> PathBuf {
        self.dir.join("expect")
    }

    /// The topic partitions whose records are known, one for each copy of it in `replicas*`.
    pub fn partitions(&self) -> Vec<Partition> {
        let mut partitions = Vec::new();
        for (data, expect) in self.answers() {
            for expect in entries(&expect) {
                if expect.join("records.jsonl").exists() {
                    partitions.push(self.partition(&data, expect));
                }
            }
        }
        partitions
    }

    /// All files with an answer of kafka-dump-log 4.4.0.
    pub fn dumps(&self) -> Vec<Dump> {
        self.answers().iter().flat_map(|(data, expect)| dumps(data, expect)).collect()
    }

    /// Data directories, each set with the directory that holds the answers about it.
    fn answers(&self) -> Vec<(Vec<PathBuf>, PathBuf)> {
        let data = self.data_dirs();
        if data[0].ends_with("data-1") {
            return data.into_iter().map(|d| (vec![d.clone()], self.expect().join(file_name(&d)))).collect();
        }
        vec![(data, self.expect())]
    }

    fn partition(&self, data: &[PathBuf], expect: PathBuf) -> Partition {
        let name = file_name(&expect);
        let (topic, number) = name.rsplit_once('-').expect("TOPIC-PARTITION");
        let whole = data.iter().map(|d| d.join(&name)).find(|d| d.is_dir());
        let dir = whole
            .clone()
            .or_else(|| data.iter().find_map(|d| deleted(d, topic, number)))
            .unwrap_or_else(|| panic!("no directory of {name} in {}", self.dir.display()));
        let log_start = log_start(dir.parent().expect("a data directory"), topic, number);
        let restarted = self.version == "0.8.2.2" && matches!(self.name.as_str(), "killed" | "torn");
        let reading = match (whole.is_none(), restarted, log_start) {
            (true, _, _) => Reading::BeforeDeletion,
            (_, true, _) => Reading::AfterRestart,
            (_, _, 0) => Reading::AsOnDisk,
            (_, _, offset) => Reading::AboveLogStart(offset),
        };
        Partition {
            topic: topic.to_owned(),
            number: number.parse().expect("a partition's number"),
            dir,
            expect,
            reading,
        }
    }
}

/// A topic partition whose records are known.
#[derive(Debug, Clone)]
pub struct Partition {
    /// The topic's name.
    pub topic: String,
    /// The partition's number.
    pub number: i32,
    /// Its directory in the data directory.
    pub dir: PathBuf,
    /// Where Kafka's answers about it are.
    pub expect: PathBuf,
    /// How the records relate to the files.
    pub reading: Reading,
}

impl Partition {
    /// What a consumer got with `read_uncommitted`, from the beginning.
    pub fn records(&self) -> Vec<ExpectedRecord> {
        parse_lines(&self.expect.join("records.jsonl"))
    }

    /// What a consumer got with `read_committed`.
    pub fn committed(&self) -> Vec<ExpectedRecord> {
        self.committed_differ().unwrap_or_else(|| self.records())
    }

    /// The records under `read_committed`, if they are others than those of [`Self::records`].
    pub fn committed_differ(&self) -> Option<Vec<ExpectedRecord>> {
        let names = ["records.committed.jsonl", "records-committed.jsonl"];
        let file = names.iter().map(|name| self.expect.join(name)).find(|path| path.exists())?;
        Some(parse_lines(&file))
    }

    /// The broker's offsets, where they were asked for (from 3.9.1 on).
    pub fn offsets(&self) -> Option<ExpectedOffsets> {
        let file = self.expect.join("offsets.json");
        file.exists().then(|| parse(&file))
    }

    /// The end offset of each leader epoch, where they were asked for.
    pub fn epochs(&self) -> Option<Vec<ExpectedEpoch>> {
        let file = self.expect.join("epochs.jsonl");
        file.exists().then(|| parse_lines(&file))
    }
}

/// How the expected records relate to the files on disk, as far as the documentation of the fixtures says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// They are what the files hold.
    AsOnDisk,
    /// The log starts at this offset; the files may hold earlier records too.
    AboveLogStart(i64),
    /// The broker was killed, and these were read after it had been started again and had repaired its files (0.8.2.2). The data
    /// is from before; all of these records are in it.
    AfterRestart,
    /// The topic was deleted after these were read: its directory is `NAME.ID-delete` and still holds them.
    BeforeDeletion,
}

/// A record as a consumer saw it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ExpectedRecord {
    /// Its offset.
    pub offset: i64,
    /// Milliseconds since 1970; -1 in magic 0.
    pub timestamp: i64,
    /// Where the timestamp comes from.
    #[serde(rename = "timestampType")]
    pub timestamp_type: TimestampType,
    /// Of its batch; unknown below 3.9.1, and absent in magic 0 and 1.
    #[serde(rename = "leaderEpoch", default)]
    pub leader_epoch: Option<i32>,
    /// Null is `None`.
    #[serde(deserialize_with = "base64")]
    pub key: Option<Vec<u8>>,
    /// A tombstone has `None`.
    #[serde(deserialize_with = "base64")]
    pub value: Option<Vec<u8>>,
    /// Names and values, in order, with duplicates.
    #[serde(deserialize_with = "base64_headers")]
    pub headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

/// Kafka's names for the origin of a timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[expect(clippy::enum_variant_names, reason = "Kafka's words")]
pub enum TimestampType {
    /// Magic 0 has no timestamps.
    NoTimestampType,
    /// Set by the producer.
    CreateTime,
    /// Set by the broker.
    LogAppendTime,
}

/// The broker's answers to ListOffsets.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExpectedOffsets {
    /// The log start offset.
    pub earliest: i64,
    /// The high watermark.
    pub latest: i64,
    /// The record with the largest timestamp (KIP-734); offset and timestamp -1 when there is none.
    pub max_timestamp: Option<OffsetAndTimestamp>,
    /// By milliseconds since 1970: the first offset at or after it; none: null.
    #[serde(default)]
    pub for_times: BTreeMap<String, Option<i64>>,
    /// The last stable offset.
    pub committed_end: Option<i64>,
}

/// An offset and the timestamp of its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct OffsetAndTimestamp {
    /// The record's offset.
    pub offset: i64,
    /// Its timestamp.
    pub timestamp: i64,
}

/// The broker's answer to OffsetForLeaderEpoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExpectedEpoch {
    /// The epoch that was asked for.
    pub asked: i32,
    /// Kafka's error code, 0 for none.
    pub error: i16,
    /// The largest epoch that is not above it.
    pub leader_epoch: i32,
    /// The offset where that epoch ends.
    pub end_offset: i64,
}

/// What kafka-dump-log 4.4.0 said of a file.
#[derive(Debug, Clone)]
pub struct Dump {
    /// The file, in the data directory.
    pub source: PathBuf,
    /// What was printed: paths in it start with the name of the partition's directory.
    pub text: PathBuf,
    /// With which options.
    pub kind: DumpKind,
    /// What was printed on standard error (3.9.1 and later; before, lines `2> ` and `!! ` of the text), if anything.
    pub stderr: Option<PathBuf>,
}

/// The options of a dump.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DumpKind {
    /// `--print-data-log` for a log, with the decoder of an internal topic; `--deep-iteration` alone for old topics named `big`.
    Full,
    /// Batches only.
    Batches,
    /// `--print-data-log` without a decoder.
    Undecoded,
}

/// A damaged copy of one topic.
#[derive(Debug, Clone)]
pub struct DamageCase {
    /// The damage in a word or two.
    pub name: String,
    /// Holds `data` and `expect`.
    pub dir: PathBuf,
    /// What was done to it.
    pub expect: Damage,
    /// What Kafka's log loader made of it: after an unclean and after a clean stop.
    pub recover: Vec<Recovery>,
}

impl DamageCase {
    /// The data directory.
    pub fn data(&self) -> PathBuf {
        self.dir.join("data")
    }

    /// The directory of the only topic partition.
    pub fn partition(&self) -> PathBuf {
        self.data().join(&self.expect.topic)
    }

    /// The files with an answer of kafka-dump-log.
    pub fn dumps(&self) -> Vec<Dump> {
        dumps(&[self.data()], &self.dir.join("expect"))
    }
}

/// What was broken, and what of the source is left.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Damage {
    /// `TOPIC-PARTITION`.
    pub topic: String,
    /// The log end offset of the source.
    pub end: i64,
    /// The damage, in words.
    pub what: String,
    /// The damaged file, relative to the data directory.
    pub file: Option<String>,
    /// The first damaged byte.
    pub at: Option<u64>,
    /// The batch that was hit, as it was before.
    pub batch: Option<DamagedBatch>,
    /// `all`: the changed batch can be read all the same.
    pub readable: Option<String>,
    /// How many batches of the source are there unchanged, wherever they lie.
    pub sound_batches: usize,
    /// The records of those.
    pub sound_records: usize,
    /// Base and last offset of batches that are not whole any more.
    pub changed_batches: Vec<(i64, i64)>,
    /// Sound batches of the damaged file in front of `at`.
    #[serde(default)]
    pub sound_before: Vec<SoundBatch>,
    /// Sound batches of the damaged file behind `at`.
    #[serde(default)]
    pub sound_after: Vec<SoundBatch>,
    /// The file's size before it was cut, and the size of what is left of its last batch.
    pub cut: Option<u64>,
    /// See `cut`.
    pub left: Option<u64>,
    /// How many bytes were put in or overwritten.
    pub size: Option<u64>,
    /// A segment's base offset before and after renaming.
    pub renamed: Option<(i64, i64)>,
    /// The files that have a dump.
    pub dumped: Vec<String>,
}

/// A batch before it was damaged.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DamagedBatch {
    /// Where it began.
    pub position: u64,
    /// Its size in bytes.
    pub size: u64,
    /// Its first offset.
    pub base_offset: i64,
    /// Its last offset.
    pub last_offset: i64,
    /// The count of its records.
    pub records: usize,
}

/// A batch whose bytes are all there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(from = "(i64, i64, u64, u64)")]
pub struct SoundBatch {
    /// Its first offset.
    pub base_offset: i64,
    /// Its last offset.
    pub last_offset: i64,
    /// Where it is now.
    pub position: u64,
    /// Its size in bytes.
    pub size: u64,
}

impl From<(i64, i64, u64, u64)> for SoundBatch {
    fn from((base_offset, last_offset, position, size): (i64, i64, u64, u64)) -> Self {
        Self { base_offset, last_offset, position, size }
    }
}

/// What Kafka 4.4.0's own log loader made of a damaged directory. All is empty where it refused.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Recovery {
    /// Whether it was told that the broker had stopped in order; if not, it recovers from offset 0.
    pub clean_shutdown: bool,
    /// The error with which it refused.
    pub thrown: Option<String>,
    /// The cause of that, if it had one.
    pub cause: Option<String>,
    /// The log start offset.
    pub log_start_offset: Option<i64>,
    /// The log end offset.
    pub log_end_offset: Option<i64>,
    /// Base offset and size of each segment.
    #[serde(default)]
    pub segments: Vec<(i64, u64)>,
    /// Base offset, last offset and count of records of each batch that a consumer gets.
    #[serde(default)]
    pub consumed: Vec<(i64, i64, usize)>,
    /// The error at which that consumer stopped.
    pub consumer_thrown: Option<String>,
    /// Offsets that, asked for, give another one (-1: none) or an error (text).
    #[serde(default)]
    pub seek_odd: Vec<(i64, serde_json::Value)>,
    /// The sizes of the partition's files after closing.
    #[serde(default)]
    pub files: BTreeMap<String, u64>,
}

/// Unpacks all archives to `to`, unless it is there. Others may do the same at the same time: the first is kept.
pub fn unpack_once(archives: &[PathBuf], to: &Path) -> PathBuf {
    if to.is_dir() {
        return to.to_owned();
    }
    let parent = to.parent().expect("a parent directory");
    fs::create_dir_all(parent).expect("directory can be made");
    let scratch =
        tempfile::Builder::new().prefix("unpacking-").tempdir_in(parent).expect("temporary directory");
    for archive in archives {
        unpack(archive, scratch.path()).unwrap_or_else(|e| panic!("{}: {e}", archive.display()));
    }
    match fs::rename(scratch.path(), to) {
        Ok(()) => drop(scratch.keep()),
        Err(_) if to.is_dir() => {}
        Err(e) => panic!("{}: {e}", to.display()),
    }
    to.to_owned()
}

fn unpack(archive: &Path, to: &Path) -> io::Result<()> {
    let mut archive = tar::Archive::new(zstd::Decoder::new(File::open(archive)?)?);
    for entry in archive.entries()? {
        let mut entry = entry?;
        let target = to.join(entry.path()?);
        match entry.header().entry_type() {
            tar::EntryType::Directory => fs::create_dir_all(&target)?,
            tar::EntryType::Regular => {
                let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(entry.header().mtime()?);
                write_file(&mut entry, &target, modified)?;
            }
            other => {
                return Err(io::Error::other(format!("{}: an entry of type {other:?}", target.display())));
            }
        }
    }
    Ok(())
}

/// Writes all of `source` to a new file, with holes for zeros: preallocated indexes have 10 MiB of them.
fn write_file(source: &mut impl Read, target: &Path, modified: SystemTime) -> io::Result<()> {
    let mut file = File::create_new(target)?;
    let mut piece = Vec::with_capacity(PIECE_BYTES);
    let mut written = 0;
    loop {
        piece.clear();
        let count = source.by_ref().take(PIECE_BYTES as u64).read_to_end(&mut piece)?;
        if count == 0 {
            break;
        }
        if piece.iter().all(|byte| *byte == 0) {
            file.seek(SeekFrom::Current(count as i64))?;
        } else {
            file.write_all(&piece)?;
        }
        written += count as u64;
    }
    file.set_len(written)?;
    file.set_modified(modified)
}

/// The `-delete` directory of a topic partition. Its topic is cut short where the name would be too long.
fn deleted(data: &Path, topic: &str, number: &str) -> Option<PathBuf> {
    let fits = |path: &PathBuf| {
        let name = file_name(path);
        let kept = name.strip_suffix("-delete").and_then(|name| name.rsplit_once('.'));
        let parts = kept.and_then(|(name, _id)| name.rsplit_once('-'));
        parts.is_some_and(|(cut, n)| {
            n == number && (cut == topic || cut.len() > 200 && topic.starts_with(&cut[..200]))
        })
    };
    entries(data).into_iter().find(fits)
}

/// The log start offset of a topic partition in the checkpoint of its data directory; 0 where none is written down.
fn log_start(data: &Path, topic: &str, number: &str) -> i64 {
    let checkpoint = fs::read_to_string(data.join("log-start-offset-checkpoint")).unwrap_or_default();
    let offset = checkpoint.lines().find_map(|line| line.strip_prefix(&format!("{topic} {number} ")));
    offset.map_or(0, |offset| offset.parse().expect("an offset"))
}

fn dumps(data: &[PathBuf], expect: &Path) -> Vec<Dump> {
    let kinds =
        [(".meta.dump", DumpKind::Batches), (".raw.dump", DumpKind::Undecoded), (".dump", DumpKind::Full)];
    let mut dumps = Vec::new();
    for partition in entries(expect).into_iter().filter(|path| path.is_dir()) {
        for text in entries(&partition) {
            let name = file_name(&text);
            let of = kinds.iter().find_map(|(suffix, kind)| Some((name.strip_suffix(suffix)?, *kind)));
            let Some((file, kind)) = of else { continue };
            let source =
                data.iter().map(|d| d.join(file_name(&partition)).join(file)).find(|path| path.exists());
            // Some dumps are of other files: those of the remote store, and copies under plain names.
            let Some(source) = source else { continue };
            let stderr = Some(partition.join(format!("{name}.stderr"))).filter(|path| path.exists());
            dumps.push(Dump { source, text, kind, stderr });
        }
    }
    dumps
}

/// The entries of a directory, sorted by name.
fn entries(dir: &Path) -> Vec<PathBuf> {
    let list = fs::read_dir(dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
    let mut paths: Vec<_> = list.map(|entry| entry.expect("directory entry").path()).collect();
    paths.sort();
    paths
}

fn file_name(path: &Path) -> String {
    path.file_name().expect("a name").to_str().expect("a name in UTF-8").to_owned()
}

fn parse<T: serde::de::DeserializeOwned>(path: &Path) -> T {
    let text = fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn parse_lines<T: serde::de::DeserializeOwned>(path: &Path) -> Vec<T> {
    let text = fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let parse = |line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    text.lines().filter(|line| !line.is_empty()).map(parse).collect()
}

fn base64<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<u8>>, D::Error> {
    let text = Option::<String>::deserialize(from)?;
    text.map(|text| decode(&text)).transpose()
}

#[expect(clippy::type_complexity, reason = "the type of one field")]
fn base64_headers<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<(Vec<u8>, Option<Vec<u8>>)>, D::Error> {
    let pairs = Vec::<(String, Option<String>)>::deserialize(from)?;
    let header = |(name, value): (String, Option<String>)| {
        Ok((name.into_bytes(), value.map(|value| decode(&value)).transpose()?))
    };
    pairs.into_iter().map(header).collect()
}

fn decode<E: serde::de::Error>(text: &str) -> Result<Vec<u8>, E> {
    BASE64.decode(text).map_err(E::custom)
}
