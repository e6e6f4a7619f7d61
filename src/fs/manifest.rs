//! `.topicfs/manifest`: lines that are made as somebody reads on, so that opening costs nothing and who stops reading stops
//! the work. They are kept as long as the file is open: a few hundred bytes for each file of the source.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use crate::format::batch::Limits;
use crate::fs::mounted::Fs;
use crate::log::files::FilePool;
use crate::log::manifest::{self, Examination, Item, Links};
use crate::view::manifest::Form;

/// The manifest of a source, as far as it was read.
#[derive(Debug)]
pub struct ManifestText {
    form: Form,
    limits: Limits,
    pool: Arc<FilePool>,
    state: Mutex<State>,
}

/// The lines that are made, and the files that are left.
#[derive(Debug)]
struct State {
    text: Vec<u8>,
    left: VecDeque<Item>,
}

impl ManifestText {
    /// The manifest of the file system's source: its files as they are now.
    pub fn new(fs: &Fs, form: Form) -> Self {
        let options = fs.options();
        let links = if options.follow_symlinks { Links::Followed } else { Links::Listed };
        let left = fs.source().paths().into_iter().flat_map(|path| manifest::list(path, links)).collect();
        let limits = options.of_source().limits;
        let pool = fs.source().pool().clone();
        Self { form, limits, pool, state: Mutex::new(State { text: form.head().into_bytes(), left }) }
    }

    /// Appends up to `len` bytes at `at` to `out`; fewer where the next line would have to be made, none at the end.
    pub fn read(&self, at: u64, len: usize, out: &mut Vec<u8>) {
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State { text, left } = &mut *state;
        let how =
            Examination { depth: self.form.depth(), limits: self.limits, unpacked: &self.pool.unpacked };
        while text.len() <= at {
            let Some(item) = left.pop_front() else { return };
            self.form.render(&manifest::examine(&item, how, &|_| ()), text);
        }
        let end = text.len().min(at.saturating_add(len));
        out.extend_from_slice(text.get(at..end).unwrap_or_default());
    }
}
