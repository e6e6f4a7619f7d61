//! Names of directories and files on disk.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| topicfs_fuzz::targets::grammars::disk_names(data));
