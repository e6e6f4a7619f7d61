//! What the user chose: a YAML file, then `-o` words over it, over the defaults.
//!
//! [`keys`] has all options, in two tables: those that each topic can have its own of, and the rest. A file and `-o` are two ways to fill it, the effective configuration
//! (`.topicfs/config.yaml`) is the tables written back, and the help text is printed from it.
//!
//! | module | what |
//! |---|---|
//! | `keys` | the tables: name, kind of value, where it is kept |
//! | `kind` | kinds of values |
//! | `value` | values as users write them: `64MiB`, `10s`, lists |
//! | `words` | `-o opt,opt=value`, and what fstab and mount(8) add to it |
//! | `yaml` | the file, with its sections `topics:` and `formats:` |
//!
//! Never opens anything but the file that it is given.

mod keys;
mod kind;
mod value;
mod words;
mod yaml;

use std::path::{Path, PathBuf};

use crate::fs::options::{Access, Options};

pub use keys::help;
pub use words::Caller;

/// Everything that the user chose.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Config {
    /// How the source is shown.
    pub options: Options,
    /// What concerns a mount only.
    pub mount: MountOptions,
}

/// What concerns a mount only.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MountOptions {
    /// Whether users other than the one who mounts may enter.
    pub allow_other: bool,
    /// Whether the mountpoint may have content, which the mount hides.
    pub nonempty: bool,
    /// Whether records can be appended.
    pub append: bool,
    /// Where messages go (`-o log_file=`), for fstab, which has no other place to say it.
    pub log_file: Option<PathBuf>,
}

/// Why a configuration can't be used. Its text is one line.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file can't be read.
    #[error("{}: {cause}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: std::io::Error,
    },
    /// The file says something that isn't an option or a value.
    #[error("{}:{line}:{column}: {message}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
        /// What is wrong, and what would be right.
        message: String,
    },
    /// So does a word of `-o`.
    #[error("-o {word}: {message}")]
    Word {
        /// The word.
        word: String,
        /// What is wrong, and what would be right.
        message: String,
    },
}

impl Config {
    /// Puts `-o` words over a configuration file over the defaults.
    ///
    /// `file` is what `--config` named; `-o config=FILE` names one too (for fstab) and counts if `file` is not given.
    ///
    /// # Errors
    /// [`ConfigError`] for the first thing that isn't right.
    pub fn load(file: Option<&Path>, options: &[String], caller: Caller) -> Result<Self, ConfigError> {
        let words = words::split(options, caller)?;
        let mut config = Self::default();
        if let Some(path) = file.or(words.config_file.as_deref()) {
            let read = std::fs::read_to_string(path);
            let text = read.map_err(|cause| ConfigError::Unreadable { path: path.to_owned(), cause })?;
            yaml::read(&mut config, path, &text)?;
        }
        config.mount.log_file = words.log_file;
        for (key, input) in words.settings {
            let message = key.assign(&mut config, &input.value());
            message.map_err(|message| ConfigError::Word { word: input.shown(key.name()), message })?;
        }
        let from_source = config.mount.allow_other;
        config.options.access = if from_source { Access::FromSource } else { Access::OwnerOnly };
        Ok(config)
    }

    /// The whole configuration as a file that [`Config::load`] reads back to the same.
    pub fn to_yaml(&self) -> String {
        yaml::write(self)
    }
}

/// The candidate that `word` was probably meant to be.
fn near<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let distance = |candidate: &&str| strsim::damerau_levenshtein(&word.to_lowercase(), candidate);
    let nearest = candidates.min_by_key(distance)?;
    (distance(&nearest) <= 1 + nearest.len() / 4).then_some(nearest)
}

/// `, did you mean ...?`, or nothing where no candidate is near.
fn suggestion<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> String {
    near(word, candidates).map(|near| format!(", did you mean `{near}`?")).unwrap_or_default()
}

#[cfg(test)]
mod tests;
