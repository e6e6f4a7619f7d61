//! Entries of magic 2.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| topicfs_fuzz::targets::batch::check(data));
