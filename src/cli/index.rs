//! `topicfs index`

use std::process::ExitCode;
use std::sync::Arc;

use super::args::IndexArgs;
use super::complain;
use super::mount::open;
use super::progress;
use crate::config::Caller;
use crate::fs::{Fs, FsError, Node, names};
use crate::log::segment::Segment;
use crate::log::side_by_side::Crew;
use crate::view::partition_view::CHEAP_BYTES;
use crate::view::selection::Effort;

/// Measures every partition in the formats that listings show, so that sizes are known when they are asked for.
///
/// # Errors
/// When it could not run; the text says what would work.
pub fn run(args: &IndexArgs) -> anyhow::Result<ExitCode> {
    let fs = open(&args.source, &args.options.load(Caller::Person)?)?;
    let partitions = partitions(&fs)?;
    let bytes: u64 = partitions.iter().map(|partition| partition.bytes).sum();
    let bar = progress::bar(bytes);
    let crew = Crew::of_all_processors();
    // A partition may be all that there is: its segments are measured at the same time. What fails of one is met again with its partition,
    // or is gone by then, as where a broker deletes old ones.
    let segments: Vec<_> = partitions
        .iter()
        .flat_map(|of| of.large.iter().map(move |(segment, bytes)| (of, segment, bytes)))
        .collect();
    let measure_one = |(partition, segment, bytes): &(&Partition, &Arc<Segment>, &u64)| {
        bar.set_message(partition.path.clone());
        if let Err(error) = measure_segment(&fs, partition, segment) {
            tracing::debug!(partition = partition.path, %error, "a segment isn't measured by itself");
        }
        bar.inc(**bytes);
    };
    crew.each(&segments, measure_one, |()| anyhow::Ok(()))?;
    let measure_rest = |partition: &Partition| {
        bar.set_message(partition.path.clone());
        let measured = measure(&fs, &partition.node).and_then(|()| match args.by_key {
            true => index_keys(&fs, &partition.node),
            false => Ok(()),
        });
        bar.inc(partition.bytes - partition.large.iter().map(|(_, bytes)| bytes).sum::<u64>());
        measured.map_err(|error| (partition.path.clone(), error))
    };
    let mut failed = Vec::new();
    crew.each(&partitions, measure_rest, |measured| {
        failed.extend(measured.err());
        anyhow::Ok(())
    })?;
    bar.finish_and_clear();
    let mut code = ExitCode::SUCCESS;
    for (path, error) in failed {
        code = complain(&path, &error);
    }
    println!("{} partitions, {bytes} bytes measured", partitions.len());
    Ok(code)
}

/// A partition of the source.
struct Partition {
    path: String,
    node: Node,
    /// Source bytes.
    bytes: u64,
    /// Its segments that are worth a thread of their own, and the source bytes of each.
    large: Vec<(Arc<Segment>, u64)>,
}

/// All of them.
fn partitions(fs: &Fs) -> Result<Vec<Partition>, FsError> {
    let mut all = Vec::new();
    for (topic, partitions) in &fs.source().tree().topics {
        for partition in partitions {
            let path = format!("{topic}/{}", partition.label);
            let (mut bytes, mut large) = (0, Vec::new());
            for segment in partition.segments()?.iter() {
                let len = segment.stored_len()?;
                bytes += len;
                if len > CHEAP_BYTES {
                    large.push((segment.clone(), len));
                }
            }
            let node = fs.resolve(&path)?;
            all.push(Partition { path, node, bytes, large });
        }
    }
    Ok(all)
}

fn measure_segment(fs: &Fs, partition: &Partition, segment: &Arc<Segment>) -> Result<(), FsError> {
    let Some(key) = partition.node.partition() else { return Ok(()) };
    Ok(fs.view(key)?.measure_segment(segment, &fs.of_topic(&key.topic).formats_listed)?)
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
