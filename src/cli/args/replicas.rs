//! The grammar of commands for copies of partitions: compared, cut, and given new indexes.

use std::path::PathBuf;

use clap::Args;

use super::{OptionArgs, ReportFormat};

/// `topicfs diff`
#[derive(Debug, Args)]
#[command(after_help = DIFF_EXAMPLES)]
pub struct DiffArgs {
    /// As for `mount`; it is only read, and a broker may run
    pub a: String,
    /// The same, with another copy
    pub b: String,
    /// Partitions or whole topics, as in `ls`; all of both if none
    #[arg(value_name = "TOPIC[/PARTITION]")]
    pub partitions: Vec<String>,
    /// How the report is printed; json has one line for each partition
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    pub format: ReportFormat,
    /// What is read and how.
    #[command(flatten)]
    pub options: OptionArgs,
}

const DIFF_EXAMPLES: &str = "\
Records are compared, not files: segments may begin elsewhere. After an unclean leader election
it says where two replicas part, what each of them alone has, and at which offset one cuts its
log when the other leads.

Examples:
  topicfs diff data-1 data-2
  topicfs diff data-1 data-2 orders payments/0
  topicfs diff old/orders-0 new/orders-0
  topicfs diff --format json data-1 data-2 | jq 'select(.parts)'

Exit codes: 0 all records are the same, 1 they are not, 2 it could not run.";

/// `topicfs truncate`
#[derive(Debug, Args)]
#[command(after_help = TRUNCATE_EXAMPLES)]
#[group(id = "cut_bytes", multiple = true, required = true, args = ["keep", "discard", "dry_run"])]
pub struct TruncateArgs {
    /// A data directory, several with commas between, or a server.properties; no broker may run on it
    pub source: String,
    /// TOPIC/PARTITION
    pub partition: String,
    /// The first offset that goes
    #[arg(long, value_name = "OFFSET", value_parser = clap::value_parser!(i64).range(0..))]
    pub to: i64,
    /// An empty or missing directory for what is cut
    #[arg(long, value_name = "DIR")]
    pub keep: Option<PathBuf>,
    /// Keep nothing of what is cut
    #[arg(long, conflicts_with = "keep")]
    pub discard: bool,
    /// Say what would be cut, and change nothing; a broker may run
    #[arg(long)]
    pub dry_run: bool,
    /// Don't ask
    #[arg(long, short = 'y')]
    pub yes: bool,
    /// How it is written, with the names of Kafka's topic configurations.
    #[command(flatten)]
    pub options: OptionArgs,
}

/// What `truncate --help` begins with.
pub const TRUNCATE_ABOUT: &str = "\
Cut a partition at an offset, as a follower does

Of what is left, indexes, producer snapshots, leader epochs and checkpoints are as Kafka
leaves them. A batch that reaches across the offset goes whole. What is cut is kept in
segments that can be read, unless --discard is given.";

const TRUNCATE_EXAMPLES: &str = "\
Examples:
  topicfs truncate --dry-run data orders/0 --to 1234
  topicfs truncate data orders/0 --to 1234 --keep /var/tmp/cut
  topicfs cat /var/tmp/cut orders/0/log.jsonl              what was cut
  topicfs truncate --yes --discard data orders/0 --to 1234

`topicfs diff` says at which offset two copies part. docs/replicas.md has an example.

Exit codes: 0 it is cut, or nothing had to be; 2 nobody said yes, or it could not run.";

/// `topicfs reindex`
#[derive(Debug, Args)]
#[command(after_help = REINDEX_EXAMPLES)]
pub struct ReindexArgs {
    /// A data directory, several with commas between, or a server.properties; no broker may run on it.
    /// With --into as for `mount`, and only read
    pub source: String,
    /// Partitions or whole topics, as in `ls`; all if none
    #[arg(value_name = "TOPIC[/PARTITION]")]
    pub partitions: Vec<String>,
    /// Say what would be made, and change nothing; a broker may run
    #[arg(long)]
    pub dry_run: bool,
    /// Write to this empty or missing directory, and leave the source as it is
    #[arg(long, value_name = "DIR", conflicts_with = "dry_run")]
    pub into: Option<PathBuf>,
    /// How it is written: index.interval.bytes and segment.index.bytes count here.
    #[command(flatten)]
    pub options: OptionArgs,
}

const REINDEX_EXAMPLES: &str = "\
Logs are read from their beginning and stay as they are, damage and all; what is sound in them
is indexed. A file that says the same already is left alone.

Examples:
  topicfs reindex --dry-run data
  topicfs reindex data orders payments/0
  topicfs reindex -o index.interval.bytes=1024 data
  topicfs reindex --into indexes backup

Exit codes: 0 it is done, 1 logs are damaged, or a partition can't be indexed, 2 it could not run.";
