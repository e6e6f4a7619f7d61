//! No target: writes the corpora and ends, with `-runs=0`. It is built with the targets, so that all is built once.
#![no_main]

libfuzzer_sys::fuzz_target!(init: topicfs_fuzz::seeds::make(), |_data: &[u8]| {});
