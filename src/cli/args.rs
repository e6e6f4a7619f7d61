//! The grammar of the command line, with its help texts.

mod replicas;
pub mod upkeep;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use super::logging::Level;
use crate::config::{self, Caller, Config};
pub use replicas::{DiffArgs, ReindexArgs, TRUNCATE_ABOUT, TruncateArgs};

/// Kafka data directories as plain files.
#[derive(Debug, Parser)]
#[command(name = "topicfs", version, propagate_version = true, max_term_width = 100, after_help = EXAMPLES)]
pub struct TopicFs {
    /// Say error, warn, info, debug or trace in the log; RUST_LOG selects by module
    #[arg(long, global = true, value_name = "LEVEL", hide_possible_values = true, display_order = 900)]
    pub log_level: Option<Level>,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show a data directory as files at a mountpoint
    Mount(MountArgs),
    /// Take a mount away, also a dead one
    Umount(UmountArgs),
    /// Mount sample data to try things on
    Demo(DemoArgs),
    /// List a directory of the tree, without a mount
    Ls(LsArgs),
    /// Print files of the tree, without a mount
    Cat(CatArgs),
    /// Print the end of files of the tree, without a mount
    Tail(TailArgs),
    /// Measure everything now, so that sizes are known later
    Index(IndexArgs),
    /// Print checksum, size, time and content of every file of a source
    Manifest(ManifestArgs),
    /// Write what is sound of a source as clean data directories
    Salvage(SalvageArgs),
    /// Append lines of standard input to a partition, without a mount
    Append(AppendArgs),
    /// Repair what an unclean stop has left, and keep what is cut
    Recover(RecoverArgs),
    /// Delete and compact what is due by the policies of topics, or say why not
    Clean(upkeep::CleanArgs),
    /// Make indexes, producer snapshots and leader epochs anew of the logs
    Reindex(ReindexArgs),
    /// Compare two copies of partitions, and say what a follower would cut
    Diff(DiffArgs),
    /// Cut a partition at an offset, as a follower does
    #[command(long_about = TRUNCATE_ABOUT)]
    Truncate(TruncateArgs),
    /// Print segments, indexes, snapshots and checkpoints as kafka-dump-log does
    #[command(long_about = DUMP_ABOUT)]
    Dump(DumpArgs),
    /// Check every batch, index, snapshot and checkpoint
    Verify(VerifyArgs),
    /// Check a configuration file
    Config(ConfigArgs),
    /// Print a completion script for a shell
    Completions(CompletionsArgs),
    /// Print the manual page, or write all of them
    Man(ManArgs),
}

/// The same for `mount` and for what works without one.
#[derive(Debug, Clone, Default, Args)]
pub struct OptionArgs {
    /// Options with commas between; `topicfs mount --help` lists them
    #[arg(short = 'o', value_name = "OPT,..")]
    pub options: Vec<String>,
    /// A YAML file with the same options; -o wins over it
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

impl OptionArgs {
    /// The configuration that they make.
    ///
    /// # Errors
    /// For the first option that isn't one.
    pub fn load(&self, caller: Caller) -> anyhow::Result<Config> {
        Ok(Config::load(self.config.as_deref(), &self.options, caller)?)
    }
}

/// `topicfs mount`
#[derive(Debug, Args)]
#[command(after_help = mount_examples())]
pub struct MountArgs {
    /// A data directory, several with commas between, a server.properties, a partition directory or a segment file
    pub source: String,
    /// An empty directory
    pub mountpoint: PathBuf,
    /// What is shown and how.
    #[command(flatten)]
    pub options: OptionArgs,
    /// Append records, too: lines written to `append` files. No broker may run on the directory
    #[arg(long)]
    pub rw: bool,
    /// Stay in the foreground, with messages on stderr
    #[arg(long)]
    pub foreground: bool,
    /// Append messages to this file instead of syslog
    #[arg(long, value_name = "FILE")]
    pub log_file: Option<PathBuf>,
}

/// `topicfs append`
#[derive(Debug, Args)]
#[command(after_help = APPEND_EXAMPLES)]
pub struct AppendArgs {
    /// A data directory, several with commas between, or a server.properties; no broker may run on it
    pub source: String,
    /// TOPIC/PARTITION: lines are values; with .jsonl, .tsv, .nul or .blob behind it as the append files of a mount
    pub partition: String,
    /// How it is written, with the names of Kafka's topic configurations.
    #[command(flatten)]
    pub options: OptionArgs,
    /// Make the topic or partition if it is not there
    #[arg(long)]
    pub create: bool,
}

/// `topicfs recover`
#[derive(Debug, Args)]
#[command(after_help = RECOVER_EXAMPLES)]
pub struct RecoverArgs {
    /// A data directory, several with commas between, or a server.properties; no broker may run on it
    pub source: String,
    /// Say what would be done, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// An empty or missing directory for what is cut, if that is more than torn or zero tails
    #[arg(long, value_name = "DIR")]
    pub quarantine: Option<PathBuf>,
    /// How it is written, with the names of Kafka's topic configurations.
    #[command(flatten)]
    pub options: OptionArgs,
}

const APPEND_EXAMPLES: &str = "\
Examples:
  topicfs append data notes/0 < notes.txt
  journalctl -o json | topicfs append --create -o compression.type=zstd data journal/0
  topicfs cat data orders/0/log.jsonl | topicfs append other orders/0.jsonl

Exit status: 0 all is appended and durable; 2 a line was refused, or it could not run.";

const RECOVER_EXAMPLES: &str = "\
Examples:
  topicfs recover --dry-run data
  topicfs recover --quarantine /var/tmp/cut data

Exit status: 0 all partitions are sound now (with --dry-run: lack no more than a torn or zero
tail), 1 something has to be cut that --quarantine DIR would keep, 2 it could not run.";

/// `topicfs umount`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  topicfs umount /mnt/k\n  topicfs umount --lazy /mnt/k")]
pub struct UmountArgs {
    /// Where it is mounted
    pub mountpoint: PathBuf,
    /// Let those finish who still read from it
    #[arg(long, short = 'l')]
    pub lazy: bool,
}

/// `topicfs demo`
#[derive(Debug, Args)]
#[command(after_help = "The sample data ends with the command: it lies in a new directory below TMPDIR.")]
pub struct DemoArgs {
    /// Run a tour of commands through the mount, and end
    #[arg(long)]
    pub tour: bool,
}

/// `topicfs ls`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  topicfs ls data\n  topicfs ls -l data orders/0 'orders/*/tail'")]
pub struct LsArgs {
    /// As for `mount`
    pub source: String,
    /// Paths in the tree, globs too; its root if none
    pub paths: Vec<String>,
    /// Show modes, sizes and times
    #[arg(long, short = 'l')]
    pub long: bool,
    /// What is shown and how.
    #[command(flatten)]
    pub options: OptionArgs,
}

/// `topicfs cat`
#[derive(Debug, Args)]
#[command(after_help = CAT_EXAMPLES)]
pub struct CatArgs {
    /// As for `mount`
    pub source: String,
    /// Paths in the tree, globs too
    #[arg(required = true)]
    pub paths: Vec<String>,
    /// What is shown and how.
    #[command(flatten)]
    pub options: OptionArgs,
}

/// `topicfs tail`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  topicfs tail data orders/0/log\n  topicfs tail -f -n 0 data orders/0/log.jsonl"
)]
pub struct TailArgs {
    /// As for `mount`
    pub source: String,
    /// Paths in the tree, globs too
    #[arg(required = true)]
    pub paths: Vec<String>,
    /// How many lines
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10)]
    pub lines: u64,
    /// Go on as the files grow
    #[arg(short = 'f', long)]
    pub follow: bool,
    /// What is shown and how.
    #[command(flatten)]
    pub options: OptionArgs,
}

/// `topicfs index`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  topicfs index /var/lib/kafka/data\n  topicfs index -o formats_listed=jsonl data\n  topicfs index --by-key data"
)]
pub struct IndexArgs {
    /// As for `mount`
    pub source: String,
    /// Build the indexes of by-key too
    #[arg(long)]
    pub by_key: bool,
    /// What is shown and how.
    #[command(flatten)]
    pub options: OptionArgs,
}

/// `topicfs manifest`
#[derive(Debug, Args)]
#[command(after_help = MANIFEST_EXAMPLES)]
pub struct ManifestArgs {
    /// As for `mount`; also any other directory or file
    #[arg(required = true, value_name = "SOURCE")]
    pub sources: Vec<String>,
    /// How a file is written
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "text")]
    pub format: ManifestFormat,
    /// What is read and how.
    #[command(flatten)]
    pub options: OptionArgs,
}

/// How `topicfs manifest` writes a file.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub enum ManifestFormat {
    /// A line with tabs between its columns, which the first line names
    Text,
    /// A JSON object a line
    Json,
    /// Checksums alone, as sha256sum prints them, for `sha256sum -c`
    Sha256sum,
}

/// `topicfs salvage`
#[derive(Debug, Args)]
#[command(after_help = SALVAGE_EXAMPLES)]
pub struct SalvageArgs {
    /// As for `mount`; it is only read
    pub source: String,
    /// Partitions as in `ls`, globs too; all that are in use if none
    #[arg(value_name = "TOPIC[/PARTITION]")]
    pub partitions: Vec<String>,
    /// Where to write: a new or an empty directory, outside of the source
    #[arg(short = 'o', long, value_name = "DIR")]
    pub out: PathBuf,
    /// Write nothing; say what would be kept and left
    #[arg(long)]
    pub dry_run: bool,
    /// Stamp all batches with leader epoch 0, for a topic that was made anew: its followers take no higher one
    #[arg(long)]
    pub reset_epochs: bool,
    /// How the report is printed
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    pub format: ReportFormat,
    /// Options as after -o of `mount`: follow_symlinks, max_batch_bytes and max_decoded_bytes count here
    #[arg(long = "option", value_name = "OPT,..")]
    pub options: Vec<String>,
    /// A YAML file with the same options
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// `topicfs verify`
#[derive(Debug, Args)]
#[command(after_help = VERIFY_HELP)]
pub struct VerifyArgs {
    /// As for `mount`, or one file: an index, a snapshot, a checkpoint
    #[arg(required = true)]
    pub sources: Vec<String>,
    /// How problems are printed, one a line
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    pub format: ReportFormat,
    /// Print problems alone: no notes, no summary, no progress
    #[arg(short = 'q', long)]
    pub quiet: bool,
    /// What is read and how.
    #[command(flatten)]
    pub options: OptionArgs,
}

/// How a report is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum ReportFormat {
    /// For people
    Text,
    /// For scripts: one JSON object
    Json,
}

/// `topicfs dump`
#[derive(Debug, Args)]
#[command(after_help = DUMP_EXAMPLES)]
#[group(id = "dumped", multiple = true, required = true)]
pub struct DumpArgs {
    /// Files of a data directory, of a backup or of a bucket
    #[arg(value_name = "FILE", group = "dumped")]
    pub paths: Vec<PathBuf>,
    /// More files, with commas between
    #[arg(long, value_name = "FILE,..", value_delimiter = ',', group = "dumped")]
    pub files: Vec<PathBuf>,
    /// Print keys and values too; a decoder class means that as well
    #[arg(long)]
    pub print_data_log: bool,
    /// Print a line for each record; printing keys and values means that as well
    #[arg(long)]
    pub deep_iteration: bool,
    /// Leave out all but keys and values of records
    #[arg(long)]
    pub skip_record_metadata: bool,
    /// Read no more than this of each log
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(i32).range(0..))]
    pub max_bytes: Option<i32>,
    /// Accepted; batches of any size are read
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(i32).range(0..))]
    pub max_message_size: Option<i32>,
    /// Compare indexes with their log and don't print them
    #[arg(long)]
    pub verify_index_only: bool,
    /// Check of indexes only what a broker decides by whether to rebuild them
    #[arg(long)]
    pub index_sanity_check: bool,
    /// How keys are printed
    #[arg(long, value_name = "CLASS", num_args = 0..=1, default_missing_value = "StringDecoder")]
    pub key_decoder_class: Option<String>,
    /// How values are printed
    #[arg(long, value_name = "CLASS", num_args = 0..=1, default_missing_value = "StringDecoder")]
    pub value_decoder_class: Option<String>,
    /// kafka-dump-log's decoders of internal topics, which are not there yet.
    #[command(flatten)]
    pub decoders: DecoderArgs,
}

/// kafka-dump-log's decoders of internal topics.
#[derive(Debug, Args)]
pub struct DecoderArgs {
    /// Not there yet
    #[arg(long, hide = true)]
    pub offsets_decoder: bool,
    /// Not there yet
    #[arg(long, hide = true)]
    pub transaction_log_decoder: bool,
    /// Not there yet
    #[arg(long, hide = true)]
    pub cluster_metadata_decoder: bool,
    /// Not there yet
    #[arg(long, hide = true)]
    pub remote_log_metadata_decoder: bool,
    /// Not there yet
    #[arg(long, hide = true)]
    pub share_group_state_decoder: bool,
}

/// `topicfs config`
#[derive(Debug, Args)]
pub struct ConfigArgs {
    /// What to do with it.
    #[command(subcommand)]
    pub command: ConfigCommand,
}

/// What to do with a configuration file.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Read it as `mount` would, and say what is wrong or that it is fine
    Check(CheckArgs),
}

/// `topicfs config check`
#[derive(Debug, Args)]
#[command(after_help = CHECK_EXAMPLES)]
pub struct CheckArgs {
    /// The file
    pub file: PathBuf,
    /// Say which topics there the patterns of `topics:` stand for; as for `mount`
    pub source: Option<String>,
}

/// `topicfs completions`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  topicfs completions bash > /etc/bash_completion.d/topicfs")]
pub struct CompletionsArgs {
    /// Which shell
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}

/// `topicfs man`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  topicfs man | man -l -\n  topicfs man --out /usr/local/share/man/man1")]
pub struct ManArgs {
    /// Write the pages of all commands into this directory
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// Mount a data directory, as mount(8) asks for it
#[derive(Debug, Parser)]
#[command(name = "mount.topicfs", version, after_help = FSTAB_EXAMPLE)]
pub struct HelperArgs {
    /// As for `topicfs mount`
    pub source: String,
    /// Where to mount
    pub mountpoint: PathBuf,
    /// Options with commas between; `topicfs mount --help` lists them
    #[arg(short = 'o', value_name = "OPT,..")]
    pub options: Vec<String>,
    /// Ignore unknown options
    #[arg(short = 's')]
    pub sloppy: bool,
    /// Check everything and mount nothing
    #[arg(short = 'f')]
    pub fake: bool,
    /// Accepted; there is no mtab to leave alone
    #[arg(short = 'n')]
    pub no_mtab: bool,
    /// Say what is mounted
    #[arg(short = 'v')]
    pub verbose: bool,
    /// Accepted; the type is always fuse.topicfs
    #[arg(short = 't', value_name = "TYPE")]
    pub fs_type: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  topicfs demo                                     try it on sample data
  topicfs mount /var/lib/kafka/data /mnt/k         then ls, cat, grep, tail -f, jq ...
  topicfs umount /mnt/k
  topicfs cat /var/lib/kafka/data orders/0/log     the same bytes without a mount

Exit codes: 0 fine, 1 something was found wrong, 2 could not run.";

const CAT_EXAMPLES: &str = "\
Examples:
  topicfs cat data orders/0/log | grep 4711
  topicfs cat -o isolation=read_committed data orders/0/log.jsonl | jq .value
  topicfs cat data orders/all/follow.jsonl         what comes, as it comes; ^C ends it
  topicfs cat data-a,data-b 'orders/*/by-offset/last-1'";

const MANIFEST_EXAMPLES: &str = "\
Examples:
  topicfs manifest data > evidence.txt
  topicfs manifest --format json data | jq -r 'select(.damage) | .path'
  topicfs manifest --format sha256sum data > SHA256SUMS     then: sha256sum -c SHA256SUMS

The whole source is read, each byte once.
Exit codes: 0 fine, 1 a file could not be read or is damaged, 2 could not run.";
const SALVAGE_EXAMPLES: &str = "\
Whole sound batches are copied byte for byte; indexes, snapshots and epochs are made anew. What was left
is listed with file, position, bytes, offsets and cause. docs/salvage.md says how a broker gets the result.

Examples:
  topicfs salvage --dry-run -o /mnt/new/data /var/lib/kafka/data
  topicfs salvage -o /mnt/new/data /var/lib/kafka/data
  topicfs salvage -o out data 'orders/*' payments/0
  topicfs salvage -o out data orders/0.stray              a leftover, only by name
  topicfs salvage --reset-epochs -o out data 'orders/*'   to put into a new topic
  topicfs salvage --format json -o out orders-0 > report.json

Exit codes: 0 all was kept, 1 something was left, 2 could not run.";
const DUMP_ABOUT: &str = "\
Print segments, indexes, snapshots and checkpoints as kafka-dump-log does

The text is that of kafka-dump-log 4.4.0, byte for byte. Where that stops at damage, lines that begin with
`topicfs: ` tell place and cause, and the dump goes on. Mismatches between an index and its log are told on
stderr in Kafka's words, without its false alarms; docs/dump.md lists every difference.

Decoder classes are org.apache.kafka.tools.api.StringDecoder, IntegerDecoder, LongDecoder and DefaultDecoder.";

const DUMP_EXAMPLES: &str = "\
Examples:
  topicfs dump --print-data-log orders-0/00000000000000000000.log | less
  topicfs dump --verify-index-only orders-0/*.index orders-0/*.timeindex
  topicfs dump orders-0/leader-epoch-checkpoint meta.properties

Exit codes: 0 fine, 1 damage or a mismatch was found, 2 could not run.";
const VERIFY_HELP: &str = "\
A line has file, position, length, offset, kind and cause. The summary goes to standard error.
docs/verify.md says what each kind means, what a broker does with it, and what to do.

Exit codes: 0 sound (notes may be told), 1 problems, 2 could not run.

Examples:
  topicfs verify /var/lib/kafka/data
  topicfs verify --format json data-a data-b | jq -r 'select(.severity == \"problem\") | .kind'
  topicfs verify -q orders-0 payments-3/00000000000000000042.log
  topicfs verify orders-0/00000000000000000042.index";

const CHECK_EXAMPLES: &str = "\
An error has file, line and column. A pattern that no topic matches is none: the topic may come.

Examples:
  topicfs config check /etc/topicfs.yaml
  topicfs config check /etc/topicfs.yaml /var/lib/kafka/data

Exit codes: 0 fine, 2 wrong, or could not run.";

const FSTAB_EXAMPLE: &str = "\
In /etc/fstab:
  /var/lib/kafka/data  /mnt/k  fuse.topicfs  ro,nofail,allow_other,config=/etc/topicfs.yaml  0 0";

fn mount_examples() -> String {
    format!(
        "\
Options for -o and, in YAML, for --config (defaults first or in brackets):
{}  config=FILE, log_file=FILE  for /etc/fstab, like --config and --log-file

SIZE is 64MiB, 2G or bytes, TIME is 10s or 500ms, F:F.. is txt:jsonl, ZONE is Europe/Berlin.
A comma in a value is `\\,`.

A file can have options of some topics alone (those above that stand before measure_wait):

  topics:
    'audit-*':
      isolation: read_committed
      timezone: Europe/Berlin

and formats of your own, as format strings of kcat, for `log.csv`, `by-offset/12.csv` and so on:

  formats:
    csv: '%o,%{{T:iso}},%k,%s\\n'

The command returns once the mount serves, and the mount stays until `topicfs umount` or a signal.

Examples:
  topicfs mount /var/lib/kafka/data /mnt/k
  topicfs mount -o isolation=read_committed,up_to=high-watermark data-a,data-b /mnt/k
  topicfs mount --config mount-configs/forensics.yaml /evidence/server.properties /mnt/k
  topicfs mount --foreground orders-0/00000000000000000000.log /mnt/k",
        config::help()
    )
}
