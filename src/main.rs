//! The `topicfs` command.

fn main() {}
