//! `by-key`: files by the keys of records.
//!
//! The latest value of a key is the file of that record in `by-offset`, under another name. With `by_key.listed` the directory
//! lists the keys that have a value, under their bare names: their histories would be the same records again.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::fs::content::RecordContent;
use crate::fs::error::FsError;
use crate::fs::handles::Entry;
use crate::fs::inodes::Inodes;
use crate::fs::key_names;
use crate::fs::mounted::Fs;
use crate::fs::names::RecordForm;
use crate::fs::node::{Item, KeyRecords, Node, PartitionKey, ROOT_INO};
use crate::view::format::Formats;
use crate::view::key_history::KeyHistory;
use crate::view::key_list::{KeysAt, LiveKey};
use crate::view::keys::Wanted;
use crate::view::partition_view::PartitionView;

pub(super) const README: &str = "README.txt";
/// Keys whose batches are looked up together; their names are what an open directory has in memory.
const PAGE: usize = 1 << 14;
/// Cookies below this are for what isn't a key.
const FIRST_COOKIE: u64 = 4;
/// Bits of a cookie that count keys at the same place: a place has the upper bits of a key's number.
const ORDINAL_BITS: u32 = 7;

impl Fs {
    /// The node of a name in `by-key`.
    pub(super) fn by_key_child(&self, key: &PartitionKey, name: &OsStr) -> Result<Node, FsError> {
        let of = |item| Node::Of(key.clone(), item);
        if name == README {
            return Ok(of(Item::ByKeyReadme));
        }
        let (named, form) = key_names::parse(name.as_bytes(), self.formats()).ok_or(FsError::NotFound)?;
        let is_it = |key: &[u8]| named.is(key);
        let wanted = Wanted::new(named.hash(), &is_it);
        let view = self.view(key)?;
        match form {
            // Whole batches have records of other keys too.
            RecordForm::Rendered(format) if format.is_of_batches() => Err(FsError::NotFound),
            RecordForm::Rendered(format) => {
                let found = view.range_of_key(key.committed, wanted)?.ok_or(FsError::NotFound)?;
                let (start, end) = (found.offsets.start, found.offsets.end);
                let generation = view.partition.generation();
                Ok(of(Item::KeyRecords(KeyRecords { key: found.key, format, start, end, generation })))
            }
            RecordForm::Value | RecordForm::Key | RecordForm::Json => self.latest(key, &view, wanted, form),
        }
    }

    /// Whether the keys of a partition are listed.
    pub(super) fn lists_keys(&self, key: &PartitionKey) -> bool {
        self.of_topic(&key.topic).options.by_key_listed
    }

    /// The file of a key's latest record; of a tombstone there is no value.
    fn latest(
        &self,
        key: &PartitionKey,
        view: &PartitionView,
        wanted: Wanted<'_>,
        form: RecordForm,
    ) -> Result<Node, FsError> {
        let generation = view.generation()?;
        let found = view.latest_of_key(key.committed, wanted, |record, place| {
            let is_there = record.value.is_some() || form != RecordForm::Value;
            let content = || RecordContent::new(view, form, record, place);
            is_there.then(|| (record.offset, content()))
        })?;
        let (offset, content) = found.flatten().ok_or(FsError::NotFound)?;
        let node = Node::Of(key.clone(), Item::Record(offset, form, generation));
        self.keep_record(node.clone(), Arc::new(content));
        Ok(node)
    }

    /// All records of a key, shared by all that have the file open.
    ///
    /// # Errors
    /// [`FsError::NotFound`] when the partition is gone.
    pub fn key_history(&self, key: &PartitionKey, records: &KeyRecords) -> Result<Arc<KeyHistory>, FsError> {
        let node = Node::Of(key.clone(), Item::KeyRecords(records.clone()));
        if let Some(history) = self.histories().get(&node) {
            return Ok(history.clone());
        }
        let KeyRecords { key: of, format, start, end, generation } = records.clone();
        let view = self.view(key)?;
        let history = KeyHistory::new(view, key.committed, format, of, start..end, generation);
        let history = Arc::new(history);
        self.histories().push(node, history.clone());
        Ok(history)
    }

    /// The names in `by-key`, all at once.
    pub(super) fn by_key_names(&self, key: &PartitionKey) -> Result<Vec<(OsString, Node)>, FsError> {
        let mut names = vec![(README.into(), Node::Of(key.clone(), Item::ByKeyReadme))];
        if self.lists_keys(key) {
            let listing = self.key_listing(key)?;
            let mut from = Some(0);
            while let Some(first) = from {
                let page = listing.view.live_keys(&listing.at, first, PAGE, place)?;
                names.extend(page.keys.iter().map(|live| (listing.name(live).into(), listing.node(live))));
                from = page.next;
            }
        }
        Ok(names)
    }

    /// The keys of a partition as they are now.
    ///
    /// # Errors
    /// Those of reading and of building the index.
    pub(super) fn key_listing(&self, key: &PartitionKey) -> Result<KeyListing, FsError> {
        let view = self.view(key)?;
        let at = view.keys_at(key.committed)?;
        let formats = self.options().formats.clone();
        Ok(KeyListing { key: key.clone(), formats, view, at, page: Mutex::default() })
    }
}

/// The keys of a partition as they were at one moment, listed page by page.
#[derive(Debug)]
pub struct KeyListing {
    key: PartitionKey,
    formats: Arc<Formats>,
    view: Arc<PartitionView>,
    at: KeysAt,
    page: Mutex<Option<Arc<Page>>>,
}

/// Some names in their order.
#[derive(Debug)]
struct Page {
    /// The key's number at which it begins, and that of the next page.
    from: u64,
    next: Option<u64>,
    /// With cookies, which go up.
    entries: Vec<(u64, Entry)>,
}

impl KeyListing {
    /// Calls `add` with the entries after `cookie` until it says that it has enough.
    ///
    /// # Errors
    /// Those of reading.
    pub fn read(
        &self,
        inodes: &Inodes,
        cookie: u64,
        add: &mut dyn FnMut(u64, &Entry) -> bool,
    ) -> Result<(), FsError> {
        let of = |item| inodes.number(&Node::Of(self.key.clone(), item));
        let own =
            [(".", of(Item::ByKey), true), ("..", ROOT_INO, true), (README, of(Item::ByKeyReadme), false)];
        for (number, (name, ino, is_dir)) in (1..).zip(own).filter(|(number, _)| *number > cookie) {
            if add(number, &Entry { ino, name: name.into(), is_dir }) {
                return Ok(());
            }
        }
        let mut from = Some(cookie.saturating_sub(FIRST_COOKIE) >> ORDINAL_BITS << place_shift());
        while let Some(first) = from {
            let page = self.page(inodes, first)?;
            let skip = page.entries.partition_point(|(at, _)| *at <= cookie);
            for (at, entry) in page.entries.iter().skip(skip) {
                if add(*at, entry) {
                    return Ok(());
                }
            }
            from = page.next;
        }
        Ok(())
    }

    /// The page that has the keys from number `first` on, which may begin before it.
    fn page(&self, inodes: &Inodes, first: u64) -> Result<Arc<Page>, FsError> {
        let mut kept = self.page.lock().unwrap_or_else(PoisonError::into_inner);
        let holds = |page: &&Arc<Page>| page.from <= first && page.next.is_none_or(|next| first < next);
        if let Some(page) = kept.as_ref().filter(holds) {
            return Ok(page.clone());
        }
        let found = self.view.live_keys(&self.at, first, PAGE, place)?;
        let mut entries: Vec<(u64, Entry)> = Vec::with_capacity(found.keys.len());
        let (mut last_place, mut ordinal) = (None, 0);
        for live in &found.keys {
            ordinal = if last_place == Some(place(live.hash)) { ordinal + 1 } else { 0 };
            last_place = Some(place(live.hash));
            // So many keys at one place are made to be there: what comes after them is left out.
            if ordinal >> ORDINAL_BITS == 0 {
                let cookie = (place(live.hash) << ORDINAL_BITS | ordinal) + FIRST_COOKIE;
                let (ino, name) = (inodes.number(&self.node(live)), self.name(live).into());
                entries.push((cookie, Entry { ino, name, is_dir: false }));
            }
        }
        let next = found.next.map(|next| place(next) << place_shift());
        let page = Arc::new(Page { from: first, next, entries });
        *kept = Some(page.clone());
        Ok(page)
    }

    fn name(&self, live: &LiveKey) -> String {
        key_names::build(&live.key, &self.formats)
    }

    fn node(&self, live: &LiveKey) -> Node {
        let generation = self.view.partition.generation();
        Node::Of(self.key.clone(), Item::Record(live.offset, RecordForm::Value, generation))
    }
}

/// A key's place in a listing: as much of its number as a cookie, which has 63 bits, takes.
const fn place(number: u64) -> u64 {
    number >> place_shift()
}

const fn place_shift() -> u32 {
    ORDINAL_BITS + 2
}
