//! Looking after logs that are there: what goes, what stays, and what is cut, by Kafka's rules.
//!
//! | module | what |
//! |---|---|
//! | [`policy`] | what is to be done to a topic's logs, by Kafka's names of topic configurations |
//! | [`work`] | doing what is due |
//! | [`survey`] | what of a log is due |
//! | [`compaction`] | of each key the last record stays |
//! | `removal` | segments that get out of the way |
//! | [`listing`] | the segments of a directory, without reading them |
//! | [`retention`] | which segments are too old, too many, or below the log start |
//! | [`reindex`] | indexes, snapshots and epochs made anew of logs |
//! | [`truncation`] | a log that is cut at an offset, as a follower does it |

pub mod compaction;
pub mod listing;
pub mod policy;
pub mod reindex;
pub mod removal;
pub mod retention;
pub mod survey;
pub mod truncation;
pub mod work;
