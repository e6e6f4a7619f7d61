//! The bar of work that takes long, for a person who waits: on a terminal only, and never in the output.

use std::io::{self, IsTerminal};

use indicatif::{ProgressBar, ProgressStyle};

/// A bar on standard error for so many partitions; hidden where that is no terminal.
pub fn counter(partitions: u64) -> ProgressBar {
    styled(partitions, "{bar:40} {pos}/{len} {eta}  {msg}")
}

/// A bar on standard error for so many bytes; hidden where that is no terminal.
pub fn bar(bytes: u64) -> ProgressBar {
    styled(bytes, "{bar:40} {bytes}/{total_bytes} {bytes_per_sec} {eta}  {msg}")
}

fn styled(len: u64, template: &str) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(len).with_style(style)
}
