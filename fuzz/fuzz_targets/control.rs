//! Keys and values of control records.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| topicfs_fuzz::targets::small_files::control(data));
