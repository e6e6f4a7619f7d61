//! Records of the cluster's metadata.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| topicfs_fuzz::targets::small_files::metadata_record(data));
