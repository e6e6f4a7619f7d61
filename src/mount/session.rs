//! Mounting with the right flags, and serving until the mount is taken away.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use fuser::{Config, Filesystem, MountOption, Notifier, Session, SessionACL};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::CWD;
use rustix::io::Errno;
use rustix::mount::{MountFlags, OpenTreeFlags, mount_remount, open_tree};

use super::mountinfo::Mounts;
use super::unmount::{self, How, one_line};
use super::{FIRST_ANSWER, FS_TYPE, MountError, sys};

/// How long those who were let go have to close their files.
const LETTING_GO: Duration = Duration::from_millis(400);

/// What to mount and where.
#[derive(Debug, Clone)]
pub struct Plan {
    /// A mountpoint that has been checked.
    pub path: PathBuf,
    /// What mountinfo and `df` call it.
    pub source_name: String,
    /// Whether other users are let in.
    pub allow_other: bool,
    /// Whether it can be written to.
    pub is_writable: bool,
}

/// A mount that serves.
#[derive(Debug)]
pub struct Mounted {
    unmounter: Unmounter,
    /// The mount as nobody else sees it: writable.
    writable: Option<OwnedFd>,
    notifier: Notifier,
    loops: JoinHandle<io::Result<()>>,
}

/// Takes one mount away, and no other that has come to the same place since.
#[derive(Clone)]
pub struct Unmounter {
    path: PathBuf,
    id: u64,
    /// Ends what would hold the mount for ever: files without an end.
    let_go: Arc<dyn Fn() + Send + Sync>,
}

/// What became of a mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unmounted {
    /// It is gone.
    Gone,
    /// It is out of sight and ends with its last user.
    Detached,
}

/// Mounts and serves; returns when an answer has come through the mount. `let_go` ends what would hold it for ever; it is called when the
/// mount is to be taken away, and when somebody else has done so.
///
/// # Errors
/// [`MountError`]; then nothing stays mounted.
pub fn mount<F: Filesystem>(
    filesystem: F,
    plan: &Plan,
    let_go: impl Fn() + Send + Sync + 'static,
) -> Result<Mounted, MountError> {
    let refused = |cause: &io::Error| MountError::Refused { path: plan.path.clone(), cause: explain(cause) };
    let mut config = config(plan);
    let has_views = can_make_views(&plan.path);
    if has_views {
        // It becomes read-only in a moment, but for us.
        config.mount_options.retain(|option| *option != MountOption::RO);
    }
    let session = Session::new(filesystem, &plan.path, &config).map_err(|cause| refused(&cause))?;
    let mut session = session.spawn().map_err(|cause| refused(&cause))?;
    // fuser unmounts by path when its session is dropped, after the end too: it would take away what has been
    // mounted at the same place since. So it never gets to drop it; unmounting is ours.
    let notifier = session.notifier();
    let loops = std::mem::replace(&mut session.guard, thread::spawn(|| Ok(())));
    std::mem::forget(session);

    let id = Mounts::read()
        .ok()
        .and_then(|mounts| mounts.at(&plan.path).map(|mount| mount.id))
        .unwrap_or_default();
    let unmounter = Unmounter { path: plan.path.clone(), id, let_go: Arc::new(let_go) };
    let keep = if plan.is_writable { view_of } else { keep_writable };
    let writable = match has_views.then(|| keep(&plan.path)).transpose() {
        Ok(writable) => writable,
        Err(cause) => {
            let _ = unmount::release(&plan.path, How::Detach);
            return Err(refused(&cause));
        }
    };
    match first_answer(&plan.path) {
        Ok(()) => {
            unmounter.watch();
            Ok(Mounted { unmounter, writable, notifier, loops })
        }
        Err(cause) => {
            let _ = unmount::release(&plan.path, How::Detach);
            Err(MountError::Silent { path: plan.path.clone(), cause })
        }
    }
}

impl Mounted {
    /// The root of the mount in a view that is writable, where there is one. While it is open, serving doesn't end.
    pub fn take_writable(&mut self) -> Option<OwnedFd> {
        self.writable.take()
    }

    /// What tells the kernel of changes.
    pub fn notifier(&self) -> Notifier {
        self.notifier.clone()
    }

    /// What takes it away, for another thread.
    pub fn unmounter(&self) -> Unmounter {
        self.unmounter.clone()
    }

    /// Waits until it has been taken away, by anybody.
    ///
    /// # Errors
    /// When serving ended otherwise; then it is taken away here.
    pub fn wait(self) -> Result<(), MountError> {
        let ended = self.loops.join().unwrap_or_else(|_| Err(io::Error::other("a thread panicked")));
        ended.map_err(|cause| {
            let _ = self.unmounter.unmount();
            MountError::Ended { path: self.unmounter.path, cause }
        })
    }
}

impl Unmounter {
    /// Takes the mount away, lazily when it is busy.
    ///
    /// # Errors
    /// What the kernel or fusermount3 says.
    pub fn unmount(&self) -> io::Result<Unmounted> {
        (self.let_go)();
        let begun = Instant::now();
        loop {
            if !self.is_mounted()? {
                return Ok(Unmounted::Gone);
            }
            match unmount::release(&self.path, How::IfUnused) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {}
                other => return other.map(|()| Unmounted::Gone),
            }
            if begun.elapsed() >= LETTING_GO {
                return unmount::release(&self.path, How::Detach).map(|()| Unmounted::Detached);
            }
            thread::sleep(LETTING_GO / 20);
        }
    }

    fn is_mounted(&self) -> io::Result<bool> {
        Ok(Mounts::read()?.at(&self.path).is_some_and(|mount| mount.id == self.id))
    }

    /// Begins a thread that notices when somebody takes the mount away, also while files of it are open.
    fn watch(&self) {
        let unmounter = self.clone();
        let body = move || {
            let Ok(mounts) = File::open("/proc/self/mountinfo") else { return };
            while unmounter.is_mounted().unwrap_or(false) {
                // See proc(5): a change of the mounts is an urgent condition.
                let mut change = [PollFd::new(&mounts, PollFlags::PRI)];
                match poll(&mut change, None) {
                    Ok(_) | Err(Errno::INTR) => {}
                    Err(error) => return tracing::warn!(%error, "mounts are not watched"),
                }
            }
            (unmounter.let_go)();
        };
        if let Err(error) = thread::Builder::new().name("mounts".to_owned()).spawn(body) {
            tracing::warn!(%error, "followers of a mount that is detached stay");
        }
    }

    /// The mountpoint.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl fmt::Debug for Unmounter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unmounter").field("path", &self.path).field("id", &self.id).finish_non_exhaustive()
    }
}

/// Flags for a mount that can do no harm, whoever made the source.
fn config(plan: &Plan) -> Config {
    let cores = thread::available_parallelism().map_or(2, usize::from);
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName(fs_name(&plan.source_name, sys::effective_uid())),
        // fuser drops `Subtype` where it mounts by itself, as root.
        MountOption::CUSTOM(format!("subtype={}", FS_TYPE.trim_start_matches("fuse."))),
        if plan.is_writable { MountOption::RW } else { MountOption::RO },
        MountOption::NoSuid,
        MountOption::NoDev,
        MountOption::NoExec,
        MountOption::NoAtime,
        MountOption::DefaultPermissions,
    ];
    config.acl = if plan.allow_other { SessionACL::All } else { SessionACL::Owner };
    config.n_threads = Some((2 * cores).clamp(4, 16));
    config.clone_fd = true;
    config
}

/// The name of the source as it has to be given: fusermount3, which users mount through, wants commas escaped.
fn fs_name(source: &str, user: u32) -> String {
    match user {
        0 => source.to_owned(),
        _ => source.replace('\\', "\\\\").replace(',', "\\,"),
    }
}

/// Whether this process may make views of mounts, which takes CAP_SYS_ADMIN.
fn can_make_views(path: &Path) -> bool {
    view(path).is_ok()
}

fn view(path: &Path) -> rustix::io::Result<OwnedFd> {
    open_tree(CWD, path, OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC)
}

/// A view of a mount that is nowhere to be seen.
fn view_of(path: &Path) -> io::Result<OwnedFd> {
    Ok(view(path)?)
}

/// Makes a mount read-only for all but the holder of the result, which is a view of it that is nowhere to be seen.
fn keep_writable(path: &Path) -> io::Result<OwnedFd> {
    let view = view(path)?;
    let harmless = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC | MountFlags::NOATIME;
    mount_remount(path, MountFlags::BIND | MountFlags::RDONLY | harmless, "")?;
    Ok(view)
}

/// Asks through the mount for its root, as the first user would.
fn first_answer(path: &Path) -> io::Result<()> {
    let (path, (sender, receiver)) = (path.to_owned(), mpsc::channel());
    // A thread of its own: it hangs with the mount, should that not answer.
    thread::spawn(move || sender.send(sys::ask(&path)));
    match receiver.recv_timeout(FIRST_ANSWER) {
        Ok(answer) => answer,
        Err(_) => Err(io::Error::from(io::ErrorKind::TimedOut)),
    }
}

/// The kernel's or fusermount3's refusal, with what would work where that is known.
fn explain(cause: &io::Error) -> String {
    let text = one_line(&cause.to_string());
    let hint = if text.contains("Operation not permitted") || text.contains("EPERM") {
        "; a container needs `--cap-add SYS_ADMIN --device /dev/fuse`"
    } else if text.contains("too many FUSE filesystems") {
        "; /etc/fuse.conf sets `mount_max`"
    } else {
        ""
    };
    format!("{text}{hint}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_of_a_source_are_escaped_for_fusermount3_only() {
        assert_eq!(fs_name("/a,/b", 0), "/a,/b");
        assert_eq!(fs_name("/a,/b\\c", 1000), "/a\\,/b\\\\c");
    }

    #[test]
    fn refusals_come_with_what_would_work() {
        let refused = io::Error::other("fusermount3: mount failed: Operation not permitted\n");
        assert_eq!(
            explain(&refused),
            "mount failed: Operation not permitted; a container needs `--cap-add SYS_ADMIN --device /dev/fuse`"
        );
    }

    #[test]
    fn every_mount_is_read_only_and_harmless() {
        let plan = Plan {
            path: "/mnt".into(),
            source_name: "/data".to_owned(),
            allow_other: false,
            is_writable: false,
        };
        let config = config(&plan);
        for option in [
            MountOption::RO,
            MountOption::NoSuid,
            MountOption::NoDev,
            MountOption::NoExec,
            MountOption::DefaultPermissions,
        ] {
            assert!(config.mount_options.contains(&option), "{option:?}");
        }
        assert_eq!(config.acl, SessionACL::Owner);
        assert!(config.n_threads.is_some_and(|threads| threads >= 4));
    }
}
