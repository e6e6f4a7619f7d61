//! Segments under names that no broker gives its own: compressed by a backup tool (`X.log.gz`), and those of a tiered store
//! (`X-SEGMENTID.log`).
//!
//! A plain `X.log` wins over a compressed one. Tiered names count where there is no segment with a plain name. Of
//! several with one base offset, as an upload that was begun again leaves them, the longest is taken: both are
//! copies of the same segment, and only `__remote_log_metadata` would tell which one was completed.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::format::batch::Limits;
use crate::format::names::{FileType, PackedSegment, Packing, TieredFile, TieredType};
use crate::log::LogError;
use crate::log::files::{FileId, FilePool};
use crate::log::partition::Origin;
use crate::log::problem::{Kind, Problem};
use crate::log::segment::heads;
use crate::log::segment::{SegmentFile, base_of_name};
use crate::units::{Offset, Position};

/// Such files of one directory, by base offset.
#[derive(Debug, Default)]
pub(in crate::log) struct Archived {
    packed: BTreeMap<Offset, Vec<SegmentFile>>,
    tiered: BTreeMap<Offset, Vec<SegmentFile>>,
}

/// What the name of an archived segment tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::log) enum ArchivedName {
    Packed(Offset, Packing),
    Tiered(Offset),
}

impl ArchivedName {
    /// Reads a file's name; `None` when it isn't that of an archived segment.
    pub(in crate::log) fn parse(name: &str) -> Option<Self> {
        if let Some(PackedSegment { base, packing }) = PackedSegment::parse(name) {
            return Some(Self::Packed(base, packing));
        }
        let file = TieredFile::parse(name)?;
        (file.file_type == TieredType::File(FileType::Log)).then_some(Self::Tiered(file.base))
    }

    /// The base offset in it.
    pub(in crate::log) const fn base(self) -> Offset {
        match self {
            Self::Packed(base, _) | Self::Tiered(base) => base,
        }
    }

    /// How it was compressed.
    pub(in crate::log) const fn packing(self) -> Option<Packing> {
        match self {
            Self::Packed(_, packing) => Some(packing),
            Self::Tiered(_) => None,
        }
    }
}

impl Archived {
    /// Notes a file of the directory, if it is one.
    pub(in crate::log) fn note(&mut self, path: &Path) {
        let name = path.file_name().and_then(|name| name.to_str());
        let Some(name) = name.and_then(ArchivedName::parse) else { return };
        let Some(metadata) = std::fs::symlink_metadata(path).ok().filter(std::fs::Metadata::is_file) else {
            return;
        };
        let (base, packing) = (name.base(), name.packing());
        let id = FileId::of(&metadata);
        let file =
            SegmentFile { base, path: path.to_owned(), id, len: metadata.size(), changed: None, packing };
        let kind = if packing.is_some() { &mut self.packed } else { &mut self.tiered };
        kind.entry(base).or_default().push(file);
    }

    /// Adds to the segments `files` those that aren't there under a plain name.
    pub(in crate::log) fn resolve(self, files: &mut Vec<SegmentFile>) {
        let has_plain = !files.is_empty();
        let mut missing: Vec<SegmentFile> = Vec::new();
        for (base, copies) in self.packed {
            if !files.iter().any(|file| file.base == base) {
                missing.extend(best(copies).map(|(best, _)| best));
            }
        }
        if !has_plain {
            for (base, copies) in self.tiered {
                if !missing.iter().any(|file| file.base == base) {
                    missing.extend(best(copies).map(|(best, _)| best));
                }
            }
        }
        files.append(&mut missing);
    }
}

/// The longest of several copies, the first by name among equals; and the others.
fn best(mut copies: Vec<SegmentFile>) -> Option<(SegmentFile, Vec<SegmentFile>)> {
    copies.sort_by(|a, b| b.len.cmp(&a.len).then_with(|| a.path.cmp(&b.path)));
    let others = copies.split_off(1.min(copies.len()));
    Some((copies.pop()?, others))
}

/// One file as a segment, whatever its name: a name that isn't Kafka's tells no base offset, then its first batch does.
pub(in crate::log) fn single_file(
    path: &Path,
    pool: &FilePool,
    limits: Limits,
) -> Result<SegmentFile, LogError> {
    let io = |action| move |error| LogError::io(path, action, error);
    let metadata = std::fs::metadata(path).map_err(io("stat"))?;
    let (id, len) = (FileId::of(&metadata), metadata.len());
    let packing = heads::packing_of(&heads::head_of(path).map_err(io("read"))?);
    let name = path.file_name().and_then(|name| name.to_str());
    let named = base_of_name(path).or_else(|| name.and_then(ArchivedName::parse).map(ArchivedName::base));
    let base = match named {
        Some(base) => Some(base),
        None => {
            let file = match packing {
                Some(packing) => pool.unpacked.get(path, id, packing).map_err(io("unpack"))?,
                None => pool.get(path, id)?,
            };
            let len = file.metadata().map_err(io("stat"))?.len();
            heads::first_offset(file, len, limits).map_err(io("read"))?
        }
    };
    Ok(SegmentFile {
        base: base.unwrap_or(Offset(0)),
        path: path.to_owned(),
        id,
        len,
        changed: None,
        packing,
    })
}

/// Which archived segments of a partition are not shown, or not whole, and why.
pub(in crate::log) fn notes(origin: &Origin, pool: &FilePool) -> Vec<Problem> {
    let damaged = |path: &Path, id| Some(Problem::of_file(path, Kind::Packed, pool.unpacked.problem(id)?));
    let directory = match origin {
        Origin::Directory(directory) => directory,
        Origin::File(path) => {
            let id = std::fs::metadata(path).ok().map(|meta| FileId::of(&meta));
            return id.and_then(|id| damaged(path, id)).into_iter().collect();
        }
    };
    let (mut archived, mut plain) = (Archived::default(), Vec::new());
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        archived.note(&entry.path());
        plain.extend(base_of_name(&entry.path()));
    }
    let packed = archived.packed.values().flatten();
    let mut notes: Vec<Problem> = packed.filter_map(|file| damaged(&file.path, file.id)).collect();
    let mut note = |file: &SegmentFile, text: String| {
        notes.push(Problem::of_file(&file.path, Kind::Copy, text).at(Position(0), file.len));
    };
    for (base, copies) in archived.packed {
        let others = if plain.contains(&base) {
            copies.into_iter().map(|copy| (copy, "the segment is here uncompressed".to_owned())).collect()
        } else {
            other_copies(copies)
        };
        others.into_iter().for_each(|(file, why)| note(&file, format!("not shown: {why}")));
    }
    for (_, copies) in archived.tiered {
        let others = if plain.is_empty() {
            other_copies(copies)
        } else {
            let why = "it has the name of a tiered store, and segments with a broker's names are here";
            copies.into_iter().map(|copy| (copy, why.to_owned())).collect()
        };
        others.into_iter().for_each(|(file, why)| note(&file, format!("not shown: {why}")));
    }
    notes
}

/// The copies that are not taken, and why.
fn other_copies(copies: Vec<SegmentFile>) -> Vec<(SegmentFile, String)> {
    let Some((best, others)) = best(copies) else { return Vec::new() };
    let name = best.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let why = |other: &SegmentFile| {
        let reason = if other.len < best.len { "is longer" } else { "is as long, and the first by name" };
        format!("another copy of the segment, {name}, {reason}")
    };
    others.into_iter().map(|other| (other.clone(), why(&other))).collect()
}
