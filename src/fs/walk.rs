//! Paths without a mount: resolving, globs, listing and reading, as `topicfs ls|cat|tail` need them.

use std::ffi::OsStr;

use crate::fs::error::FsError;
use crate::fs::handles::{Content, Entry};
use crate::fs::mounted::Fs;
use crate::fs::node::Node;
use crate::view::ahead::Reader;

/// A path and its node.
#[derive(Debug, Clone)]
pub struct Found {
    /// The path, without a leading slash.
    pub path: String,
    /// What is there.
    pub node: Node,
}

impl Fs {
    /// The node at `path`, whose leading slash may be left out.
    ///
    /// # Errors
    /// [`FsError::NotFound`], or those of reading.
    pub fn resolve(&self, path: &str) -> Result<Node, FsError> {
        components(path).try_fold(Node::Root, |node, name| self.child(&node, OsStr::new(name)))
    }

    /// The paths that `pattern` stands for: itself, or those listed that match it as a shell would match them, in order.
    ///
    /// # Errors
    /// [`FsError::NotFound`] when nothing matches, or those of reading.
    pub fn expand(&self, pattern: &str) -> Result<Vec<Found>, FsError> {
        let mut found = vec![Found { path: String::new(), node: Node::Root }];
        for component in components(pattern) {
            let mut next = Vec::new();
            for at in &found {
                self.expand_component(at, component, &mut next)?;
            }
            found = next;
        }
        if found.is_empty() { Err(FsError::NotFound) } else { Ok(found) }
    }

    fn expand_component(&self, at: &Found, component: &str, next: &mut Vec<Found>) -> Result<(), FsError> {
        let join =
            |name: &str| if at.path.is_empty() { name.to_owned() } else { format!("{}/{name}", at.path) };
        // A name that exists as it is written is no pattern.
        match self.child(&at.node, OsStr::new(component)) {
            Ok(node) => {
                next.push(Found { path: join(component), node });
                return Ok(());
            }
            Err(FsError::NotFound | FsError::NotADirectory) => {}
            Err(FsError::BadName { .. }) if is_pattern(component) => {}
            Err(error) => return Err(error),
        }
        let Some(matcher) = globset::GlobBuilder::new(component).literal_separator(true).build().ok() else {
            return Ok(());
        };
        if !is_pattern(component) || !at.node.is_dir() {
            return Ok(());
        }
        let matcher = matcher.compile_matcher();
        let mut names: Vec<String> = self
            .list(0, &at.node)?
            .into_iter()
            .filter_map(|entry| entry.name.into_string().ok())
            .filter(|name| matcher.is_match(name) && (component.starts_with('.') || !name.starts_with('.')))
            .collect();
        names.sort();
        for name in names {
            next.push(Found { path: join(&name), node: self.child(&at.node, OsStr::new(&name))? });
        }
        Ok(())
    }

    /// The entries of a directory, without `.` and `..`, by name.
    ///
    /// # Errors
    /// [`FsError::NotADirectory`], or those of reading.
    pub fn list_sorted(&self, node: &Node) -> Result<Vec<Entry>, FsError> {
        let mut entries = self.list(0, node)?;
        entries.retain(|entry| entry.name != "." && entry.name != "..");
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    /// Reads a whole file piece by piece.
    ///
    /// # Errors
    /// Those of reading, as [`ReadError::Fs`]; those of `write`.
    pub fn read_whole(
        &self,
        node: &Node,
        mut write: impl FnMut(&[u8]) -> std::io::Result<()>,
    ) -> Result<(), ReadError> {
        const PIECE: usize = 1024 * 1024;
        let content = self.content(0, node)?;
        let (mut at, reader) = (0, Reader::default());
        loop {
            let read = self.read_pieces(&content, at, PIECE)?;
            let len = read.len();
            if let Content::Selection(selection, _) = &content {
                selection.read_ahead(&reader, at, len);
            }
            read.iter().try_for_each(&mut write).map_err(ReadError::Write)?;
            if len == 0 || matches!(content, Content::Bytes(_)) && len < PIECE {
                return Ok(());
            }
            at += len as u64;
        }
    }
}

/// Why a file could not be copied out.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It can't be read.
    #[error(transparent)]
    Fs(#[from] FsError),
    /// It can't be written.
    #[error("{0}")]
    Write(std::io::Error),
}

fn is_pattern(component: &str) -> bool {
    component.contains(['*', '?', '[', '{'])
}

fn components(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|name| !name.is_empty() && *name != ".")
}
