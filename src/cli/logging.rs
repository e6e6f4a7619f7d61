//! Where messages go: stderr, a file, or syslog for a mount in the background.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use anyhow::Context;
use syslog::{Facility, Formatter3164, Logger, LoggerBackend};
use tracing::Metadata;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// How much is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Level {
    /// What failed
    Error,
    /// And what looks wrong
    Warn,
    /// And what happens
    Info,
    /// And what is done
    Debug,
    /// And everything else
    Trace,
}

/// Where messages go.
pub enum To {
    /// The terminal, or the service manager's journal.
    Stderr,
    /// A file that was opened with [`open_file`].
    File(File),
    /// The system's log.
    Syslog(Syslog),
}

/// Starts logging, for the rest of the process.
///
/// What is said is decided by `--log-level`, else by the variable RUST_LOG, else it is `usual`.
///
/// # Errors
/// When RUST_LOG is not a filter.
pub fn start(to: To, level: Option<Level>, usual: Level) -> anyhow::Result<()> {
    let from_env = std::env::var("RUST_LOG").ok().filter(|text| level.is_none() && !text.is_empty());
    let text = from_env.clone().unwrap_or_else(|| directives(level.unwrap_or(usual)));
    let filter = EnvFilter::try_new(&text).with_context(|| format!("RUST_LOG={text} is not a log filter"))?;
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_target(false).with_ansi(false);
    // A second start (in tests) keeps the first destination.
    let _ = match to {
        To::Stderr => lines.with_writer(io::stderr).try_init(),
        To::File(file) => lines.with_writer(Mutex::new(file)).try_init(),
        To::Syslog(syslog) => lines.without_time().with_level(false).with_writer(syslog).try_init(),
    };
    Ok(())
}

/// fuser says at `info` what we say better, and at `debug` every request: RUST_LOG=fuser=debug shows those.
fn directives(level: Level) -> String {
    let level = format!("{level:?}").to_lowercase();
    format!("{level},fuser=warn")
}

/// Opens a log file for appending; a new one is the user's alone, since messages may quote data.
///
/// # Errors
/// When it can't be written.
pub fn open_file(path: &Path) -> anyhow::Result<File> {
    let opened = OpenOptions::new().append(true).create(true).mode(0o600).open(path);
    opened.with_context(|| format!("log file {}", path.display()))
}

/// Panics are messages too: nobody sees the stderr of a mount in the background.
pub fn catch_panics() {
    std::panic::set_hook(Box::new(|panic| tracing::error!("internal error: {panic}")));
}

/// The system's log.
pub struct Syslog(Mutex<Logger<LoggerBackend, Formatter3164>>);

impl Syslog {
    /// Connects to it.
    ///
    /// # Errors
    /// Where no daemon listens, as in most containers.
    pub fn connect() -> Result<Self, syslog::Error> {
        let formatter = Formatter3164 {
            facility: Facility::LOG_DAEMON,
            hostname: None,
            process: "topicfs".to_owned(),
            pid: std::process::id(),
        };
        syslog::unix(formatter).map(|logger| Self(Mutex::new(logger)))
    }
}

impl<'a> MakeWriter<'a> for Syslog {
    type Writer = Entry<'a>;

    fn make_writer(&'a self) -> Entry<'a> {
        Entry { log: self, level: tracing::Level::INFO }
    }

    fn make_writer_for(&'a self, event: &Metadata<'_>) -> Entry<'a> {
        Entry { log: self, level: *event.level() }
    }
}

/// One message on its way to syslog.
pub struct Entry<'a> {
    log: &'a Syslog,
    level: tracing::Level,
}

impl Write for Entry<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        let text = text.trim_end();
        let mut log = self.log.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Messages that syslog doesn't take are lost: there is nowhere else to say so.
        let _ = match self.level {
            tracing::Level::ERROR => log.err(text),
            tracing::Level::WARN => log.warning(text),
            tracing::Level::INFO => log.info(text),
            _ => log.debug(text),
        };
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_filters() {
        for level in [Level::Error, Level::Warn, Level::Info, Level::Debug, Level::Trace] {
            assert!(EnvFilter::try_new(directives(level)).is_ok());
        }
        assert_eq!(directives(Level::Debug), "debug,fuser=warn");
    }

    #[test]
    fn a_log_file_is_private_and_grows() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        open_file(&path).unwrap().write_all(b"a\n").unwrap();
        open_file(&path).unwrap().write_all(b"b\n").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"a\nb\n");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let error = open_file(&directory.path().join("no/log")).unwrap_err();
        assert!(format!("{error:#}").contains("no/log: No such file"), "{error:#}");
    }
}
