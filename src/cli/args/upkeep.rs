//! The grammar of the commands that look after logs.

use clap::Args;

use super::OptionArgs;

/// `topicfs clean`
#[derive(Debug, Args)]
#[command(after_help = CLEAN_EXAMPLES)]
pub struct CleanArgs {
    /// A data directory, several with commas between, or a server.properties
    pub source: String,
    /// Partitions such as orders/0, or topics; all of them if none is named
    #[arg(value_name = "TOPIC[/PARTITION]")]
    pub partitions: Vec<String>,
    /// Say what would be done and why, and change nothing; a broker may run meanwhile
    #[arg(long)]
    pub dry_run: bool,
    /// The policy, with the names of Kafka's topic configurations.
    #[command(flatten)]
    pub options: OptionArgs,
}

const CLEAN_EXAMPLES: &str = "\
Nothing is deleted or compacted unless a policy is named for its topic: cleanup.policy (delete,
compact, or compact:delete), retention.ms or retention.bytes, by -o or in the file of --config,
there also for each topic; or by the cluster that a broker's directory belongs to.

Examples:
  topicfs clean --dry-run data
  topicfs clean --dry-run -o cleanup.policy=delete,retention.ms=7d data orders
  topicfs clean --config upkeep.yaml data

Exit status: 0 all that is due is done (with --dry-run: all was looked at), 1 some partition could
not be looked at or cleaned, 2 it could not run.";
