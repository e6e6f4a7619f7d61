//! Segments that a backup tool has compressed, unpacked into temporary files.
//!
//! The files have no name, so that they are gone with the last who uses them, whatever happens. What they take
//! together is bounded; those that nobody reads make room for others. A stream that is cut short or damaged gives what
//! could be unpacked, and the rest is a problem. No segment is longer than 2 GiB, so that nothing expands without end.

use std::collections::HashMap;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, BufReader, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use lru::LruCache;

use crate::format::names::Packing;
use crate::log::files::{self, FileId, Sequential, SourceFile};

/// The longest that a segment can be: positions in it have 31 bits.
const MAX_SEGMENT_BYTES: u64 = 1 << 31;
/// Bytes unpacked at once.
const PIECE: usize = 256 * 1024;
/// Kept at most, as each takes a descriptor.
const MAX_KEPT: usize = 64;
/// Kept so long while nobody reads them.
const IDLE: Duration = Duration::from_secs(600);

/// Where unpacked segments may lie.
#[derive(Debug, Clone)]
pub struct Room {
    /// The first of these that can be written to; made, for the user alone, if it is missing.
    pub directories: Vec<PathBuf>,
    /// What all of them may take together.
    pub limit_bytes: u64,
}

impl Default for Room {
    fn default() -> Self {
        Self { directories: vec![std::env::temp_dir()], limit_bytes: 8 << 30 }
    }
}

/// Unpacked segments.
#[derive(Debug, Default)]
pub struct UnpackedFiles {
    room: Mutex<Room>,
    state: Mutex<State>,
}

/// What there is, and what is being made.
#[derive(Debug)]
struct State {
    kept: LruCache<FileId, Kept>,
    /// Given up, and still read by somebody.
    loose: Vec<(FileId, Weak<SourceFile>, u64)>,
    /// Bytes of files that are being unpacked.
    in_progress: u64,
    /// One turn for each file that is being unpacked.
    turns: HashMap<FileId, Arc<Mutex<()>>>,
    problems: HashMap<FileId, String>,
}

/// An unpacked file and its last use.
#[derive(Debug)]
struct Kept {
    file: Arc<SourceFile>,
    bytes: u64,
    used: Instant,
}

impl Default for State {
    fn default() -> Self {
        Self {
            kept: LruCache::unbounded(),
            loose: Vec::new(),
            in_progress: 0,
            turns: HashMap::new(),
            problems: HashMap::new(),
        }
    }
}

impl State {
    fn find(&mut self, id: FileId) -> Option<Arc<SourceFile>> {
        if let Some(kept) = self.kept.get_mut(&id) {
            kept.used = Instant::now();
            return Some(kept.file.clone());
        }
        let at = self.loose.iter().position(|(loose, ..)| *loose == id)?;
        let (_, file, bytes) = self.loose.swap_remove(at);
        let file = file.upgrade()?;
        self.kept.put(id, Kept { file: file.clone(), bytes, used: Instant::now() });
        Some(file)
    }

    fn give_up(&mut self, id: FileId, kept: Kept) {
        let Kept { file, bytes, .. } = kept;
        self.loose.push((id, Arc::downgrade(&file), bytes));
        drop(file);
        self.loose.retain(|(_, file, _)| file.strong_count() > 0);
    }

    fn bytes(&self) -> u64 {
        let kept: u64 = self.kept.iter().map(|(_, kept)| kept.bytes).sum();
        let loose: u64 = self.loose.iter().filter(|(_, f, _)| f.strong_count() > 0).map(|(.., b)| b).sum();
        kept + loose + self.in_progress
    }
}

impl UnpackedFiles {
    /// Files in this room.
    pub fn new(room: Room) -> Self {
        Self { room: Mutex::new(room), state: Mutex::default() }
    }

    /// From now on files are made in this room.
    pub fn move_to(&self, room: Room) {
        *self.room.lock().unwrap_or_else(PoisonError::into_inner) = room;
    }

    /// Whether the file `id` is unpacked already.
    pub fn has(&self, id: FileId) -> bool {
        self.lock().find(id).is_some()
    }

    /// What was wrong with the file `id` when it was unpacked.
    pub fn problem(&self, id: FileId) -> Option<String> {
        self.lock().problems.get(&id).cloned()
    }

    /// What the file at `path`, which must be the one with identity `id`, unpacks to.
    ///
    /// # Errors
    /// The system's; `StorageFull` where it doesn't fit; `NotFound` when `path` names another file now.
    pub fn get(&self, path: &Path, id: FileId, packing: Packing) -> io::Result<Arc<SourceFile>> {
        let turn = {
            let mut state = self.lock();
            if let Some(file) = state.find(id) {
                return Ok(file);
            }
            state.turns.entry(id).or_default().clone()
        };
        let _my_turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = self.lock().find(id) {
            return Ok(file);
        }
        let packed = files::open(path)?;
        if FileId::of(&packed.metadata()?) != id {
            return Err(io::Error::new(io::ErrorKind::NotFound, "another file has its name now"));
        }
        let mut share = Share { files: self, bytes: 0 };
        let (file, problem) = self.unpack(&packed, packing, &mut share)?;
        let file = Arc::new(SourceFile::own(file));
        let mut state = self.lock();
        state.in_progress -= std::mem::take(&mut share.bytes);
        state.turns.remove(&id);
        let bytes = file.metadata()?.len();
        state.kept.put(id, Kept { file: file.clone(), bytes, used: Instant::now() });
        while state.kept.len() > MAX_KEPT {
            let Some((id, kept)) = state.kept.pop_lru() else { break };
            state.give_up(id, kept);
        }
        if let Some(problem) = problem {
            tracing::warn!(file = %path.display(), problem, "a compressed segment is damaged");
            state.problems.insert(id, problem);
        }
        Ok(file)
    }

    /// Gives up what the file `id` was unpacked to, as when that was deleted.
    pub fn forget(&self, id: FileId) {
        let mut state = self.lock();
        if let Some(kept) = state.kept.pop(&id) {
            state.give_up(id, kept);
        }
    }

    /// Gives up what nobody has read for a while.
    pub fn expire(&self) {
        let mut state = self.lock();
        while state.kept.peek_lru().is_some_and(|(_, kept)| kept.used.elapsed() >= IDLE) {
            let Some((id, kept)) = state.kept.pop_lru() else { return };
            state.give_up(id, kept);
        }
    }

    fn unpack(
        &self,
        packed: &SourceFile,
        packing: Packing,
        share: &mut Share<'_>,
    ) -> io::Result<(File, Option<String>)> {
        let mut file = self.nameless()?;
        let mut from = reader(packed, packing)?;
        let mut piece = vec![0; PIECE];
        loop {
            let problem = match from.read(&mut piece) {
                Ok(0) => return Ok((file, None)),
                Ok(read) if share.bytes + read as u64 > MAX_SEGMENT_BYTES => {
                    format!(
                        "it unpacks to more than {MAX_SEGMENT_BYTES} bytes, which no segment has; the rest is left out"
                    )
                }
                Ok(read) => {
                    share.grow(read as u64)?;
                    file.write_all(&piece[..read])?;
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.raw_os_error().is_some() => return Err(error),
                Err(error) => format!("{} bytes could be unpacked, then: {error}", share.bytes),
            };
            return Ok((file, Some(problem)));
        }
    }

    /// A new file without a name.
    fn nameless(&self) -> io::Result<File> {
        let room = self.room.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut failed = io::Error::new(io::ErrorKind::NotFound, "there is no directory to unpack in");
        for directory in &room.directories {
            match nameless_in(directory) {
                Ok(file) => return Ok(file),
                Err(error) => {
                    failed = io::Error::new(error.kind(), format!("in {}: {error}", directory.display()));
                }
            }
        }
        Err(failed)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The bytes of a file that is being unpacked, given back if that fails.
struct Share<'a> {
    files: &'a UnpackedFiles,
    bytes: u64,
}

impl Share<'_> {
    /// Takes room for `bytes` more; files that nobody reads are given up for it.
    fn grow(&mut self, bytes: u64) -> io::Result<()> {
        let limit = self.files.room.lock().unwrap_or_else(PoisonError::into_inner).limit_bytes;
        let mut state = self.files.lock();
        while state.bytes() + bytes > limit {
            let Some((id, kept)) = state.kept.pop_lru() else {
                let message = format!(
                    "unpacked segments take more than unpack_limit = {limit} bytes: raise it, or unpack the file \
                     with gunzip or zstd -d"
                );
                return Err(io::Error::new(io::ErrorKind::StorageFull, message));
            };
            state.give_up(id, kept);
        }
        state.in_progress += bytes;
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        self.files.lock().in_progress -= self.bytes;
    }
}

/// What a compressed file unpacks to.
fn reader(packed: &SourceFile, packing: Packing) -> io::Result<Box<dyn Read + '_>> {
    let buffered = BufReader::with_capacity(PIECE, Sequential::new(packed));
    Ok(match packing {
        Packing::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(buffered)),
        Packing::Zstd => Box::new(zstd::stream::read::Decoder::with_buffer(buffered)?),
    })
}

/// The first `len` bytes of what a compressed file unpacks to, as far as they can be unpacked.
pub fn head(path: &Path, packing: Packing, len: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // What is damaged is said when it is unpacked.
    let _ = reader(&files::open(path)?, packing)?.take(len).read_to_end(&mut bytes);
    Ok(bytes)
}

/// A new file without a name, in a directory that is made for the user alone if it is missing.
pub(in crate::log) fn nameless_in(directory: &Path) -> io::Result<File> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    if let Ok(file) = options.clone().custom_flags(libc::O_TMPFILE).open(directory) {
        return Ok(file);
    }
    // Not all file systems have files without a name from the start.
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = directory.join(format!("unpacked-{}-{number}.tmp", std::process::id()));
    let file = options.create_new(true).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::files::read_full;

    fn gz(directory: &Path, name: &str, bytes: &[u8]) -> (PathBuf, FileId) {
        let path = directory.join(name);
        let mut to = flate2::write::GzEncoder::new(File::create(&path).unwrap(), flate2::Compression::fast());
        to.write_all(bytes).unwrap();
        to.finish().unwrap();
        let id = FileId::of(&std::fs::metadata(&path).unwrap());
        (path, id)
    }

    fn contents(file: &SourceFile) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(file.metadata().unwrap().len()).unwrap()];
        read_full(file, &mut bytes, 0).unwrap();
        bytes
    }

    fn files(directory: &Path, limit_bytes: u64) -> UnpackedFiles {
        UnpackedFiles::new(Room { directories: vec![directory.join("cache")], limit_bytes })
    }

    #[test]
    fn what_is_read_stays_and_what_is_not_makes_room() {
        let dir = tempfile::tempdir().unwrap();
        let files = files(dir.path(), 25_000);
        let packed: Vec<_> = (0..4).map(|n| gz(dir.path(), &n.to_string(), &[n; 10_000])).collect();
        let get = |n: usize| files.get(&packed[n].0, packed[n].1, Packing::Gzip);
        let first = get(0).unwrap();
        for n in 1..4 {
            assert_eq!(contents(&get(n).unwrap()), vec![u8::try_from(n).unwrap(); 10_000]);
        }
        assert!(files.has(packed[3].1) && !files.has(packed[1].1));
        assert_eq!(contents(&first), [0; 10_000], "it is read still");
        let second = get(1).unwrap();
        let refused = get(2).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::StorageFull, "two are in use");
        assert!(refused.to_string().contains("unpack_limit = 25000 bytes"), "{refused}");
        drop((first, second));
        assert!(get(2).is_ok());
        assert_eq!(std::fs::read_dir(dir.path().join("cache")).unwrap().count(), 0, "none has a name");
    }

    #[test]
    fn one_that_can_never_fit_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        let files = files(dir.path(), 1_000_000);
        let (bomb, id) = gz(dir.path(), "bomb", &vec![0; 10_000_000]);
        for _ in 0..3 {
            let error = files.get(&bomb, id, Packing::Gzip).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        }
        let (small, id) = gz(dir.path(), "small", &[1; 1_000_000]);
        assert!(files.get(&small, id, Packing::Gzip).is_ok(), "all of the room is free again");
    }

    #[test]
    fn what_could_be_unpacked_of_a_damaged_file_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let files = files(dir.path(), 1 << 20);
        let bytes: Vec<u8> =
            (0..100_000_u32).flat_map(|n| (n.wrapping_mul(2_654_435_761)).to_be_bytes()).collect();
        let (path, id) = gz(dir.path(), "cut", &bytes);
        let len = std::fs::metadata(&path).unwrap().len();
        OpenOptions::new().write(true).open(&path).unwrap().set_len(len / 2).unwrap();
        let unpacked = contents(&files.get(&path, id, Packing::Gzip).unwrap());
        assert!(unpacked.len() > 100_000 && bytes.starts_with(&unpacked), "{}", unpacked.len());
        let problem = files.problem(id).unwrap();
        assert!(
            problem.starts_with(&format!("{} bytes could be unpacked, then: ", unpacked.len())),
            "{problem}"
        );
    }

    #[test]
    fn where_the_first_directory_takes_nothing_the_next_one_does() {
        let dir = tempfile::tempdir().unwrap();
        let (path, id) = gz(dir.path(), "a", b"bytes");
        let directories = vec![path.join("no-directory"), dir.path().to_owned()];
        let files = UnpackedFiles::new(Room { directories, limit_bytes: 5 });
        assert_eq!(contents(&files.get(&path, id, Packing::Gzip).unwrap()), b"bytes");
    }
}
