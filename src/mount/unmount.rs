//! Taking a mount away: as root or through fusermount3, also when it is busy or dead.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::checks::{is_dead, resolve};
use super::mountinfo::{Mount, Mounts};
use super::{FS_TYPE, sys};

/// Why nothing was unmounted. The text is one line.
#[derive(Debug, thiserror::Error)]
pub enum UnmountError {
    /// Nothing there.
    #[error("{}: {cause}", path.display())]
    Unreachable {
        /// What was named.
        path: PathBuf,
        /// Why it can't be looked at.
        cause: io::Error,
    },
    /// An ordinary directory.
    #[error("nothing is mounted on {path}", path = .0.display())]
    NotMounted(PathBuf),
    /// A directory in a mount.
    #[error(
        "{} is not a mountpoint, it lies in the mount on {mount}; `topicfs umount {mount}`",
        path.display(), mount = mount.display()
    )]
    Inside {
        /// What was named.
        path: PathBuf,
        /// The mount around it.
        mount: PathBuf,
    },
    /// A mount of something else.
    #[error(
        "{path} is a mount of type {fs_type}, not ours; `umount {path}` takes it away",
        path = path.display()
    )]
    NotOurs {
        /// What was named.
        path: PathBuf,
        /// What it is.
        fs_type: String,
    },
    /// Somebody is in it.
    #[error(
        "{path} is busy{holders}; `topicfs umount --lazy {path}` lets them finish",
        path = path.display()
    )]
    Busy {
        /// The mountpoint.
        path: PathBuf,
        /// `: held by ...`, as far as this user may know.
        holders: String,
    },
    /// Anything else.
    #[error("unmounting {} failed: {cause}", path.display())]
    Refused {
        /// The mountpoint.
        path: PathBuf,
        /// What the kernel or fusermount3 said.
        cause: io::Error,
    },
}

/// What happens to those who still use a mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// They keep it: it is an error.
    IfUnused,
    /// The mount disappears now and ends when they have finished.
    Detach,
}

/// `topicfs umount`: takes our mount from `path`. A dead one goes whoever still holds it, and so does one of which nothing is open
/// but files that have no end, as `endless` tells them: those who read them come to their end then.
///
/// # Errors
/// [`UnmountError`].
pub fn unmount(path: &Path, how: How, endless: impl Fn(&Path) -> bool) -> Result<Mount, UnmountError> {
    let point = resolve(path).map_err(|cause| UnmountError::Unreachable { path: path.to_owned(), cause })?;
    let mounts = Mounts::read().unwrap_or_default();
    let Some(mount) = mounts.at(&point) else {
        return Err(match mounts.around(&point).filter(|around| around.fs_type == FS_TYPE) {
            Some(around) => UnmountError::Inside { path: point, mount: around.point.clone() },
            None => UnmountError::NotMounted(point),
        });
    };
    if mount.fs_type != FS_TYPE {
        return Err(UnmountError::NotOurs { path: point, fs_type: mount.fs_type.clone() });
    }
    let released = match release(&point, how) {
        Err(error)
            if error.kind() == io::ErrorKind::ResourceBusy
                && (looks_dead(&point) || is_open_only_for(&point, endless)) =>
        {
            release(&point, How::Detach).map_err(|cause| UnmountError::Refused { path: point, cause })
        }
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
            Err(UnmountError::Busy { holders: held_by(&point), path: point })
        }
        other => other.map_err(|cause| UnmountError::Refused { path: point, cause }),
    };
    released.map(|()| mount.clone())
}

/// Takes whatever is mounted on `point` away, as root or through fusermount3.
pub(super) fn release(point: &Path, how: How) -> io::Result<()> {
    match sys::unmount(point, how == How::Detach) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => through_helper(point, how),
        other => other,
    }
}

fn through_helper(point: &Path, how: How) -> io::Result<()> {
    let missing = || io::Error::new(io::ErrorKind::NotFound, "users need fusermount3, which is not here");
    let mut command = Command::new(helper().ok_or_else(missing)?);
    command.arg("-u").args((how == How::Detach).then_some("-z")).arg("--").arg(point);
    let output = command.stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let busy = text.contains("resource busy");
    let kind = if busy { io::ErrorKind::ResourceBusy } else { io::ErrorKind::Other };
    Err(io::Error::new(kind, one_line(&text)))
}

/// The program that mounts and unmounts for users.
pub(super) fn helper() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("FUSERMOUNT_PATH").filter(|path| !path.is_empty()) {
        return Some(PathBuf::from(path));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories: Vec<PathBuf> =
        std::env::split_paths(&path).chain(["/bin", "/sbin"].map(PathBuf::from)).collect();
    let names = ["fusermount3", "fusermount"];
    names
        .iter()
        .find_map(|name| directories.iter().map(|directory| directory.join(name)).find(|it| it.is_file()))
}

/// What another program said, on one line, without its name in front.
pub(super) fn one_line(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines.join("; ").trim_start_matches("fusermount3: ").trim_start_matches("fusermount: ").to_owned()
}

/// Whether the process behind a mount has ended. One that doesn't answer in time is taken to be alive.
fn looks_dead(point: &Path) -> bool {
    let (point, (sender, receiver)) = (point.to_owned(), mpsc::channel());
    thread::spawn(move || sender.send(sys::ask(&point).is_err_and(|error| is_dead(&error))));
    receiver.recv_timeout(Duration::from_secs(2)).unwrap_or(false)
}

/// `: held by less (pid 12), bash (pid 7)`, as far as `/proc` shows it to this user; else nothing.
pub(super) fn held_by(point: &Path) -> String {
    const SHOWN: usize = 5;
    let holders = holders(point, std::process::id());
    let shown = holders.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    match holders.len() {
        0 => String::new(),
        count if count > SHOWN => format!(": held by {shown} and {} more", count - SHOWN),
        _ => format!(": held by {shown}"),
    }
}

/// Whether all that is open of a mount are files of some kind, as far as `/proc` shows it to this user.
fn is_open_only_for(point: &Path, kind: impl Fn(&Path) -> bool) -> bool {
    let held: Vec<_> = processes().flat_map(|pid| held(pid, point)).collect();
    !held.is_empty() && held.iter().all(|path| kind(path))
}

/// The numbers of all processes that this user may see.
fn processes() -> impl Iterator<Item = u32> {
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    all.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The processes that hold something of a mount, except for `this_one`.
fn holders(point: &Path, this_one: u32) -> Vec<String> {
    let holding = processes().filter(|pid| *pid != this_one && held(*pid, point).next().is_some());
    let described = holding.map(|pid| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        format!("{} (pid {pid})", name.trim_end())
    });
    described.collect()
}

/// The directories and files of the mount that a process has. Links are read and not followed: a dead or slow mount
/// can't stop this.
fn held(pid: u32, point: &Path) -> impl Iterator<Item = PathBuf> {
    let process = Path::new("/proc").join(pid.to_string());
    let links = ["cwd", "root"].into_iter().map(|name| process.join(name));
    let files = fs::read_dir(process.join("fd")).into_iter().flatten().flatten().map(|entry| entry.path());
    let links: Vec<PathBuf> = links.chain(files).collect();
    links
        .into_iter()
        .filter_map(|link| fs::read_link(link).ok())
        .filter(move |target| target.starts_with(point))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_ours_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().canonicalize().unwrap();
        let error = |path: &Path| unmount(path, How::IfUnused, |_| false).unwrap_err().to_string();
        assert_eq!(error(&path), format!("nothing is mounted on {}", path.display()));
        assert_eq!(
            error(Path::new("/proc")),
            "/proc is a mount of type proc, not ours; `umount /proc` takes it away"
        );
        assert_eq!(
            error(&path.join("x")),
            format!("{}/x: No such file or directory (os error 2)", path.display())
        );
    }

    #[test]
    fn who_has_a_file_open_holds_its_mount() {
        let directory = tempfile::tempdir().unwrap();
        let _file = fs::File::create(directory.path().join("f")).unwrap();
        let point = directory.path().canonicalize().unwrap();
        let (this_one, nobody) = (std::process::id(), 0);
        let all = holders(&point, nobody);
        assert!(all.iter().any(|holder| holder.ends_with(&format!("(pid {this_one})"))), "{all:?}");
        assert_eq!(held_by(&point), "", "unmounting is not what keeps a mount busy");
    }

    #[test]
    fn words_of_helpers_become_one_line() {
        assert_eq!(
            one_line("fusermount3: failed to unmount /x: Device or resource busy\n"),
            "failed to unmount /x: Device or resource busy"
        );
        assert_eq!(one_line("a\n\n b\n"), "a; b");
    }
}
