//! Looking after logs that are there: what goes, what stays, and what is cut, by Kafka's rules.
//!
//! | module | what |
//! |---|---|
//! | [`policy`] | what is to be done to a topic's logs, by Kafka's names of topic configurations |
//! | [`truncation`] | a log that is cut at an offset, as a follower does it |

pub mod policy;
pub mod truncation;
