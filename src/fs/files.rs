//! Small files that are text of ours, made anew at each open.

use crate::fs::mounted::Fs;
use crate::fs::node::ControlFile;
use crate::log::partition::Origin;
use crate::log::problem::Problem;
use crate::log::verify;
use crate::view::partition_view::PartitionView;

/// `README.txt` at the root.
pub const README: &str = "\
This is a Kafka data directory, shown as files by topicfs. Nothing here can be changed, and nothing in the source is.

  <topic>/<partition>/
    log  log.jsonl      every record: values one a line, or JSON objects
    tail  tail.jsonl    the last tail_records, up to twice as many; grows while it is open:  tail -f tail.jsonl
    by-offset/12345     the exact value of one record;  12345.json  everything about it
    by-offset/A..B.jsonl  a range;  last-10...jsonl  the last ten;  ls by-offset, README.txt there
    by-segment/         one file of records for each segment
    segments/           the source files, byte for byte
    dump/               the same names, as text in the words of kafka-dump-log
    info  info.json     segments, offsets, sizes, times
    problems            damage met so far; empty when there is none. topicfs verify SOURCE reads everything
    suspect.jsonl       by name only: records that are left out elsewhere, since they are not to be trusted

Every rendered file takes the extensions .txt, .jsonl, .tsv, .log, .dump, and those of `formats:` in the configuration, also
where it isn't listed.
.topicfs/ has the version, the configuration in force, and the problems of the data directories and of partitions looked
at; by name only: manifest, manifest.json and manifest.sha256, which read the whole source to say what its files are.
";

/// `by-offset/README.txt`.
pub const BY_OFFSET_README: &str = "\
Names here are made when you open them; a listing would have one for every record.

  12345                 the exact value of record 12345 (ENOENT if there is none)
  12345.key             its key
  12345.txt .jsonl .tsv rendered;  .json  everything about record and batch;  .log  its batch as a segment
  last-1                the last record;  last-7  the seventh from the end (also -1, -7)
  100..200.jsonl        records 100 to 199 in one file, in any of the formats
  100...txt             from 100 to the end (the range is 100.. and then .txt)
  ..200.tsv             from the start
  last-10...jsonl       the last ten
  100..+50.jsonl        fifty records from 100 on
  100..200.log          the batches that hold them, byte for byte: a valid segment;  .dump  as text
  100..200/             a directory with one file for each record
";

/// The content of a file in `.topicfs`.
pub fn control_file(fs: &Fs, file: ControlFile) -> Vec<u8> {
    match file {
        ControlFile::Version => format!("topicfs {}\n", env!("CARGO_PKG_VERSION")).into_bytes(),
        ControlFile::Config => fs.config_text().as_bytes().to_vec(),
        ControlFile::Problems => problems(fs),
        // Made as it is read.
        ControlFile::Manifest(_) => Vec::new(),
    }
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
    for (_, view) in fs.known_views() {
        known_problems(&view).iter().for_each(&mut tell);
    }
    out
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
