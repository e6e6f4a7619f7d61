//! `-o opt,opt=value`: our options, and the words that fstab and mount(8) mix in.

use std::path::PathBuf;

use super::keys::{self, AnyKey};
use super::value::Value;
use super::{ConfigError, suggestion};

/// Who wrote the words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caller {
    /// Somebody at a prompt: `rw` is a mistake.
    Person,
    /// mount(8), which says `rw` wherever fstab doesn't say `ro`.
    MountHelper,
    /// The same with `-s`: unknown words are ignored.
    SloppyMountHelper,
}

/// Words that concern mount(8), systemd or the kernel; a mount is always `nosuid,nodev,noexec,ro`.
const IGNORED: &[&str] = &[
    "ro", "defaults", "auto", "noauto", "user", "nouser", "users", "group", "owner", "nofail", "_netdev",
    "exec", "noexec", "suid", "nosuid", "dev", "nodev", "atime", "noatime", "relatime", "async",
];

/// What follows `-o`, sorted.
#[derive(Default)]
pub(super) struct Words {
    pub(super) config_file: Option<PathBuf>,
    pub(super) log_file: Option<PathBuf>,
    pub(super) settings: Vec<(AnyKey, Word)>,
}

/// What stood after the `=` of a word, if there was one.
pub(super) struct Word(Option<String>);

impl Word {
    /// The value to assign.
    pub(super) fn value(&self) -> Value {
        self.0.clone().map_or(Value::Bare, Value::Word)
    }

    /// The word as it was written.
    pub(super) fn shown(&self, name: &str) -> String {
        let value = self.0.as_ref().map(|value| format!("={value}")).unwrap_or_default();
        format!("{name}{value}").escape_debug().to_string()
    }
}

/// Sorts the words of all `-o`. A comma that belongs to a value is written `\,`.
pub(super) fn split(options: &[String], caller: Caller) -> Result<Words, ConfigError> {
    let mut words = Words::default();
    for word in options.iter().flat_map(|option| at_commas(option)) {
        add(&mut words, &word, caller)?;
    }
    Ok(words)
}

fn add(words: &mut Words, word: &str, caller: Caller) -> Result<(), ConfigError> {
    let (name, value) = match word.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (word, None),
    };
    if is_ignored(name, value.is_some(), caller) {
        return Ok(());
    }
    let error = |message: String| ConfigError::Word { word: word.escape_debug().to_string(), message };
    match (name, value) {
        ("config", Some(path)) => words.config_file = Some(PathBuf::from(path)),
        ("log_file", Some(path)) => words.log_file = Some(PathBuf::from(path)),
        ("config" | "log_file", None) => return Err(error(format!("expected `{name}=FILE`"))),
        ("formats" | "topics", _) => {
            return Err(error("that is a section of the file that `config=FILE` names".to_owned()));
        }
        ("rw", None) => {
            return Err(error(
                "a mount is read-only unless it is for appending: `--rw`, or the option `append`".to_owned(),
            ));
        }
        (name, value) => match AnyKey::find(name) {
            Some(key) => words.settings.push((key, Word(value))),
            None if caller == Caller::SloppyMountHelper => {}
            None => return Err(error(format!("unknown option{}", near_option(name)))),
        },
    }
    Ok(())
}

fn is_ignored(name: &str, has_value: bool, caller: Caller) -> bool {
    let from_mount = caller != Caller::Person && name == "rw";
    let plain = !has_value && (IGNORED.contains(&name) || name.is_empty() || from_mount);
    plain || name == "comment" || name.starts_with("x-") || name.starts_with("X-")
}

fn near_option(name: &str) -> String {
    let names = keys::names().chain(["config", "log_file"]).chain(IGNORED.iter().copied());
    match suggestion(name, names) {
        near if near.is_empty() => "; `topicfs mount --help` lists them".to_owned(),
        near => near,
    }
}

/// The parts between commas; `\,` is a comma and `\\` a backslash.
fn at_commas(option: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut chars = option.chars();
    while let Some(char) = chars.next() {
        let part = match (char, parts.last_mut()) {
            (',', _) | (_, None) => {
                parts.push(String::new());
                continue;
            }
            (_, Some(part)) => part,
        };
        match char {
            '\\' => match chars.next() {
                Some(escaped @ (',' | '\\')) => part.push(escaped),
                other => part.extend(['\\'].into_iter().chain(other)),
            },
            other => part.push(other),
        }
    }
    parts
}
