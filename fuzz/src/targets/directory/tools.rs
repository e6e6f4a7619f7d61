//! The commands that read a whole source: `dump`, `verify` and `salvage` are called here once they are there.

use crate::archive::Archive;
use crate::tree::Tree;

/// Runs each on the tree that was written for an input.
///
/// What must hold: none panics or changes the source; `verify` names only places within the files; `dump` ends, and its text
/// is the same at the second time; what `salvage` writes is read by topicfs without any problem, and shows the
/// records that were shown of the source.
pub fn check(_tree: &Tree, _archive: &Archive) {}
