//! `dump/`: the names of a partition's files, as text in the words of kafka-dump-log.
//!
//! `X.log` has batches, records, keys and values; `X.log.batches` the batches alone. Files of which there is no dump are not there.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use crate::fs::error::FsError;
use crate::fs::mounted::Fs;
use crate::fs::node::{DumpOf, Item, Node, PartitionKey};
use crate::log::files::FileId;
use crate::log::partition::Origin;
use crate::log::segment::beside::WholeFile;
use crate::log::segment::{Segment, SegmentFile};
use crate::units::Offset;
use crate::view::dump::entry::{Level, Shown};
use crate::view::dump::file::{DumpFile, Named};
use crate::view::dump::kind::Kind;

/// The suffix of a dump of batches alone.
const BATCHES: &str = ".batches";

impl Fs {
    /// The node of a name in `dump`.
    pub(super) fn dump_child(&self, key: &PartitionKey, name: &str) -> Result<Node, FsError> {
        let (name, level) = match name.strip_suffix(BATCHES) {
            Some(log) if Kind::of(log).is_some_and(Kind::is_log) => (log, Level::Batches),
            _ => (name, Level::Contents),
        };
        let kind = Kind::of(name).ok_or(FsError::NotFound)?;
        let (path, meta) = self.source_file(key, OsStr::new(name))?;
        let id = FileId::of(&meta);
        let stamp = if kind.is_log() {
            let view = self.view(key)?;
            view.partition.segments()?;
            view.partition.generation()
        } else {
            whole_file(path, id, kind).stamp()
        };
        Ok(Node::Of(key.clone(), Item::Dump(DumpOf { name: name.into(), id, level, stamp })))
    }

    /// Whether looking up the name of a dump would give the same.
    pub(super) fn is_current_dump(&self, key: &PartitionKey, dump: &DumpOf) -> Result<bool, FsError> {
        let name = dump.name.to_str().ok_or(FsError::NotFound)?;
        let suffix = if dump.level == Level::Batches { BATCHES } else { "" };
        let again = self.dump_child(key, &format!("{name}{suffix}"))?;
        let Node::Of(_, Item::Dump(again)) = again else { return Ok(false) };
        // That of an index is made at once, with a log beside it that may grow all the time: it is as it was at the look-up.
        let is_log = Kind::of(name).is_some_and(Kind::is_log);
        Ok(if is_log { again == *dump } else { again.id == dump.id })
    }

    /// The names in `dump`.
    pub(super) fn dump_names(&self, key: &PartitionKey) -> Result<Vec<(OsString, Node)>, FsError> {
        let mut names = Vec::new();
        for file in self.files_of(key)?.iter().filter_map(|name| name.to_str()) {
            for name in [file.to_owned(), format!("{file}{BATCHES}")] {
                if let Ok(child) = self.dump_child(key, &name) {
                    names.push((name.into(), child));
                }
            }
        }
        Ok(names)
    }

    /// The dump of a file, shared by all that have it open.
    ///
    /// # Errors
    /// [`FsError::UnknownHandle`] when the file is another one now.
    pub fn dump(&self, key: &PartitionKey, dump: &DumpOf) -> Result<Arc<DumpFile>, FsError> {
        let node = Node::Of(key.clone(), Item::Dump(dump.clone()));
        let kept = self.dumps().get(&node).cloned();
        if let Some(kept) = kept.filter(|kept| kept.is_current()) {
            return Ok(kept);
        }
        let (path, meta) = self.source_file(key, &dump.name)?;
        if FileId::of(&meta) != dump.id {
            return Err(FsError::UnknownHandle);
        }
        let name = dump.name.to_string_lossy().into_owned();
        let kind = Kind::of(&name).ok_or(FsError::NotFound)?;
        let view = self.view(key)?;
        let directory = match &view.partition.origin {
            Origin::Directory(path) => path.file_name().map(|name| name.to_string_lossy().into_owned()),
            Origin::File(_) => None,
        };
        let directory = directory.unwrap_or_else(|| view.partition.name.to_string());
        let named = Named { path: format!("{directory}/{name}"), name, kind };
        let limits = self.options().of_source().limits;
        let made = if kind.is_log() {
            let (base, id, len) = (Offset(0), dump.id, meta.size());
            let file = SegmentFile { base, path, id, len, changed: None, packing: None };
            let segment = Segment::new(file, Offset(0), Offset(i64::MAX), self.dump_pool(), limits);
            DumpFile::of_log(segment, named, Shown::all(dump.level), self.shared())
        } else {
            let file = whole_file(path, dump.id, kind);
            if file.stamp() != dump.stamp {
                return Err(FsError::UnknownHandle);
            }
            DumpFile::of_other(file, named, limits, self.shared())
        };
        let made = Arc::new(made);
        self.dumps().push(node, made.clone());
        Ok(made)
    }
}

fn whole_file(path: std::path::PathBuf, id: FileId, kind: Kind) -> WholeFile {
    let is_index = matches!(kind, Kind::OffsetIndex | Kind::TimeIndex);
    WholeFile { path, id, is_index }
}
