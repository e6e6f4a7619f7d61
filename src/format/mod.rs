//! Kafka's storage format: bytes in, borrowed values out.
//!
//! No files, no clocks, no logging. No function here panics on any input, and none allocates more than
//! [`Limits`](batch::Limits) allow.
//!
//! | module | what |
//! |---|---|
//! | [`batch`] | one entry of a `.log` of any magic: header, checksum, its records |
//! | [`batch_builder`] | batches of magic 2 from records |
//! | [`batch_rewriter`] | what is left of a batch that records were taken from |
//! | [`message_set`] | what is special about magic 0 and 1 (before KIP-98) |
//! | [`record`] | one record and its headers |
//! | [`unchecked`] | entries and records as they say of themselves, right or not |
//! | [`compression`] | gzip, snappy, lz4 and zstd in the framings that Kafka and its clients write |
//! | [`crc32c`] | the checksum of magic 2 and of snapshots |
//! | [`control`], [`kraft_control`] | control records: transaction markers and KRaft's |
//! | [`metadata_record`] | what the records of the cluster's metadata say of topics and configs |
//! | [`index`] | `.index`, `.timeindex`, `.txnindex` |
//! | [`checkpoint`] | the text checkpoints |
//! | [`snapshot`] | producer snapshots |
//! | [`properties`] | `meta.properties`, `server.properties` |
//! | [`partition_metadata`] | the topic's id |
//! | [`uuid`] | Kafka's text form of ids |
//! | [`names`] | names of directories and files |
//! | [`file_kind`] | what a file is, as its name says |

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects,
        clippy::as_conversions
    )
)]

pub mod batch;
pub mod batch_builder;
pub mod batch_rewriter;
pub mod checkpoint;
pub mod compression;
pub mod control;
pub mod crc32c;
pub mod file_kind;
pub mod index;
pub mod kraft_control;
pub mod message_set;
pub mod metadata_record;
pub mod names;
pub mod partition_metadata;
pub mod properties;
pub mod record;
pub mod snapshot;
pub mod unchecked;
pub mod uuid;

mod cursor;
mod error;
mod records;
#[cfg(test)]
pub(crate) mod testing;
mod written_record;
