//! The grammar of `by-offset/`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| topicfs_fuzz::targets::grammars::by_offset(data));
