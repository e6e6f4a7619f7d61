//! Everything that can be wrong before mounting, in the order in which a user would want to hear of it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::mountinfo::{Mount, Mounts};
use super::unmount::{self, How};
use super::{FS_TYPE, MountError, sys};

/// What is asked of a mount beyond the usual.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wishes {
    /// Let other users in.
    pub allow_other: bool,
    /// Mount over content, and over mounts that aren't ours.
    pub nonempty: bool,
}

/// A mountpoint that can be mounted on.
#[derive(Debug)]
pub struct Mountpoint {
    /// Its absolute path without links.
    pub path: PathBuf,
    /// The dead mount of ours that lay there and was taken away.
    pub cleared: Option<Mount>,
}

/// Checks that a mount on `path` will work.
///
/// # Errors
/// The first thing that won't.
pub fn mountpoint(path: &Path, wishes: Wishes) -> Result<Mountpoint, MountError> {
    let unreachable = |cause| MountError::Unreachable { path: path.to_owned(), cause };
    let path = resolve(path).map_err(|cause| match cause.kind() {
        io::ErrorKind::NotFound => MountError::Missing(path.to_owned()),
        io::ErrorKind::NotADirectory => MountError::NotADirectory(path.to_owned()),
        _ => unreachable(cause),
    })?;
    let cleared = not_mounted(&path, wishes)?;
    if !fs::metadata(&path).map_err(unreachable)?.is_dir() {
        return Err(MountError::NotADirectory(path));
    }
    let holds_something = fs::read_dir(&path).map_err(unreachable)?.next().is_some();
    if holds_something && !wishes.nonempty {
        return Err(MountError::NotEmpty(path));
    }
    device()?;
    privileges(wishes)?;
    Ok(Mountpoint { path, cleared })
}

/// Checks that neither the mount nor the source would be inside the other.
///
/// # Errors
/// For the first of `sources` (files and directories, absolute, without links) that isn't apart.
pub fn apart(path: &Path, sources: &[PathBuf]) -> Result<(), MountError> {
    let mounts = Mounts::read().unwrap_or_default();
    for source in sources {
        let source_path = source.clone();
        if let Some(mount) = mounts.around(source).filter(|mount| mount.fs_type == FS_TYPE) {
            return Err(MountError::SourceInMount { source_path, mount: mount.point.clone() });
        }
        if path.starts_with(source) {
            return Err(MountError::InsideSource { path: path.to_owned(), source_path });
        }
        if source.starts_with(path) {
            return Err(MountError::HidesSource { path: path.to_owned(), source_path });
        }
    }
    Ok(())
}

/// The absolute path without links, also where a mount lies that is dead or another user's.
pub(super) fn resolve(path: &Path) -> io::Result<PathBuf> {
    match path.canonicalize() {
        Err(error) if is_dead(&error) || error.kind() == io::ErrorKind::PermissionDenied => {
            match (path.parent(), path.file_name()) {
                (Some(parent), Some(name)) => {
                    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
                    Ok(parent.canonicalize()?.join(name))
                }
                _ => Err(error),
            }
        }
        resolved => resolved,
    }
}

/// Whether this is what a mount answers whose process has ended.
pub(super) fn is_dead(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENOTCONN)
}

/// No mount at `path`, or one that may be mounted over. A dead one of ours is taken away.
fn not_mounted(path: &Path, wishes: Wishes) -> Result<Option<Mount>, MountError> {
    let mounts = Mounts::read().unwrap_or_default();
    // An automount point is there to be mounted on: systemd waits for just that.
    let Some(mount) = mounts.at(path).filter(|mount| mount.fs_type != "autofs") else {
        return Ok(None);
    };
    let path = path.to_owned();
    let ours = mount.fs_type == FS_TYPE;
    let dead = sys::ask(&path).is_err_and(|error| is_dead(&error));
    match (dead, ours) {
        (true, true) => match unmount::release(&path, How::Detach) {
            Ok(()) => Ok(Some(mount.clone())),
            Err(_) => Err(MountError::Dead { path, fs_type: mount.fs_type.clone() }),
        },
        (true, false) => Err(MountError::Dead { path, fs_type: mount.fs_type.clone() }),
        (false, true) => Err(MountError::AlreadyOurs { path, source_name: mount.source.clone() }),
        (false, false) if wishes.nonempty => Ok(None),
        (false, false) => {
            let (source_name, fs_type) = (mount.source.clone(), mount.fs_type.clone());
            Err(MountError::AlreadyMounted { path, source_name, fs_type })
        }
    }
}

/// Checks that there is a FUSE device which this user may open.
///
/// # Errors
/// [`MountError::NoDevice`], [`MountError::DeviceRefused`].
pub fn device() -> Result<(), MountError> {
    let opened = fs::OpenOptions::new().read(true).write(true).open("/dev/fuse");
    match opened {
        Ok(_) => Ok(()),
        // ENODEV and ENXIO: a node without the kernel's module.
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENODEV | libc::ENXIO)) => {
            Err(MountError::NoDevice)
        }
        Err(error) => Err(MountError::DeviceRefused(error)),
    }
}

fn privileges(wishes: Wishes) -> Result<(), MountError> {
    if sys::effective_uid() == 0 {
        return Ok(());
    }
    if unmount::helper().is_none() {
        return Err(MountError::NoHelper);
    }
    // The file is not readable in some places; fusermount3 has the last word anyway.
    let allowed = fs::read_to_string("/etc/fuse.conf").map(|text| permits_allow_other(&text)).unwrap_or(true);
    if wishes.allow_other && !allowed { Err(MountError::AllowOtherRefused) } else { Ok(()) }
}

fn permits_allow_other(fuse_conf: &str) -> bool {
    fuse_conf.lines().any(|line| line.trim() == "user_allow_other")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(path: &Path) -> String {
        mountpoint(path, Wishes::default()).unwrap_err().to_string()
    }

    #[test]
    fn a_missing_mountpoint_is_named_with_what_makes_it() {
        assert_eq!(
            error(Path::new("/no/such/place")),
            "mountpoint /no/such/place does not exist; `mkdir -p /no/such/place` makes it"
        );
    }

    #[test]
    fn a_file_is_no_mountpoint() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let shown = file.path().canonicalize().unwrap();
        let shown = shown.display();
        assert_eq!(
            error(file.path()),
            format!("mountpoint {shown} is not a directory; mount on an empty directory")
        );
        let below = file.path().join("below");
        assert!(error(&below).ends_with("is not a directory; mount on an empty directory"));
    }

    #[test]
    fn content_is_not_hidden_unless_asked() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("x"), "").unwrap();
        assert!(error(directory.path()).contains("is not empty; use an empty directory, or `-o nonempty`"));
        let nonempty = Wishes { nonempty: true, ..Wishes::default() };
        let checked = mountpoint(directory.path(), nonempty);
        assert!(!matches!(checked, Err(MountError::NotEmpty(_))));
    }

    #[test]
    fn what_is_mounted_already_is_named() {
        assert!(
            error(Path::new("/proc")).starts_with("proc (proc) is already mounted on /proc; use another")
        );
    }

    #[test]
    fn source_and_mount_lie_apart() {
        let paths = |paths: &[&str]| paths.iter().map(PathBuf::from).collect::<Vec<_>>();
        let apart = |path: &str, sources: &[&str]| super::apart(Path::new(path), &paths(sources));
        assert!(apart("/mnt/k", &["/data/a", "/data/b"]).is_ok());
        assert!(apart("/data/a2", &["/data/a"]).is_ok());
        assert_eq!(
            apart("/data/b/m", &["/data/a", "/data/b"]).unwrap_err().to_string(),
            "mountpoint /data/b/m lies inside the source /data/b; use a directory outside it"
        );
        assert!(matches!(apart("/data", &["/data"]), Err(MountError::InsideSource { .. })));
        assert_eq!(
            apart("/data", &["/data/a"]).unwrap_err().to_string(),
            "mountpoint /data would hide the source /data/a; use a directory that doesn't hold it"
        );
    }

    #[test]
    fn fuse_conf_permits_only_without_a_comment_sign() {
        assert!(!permits_allow_other("#user_allow_other\nmount_max = 5\n"));
        assert!(permits_allow_other("mount_max = 5\n user_allow_other \n"));
    }

    #[test]
    fn relative_paths_and_links_are_resolved() {
        let directory = tempfile::tempdir().unwrap();
        let real = directory.path().canonicalize().unwrap();
        fs::create_dir(real.join("d")).unwrap();
        std::os::unix::fs::symlink(real.join("d"), real.join("link")).unwrap();
        assert_eq!(resolve(&directory.path().join("link/../d")).unwrap(), real.join("d"));
        assert!(resolve(Path::new(".")).unwrap().is_absolute());
    }
}
