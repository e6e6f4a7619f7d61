//! What the integration tests share: `mod common;` at the top of each.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test file takes only what it needs, and a test that can't go on stops with a panic"
)]

pub mod alike;
pub mod batch_lines;
pub mod batches;
pub mod compacting;
pub mod console;
pub mod crash;
pub mod crashes;
pub mod disk;
pub mod dumped;
pub mod events;
pub mod exposition;
pub mod fixtures;
pub mod growing;
pub mod kafka;
pub mod keyed;
pub mod logs;
pub mod lookers;
pub mod model;
pub mod mounted;
pub mod reader;
pub mod readers;
pub mod recovered;
pub mod recovering;
pub mod retaining;
pub mod salvaged;
pub mod shown;
pub mod story;
pub mod truncating;
pub mod upkept;
pub mod witness;
