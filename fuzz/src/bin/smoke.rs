//! A short run without libFuzzer: each target's seeds, and some thousand mutations of them, the same ones each time.
//!
//! `smoke [RUNS [TARGET]]`, or `smoke FILE TARGET` for one input. Ends with 1 at the first finding, whose input is in `fuzz/artifacts/`.

use std::fs;
use std::panic;
use std::path::Path;

use topicfs_fuzz::archive::Archive;
use topicfs_fuzz::damage::{self, Numbers};
use topicfs_fuzz::{TARGETS, oracle, seeds};

/// Mutations of each format.
const RUNS: usize = 100_000;
/// Mutations of directories for each thousand of a format.
const DIRECTORIES: usize = 25;
/// How often a long run says how far it is.
const TOLD: usize = 5000;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [file, target] = words.as_slice()
        && let Ok(input) = fs::read(file)
    {
        let (name, check, _) = TARGETS.iter().find(|(name, ..)| name == target).expect("a target");
        return run(name, *check, &input);
    }
    let runs = words.first().map_or(RUNS, |runs| runs.parse().expect("RUNS is a number"));
    let corpora = seeds::all();
    for (name, check, max_len) in TARGETS {
        if words.get(1).is_some_and(|wanted| wanted != name) {
            continue;
        }
        let seeds: Vec<Vec<u8>> = corpora[name].values().cloned().collect();
        let runs = if name == "directory" { runs * DIRECTORIES / 1000 } else { runs };
        let mut numbers = Numbers::new(1);
        for seed in &seeds {
            run(name, check, seed);
        }
        for number in 1..=runs {
            let seed = &seeds[numbers.below(seeds.len())];
            run(name, check, &mutated(name, seed, max_len, &mut numbers));
            if name == "directory" && number % TOLD == 0 {
                eprintln!("{name}: {number} of {runs} mutations");
            }
        }
        println!("{name}: {} seeds and {runs} mutations", seeds.len());
    }
}

fn mutated(name: &str, seed: &[u8], max_len: usize, numbers: &mut Numbers) -> Vec<u8> {
    let rounds = 1 + numbers.below(4);
    if name == "directory" {
        let mut archive = Archive::decode(seed);
        (0..rounds).for_each(|_| damage::mutate(&mut archive, numbers));
        return archive.encode();
    }
    let mut input = seed.to_vec();
    (0..rounds).for_each(|_| damage::change_bytes(&mut input, numbers));
    input.truncate(max_len);
    input
}

fn run(name: &str, check: fn(&[u8]), input: &[u8]) {
    if panic::catch_unwind(|| check(input)).is_err() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("artifacts").join(name);
        let file = directory.join(format!("smoke-{:08x}", oracle::crc32c(input)));
        fs::create_dir_all(&directory).and_then(|()| fs::write(&file, input)).expect("it can be kept");
        eprintln!("{name}: the input is in {}", file.display());
        std::process::exit(1);
    }
}
