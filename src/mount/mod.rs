//! A file system in its place: checks, mounting, serving, signals, unmounting.
//!
//! | module | what |
//! |---|---|
//! | [`checks`] | everything that can be wrong before mounting, with what would work |
//! | [`session`] | mounting with the right flags, serving, and the proof that it serves |
//! | [`background`] | two processes: one that serves, one that waits until it does |
//! | [`signals`] | ^C and SIGTERM unmount |
//! | [`unmount`] | `umount`, also of what is busy or dead |
//! | [`mountinfo`] | what is mounted where |
//! | [`ready`] | systemd's readiness protocol |
//! | [`sys`] | libc |
//!
//! Knows nothing of Kafka: a source is a list of paths here, and the file system is any [`fuser::Filesystem`].

pub mod background;
pub mod checks;
pub mod mountinfo;
pub mod ready;
pub mod session;
pub mod signals;
pub mod sys;
pub mod unmount;

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// The type that our mounts have in mountinfo, for root and users alike: `findmnt -t fuse.topicfs`.
pub const FS_TYPE: &str = "fuse.topicfs";

/// Why a mount can't be made. The text is one line: the thing, the cause, what would work.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// Nothing at the mountpoint.
    #[error("mountpoint {path} does not exist; `mkdir -p {path}` makes it", path = .0.display())]
    Missing(PathBuf),
    /// A file at the mountpoint.
    #[error("mountpoint {path} is not a directory; mount on an empty directory", path = .0.display())]
    NotADirectory(PathBuf),
    /// The mountpoint can't be looked at.
    #[error("mountpoint {}: {cause}", path.display())]
    Unreachable {
        /// The mountpoint.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// Something in the mountpoint.
    #[error(
        "mountpoint {path} is not empty; use an empty directory, or `-o nonempty` to hide what it holds",
        path = .0.display()
    )]
    NotEmpty(PathBuf),
    /// A mount of ours at the mountpoint.
    #[error(
        "{source_name} is already mounted on {path}; `topicfs umount {path}` frees it",
        path = path.display()
    )]
    AlreadyOurs {
        /// The mountpoint.
        path: PathBuf,
        /// What is mounted.
        source_name: String,
    },
    /// Another mount at the mountpoint.
    #[error(
        "{source_name} ({fs_type}) is already mounted on {}; use another directory, or `-o nonempty` to \
         mount over it",
        path.display()
    )]
    AlreadyMounted {
        /// The mountpoint.
        path: PathBuf,
        /// What is mounted.
        source_name: String,
        /// Its type.
        fs_type: String,
    },
    /// A mount whose process has ended.
    #[error(
        "{path} is a dead {fs_type} mount (transport endpoint is not connected); `umount -l {path}` as root \
         or `fusermount3 -uz {path}` as its owner frees it",
        path = path.display()
    )]
    Dead {
        /// The mountpoint.
        path: PathBuf,
        /// Its type.
        fs_type: String,
    },
    /// The mount would show itself.
    #[error(
        "mountpoint {} lies inside the source {}; use a directory outside it",
        path.display(), source_path.display()
    )]
    InsideSource {
        /// The mountpoint.
        path: PathBuf,
        /// The source.
        source_path: PathBuf,
    },
    /// The mount would hide what it reads.
    #[error(
        "mountpoint {} would hide the source {}; use a directory that doesn't hold it",
        path.display(), source_path.display()
    )]
    HidesSource {
        /// The mountpoint.
        path: PathBuf,
        /// The source.
        source_path: PathBuf,
    },
    /// The source is one of our mounts.
    #[error(
        "source {} lies in the topicfs mount on {}; name the data directory itself",
        source_path.display(), mount.display()
    )]
    SourceInMount {
        /// The source.
        source_path: PathBuf,
        /// The mount.
        mount: PathBuf,
    },
    /// A kernel or container without FUSE.
    #[error(
        "/dev/fuse does not exist; `modprobe fuse` makes it, a container needs `--device /dev/fuse --cap-add \
         SYS_ADMIN`; `topicfs ls`, `cat` and `tail` work without it"
    )]
    NoDevice,
    /// FUSE is not for this user.
    #[error(
        "/dev/fuse: {0}; `chmod 666 /dev/fuse` as root lets users mount; `topicfs ls`, `cat` and `tail` \
         work without it"
    )]
    DeviceRefused(io::Error),
    /// A user without the helper that mounts for users.
    #[error(
        "users need fusermount3 to mount, which is not here; install the package fuse3, or mount as root"
    )]
    NoHelper,
    /// A user may not let others in.
    #[error(
        "allow_other is refused to users; the line `user_allow_other` in /etc/fuse.conf permits it, or mount \
         as root"
    )]
    AllowOtherRefused,
    /// The kernel or fusermount3 refused.
    #[error("mounting on {} failed: {cause}", path.display())]
    Refused {
        /// The mountpoint.
        path: PathBuf,
        /// What was said.
        cause: String,
    },
    /// Mounted, and then no answer through the mount.
    #[error("mounted on {}, but no answer came through the mount: {cause}", path.display())]
    Silent {
        /// The mountpoint.
        path: PathBuf,
        /// What came instead.
        cause: io::Error,
    },
    /// Serving came to a bad end.
    #[error("serving {} failed: {cause}", path.display())]
    Ended {
        /// The mountpoint.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
}

/// How long a mount has to answer its first question.
const FIRST_ANSWER: Duration = Duration::from_secs(10);
