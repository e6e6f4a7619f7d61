//! Lines that are written to append files.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| topicfs_fuzz::targets::append_lines::check(data));
