//! What each target checks of one input.

pub mod append_lines;
pub mod batch;
pub mod compressed;
pub mod config;
pub mod directory;
pub mod grammars;
pub mod indexes;
pub mod message_set;
pub mod small_files;
pub mod template;
