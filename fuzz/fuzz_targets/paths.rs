//! Paths and globs in a small mount.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| topicfs_fuzz::targets::grammars::paths(data));
