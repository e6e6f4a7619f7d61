//! Small files that are text of ours, made anew at each open.

use std::path::Path;

use crate::fs::metrics;
use crate::fs::mounted::Fs;
use crate::fs::node::ControlFile;
use crate::log::partition::Origin;
use crate::log::problem::{Kind, Problem};
use crate::log::verify;
use crate::view::partition_view::PartitionView;

/// How `README.txt` begins, in a mount that only reads.
pub const READ_ONLY: &str = "\
This is a Kafka data directory, shown as files by topicfs. Nothing here can be changed, and nothing in the source is.

";

/// How it begins in a mount for appending.
pub const FOR_APPENDING: &str = "\
This is a Kafka data directory, shown as files by topicfs, and mounted for appending: what is written to these files becomes records. All
else can't be changed.

  <topic>/<partition>/
    append              a line is a value:  echo hello >> notes/0/append
    append.tsv          key and value, or the columns of .tsv;  append.jsonl  objects as .jsonl has them
    append.nul          a NUL ends a value;  append.blob  a file is a value:  cp photo.jpg notes/0/append.blob
  mkdir TOPIC           makes a topic with one partition;  mkdir TOPIC/N  the next one
  .topicfs/problems     why a line was refused

";

/// The rest of `README.txt` at the root.
pub const README: &str = "\
  topics.tsv            topic, partition, start, end, bytes, time of the last batch; no line of names:
                          column -t topics.tsv;  sort -nk5 topics.tsv;  awk '{n += $5} END {print n}' topics.tsv
  <topic>/info          the same of a topic, with the count of records where it is known; info.json
  <topic>/<partition>/
    log  log.jsonl      every record: values one a line, or JSON objects
    tail  tail.jsonl    the last tail_records, up to twice as many; grows while it is open:  tail -f tail.jsonl
    follow  follow.jsonl  by name only: what comes; reading waits:  cat follow.jsonl | jq --unbuffered .value
    by-offset/12345     the exact value of one record;  12345.json  everything about it
    by-offset/A..B.jsonl  a range;  last-10...jsonl  the last ten;  ls by-offset, README.txt there
    by-key/KEY          the latest value of a key;  by-key/KEY.jsonl  all its records;  by-key/README.txt
    by-time/2026-11-29/   the records of a day;  by-time/last-15m...jsonl  of the last quarter of an hour;  README.txt there
    offsets/latest      one number a file;  offsets/2026-11-29T10:00  the first offset at or after a time
    by-segment/         one file of records for each segment
    segments/           the source files, byte for byte
    dump/               the same names, as text in the words of kafka-dump-log
    info  info.json     segments, offsets, sizes, times
    problems            damage met so far; empty when there is none. topicfs verify SOURCE reads everything
    suspect.jsonl       by name only: records that are left out elsewhere, since they are not to be trusted

  <topic>/all/          the same of all partitions, merged by time: log, tail, follow, by-time, by-key

Every rendered file takes the extensions .txt, .jsonl, .tsv, .log, .dump, and those of `formats:` in the configuration, also
where it isn't listed.
.topicfs/ has the version, the configuration in force, builds (indexes in the making), metrics (what the mount did and holds, as
Prometheus reads it), and the problems of the data directories and of partitions looked at; by name only: manifest, manifest.json and manifest.sha256, which read the whole source to say what its files are.
";

/// `by-offset/README.txt`.
pub const BY_OFFSET_README: &str = "\
Names here are made when you open them; a listing would have one for every record.

  12345                 the exact value of record 12345 (ENOENT if there is none)
  12345.key             its key
  12345.txt .jsonl .tsv rendered;  .json  everything about record and batch;  .log  its batch as a segment
  last-1                the last record;  last-7  the seventh from the end (also -1, -7)
  12345~7   12345+7     the seventh record before, after offset 12345: records that exist
  100..200.jsonl        records 100 to 199 in one file, in any of the formats
  100...txt             from 100 to the end (the range is 100.. and then .txt)
  ..200.tsv             from the start
  last-10...jsonl       the last ten
  100..+50.jsonl        fifty records from 100 on
  12345~3..+7.jsonl     what stood around 12345
  100..200.log          the batches that hold them, byte for byte: a valid segment;  .dump  as text
  100..200/             a directory with one file for each record
  100../follow.jsonl    from 100 on, and then what comes; reading waits
";

/// `by-key/README.txt`.
pub const BY_KEY_README: &str = "\
Names here are made when you open them. The first one that is opened reads the partition once, to build an index; see
.topicfs/builds for how far it is, or build it beforehand: topicfs index --by-key SOURCE

  order-4711            the latest value of the key order-4711, its exact bytes; ENOENT when the latest record is a
                        tombstone, or the key never was
  order-4711.jsonl      all records of the key, tombstones too, in order;  .txt .tsv and so on
  order-4711.json       everything about its latest record, a tombstone too;  order-4711.key  the key's exact bytes
  a%2Fb  %C3%A9         all bytes but printable ASCII, and % and /, are two hex digits
  %2Ehidden             so is a dot at the beginning,
  report%2Ejson         and the last one of a key that ends in the name of a format
  %                     the empty key.  A record whose key is null is in no file
  abc%~0123456789abcdef a key whose name would have more than 192 bytes: how it begins, then the first 16 hex digits of its
                        SHA-256; how much of the beginning stands there doesn't matter

ls shows the keys that have a value where the mount has by_key.listed=true; otherwise nothing but this.
";

/// `by-time/README.txt`.
pub const BY_TIME_README: &str = "\
The days listed here may have records; all other names are made when you open them.

  2026-11-29/           a day: a directory of its hours, 10.txt, 10.jsonl ...
  2026-11-29.jsonl      all of it in one file, in any of the formats;  2026-11.jsonl  a month;  2026.jsonl  a year
  2026-11-29T10.txt     an hour;  2026-11-29T10:05  a minute;  2026-11-29T10:05:07  a second
  2026-11-29T10Z  2026-11-29T10+02:00    with an offset from UTC; otherwise in the configured timezone (UTC)
  1795391861.txt        a second since 1970 (10 digits);  1795391861357  a millisecond (13)
  2026-11-29T10..2026-11-29T11:30.jsonl  a range; the end is exclusive
  2026-11-29T10...txt   from then on (the range is 2026-11-29T10.. and then .txt);  ..2026-11-29.txt  up to then
  2026-11-29T10..+90s.jsonl              so long from then on: w d h m s ms, as in 1h30m
  last-15m...jsonl      the last quarter of an hour;  last-1h..last-30m.txt
  2026-11-29T10/        a directory with one file for each record
  last-1h../follow.jsonl   from then on, and then what comes; reading waits

Every record whose own timestamp lies in the period is there, in the order of offsets, also when timestamps are out of order. An end that is
open or relative is fixed when the name is looked up.
";

/// `offsets/README.txt`.
pub const OFFSETS_README: &str = "\
Each file is one offset, a decimal number, as a broker answers a consumer.

  earliest              the log start offset
  latest                the offset of the next record; under @committed, that of the first undecided transaction
  high-watermark        replicated below, as the broker wrote it last
  last-stable           all transactions below are decided
  max-timestamp         the first record with the largest timestamp
  epoch-7               where leader epoch 7 ended, or the last one before it
  2026-11-29T10:05  last-15m  1795391861  1795391861357
                        the first record at or after a time (10 digits are seconds, 13 milliseconds)
  12345~7  12345+7  last-7
                        the seventh record before, after, from the end

No such file where there is no such record. As for a broker, transaction markers and records of aborted transactions have times, too.
";

/// The content of a file in `.topicfs`.
pub fn control_file(fs: &Fs, file: ControlFile) -> Vec<u8> {
    match file {
        ControlFile::Version => format!("topicfs {}\n", env!("CARGO_PKG_VERSION")).into_bytes(),
        ControlFile::Config => fs.config_text().as_bytes().to_vec(),
        ControlFile::Problems => problems(fs),
        ControlFile::Builds => builds(fs),
        ControlFile::Metrics => metrics::text(fs),
        // Made as it is read.
        ControlFile::Manifest(_) => Vec::new(),
    }
}

/// The indexes that are being built: partition, kind, bytes of the source read and to be read, and percent.
fn builds(fs: &Fs) -> Vec<u8> {
    let mut out = String::new();
    for (path, view) in fs.known_views() {
        if let Some((done, total)) = view.key_progress() {
            let percent = done.saturating_mul(100) / total.max(1);
            out.push_str(&format!("{path}\tby-key\t{done}\t{total}\t{percent}%\n"));
        }
    }
    out.into_bytes()
}

/// What the tops of the data directories say, then what is known of each partition that was looked at.
fn problems(fs: &Fs) -> Vec<u8> {
    let mut out = Vec::new();
    let mut tell = |problem: &Problem| {
        out.extend_from_slice(problem.line(&problem.file.to_string_lossy()).as_bytes());
    };
    fs.source().tree().notes.iter().for_each(&mut tell);
    for directory in fs.source().data_directories() {
        verify::top_checks(directory).iter().for_each(&mut tell);
    }
    cluster_problems(fs).iter().for_each(&mut tell);
    fs.refused_lines().iter().for_each(&mut tell);
    for (_, view) in fs.known_views() {
        known_problems(&view).iter().for_each(&mut tell);
    }
    out
}

/// What can't be read of the cluster's metadata, and values in it that can't be.
fn cluster_problems(fs: &Fs) -> Vec<Problem> {
    let mut problems = fs.cluster().now().problems.clone();
    for topic in fs.source().tree().topics.keys() {
        let refused = fs.configs_of(topic).refused.into_iter();
        problems.extend(refused.map(|cause| {
            Problem::of_file(Path::new(&fs.source().spec), Kind::Metadata, format!("{topic}: {cause}"))
        }));
    }
    problems
}

/// The `problems` of a partition, one line each.
pub fn partition_problems(view: &PartitionView) -> Vec<u8> {
    let name =
        |problem: &Problem| problem.file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    known_problems(view).iter().map(|problem| problem.line(&name(problem))).collect::<String>().into_bytes()
}

/// What reading met so far, and what the small files say now.
fn known_problems(view: &PartitionView) -> Vec<Problem> {
    let mut known = view.problems.met();
    if let Origin::Directory(directory) = &view.partition.origin {
        known.extend(verify::cheap_checks(directory));
    }
    known.extend(view.partition.notes());
    known.sort_by(|a, b| (&a.file, a.position).cmp(&(&b.file, b.position)));
    known
}
