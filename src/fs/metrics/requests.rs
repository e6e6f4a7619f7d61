//! The kernel's requests: what they ask for, what those get that can't be answered, and how long they wait.

use std::time::Instant;

use crate::log::counter::Counter;

/// Declares a list of kinds, each with its word.
macro_rules! kinds {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name {
            $($(#[$variant_doc])* #[doc = concat!("`", $word, "`.")] $variant,)+
        }

        impl $name {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The word for it.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }
        }
    };
}

kinds! {
    /// What the kernel asks for.
    Operation {
        Lookup = "lookup",
        Forget = "forget",
        Getattr = "getattr",
        Setattr = "setattr",
        Open = "open",
        Read = "read",
        Write = "write",
        Fsync = "fsync",
        Flush = "flush",
        Release = "release",
        Opendir = "opendir",
        Readdir = "readdir",
        Releasedir = "releasedir",
        Getxattr = "getxattr",
        Listxattr = "listxattr",
        Setxattr = "setxattr",
        Removexattr = "removexattr",
        Mkdir = "mkdir",
        Rmdir = "rmdir",
        Mknod = "mknod",
        Create = "create",
        Unlink = "unlink",
        Symlink = "symlink",
        Link = "link",
        Rename = "rename",
        Fallocate = "fallocate",
        Lseek = "lseek",
        Poll = "poll",
        Ioctl = "ioctl",
        Access = "access",
    }
}

kinds! {
    /// What a request waits for.
    WaitsFor {
        /// A `stat` of an open file, whose size is being measured:
        Size = "size",
        /// A look-up, for an index or a time in a large log:
        Name = "name",
        /// The opening of a directory that lists what an index has:
        Directory = "directory",
        /// A read far behind all that was measured:
        Place = "place",
        /// A read of a large batch, while many others read such:
        Room = "room",
        /// A reader of `follow`:
        Records = "records",
    }
}

/// The errors that have a name, more than are given.
const ERRORS: [(i32, &str); 24] = [
    (libc::EPERM, "EPERM"),
    (libc::ENOENT, "ENOENT"),
    (libc::EINTR, "EINTR"),
    (libc::EIO, "EIO"),
    (libc::ENOMEM, "ENOMEM"),
    (libc::EACCES, "EACCES"),
    (libc::EEXIST, "EEXIST"),
    (libc::ENOTDIR, "ENOTDIR"),
    (libc::EISDIR, "EISDIR"),
    (libc::EINVAL, "EINVAL"),
    (libc::ENFILE, "ENFILE"),
    (libc::EMFILE, "EMFILE"),
    (libc::EFBIG, "EFBIG"),
    (libc::ENOSPC, "ENOSPC"),
    (libc::EROFS, "EROFS"),
    (libc::ENAMETOOLONG, "ENAMETOOLONG"),
    (libc::ENOSYS, "ENOSYS"),
    (libc::ENOTEMPTY, "ENOTEMPTY"),
    (libc::ENODATA, "ENODATA"),
    (libc::EMSGSIZE, "EMSGSIZE"),
    (libc::EOPNOTSUPP, "EOPNOTSUPP"),
    (libc::ESTALE, "ESTALE"),
    (libc::EDQUOT, "EDQUOT"),
    // All others.
    (0, "other"),
];

/// What is counted of requests.
#[derive(Debug)]
pub struct Requests {
    begun: [Counter; Operation::ALL.len()],
    errors: [[Counter; ERRORS.len()]; Operation::ALL.len()],
    waits: [Waits; WaitsFor::ALL.len()],
    panics: Counter,
}

/// What is counted of requests that wait for the same.
#[derive(Debug)]
struct Waits {
    begun: Counter,
    ended: Counter,
    ended_ns: Counter,
}

/// A request that waits, as long as this is kept.
#[derive(Debug)]
pub struct Wait {
    waits: &'static Waits,
    since: Instant,
}

impl Drop for Wait {
    fn drop(&mut self) {
        let waited = self.since.elapsed().as_nanos();
        self.waits.ended_ns.add(u64::try_from(waited).unwrap_or(u64::MAX));
        self.waits.ended.add(1);
    }
}

static OF_PROCESS: Requests = Requests::new();

impl Requests {
    const fn new() -> Self {
        let waits = [const { Waits { begun: Counter::new(), ended: Counter::new(), ended_ns: Counter::new() } };
            WaitsFor::ALL.len()];
        Self {
            begun: [const { Counter::new() }; Operation::ALL.len()],
            errors: [const { [const { Counter::new() }; ERRORS.len()] }; Operation::ALL.len()],
            waits,
            panics: Counter::new(),
        }
    }

    /// Those of the process, which serves one mount.
    pub const fn of_process() -> &'static Self {
        &OF_PROCESS
    }

    /// Counts a request.
    pub fn asked(&self, operation: Operation) {
        if let Some(begun) = self.begun.get(operation as usize) {
            begun.add(1);
        }
    }

    /// Counts a request that got an error.
    pub fn failed(&self, operation: Operation, errno: i32) {
        let error = ERRORS.iter().position(|(known, _)| *known == errno).unwrap_or(ERRORS.len() - 1);
        if let Some(errors) = self.errors.get(operation as usize)
            && let Some(count) = errors.get(error)
        {
            count.add(1);
        }
    }

    /// The same of an operation that is known by its word.
    pub fn failed_by_name(&self, operation: &str, errno: i32) {
        if let Some(operation) = Operation::ALL.iter().find(|known| known.name() == operation) {
            self.failed(*operation, errno);
        }
    }

    /// A request waits from now on.
    pub fn waits(&'static self, waits_for: WaitsFor) -> Wait {
        let waits = &self.waits[waits_for as usize];
        waits.begun.add(1);
        Wait { waits, since: Instant::now() }
    }

    /// Counts a panic that was caught.
    pub fn panicked(&self) {
        self.panics.add(1);
    }

    /// How often each operation was asked for.
    pub(super) fn asked_for(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Operation::ALL.iter().zip(&self.begun).map(|(operation, begun)| (operation.name(), begun.get()))
    }

    /// How often each got each error, where it did.
    pub(super) fn errors(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        Operation::ALL
            .iter()
            .zip(&self.errors)
            .flat_map(|(operation, errors)| {
                let counts = ERRORS.iter().zip(errors);
                counts.map(|((_, error), count)| (operation.name(), *error, count.get()))
            })
            .filter(|(.., count)| *count > 0)
    }

    /// Of each thing that requests wait for: how many have begun to wait, how long those waited that don't any more in seconds, and how
    /// many do.
    pub(super) fn waited_for(&self) -> impl Iterator<Item = (&'static str, u64, f64, u64)> {
        WaitsFor::ALL.iter().zip(&self.waits).map(|(waits_for, waits)| {
            let ended = waits.ended.get();
            let begun = waits.begun.get();
            let seconds = waits.ended_ns.get() as f64 / 1e9;
            (waits_for.name(), begun, seconds, begun.saturating_sub(ended))
        })
    }

    /// Panics that were caught.
    pub(super) fn panics(&self) -> u64 {
        self.panics.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of its own, so that other tests don't count.
    static OWN: Requests = Requests::new();

    #[test]
    fn errors_are_counted_by_operation_and_name() {
        OWN.asked(Operation::Access);
        OWN.failed(Operation::Lookup, libc::ENOENT);
        OWN.failed_by_name("lookup", libc::ENOENT);
        OWN.failed_by_name("no such operation", libc::EIO);
        OWN.failed(Operation::Access, libc::ELOOP);
        let errors: Vec<_> = OWN.errors().collect();
        assert_eq!(errors, [("lookup", "ENOENT", 2), ("access", "other", 1)]);
        assert_eq!(OWN.asked_for().filter(|(_, count)| *count > 0).collect::<Vec<_>>(), [("access", 1)]);
    }

    #[test]
    fn a_wait_ends_when_it_is_dropped() {
        let waiting = || OWN.waited_for().map(|(.., now)| now).collect::<Vec<_>>();
        let (size, records) = (OWN.waits(WaitsFor::Size), OWN.waits(WaitsFor::Records));
        assert_eq!(waiting(), [1, 0, 0, 0, 0, 1]);
        drop(size);
        assert_eq!(waiting(), [0, 0, 0, 0, 0, 1]);
        drop(records);
        assert_eq!(waiting(), [0; 6]);
        assert!(OWN.waited_for().all(|(_, begun, seconds, _)| (begun > 0) == (seconds > 0.0)));
    }
}
