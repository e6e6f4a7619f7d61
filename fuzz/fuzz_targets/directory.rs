//! A whole partition directory through all views. Half of the mutations know what is in it.
#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use topicfs_fuzz::archive::Archive;
use topicfs_fuzz::damage::{self, Numbers};

fuzz_target!(|data: &[u8]| topicfs_fuzz::targets::directory::check(data));

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let mut numbers = Numbers::new(u64::from(seed));
    if numbers.below(4) == 0 {
        return fuzzer_mutate(data, size, max_size);
    }
    let mut archive = Archive::decode(&data[..size]);
    for _ in 0..=numbers.below(3) {
        damage::mutate(&mut archive, &mut numbers);
    }
    let out = archive.encode();
    let len = out.len().min(max_size);
    data[..len].copy_from_slice(&out[..len]);
    len
});
