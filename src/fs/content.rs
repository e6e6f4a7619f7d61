//! What files contain: rendered records, single records, source files, and small texts of ours.

use std::sync::Arc;
use std::time::SystemTime;

use crate::format::batch::Decoder;
use crate::format::record::Record;
use crate::fs::appending::AppendFile;
use crate::fs::attributes::record_time;
use crate::fs::error::{FsError, again};
use crate::fs::files;
use crate::fs::handles::Content;
use crate::fs::manifest::ManifestText;
use crate::fs::mounted::Fs;
use crate::fs::names::RecordForm;
use crate::fs::node::{AllItem, ControlFile, Item, Node, PartitionKey, Records, RecordsKind};
use crate::fs::xattrs::Xattrs;
use crate::log::LogError;
use crate::log::files::{self as source_files, FileId, SourceFile};
use crate::view::dump::{self, entry::Tools};
use crate::view::format::Format;
use crate::view::info;
use crate::view::partition_view::{PartitionView, RecordPlace};
use crate::view::pieces::Pieces;
use crate::view::record_json;
use crate::view::selection::Effort;

/// Contents of records that are larger are read again at each use.
const KEPT_RECORD_BYTES: usize = 64 * 1024;

/// The lines of a record's batch.
fn dump_of(place: &RecordPlace<'_>) -> Vec<u8> {
    let (mut out, limits) = (Vec::new(), &place.segment.limits());
    dump::push_sound(
        place.batch,
        place.position,
        &mut Tools { decoder: &mut Decoder::default(), limits },
        &mut out,
    );
    out
}

/// The content of a record's file.
#[derive(Debug)]
pub struct RecordContent {
    pub(super) bytes: Arc<Vec<u8>>,
    pub(super) mtime: SystemTime,
    pub(super) xattrs: Xattrs,
}

impl RecordContent {
    /// What the file of `record` in this form contains.
    pub(super) fn new(
        view: &PartitionView,
        form: RecordForm,
        record: &Record<'_>,
        place: &RecordPlace<'_>,
    ) -> Self {
        let bytes = match form {
            RecordForm::Value => record.value.unwrap_or_default().to_vec(),
            RecordForm::Key => record.key.unwrap_or_default().to_vec(),
            RecordForm::Json => record_json::render(view.renderer(), record, place),
            RecordForm::Rendered(Format::Log) => place.batch.bytes.to_vec(),
            RecordForm::Rendered(Format::Dump) => dump_of(place),
            RecordForm::Rendered(format) => {
                let mut out = Vec::new();
                view.renderer().render(format, record, &mut out);
                out
            }
        };
        let (mtime, xattrs) = (record_time(record.timestamp), Xattrs::of(record, place));
        Self { bytes: Arc::new(bytes), mtime, xattrs }
    }
}

impl Fs {
    /// What a node contains.
    ///
    /// # Errors
    /// Those of reading.
    pub fn content(&self, ino: u64, node: &Node) -> Result<Content, FsError> {
        self.look_over(node)?;
        if !self.is_current(node)? {
            return Err(FsError::UnknownHandle);
        }
        Ok(match node {
            Node::Of(key, Item::ByKey) if self.lists_keys(key) => {
                Content::Keys(Arc::new(self.key_listing(key)?))
            }
            _ if node.is_dir() => Content::Directory(Arc::new(self.list(ino, node)?)),
            Node::Of(key, Item::Records(records)) => {
                let selection = self.selection(key, records)?;
                let pinned = self.pin(key, records)?;
                if pinned.is_some() {
                    selection.begin()?;
                }
                Content::Selection(selection, pinned)
            }
            Node::Of(key, Item::Dump(dump)) => Content::Dump(self.dump(key, dump)?),
            Node::Of(key, Item::Timed(_)) => Content::Filtered(self.filtered(key, node)?),
            Node::OfAll(key, AllItem::Records(records)) => Content::Merged(self.merged(key, records)?),
            Node::Of(key, Item::Follow(follow)) => Content::Follow(Arc::new(self.follow(key, *follow)?)),
            Node::OfAll(key, AllItem::Follow(follow)) => {
                Content::Follow(Arc::new(self.follow_topic(key, *follow)?))
            }
            Node::Of(key, Item::Append(format)) => {
                Content::Append(Arc::new(AppendFile::new(key.clone(), *format)))
            }
            Node::Of(key, Item::Suspects) => Content::Suspects(self.view(key)?),
            Node::Of(key, Item::KeyRecords(records)) => Content::KeyHistory(self.key_history(key, records)?),
            Node::Of(_, Item::Record(..)) => Content::Bytes(self.record_content(node)?.bytes.clone()),
            Node::Of(key, Item::SourceFile(name, id)) => {
                let path = self.source_path(key, name)?;
                let file = source_files::open(&path).map_err(|error| LogError::io(&path, "open", error))?;
                let meta = file.metadata().map_err(|error| LogError::io(&path, "stat", error))?;
                if FileId::of(&meta) != *id {
                    return Err(FsError::UnknownHandle);
                }
                Content::Source(Arc::new(file))
            }
            Node::ControlFile(ControlFile::Manifest(form)) => {
                Content::Manifest(Arc::new(ManifestText::new(self, *form)))
            }
            _ => Content::Bytes(Arc::new(self.small_file(node)?)),
        })
    }

    /// Keeps the source of a `by-segment` file readable while that is open, also when a broker deletes it.
    fn pin(&self, key: &PartitionKey, records: &Records) -> Result<Option<Arc<SourceFile>>, FsError> {
        if records.kind != RecordsKind::Segment {
            return Ok(None);
        }
        let segments = self.view(key)?.partition.segments()?;
        let segment = segments.iter().rev().find(|segment| segment.lower <= records.start);
        segment.map(|segment| segment.pin().map_err(FsError::from)).transpose()
    }

    /// Appends up to `len` bytes at `at` of some content to `out`.
    ///
    /// # Errors
    /// Those of reading.
    pub fn read_content(
        &self,
        content: &Content,
        at: u64,
        len: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), FsError> {
        self.read_pieces(content, at, len)?.iter().for_each(|piece| out.extend_from_slice(piece));
        Ok(())
    }

    /// Reads up to `len` bytes at `at` of some content, as they are in memory.
    ///
    /// # Errors
    /// Those of reading.
    pub(super) fn read_pieces(&self, content: &Content, at: u64, len: usize) -> Result<Pieces, FsError> {
        again(|| {
            let mut out = Pieces::default();
            self.read_once(content, at, len, &mut out)?;
            Ok(out)
        })
    }

    fn read_once(&self, content: &Content, at: u64, len: usize, out: &mut Pieces) -> Result<(), FsError> {
        match content {
            Content::Selection(selection, _) => selection.read(at, len, out)?,
            Content::Filtered(filtered) => filtered.read(at, len, out)?,
            Content::Merged(merged) => merged.read(at, len, out.own())?,
            Content::Follow(file) => out.own().append(&mut self.wait_for(file, len)?),
            Content::Dump(dump) => dump.read(at, len, out.own())?,
            Content::KeyHistory(history) => history.read(at, len, out.own())?,
            Content::Suspects(view) => {
                if let Some(suspects) = view.suspects(Effort::All)? {
                    suspects.read(view, at, len, out.own())?;
                }
            }
            Content::Bytes(bytes) => {
                let from = usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
                let to = from.saturating_add(len).min(bytes.len());
                out.own().extend_from_slice(bytes.get(from..to).unwrap_or_default());
            }
            Content::Source(file) => {
                let mut buffer = self.buffers().take_sized(len);
                let read = source_files::read_full(file, &mut buffer, at)
                    .map_err(|source| FsError::Source { path: "segments".to_owned(), source })?;
                out.share(&Arc::new(buffer), 0..read);
            }
            Content::Manifest(text) => text.read(at, len, out.own()),
            // There is nothing to read, and nothing wrong with trying.
            Content::Append(_) => {}
            Content::Directory(_) | Content::Keys(_) => return Err(FsError::IsADirectory),
        }
        Ok(())
    }

    /// The content of a single record's file, kept for the stat and read that follow a lookup.
    ///
    /// # Errors
    /// [`FsError::NotFound`] when there is no such record.
    pub fn record_content(&self, node: &Node) -> Result<Arc<RecordContent>, FsError> {
        let Node::Of(key, Item::Record(offset, form, generation)) = node else {
            return Err(FsError::NotFound);
        };
        let view = self.view(key)?;
        if view.generation()? != *generation {
            return Err(FsError::UnknownHandle);
        }
        let kept = self.records().get(node).cloned();
        if let Some(content) = kept {
            return if *offset < view.start()? { Err(FsError::NotFound) } else { Ok(content) };
        }
        let found = view.record(key.committed, *offset, |record, place| {
            RecordContent::new(&view, *form, record, place)
        })?;
        let content = Arc::new(found.ok_or(FsError::NotFound)?);
        self.keep_record(node.clone(), content.clone());
        Ok(content)
    }

    /// Keeps the content of a record's file for what follows.
    pub(super) fn keep_record(&self, node: Node, content: Arc<RecordContent>) {
        if content.bytes.len() + content.xattrs.size() <= KEPT_RECORD_BYTES {
            self.records().push(node, content);
        }
    }

    /// The files that are made anew at each open.
    pub(super) fn small_file(&self, node: &Node) -> Result<Vec<u8>, FsError> {
        Ok(match node {
            Node::Readme => {
                let begin = if self.is_writable() { files::FOR_APPENDING } else { files::READ_ONLY };
                [begin, files::README].concat().into_bytes()
            }
            Node::ControlFile(file) => files::control_file(self, *file),
            Node::Topics | Node::TopicInfo(..) => self.overview(node)?,
            Node::Of(_, Item::ByOffsetReadme) => files::BY_OFFSET_README.as_bytes().to_vec(),
            Node::Of(_, Item::ByKeyReadme) | Node::OfAll(_, AllItem::ByKeyReadme) => {
                files::BY_KEY_README.as_bytes().to_vec()
            }
            Node::Of(_, Item::ByTimeReadme) | Node::OfAll(_, AllItem::ByTimeReadme) => {
                files::BY_TIME_README.as_bytes().to_vec()
            }
            Node::Of(_, Item::OffsetsReadme) => files::OFFSETS_README.as_bytes().to_vec(),
            Node::Of(key, Item::Number(number)) => self.number_file(key, *number)?,
            Node::Of(key, Item::Info { json }) => {
                let configs = self.configs_of(&key.topic);
                info::render(&*self.view(key)?, &configs.details(), key.committed, *json)?
            }
            Node::Of(key, Item::Problems) => files::partition_problems(&*self.view(key)?),
            _ => return Err(FsError::IsADirectory),
        })
    }
}
