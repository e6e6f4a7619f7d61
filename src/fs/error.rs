//! Errors of the file system, and the errno of each.

use std::io;

use crate::log::LogError;
use crate::log::append::appender::AppendError;
use crate::log::append::owned::OpenError;
use crate::log::append::recovery::RecoveryError;
use crate::log::append::topics::TopicError;
use crate::log::moment::Moment;
use crate::units::PartitionId;
use crate::view::lines::error::LineError;
use crate::view::lines::writer::WriteError;
use crate::view::partition_view::ViewError;

/// Why an operation failed.
#[derive(Debug, thiserror::Error)]
pub enum FsError {
    /// There is nothing of that name.
    #[error("no such file or directory")]
    NotFound,
    /// The name is none by the grammar of its directory.
    #[error("{name:?} is no name here: use {grammar}")]
    BadName {
        /// The name.
        name: String,
        /// What would be one.
        grammar: &'static str,
    },
    /// A file was used as a directory.
    #[error("not a directory")]
    NotADirectory,
    /// A directory was used as a file.
    #[error("is a directory")]
    IsADirectory,
    /// The kernel or a caller used an inode or handle that isn't there.
    #[error("stale file handle")]
    UnknownHandle,
    /// There is no such extended attribute.
    #[error("no such attribute")]
    NoAttribute,
    /// The mount has no extended attributes.
    #[error("extended attributes are turned off (noxattr)")]
    NoAttributes,
    /// What can't be written to.
    #[error("read-only file system")]
    ReadOnly,
    /// A line that is not appended.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A partition that can't be appended to.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A topic that can't be made or removed.
    #[error(transparent)]
    Topic(#[from] TopicError),
    /// What can be done elsewhere, or with other options.
    #[error("{reason}")]
    Refused {
        /// Why not.
        reason: String,
    },
    /// It is there already.
    #[error("it is there already")]
    Exists,
    /// Partitions come one after another.
    #[error("a topic's partitions have all numbers from 0: the next one is {next}")]
    BadPartition {
        /// The number of the next.
        next: PartitionId,
    },
    /// Bytes of the source could not be shown.
    #[error(transparent)]
    View(#[from] ViewError),
    /// A file of the source could not be read.
    #[error("{path}: {source}")]
    Source {
        /// The file.
        path: String,
        /// The system's error.
        source: io::Error,
    },
}

/// Does something, again where transactions were decided meanwhile: each time it is done with what is known then.
pub(super) fn again<T>(mut work: impl FnMut() -> Result<T, FsError>) -> Result<T, FsError> {
    /// More than enough, and an end.
    const TRIES: usize = 100;
    for _ in 0..TRIES {
        match work() {
            Err(FsError::View(ViewError::Log(LogError::Outrun { .. }))) => Moment::again(),
            done => return done,
        }
    }
    work()
}

/// What names there are in `by-offset`.
pub const BY_OFFSET: &str = "an offset (12345), last-N, A~N, A+N or a range (A..B, A.., ..B, A..+N), alone or with .txt, .jsonl, \
                             .tsv, .log, .dump or a format of yours; one record also with .key or .json";
/// What names there are in `by-time`.
pub const BY_TIME: &str = "a date or time (2026-11-29, 2026-11-29T10:05), 10 or 13 digits, or a range of these or of last-15m \
                           (A..B, A.., ..B, A..+90s), alone or with .txt, .jsonl, .tsv, .log, .dump or a format of yours";
/// What names there are in `offsets`.
pub const OFFSETS: &str = "earliest, latest, high-watermark, last-stable, max-timestamp, epoch-N, a time (2026-11-29T10:05, last-15m, \
                           10 or 13 digits), last-N, A~N or A+N";

impl From<LogError> for FsError {
    fn from(error: LogError) -> Self {
        Self::View(ViewError::Log(error))
    }
}

impl FsError {
    /// A name that isn't one by a grammar.
    pub fn bad_name(name: &str, grammar: &'static str) -> Self {
        Self::BadName { name: name.to_owned(), grammar }
    }

    /// The errno that a caller of the system call gets.
    pub fn errno(&self) -> i32 {
        match self {
            Self::NotFound | Self::BadName { .. } => libc::ENOENT,
            Self::NotADirectory => libc::ENOTDIR,
            Self::IsADirectory => libc::EISDIR,
            Self::UnknownHandle
            | Self::View(ViewError::Log(LogError::Stale { .. } | LogError::Outrun { .. })) => libc::ESTALE,
            Self::NoAttribute => libc::ENODATA,
            Self::NoAttributes => libc::ENOSYS,
            Self::ReadOnly => libc::EROFS,
            Self::Refused { .. } => libc::EPERM,
            Self::Exists => libc::EEXIST,
            Self::BadPartition { .. }
            | Self::Topic(TopicError::Name { .. } | TopicError::Collision { .. }) => libc::EINVAL,
            Self::Write(WriteError::Line { error: LineError::TooLong { .. }, .. }) => libc::EMSGSIZE,
            Self::Write(WriteError::Line { .. }) => libc::EINVAL,
            Self::Write(WriteError::Append(error)) => errno_of_append(error),
            Self::Topic(TopicError::Log(error)) | Self::Open(OpenError::Log(error)) => errno_of_log(error),
            Self::Open(OpenError::Recovery(RecoveryError::Log(error))) => errno_of_log(error),
            Self::Open(OpenError::Recovery(RecoveryError::Packed { .. } | RecoveryError::NoFile { .. })) => {
                libc::EROFS
            }
            Self::Open(OpenError::NeedsRecovery { .. }) => libc::EIO,
            Self::View(ViewError::Damaged { .. } | ViewError::Log(LogError::NotASource { .. })) => libc::EIO,
            Self::View(ViewError::Log(LogError::Io { source, .. })) | Self::Source { source, .. } => {
                errno_of(source)
            }
        }
    }

    /// The level at which it is logged: what callers ask for in vain is no event.
    pub const fn level(&self) -> tracing::Level {
        match self {
            Self::NotFound
            | Self::BadName { .. }
            | Self::NotADirectory
            | Self::IsADirectory
            | Self::NoAttribute
            | Self::NoAttributes
            | Self::Exists
            // Told where it was refused.
            | Self::Write(_)
            | Self::ReadOnly => tracing::Level::DEBUG,
            Self::UnknownHandle
            | Self::View(ViewError::Log(LogError::Stale { .. } | LogError::Outrun { .. })) => {
                tracing::Level::INFO
            }
            Self::View(_) | Self::Source { .. } | Self::Open(_) | Self::Topic(_) => tracing::Level::WARN,
            Self::Refused { .. } | Self::BadPartition { .. } => tracing::Level::WARN,
        }
    }
}

/// What a writer gets.
fn errno_of_append(error: &AppendError) -> i32 {
    match error {
        AppendError::TooLarge { .. } => libc::EMSGSIZE,
        AppendError::NoKey => libc::EINVAL,
        AppendError::LockLost { .. } => libc::EROFS,
        AppendError::Broken { .. } => libc::EIO,
        AppendError::OpenTransaction { .. } => libc::EPERM,
        AppendError::Gone { .. } | AppendError::Closed { .. } => libc::ESTALE,
        AppendError::Log(error) => errno_of_log(error),
    }
}

/// What a writer gets: of a full disk, what it has to be told.
fn errno_of_log(error: &LogError) -> i32 {
    match error {
        LogError::Io { source, .. } => match source.raw_os_error() {
            Some(errno @ (libc::ENOSPC | libc::EDQUOT | libc::EROFS | libc::EEXIST | libc::EFBIG)) => errno,
            _ => errno_of(source),
        },
        LogError::Stale { .. } | LogError::Outrun { .. } => libc::ESTALE,
        LogError::NotASource { .. } => libc::EIO,
    }
}

/// A source's own errno where it means the same to the reader, otherwise EIO.
fn errno_of(error: &io::Error) -> i32 {
    match error.raw_os_error() {
        Some(errno @ (libc::EACCES | libc::EPERM | libc::ENOMEM | libc::EMFILE | libc::ENFILE)) => errno,
        Some(libc::ENOENT) => libc::ESTALE,
        _ => libc::EIO,
    }
}
