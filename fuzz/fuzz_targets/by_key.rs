//! The grammar of `by-key/`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| topicfs_fuzz::targets::grammars::by_key(data));
