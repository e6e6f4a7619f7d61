//! What was measured of a source file, kept outside the source.
//!
//! ```text
//! 0   8   "topicfs" and the version of this layout
//! 8   8   device              16  8  inode            24  8  size in bytes
//! 32  16  ctime, seconds and nanoseconds
//! 48  4   CRC-32C of the file's first 4 KiB           52  4  of its last 4 KiB
//! 56  4   CRC-32C of the payload                      60  4  of the bytes 0 to 60
//! 64      the payload
//! ```
//! An entry that fits neither its file nor its own checksums is no entry. Deleting any of them is always safe.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::SystemTime;

use memmap2::Mmap;
use zerocopy::byteorder::big_endian::{I64, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::format::crc32c::crc32c;
use crate::log::files::{self, SourceFile};

const MAGIC: [u8; 8] = *b"topicfs\x01";
/// What is known of smaller segments isn't saved: they are read at once anyway.
pub const WORTH_SAVING: u64 = 1024 * 1024;
const SAMPLE_LEN: u64 = 4096;
const HEADER_LEN: usize = 64;

/// The header of an entry, byte for byte as in the module's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Header {
    magic: [u8; 8],
    file: FileIdentity,
    payload_crc: U32,
    header_crc: U32,
}
const _: () = assert!(size_of::<Header>() == HEADER_LEN);

impl Header {
    /// The header of an entry for `file` with `payload`.
    fn of(file: &SourceFile, payload: &[u8]) -> io::Result<Self> {
        let (file, payload_crc) = (FileIdentity::of(file)?, crc32c(payload).into());
        let mut header = Self { magic: MAGIC, file, payload_crc, header_crc: 0.into() };
        header.header_crc = crc32c(&header.as_bytes()[..HEADER_LEN - 4]).into();
        Ok(header)
    }
}

/// What a file is known by, in entries of other layouts too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct FileIdentity {
    dev: U64,
    ino: U64,
    size: U64,
    ctime_s: I64,
    ctime_ns: I64,
    head_crc: U32,
    tail_crc: U32,
}

impl FileIdentity {
    /// The identity of `file` as it is now.
    pub(super) fn of(file: &SourceFile) -> io::Result<Self> {
        let meta = file.metadata()?;
        let size = meta.size();
        Ok(Self {
            dev: meta.dev().into(),
            ino: meta.ino().into(),
            size: size.into(),
            ctime_s: meta.ctime().into(),
            ctime_ns: meta.ctime_nsec().into(),
            head_crc: sample(file, 0)?.into(),
            tail_crc: sample(file, size.saturating_sub(SAMPLE_LEN))?.into(),
        })
    }

    /// Whether it is of the file `id`, as far as device and inode tell.
    pub(super) const fn is_of(&self, id: files::FileId) -> bool {
        self.dev.get() == id.dev && self.ino.get() == id.ino
    }
}

fn sample(file: &SourceFile, position: u64) -> io::Result<u32> {
    let mut bytes = [0; 4096];
    let read = files::read_full(file, &mut bytes, position)?;
    Ok(crc32c(&bytes[..read]))
}

/// The payload of an entry that fits its file.
#[derive(Debug)]
pub struct Payload(Mmap);

impl Payload {
    /// The bytes that were saved.
    pub fn bytes(&self) -> &[u8] {
        self.0.get(HEADER_LEN..).unwrap_or_default()
    }
}

/// A directory of entries, the user's alone, bounded in size.
#[derive(Debug)]
pub struct Sidecars {
    directory: PathBuf,
    limit_bytes: u64,
    writing: Mutex<()>,
}

impl Sidecars {
    /// The entries in `directory`, which is made (mode 0700) if it is missing.
    ///
    /// # Errors
    /// The system's; `PermissionDenied` where the directory is somebody else's or open to others.
    pub fn open(directory: &Path, limit_bytes: u64) -> io::Result<Self> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        let meta = fs::symlink_metadata(directory)?;
        if !meta.is_dir() || meta.uid() != crate::log::files::sys::effective_uid() || meta.mode() & 0o022 != 0
        {
            let message = "the cache directory must be yours and writable by nobody else";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
        }
        Ok(Self { directory: directory.to_owned(), limit_bytes, writing: Mutex::default() })
    }

    /// What was saved for `file` as `kind`, if it still is that file, unchanged.
    pub fn load(&self, file: &SourceFile, kind: &str) -> Option<Payload> {
        let path = self.path(file, kind).ok()?;
        let entry = File::open(&path).ok()?;
        // SAFETY: the cache is this user's alone (mode 0700) and its files are replaced whole by a rename, never
        // truncated or written in place; `save` and `evict` are the only ones that touch them.
        let map = unsafe { Mmap::map(&entry) }.ok()?;
        let (header, payload) = Header::ref_from_prefix(&map).ok()?;
        let expected = Header::of(file, payload).ok()?;
        if *header != expected {
            return None;
        }
        // The time of the last use is what eviction goes by.
        let _ = entry.set_modified(SystemTime::now());
        Some(Payload(map))
    }

    /// Saves `payload` for `file` as `kind`, and evicts the entries that were used longest ago above the limit.
    ///
    /// # Errors
    /// The system's.
    pub fn save(&self, file: &SourceFile, kind: &str, payload: &[u8]) -> io::Result<()> {
        let _one_at_a_time = self.writing.lock();
        let path = self.path(file, kind)?;
        let temporary = path.with_extension(format!("{}.tmp", std::process::id()));
        let mut entry =
            fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
        let written = entry
            .write_all(Header::of(file, payload)?.as_bytes())
            .and_then(|()| entry.write_all(payload))
            .and_then(|()| fs::rename(&temporary, &path));
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        written?;
        self.evict()
    }

    /// Where the entries lie.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// How many bytes they may take together.
    pub(super) const fn limit_bytes(&self) -> u64 {
        self.limit_bytes
    }

    /// Deletes what was used longest ago above the limit.
    pub(super) fn evict(&self) -> io::Result<()> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            let entry = entry?;
            let Ok(meta) = entry.metadata() else { continue };
            entries.push((meta.modified()?, meta.len(), entry.path()));
        }
        let mut total: u64 = entries.iter().map(|(_, len, _)| len).sum();
        entries.sort();
        for (_, len, path) in entries {
            if total <= self.limit_bytes {
                break;
            }
            let _ = fs::remove_file(path);
            total = total.saturating_sub(len);
        }
        Ok(())
    }

    fn path(&self, file: &SourceFile, kind: &str) -> io::Result<PathBuf> {
        let meta = file.metadata()?;
        Ok(self.directory.join(format!("{:x}-{:x}-{kind}", meta.dev(), meta.ino())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixture() -> (tempfile::TempDir, Sidecars, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let source = dir.path().join("source");
        fs::write(&source, vec![7; 10_000]).unwrap();
        let sidecars = Sidecars::open(&dir.path().join("cache"), 1 << 20).unwrap();
        (dir, sidecars, source)
    }

    #[test]
    fn an_entry_is_found_again_only_for_the_file_that_it_was_made_for() {
        let (_dir, sidecars, source) = fixture();
        let file = files::open(&source).unwrap();
        sidecars.save(&file, "a", b"payload").unwrap();
        assert_eq!(sidecars.load(&file, "a").unwrap().bytes(), b"payload");
        assert!(sidecars.load(&file, "b").is_none());
        let mut bytes = vec![7; 10_000];
        bytes[9_999] = 8;
        fs::write(&source, bytes).unwrap();
        assert!(sidecars.load(&files::open(&source).unwrap(), "a").is_none());
    }

    #[test]
    fn a_flipped_byte_anywhere_in_an_entry_makes_it_none() {
        let (dir, sidecars, source) = fixture();
        let file = files::open(&source).unwrap();
        sidecars.save(&file, "a", b"payload").unwrap();
        let path = fs::read_dir(dir.path().join("cache")).unwrap().next().unwrap().unwrap().path();
        let sound = fs::read(&path).unwrap();
        for at in 0..sound.len() {
            let mut bytes = sound.clone();
            bytes[at] ^= 0x10;
            fs::write(&path, bytes).unwrap();
            assert!(sidecars.load(&file, "a").is_none(), "byte {at}");
        }
        for len in 0..sound.len() {
            fs::write(&path, &sound[..len]).unwrap();
            assert!(sidecars.load(&file, "a").is_none(), "cut at {len}");
        }
    }

    #[test]
    fn the_cache_stays_below_its_limit() {
        let (dir, _, source) = fixture();
        let sidecars = Sidecars::open(&dir.path().join("cache"), 3000).unwrap();
        let file = files::open(&source).unwrap();
        for kind in ["a", "b", "c", "d", "e"] {
            sidecars.save(&file, kind, &[0; 1000]).unwrap();
        }
        let total: u64 = fs::read_dir(dir.path().join("cache"))
            .unwrap()
            .map(|e| e.unwrap().metadata().unwrap().len())
            .sum();
        assert!(total <= 3000, "{total}");
        assert!(sidecars.load(&file, "e").is_some());
    }

    #[test]
    fn a_directory_that_others_can_write_to_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(Sidecars::open(dir.path(), 1).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }
}
