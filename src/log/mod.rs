//! The files of a log. (Placeholder until the layers are merged.)

pub mod source;
