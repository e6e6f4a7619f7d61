//! `.timeindex`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| topicfs_fuzz::targets::indexes::time_index(data));
