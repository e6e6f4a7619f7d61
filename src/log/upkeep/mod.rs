//! Looking after logs that are there: what goes, what stays, and what is cut, by Kafka's rules.
//!
//! | module | what |
//! |---|---|
//! | [`policy`] | what is to be done to a topic's logs, by Kafka's names of topic configurations |
//! | [`reindex`] | indexes, snapshots and epochs made anew of logs |
//! | [`truncation`] | a log that is cut at an offset, as a follower does it |

pub mod policy;
pub mod reindex;
pub mod truncation;
