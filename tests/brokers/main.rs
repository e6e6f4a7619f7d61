//! What Kafka itself says: its brokers and parts of it, in a JVM, beside what is done here. One program, so that one test works while another
//! waits for its broker.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that can't go on stops with a panic, also in its helpers"
)]

#[path = "../common/mod.rs"]
mod common;

mod append;
mod clean;
mod cluster;
mod compact;
mod events;
mod recover;
mod salvage;
mod truncate;
