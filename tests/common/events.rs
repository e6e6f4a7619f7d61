//! A partition that changes as a broker changes it, of which every record is known, and handles that are held through it.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use kafka_protocol::records::Compression;

use super::batches::{Plan, encode};
use super::mounted::{self, Mounted, wait_until};
use super::shown::ShownRecord;

/// The time of the first record; each later one is a second later.
const FIRST_TIME: i64 = 1_700_000_000_000;

/// A partition directory and what was written to it.
#[derive(Debug)]
pub struct Log {
    directory: PathBuf,
    /// The leader epoch of what is written next.
    pub epoch: i32,
    segments: Vec<Written>,
}

/// A segment.
#[derive(Debug)]
struct Written {
    base: i64,
    batches: Vec<Batch>,
}

/// A segment that the cleaner made: its bytes, and what its records show.
#[derive(Debug)]
pub struct Compacted {
    pub bytes: Vec<u8>,
    pub text: String,
}

/// A batch, its records' values, and where it is.
#[derive(Debug)]
struct Batch {
    offsets: Range<i64>,
    position: u64,
    values: Vec<String>,
}

impl Log {
    /// A new directory, `t-0` and the like, with one empty segment.
    pub fn new(data: &Path, name: &str) -> Self {
        let directory = data.join(name);
        fs::create_dir_all(&directory).expect("directory can be made");
        let log = Self { directory, epoch: 0, segments: vec![Written { base: 0, batches: Vec::new() }] };
        log.write(&[]).expect("segment can be made");
        log
    }

    /// Its directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The file of the segment with base offset `base`.
    pub fn segment(&self, base: i64) -> PathBuf {
        self.directory.join(format!("{base:020}.log"))
    }

    /// The base offsets of its segments.
    pub fn bases(&self) -> Vec<i64> {
        self.segments.iter().map(|segment| segment.base).collect()
    }

    /// The base offset of its active segment.
    pub fn base(&self) -> i64 {
        self.segments.last().expect("a segment").base
    }

    /// The log end offset.
    pub fn end(&self) -> i64 {
        let batches = self.segments.iter().rev().find_map(|segment| segment.batches.last());
        batches.map_or(0, |batch| batch.offsets.end).max(self.base())
    }

    /// Bytes in its active segment.
    pub fn len(&self) -> u64 {
        fs::metadata(self.segment(self.base())).expect("a segment").len()
    }

    /// Appends one batch of records with these values.
    pub fn append(&mut self, values: &[&str]) {
        let batch = self.next_batch(values);
        self.write(&batch).expect("segment can be written");
    }

    /// The next batch as bytes, for a test that writes them by itself.
    pub fn next_batch(&mut self, values: &[&str]) -> Vec<u8> {
        let base = self.end();
        let record = |(offset, value): (i64, &&str)| ShownRecord {
            offset,
            timestamp: FIRST_TIME + offset * 1000,
            key: Some(b"key".to_vec()),
            value: Some(value.as_bytes().to_vec()),
            headers: Vec::new(),
        };
        let plan = Plan::of((base..).zip(values).map(record).collect(), Compression::None);
        let mut entries = encode(&plan);
        let mut bytes = entries.remove(0).bytes;
        // No checksum covers the epoch.
        bytes[12..16].copy_from_slice(&self.epoch.to_be_bytes());
        let position = self.len();
        let offsets = base..base + i64::try_from(values.len()).expect("few");
        let values = values.iter().map(|value| (*value).to_owned()).collect();
        self.segments.last_mut().expect("a segment").batches.push(Batch { offsets, position, values });
        bytes
    }

    /// Appends batches of one record each, whose values are `word` and their offset.
    pub fn fill(&mut self, count: usize, word: &str) {
        for _ in 0..count {
            let value = format!("{word} {}", self.end());
            self.append(&[&value]);
        }
    }

    /// Appends bytes to the active segment.
    ///
    /// # Errors
    /// The system's.
    pub fn write(&self, bytes: &[u8]) -> std::io::Result<()> {
        let file = OpenOptions::new().create(true).append(true).open(self.segment(self.base()));
        file.and_then(|mut file| file.write_all(bytes))
    }

    /// Begins a new segment.
    pub fn roll(&mut self) {
        let base = self.end();
        self.segments.push(Written { base, batches: Vec::new() });
        self.write(&[]).expect("segment can be made");
    }

    /// Cuts the log so that it ends at `offset`, as a broker does: later segments go, the one that holds it is cut in place.
    pub fn truncate(&mut self, offset: i64) {
        while self.base() > offset {
            fs::remove_file(self.segment(self.base())).expect("segment can be removed");
            self.segments.pop();
        }
        let path = self.segment(self.base());
        let batches = &mut self.segments.last_mut().expect("a segment").batches;
        let kept = batches.iter().take_while(|batch| batch.offsets.end <= offset).count();
        if let Some(first) = batches.get(kept) {
            let file = OpenOptions::new().write(true).open(path).expect("a segment");
            file.set_len(first.position).expect("segment can be cut");
        }
        batches.truncate(kept);
    }

    /// Renames the oldest segments as retention does first; the files, which it removes later.
    pub fn retire(&mut self, count: usize) -> Vec<PathBuf> {
        let retired = self.segments.drain(..count).collect::<Vec<_>>();
        let rename = |segment: &Written| {
            let path = self.segment(segment.base);
            let deleted = path.with_extension("log.deleted");
            fs::rename(path, &deleted).expect("segment can be renamed");
            deleted
        };
        retired.iter().map(rename).collect()
    }

    /// One record as a batch of its own.
    pub fn single_batch(offset: i64, value: &str) -> Vec<u8> {
        let timestamp = FIRST_TIME + offset;
        let value = Some(value.as_bytes().to_vec());
        let record = ShownRecord { offset, timestamp, key: None, value, headers: Vec::new() };
        encode(&Plan::of(vec![record], Compression::None)).remove(0).bytes
    }

    /// What the cleaner makes of the oldest segments: one that keeps the records with these offsets. The files are left.
    pub fn compact(&mut self, count: usize, keeps: impl Fn(i64) -> bool) -> Compacted {
        let mut compacted = Compacted { bytes: Vec::new(), text: String::new() };
        let mut batches: Vec<Batch> = Vec::new();
        for segment in self.segments.drain(..count) {
            let file = fs::read(self.directory.join(format!("{:020}.log", segment.base))).expect("a segment");
            for batch in segment.batches.into_iter().filter(|batch| keeps(batch.offsets.start)) {
                let position = compacted.bytes.len() as u64;
                let from = usize::try_from(batch.position).expect("a position");
                let len = 12
                    + u32::from_be_bytes(file[from + 8..from + 12].try_into().expect("four bytes")) as usize;
                compacted.bytes.extend_from_slice(&file[from..from + len]);
                batch.values.iter().for_each(|value| compacted.text.push_str(&format!("{value}\n")));
                batches.push(Batch { position, ..batch });
            }
        }
        self.segments.insert(0, Written { base: 0, batches });
        compacted
    }

    /// Its files were replaced by copies of another's.
    pub fn replaced_by(&mut self, other: &Self) {
        let same = |segment: &Written| Written {
            base: segment.base,
            batches: segment
                .batches
                .iter()
                .map(|batch| Batch {
                    offsets: batch.offsets.clone(),
                    position: batch.position,
                    values: batch.values.clone(),
                })
                .collect(),
        };
        self.segments = other.segments.iter().map(same).collect();
    }

    /// The directory as the deletion of its topic renames it first.
    pub fn delete(&self) -> PathBuf {
        let name = self.directory.file_name().expect("a name").to_string_lossy().into_owned();
        let deleted =
            self.directory.with_file_name(format!("{name}.0123456789abcdef0123456789abcdef-delete"));
        fs::rename(&self.directory, &deleted).expect("partition can be renamed");
        deleted
    }

    /// Its records from `start` on: their offsets and values.
    pub fn records(&self, start: i64) -> Vec<(i64, &str)> {
        let batches = self.segments.iter().flat_map(|segment| &segment.batches);
        let records = batches.flat_map(|batch| batch.offsets.clone().zip(batch.values.iter()));
        records
            .map(|(offset, value)| (offset, value.as_str()))
            .filter(|(offset, _)| *offset >= start)
            .collect()
    }

    /// What `log` shows of its records from `start` on.
    pub fn text(&self, start: i64) -> String {
        self.records(start).iter().map(|(_, value)| format!("{value}\n")).collect()
    }
}

/// What somebody who has a file open was shown of it.
#[derive(Debug)]
pub struct Held {
    path: PathBuf,
    file: File,
    inode: u64,
    bytes: Vec<u8>,
}

impl Held {
    /// Opens a file and reads all of it.
    pub fn open(path: &Path) -> Self {
        let mut held = Self::unread(path);
        held.bytes = held.read(0, 1 << 24).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        held
    }

    /// Opens it and reads nothing.
    pub fn unread(path: &Path) -> Self {
        let file = open(path);
        let inode = file.metadata().expect("stat").ino();
        Self { path: path.to_owned(), file, inode, bytes: Vec::new() }
    }

    /// The same handle, read to its end.
    pub fn open_again(held: &Self) -> Self {
        let file = held.file.try_clone().expect("a descriptor");
        let mut again = Self { path: held.path.clone(), file, inode: held.inode, bytes: Vec::new() };
        again.bytes =
            again.read(0, 1 << 24).unwrap_or_else(|error| panic!("{}: {error}", held.path.display()));
        again
    }

    /// Its path when it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it was shown.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn read(&self, at: usize, len: usize) -> std::io::Result<Vec<u8>> {
        let mut read = vec![0; len];
        let mut filled = 0;
        while filled < len {
            match self.file.read_at(&mut read[filled..], (at + filled) as u64)? {
                0 => break,
                count => filled += count,
            }
        }
        read.truncate(filled);
        Ok(read)
    }

    /// Reads what came since; it must go on where it was, and all before must be the same.
    pub fn assert_goes_on(&mut self, whole: &[u8]) {
        let name = self.path.display();
        assert!(whole.starts_with(&self.bytes), "{name}: the test expects other bytes than there were");
        let rest = self.read(self.bytes.len(), 1 << 24);
        let rest = rest.unwrap_or_else(|error| panic!("{name} at {}: {error}", self.bytes.len()));
        self.bytes.extend_from_slice(&rest);
        assert_eq!(text(&self.bytes), text(whole), "{name}");
        let again = self.read(0, 1 << 24).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(again == whole, "{name}: other bytes than before");
        assert_eq!(self.file.metadata().expect("stat").len(), whole.len() as u64, "{name}");
    }

    fn assert_same_or_stale_before(&self) {
        for at in (0..self.bytes.len()).step_by(7) {
            let expected = &self.bytes[at..self.bytes.len().min(at + 7)];
            match self.read(at, expected.len()) {
                Ok(read) => assert_eq!(text(&read), text(expected), "{} at {at}", self.path.display()),
                Err(error) => assert_eq!(error.raw_os_error(), Some(libc::ESTALE), "{error}"),
            }
        }
    }

    /// At each place it shows what it did before, or says that this is gone; beyond its end nothing new.
    pub fn assert_same_or_stale(&self) {
        for len in [1 << 24, 100, 7] {
            for at in (0..=self.bytes.len()).step_by(len.min(self.bytes.len() / 3 + 1)) {
                let expected = &self.bytes[at..self.bytes.len().min(at + len)];
                match self.read(at, len) {
                    Ok(read) => {
                        assert_eq!(text(&read), text(expected), "{} at {at}", self.path.display());
                    }
                    Err(error) => {
                        assert_eq!(
                            error.raw_os_error(),
                            Some(libc::ESTALE),
                            "{}: {error}",
                            self.path.display()
                        );
                    }
                }
            }
        }
    }

    /// It shows what it did, or says that this is gone; that nothing comes any more it says in any case.
    pub fn assert_ended_by_staleness(&self) {
        self.assert_same_or_stale_before();
        let error = self.read(self.bytes.len(), 100);
        let error = error.map(|read| text(&read)).expect_err(&self.path.to_string_lossy());
        assert_eq!(error.raw_os_error(), Some(libc::ESTALE), "{error}");
    }

    /// What it was shown at a place is gone.
    pub fn assert_stale_at(&self, at: usize) {
        self.assert_same_or_stale();
        let error = self.read(at, 10).map(|read| text(&read)).expect_err(&self.path.to_string_lossy());
        assert_eq!(error.raw_os_error(), Some(libc::ESTALE), "{error}");
    }

    /// Nothing was read of it before what it is of was deleted: it says so, and is never something else.
    pub fn assert_stale_or_old(&self, old: &str) {
        match self.read(0, 1 << 24) {
            Ok(read) => {
                assert!(read.is_empty() || text(&read) == old, "{}: {}", self.path.display(), text(&read));
            }
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::ESTALE), "{error}"),
        }
    }

    /// What it was shown is the same, or gone; more may have come.
    pub fn assert_same_before(&self) {
        match self.read(0, self.bytes.len()) {
            Ok(read) => assert_eq!(text(&read), text(&self.bytes), "{}", self.path.display()),
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::ESTALE), "{error}"),
        }
    }

    /// What came behind what it was shown goes on, whether or not all before is there still.
    pub fn assert_grows_to(&mut self, whole: &str) {
        assert!(whole.as_bytes().starts_with(&self.bytes), "{whole} / {}", text(&self.bytes));
        let rest = self.read(self.bytes.len(), 1 << 24).expect("what comes can be read");
        assert_eq!(text(&rest), whole[self.bytes.len()..], "{}", self.path.display());
        self.bytes.extend_from_slice(&rest);
    }

    /// It stays readable, whole, as it was.
    pub fn assert_same(&self) {
        let read = self.read(0, 1 << 24).unwrap_or_else(|error| panic!("{}: {error}", self.path.display()));
        assert_eq!(text(&read), text(&self.bytes), "{}", self.path.display());
        assert_eq!(
            self.file.metadata().expect("stat").len(),
            self.bytes.len() as u64,
            "{}",
            self.path.display()
        );
    }

    /// Its inode number.
    pub const fn inode(&self) -> u64 {
        self.inode
    }
}

fn open(path: &Path) -> File {
    File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What somebody who comes now is shown: at once, whatever the kernel still believes.
pub fn now(path: &Path) -> String {
    // A tail moves up while nobody has it open, between two looks at it, too.
    let _held = File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let read = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let checked = mounted::read(path);
    assert_eq!(text(&read), text(&checked), "{}", path.display());
    text(&read)
}

/// The number of a path's inode.
pub fn inode(path: &Path) -> u64 {
    fs::metadata(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())).ino()
}

/// All that is shown of a log is as it is now, from `start` on, with tails of `tail` records when nobody has them open.
pub fn assert_shown(mounted: &Mounted, log: &Log, start: i64) {
    let path = |name: &str| mounted.path(&format!("{}/{name}", place_of(log)));
    assert_eq!(now(&path("log")), log.text(start), "log");
    let records = log.records(start);
    let of_lines = |jsonl: &[u8]| -> Vec<(i64, String)> {
        let read = super::shown::records(jsonl);
        let value = |value: Option<Vec<u8>>| text(&value.unwrap_or_default());
        read.into_iter().map(|record| (record.offset, value(record.value))).collect()
    };
    let lines = |path: &Path| of_lines(now(path).as_bytes());
    let expected: Vec<_> = records.iter().map(|(offset, value)| (*offset, (*value).to_owned())).collect();
    assert_eq!(lines(&path("log.jsonl")), expected);
    // An open range is as it was when its name was looked up, which the kernel does ten times a second.
    let range = path("by-offset/0...jsonl");
    wait_until("the range", || fs::read(&range).is_ok_and(|jsonl| of_lines(&jsonl) == expected));
    let tail = lines(&path("tail.jsonl"));
    assert!(expected.ends_with(&tail), "tail.jsonl: {tail:?}");
    assert_eq!(tail.is_empty(), expected.is_empty(), "tail.jsonl");
    for (offset, value) in records.iter().rev().take(3).chain(records.iter().take(3)) {
        assert_eq!(now(&path(&format!("by-offset/{offset}"))), *value, "by-offset/{offset}");
    }
    let beyond = path(&format!("by-offset/{}", log.end()));
    assert!(fs::read(&beyond).is_err(), "{} is beyond the end", log.end());
    assert_eq!(now(&path("offsets/latest")), format!("{}\n", log.end()));
    let shown = log.bases();
    let names = mounted::names(&path("by-segment"));
    let texts: String = names
        .iter()
        .filter(|name| !name.contains('.'))
        .map(|name| now(&path(&format!("by-segment/{name}"))))
        .collect();
    assert_eq!(texts, log.text(start), "by-segment of {shown:?}");
}

/// Where a partition is in a mount: `t/0`.
fn place_of(log: &Log) -> String {
    let name = log.directory().file_name().expect("a name").to_string_lossy();
    let (topic, number) = name.rsplit_once('-').expect("a partition");
    format!("{topic}/{number}")
}

/// No descriptor below the source is left some time after the last handle was closed.
pub fn assert_descriptors_given_back(mounted: &Mounted, source: &Path) {
    let open = || mounted.descriptors_below(source);
    wait_until("descriptors given back", || open().is_empty());
}
