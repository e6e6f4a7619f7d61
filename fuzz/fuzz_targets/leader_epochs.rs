//! `leader-epoch-checkpoint`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| topicfs_fuzz::targets::small_files::leader_epochs(data));
