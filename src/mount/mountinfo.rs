//! `/proc/self/mountinfo`: what is mounted where, without touching any of it (see proc(5)).

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// One mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Its number, unique while it is mounted.
    pub id: u64,
    /// Where it is.
    pub point: PathBuf,
    /// `ext4`, `fuse.topicfs`.
    pub fs_type: String,
    /// What is mounted, as the file system calls it.
    pub source: String,
    /// Whether it can be written to.
    pub is_writable: bool,
}

/// The mounts of this process's namespace; later ones lie over earlier ones at the same place.
#[derive(Debug, Clone, Default)]
pub struct Mounts(Vec<Mount>);

impl Mounts {
    /// Reads them now.
    pub fn read() -> io::Result<Self> {
        Ok(Self::parse(&std::fs::read("/proc/self/mountinfo")?))
    }

    /// Reads them from the text of a mountinfo file; lines that aren't understood are left out.
    fn parse(text: &[u8]) -> Self {
        Self(text.split(|byte| *byte == b'\n').filter_map(parse_line).collect())
    }

    /// The mount exactly at `path`, the topmost if there are several.
    pub fn at(&self, path: &Path) -> Option<&Mount> {
        self.0.iter().rev().find(|mount| mount.point == path)
    }

    /// The mount that `path` lies in.
    pub fn around(&self, path: &Path) -> Option<&Mount> {
        path.ancestors().find_map(|ancestor| self.at(ancestor))
    }
}

/// `36 35 98:0 /root /point opts tag:1 - type source superopts`
fn parse_line(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|byte| *byte == b' ');
    let id = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    let point = PathBuf::from(OsString::from_vec(unescape(fields.nth(3)?)));
    let is_writable = fields.next()?.split(|byte| *byte == b',').any(|option| option == b"rw");
    let mut rest = fields.skip_while(|field| *field != b"-").skip(1);
    let mut text = || rest.next().map(|field| String::from_utf8_lossy(&unescape(field)).into_owned());
    Some(Mount { id, point, fs_type: text()?, source: text()?, is_writable })
}

/// `\040` is a space; blanks, newlines and backslashes are written so.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        let octal = after.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) if *first == b'\\' => {
                bytes.push(byte);
                rest = after.get(3..).unwrap_or_default();
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n\
        30 22 0:50 / /mnt rw - autofs systemd-1 rw,fd=1\n\
        31 30 0:51 / /mnt ro,nosuid master:3 shared:4 - fuse.topicfs /data/a,/data/b ro,user_id=0\n\
        32 22 0:52 / /with\\040space\\134x rw - tmpfs tmp\\011fs rw\n\
        not a mount\n";

    #[test]
    fn fields_are_found_whatever_stands_between() {
        let mounts = Mounts::parse(TEXT);
        assert_eq!(mounts.0.len(), 4);
        let root = mounts.at(Path::new("/")).unwrap();
        assert_eq!((root.id, root.fs_type.as_str(), root.source.as_str()), (22, "ext4", "/dev/vda"));
        let odd = mounts.at(Path::new("/with space\\x")).unwrap();
        assert_eq!((odd.fs_type.as_str(), odd.source.as_str()), ("tmpfs", "tmp\tfs"));
    }

    #[test]
    fn the_topmost_mount_counts() {
        let mounts = Mounts::parse(TEXT);
        let topmost = mounts.at(Path::new("/mnt")).unwrap();
        assert_eq!((&*topmost.fs_type, topmost.is_writable), ("fuse.topicfs", false));
        assert!(mounts.at(Path::new("/")).unwrap().is_writable);
        assert_eq!(mounts.at(Path::new("/mnt/a")), None);
        assert_eq!(mounts.around(Path::new("/mnt/a/b")).unwrap().id, 31);
        assert_eq!(mounts.around(Path::new("/mnt2")).unwrap().id, 22);
    }

    #[test]
    fn this_machine_has_mounts() {
        assert!(Mounts::read().unwrap().around(Path::new("/")).is_some());
    }
}
