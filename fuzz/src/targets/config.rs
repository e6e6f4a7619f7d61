//! The configuration: YAML files and `-o` words. What is accepted, written back, is read as the same.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use topicfs::config::{Caller, Config};

use crate::tree::scratch;

/// A configuration file.
pub fn yaml(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match load(text) {
        Ok(config) => comes_back(&config),
        Err(message) => assert!(!message.contains('\n'), "the message has several lines: {message}"),
    }
}

/// The words of several `-o`, one a line; the first byte says who wrote them.
pub fn words(data: &[u8]) {
    let Some((first, rest)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(rest) else { return };
    // A file that a word names would be read.
    if text.contains("config") {
        return;
    }
    let caller = [Caller::Person, Caller::MountHelper, Caller::SloppyMountHelper][usize::from(first % 3)];
    let words: Vec<String> = text.lines().map(str::to_owned).collect();
    match Config::load(None, &words, caller) {
        Ok(mut config) => {
            config.mount.log_file = None;
            comes_back(&config);
        }
        Err(error) => {
            let message = error.to_string();
            assert!(!message.contains('\n'), "the message has several lines: {message}");
        }
    }
}

/// Checks a configuration the first time that it is met.
fn comes_back(config: &Config) {
    thread_local!(static KNOWN: RefCell<Vec<Config>> = RefCell::default());
    if KNOWN.with_borrow(|known| known.contains(config)) {
        return;
    }
    let text = config.to_yaml();
    let again = load(&text).map(|again| {
        let topic = again.options.of_topic("x");
        (again.to_yaml(), topic, again.mount)
    });
    let expected = (text.clone(), config.options.of_topic("x"), config.mount.clone());
    assert_eq!(again, Ok(expected), "it doesn't come back from\n{text}");
    KNOWN.with_borrow_mut(|known| {
        if known.len() >= 64 {
            known.clear();
        }
        known.push(config.clone());
    });
}

fn load(text: &str) -> Result<Config, String> {
    static FILE: LazyLock<PathBuf> = LazyLock::new(|| scratch().join("topicfs.yaml"));
    let file: &Path = &FILE;
    std::fs::write(file, text).expect("the file can be written");
    Config::load(Some(file), &[], Caller::Person).map_err(|error| error.to_string())
}
