//! Decompresses all batches of a segment and does nothing else with them: the ceiling for reading compressed partitions (`benches/fast.py`).
//! The segment is read, and its batches are found, before the time begins. Prints the seconds.
//!
//! ```sh
//! cargo run --release --example decompress -- SEGMENT.log [THREADS]
//! ```

use std::io;
use std::time::Instant;

use topicfs::format::batch::{Batch, Decoder, Limits};

fn main() -> io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (segment, threads) = match &words[..] {
        [segment] => (segment, 1),
        [segment, threads] => (segment, threads.parse().map_err(io::Error::other)?),
        _ => return Err(io::Error::other("usage: decompress SEGMENT.log [THREADS]")),
    };
    let bytes = std::fs::read(segment)?;
    let mut batches = Vec::new();
    let mut rest = bytes.as_slice();
    while !rest.is_empty() {
        let batch = Batch::parse(rest).map_err(|error| io::Error::other(error.to_string()))?;
        rest = rest.get(batch.bytes.len()..).unwrap_or_default();
        batches.push(batch);
    }
    let begun = Instant::now();
    let share = batches.len().div_ceil(threads);
    std::thread::scope(|scope| {
        let all: Vec<_> = batches.chunks(share).map(|some| scope.spawn(|| decompress(some))).collect();
        all.into_iter().try_for_each(|one| one.join().map_err(|_| io::Error::other("a thread panicked"))?)
    })?;
    println!("{:.4}", begun.elapsed().as_secs_f64());
    Ok(())
}

fn decompress(batches: &[Batch<'_>]) -> io::Result<()> {
    let (mut decoder, limits) = (Decoder::default(), Limits::default());
    for batch in batches {
        // They are decompressed at once, and read one by one, which nobody asks for.
        std::hint::black_box(
            batch.records(&mut decoder, &limits).map_err(|error| io::Error::other(error.to_string()))?,
        );
    }
    Ok(())
}
