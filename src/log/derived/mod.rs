//! What is made from batches and kept beside them, by Kafka's rules for recovery: pure, for everything that writes segments.
//!
//! | module | what |
//! |---|---|
//! | [`indexing`] | offset, time and transaction indexes |
//! | [`producers`] | producer state, and its snapshots |
//! | [`epochs`] | the leader epoch checkpoint |

pub mod epochs;
pub mod indexing;
pub mod producers;
