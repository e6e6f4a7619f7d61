//! Entries of magic 0 and 1.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| topicfs_fuzz::targets::message_set::check(data));
