//! Runs of sealed segments that are kept in the cache, for the next mount.
//!
//! A file's name has the partition's directory (device and inode) and the segments at both ends; what it is of is said inside.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use super::entry::{ENTRY_LEN, Entry};
use super::run::{Cover, KeySpace, Run};
use super::sorted_file::{Covered, SortedFile};
use crate::log::files::FileId;
use crate::log::partition::Partition;
use crate::log::segment::Segment;
use crate::log::sidecar::{FileIdentity, Sidecars};
use crate::units::Offset;

/// Where a run is saved.
pub(super) struct Place<'a> {
    cache: &'a Sidecars,
    path: PathBuf,
    covers: Vec<Covered>,
}

impl<'a> Place<'a> {
    /// The place of a run of `covers` with so many entries; `None` when it can't be known again, or is too large.
    pub(super) fn of(
        cache: &'a Sidecars,
        partition: &Partition,
        segments: &[Arc<Segment>],
        covers: &[Cover],
        entries: u64,
    ) -> Option<Self> {
        if entries.saturating_mul(ENTRY_LEN as u64) > cache.limit_bytes() / 2 {
            return None;
        }
        let mut known = Vec::with_capacity(covers.len());
        for cover in covers {
            // Those that retention has deleted are missed by nobody.
            let Some(segment) = segments.iter().find(|segment| segment.uid == cover.uid) else { continue };
            // What a compressed one unpacks to is another file each time.
            if segment.is_packed() {
                return None;
            }
            let (file, _) = segment.open().ok()?;
            let base = u64::try_from(segment.base.0).ok()?;
            known.push(Covered { base: base.into(), file: FileIdentity::of(&file).ok()? });
        }
        let (first, last) = (known.first()?.base.get(), known.last()?.base.get());
        let path = cache.directory().join(format!("{}{first:x}-{last:x}", prefix(partition)?));
        Some(Self { cache, path, covers: known })
    }

    /// Writes a run, under its name when it is whole.
    pub(super) fn write(
        self,
        count: u64,
        entries: impl Iterator<Item = io::Result<Entry>>,
    ) -> io::Result<(SortedFile, PathBuf)> {
        let Self { cache, path, covers } = self;
        let temporary = path.with_extension(format!("{}.tmp", std::process::id()));
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
        let written = SortedFile::write(file, &covers, count, entries)
            .and_then(|file| fs::rename(&temporary, &path).map(|()| file));
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        let file = written?;
        cache.evict()?;
        Ok((file, path))
    }
}

/// The runs that were saved of a partition and fit its segments as they are.
pub(super) fn load(
    space: &Arc<KeySpace>,
    cache: &Sidecars,
    partition: &Partition,
    segments: &[Arc<Segment>],
) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    let Some(prefix) = prefix(partition) else { return runs };
    let entries = fs::read_dir(cache.directory()).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix)) {
        let path = entry.path();
        if path.extension().is_some() {
            continue;
        }
        let Ok(file) = File::open(&path) else { continue };
        // The time of the last use is what eviction goes by.
        let _ = file.set_modified(SystemTime::now());
        let found =
            SortedFile::open(file).ok().and_then(|(file, covers)| Some((file, fit(&covers, segments)?)));
        let Some((file, covers)) = found else {
            let _ = fs::remove_file(&path);
            continue;
        };
        let is_new = |cover: &Cover| !runs.iter().any(|run| run.covers(cover.uid));
        if covers.iter().all(is_new) {
            runs.push(Run::in_file(space, covers, file, Some(path)));
        }
    }
    runs
}

/// The segments that a file is of, if they are as they were; those before the first one may be gone.
fn fit(covered: &[Covered], segments: &[Arc<Segment>]) -> Option<Vec<Cover>> {
    let first = segments.first()?.base;
    let mut covers = Vec::with_capacity(covered.len());
    for Covered { base, file } in covered {
        let base = Offset(i64::try_from(base.get()).ok()?);
        if base < first {
            continue;
        }
        let at = segments.binary_search_by_key(&base, |segment| segment.base).ok()?;
        let segment = segments.get(at).filter(|segment| file.is_of(segment.id) && !segment.is_active())?;
        let (opened, _) = segment.open().ok()?;
        if FileIdentity::of(&opened).ok()? != *file {
            return None;
        }
        covers.push(Cover::of(segment));
    }
    let is_one_stretch = covers.first().is_some_and(|cover| {
        let from = segments.partition_point(|segment| segment.base < cover.base);
        let stretch = segments.iter().skip(from).map(|segment| Cover::of(segment));
        covers.iter().copied().eq(stretch.take(covers.len()))
    });
    is_one_stretch.then_some(covers)
}

fn prefix(partition: &Partition) -> Option<String> {
    let FileId { dev, ino, .. } = FileId::of(&fs::metadata(partition.origin.path()).ok()?);
    Some(format!("{dev:x}-{ino:x}-keys-"))
}
