//! `topicfs index`

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::args::IndexArgs;
use super::complain;
use super::mount::open;
use super::progress;
use crate::config::Caller;
use crate::fs::{Fs, FsError, Node, names};
use crate::view::selection::Effort;

/// Measures every partition in the formats that listings show, so that sizes are known when they are asked for.
///
/// # Errors
/// When it could not run; the text says what would work.
pub fn run(args: &IndexArgs) -> anyhow::Result<ExitCode> {
    let fs = open(&args.source, &args.options.load(Caller::Person)?)?;
    let partitions = partitions(&fs)?;
    let bytes: u64 = partitions.iter().map(|(_, _, bytes)| bytes).sum();
    let bar = progress::bar(bytes);
    let failed = Mutex::new(Vec::new());
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some((path, node, bytes)) = partitions.get(next.fetch_add(1, Ordering::Relaxed)) {
                    bar.set_message(path.clone());
                    let measured = measure(&fs, node).and_then(|()| match args.by_key {
                        true => index_keys(&fs, node),
                        false => Ok(()),
                    });
                    if let Err(error) = measured {
                        failed
                            .lock()
                            .unwrap_or_else(std::sync::PoisonError::into_inner)
                            .push((path.clone(), error));
                    }
                    bar.inc(*bytes);
                }
            });
        }
    });
    bar.finish_and_clear();
    let mut code = ExitCode::SUCCESS;
    for (path, error) in failed.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner) {
        code = complain(&path, &error);
    }
    println!("{} partitions, {bytes} bytes measured", partitions.len());
    Ok(code)
}

/// All partitions: path, node and source bytes.
fn partitions(fs: &Fs) -> Result<Vec<(String, Node, u64)>, FsError> {
    let mut all = Vec::new();
    for (topic, partitions) in &fs.source().tree().topics {
        for partition in partitions {
            let path = format!("{topic}/{}", partition.label);
            let mut bytes = 0;
            for segment in partition.segments()?.iter() {
                bytes += segment.stored_len()?;
            }
            all.push((path.clone(), fs.resolve(&path)?, bytes));
        }
    }
    Ok(all)
}

/// The logs of a partition in the formats that listings show, and its times.
fn measure(fs: &Fs, partition: &Node) -> Result<(), FsError> {
    let Some(key) = partition.partition() else { return Ok(()) };
    for format in &fs.of_topic(&key.topic).formats_listed {
        let name = names::listed_name("log", *format, fs.formats());
        fs.attributes(0, &fs.child(partition, name.as_ref())?, Effort::Background)?;
    }
    let offsets = fs.child(partition, "offsets".as_ref())?;
    let largest = fs.child(&offsets, "max-timestamp".as_ref())?;
    match fs.attributes(0, &largest, Effort::Background) {
        // There may be no record with a time.
        Ok(_) | Err(FsError::NotFound) => Ok(()),
        Err(error) => Err(error),
    }
}

fn index_keys(fs: &Fs, partition: &Node) -> Result<(), FsError> {
    let Some(key) = partition.partition() else { return Ok(()) };
    Ok(fs.view(key)?.index_keys()?)
}
