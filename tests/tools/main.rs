//! The tools that people use, on a mount: each answer is the one that the same tool gives on plain copies.
//!
//! `matrix.rs` says what is right and what isn't, with the reason; the other tests hold that against what happens, and
//! `docs/tools.md` against it. `cargo test --test tools -- --nocapture` prints the tables; with `TOPICFS_BLESS=1` the document
//! is written.
#![allow(
    unreachable_pub,
    clippy::expect_used,
    clippy::panic,
    reason = "a test says what is wrong by failing, and its modules are its own"
)]

#[path = "../common/mod.rs"]
mod common;

mod changing;
mod document;
mod following;
mod matrix;
mod reading;
mod script;
mod walking;
