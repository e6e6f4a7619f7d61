//! A real mount, made by the real binary, gone when dropped.
//!
//! Where nothing can be mounted, tests say why and pass; with `CI=true` in the environment they fail instead.

use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// How long anything may take before it counts as hanging.
const PATIENCE: Duration = Duration::from_secs(20);

/// Says that something is not tested. With `CI=true` nothing may be left out.
pub fn skip(reason: &str) {
    assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "{reason}");
    eprintln!("skipped: {reason}");
}

/// Whether this process can mount. If not, it has been said.
pub fn can_mount() -> bool {
    let opened = OpenOptions::new().read(true).write(true).open("/dev/fuse");
    if let Err(error) = &opened {
        skip(&format!("/dev/fuse can't be opened: {error}"));
    }
    opened.is_ok()
}

/// Whether this process may do everything. If not, it has been said.
pub fn is_root() -> bool {
    let root = fs::metadata("/proc/self").is_ok_and(|meta| std::os::unix::fs::MetadataExt::uid(&meta) == 0);
    if !root {
        skip("needs root");
    }
    root
}

/// Whether a program is there. If not, it has been said.
pub fn has(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut directories = std::env::split_paths(&path).chain(["/sbin", "/usr/sbin"].map(PathBuf::from));
    let found = directories.any(|directory| directory.join(program).is_file());
    if !found {
        skip(&format!("{program} is not installed"));
    }
    found
}

/// The binary, away from the user's own settings.
pub fn topicfs() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_topicfs"));
    command.env_remove("RUST_LOG").env_remove("NOTIFY_SOCKET").stdin(Stdio::null());
    command
}

/// Waits for something that must come soon.
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A mount in the background.
#[derive(Debug)]
pub struct Mounted {
    directory: TempDir,
    point: PathBuf,
}

impl Mounted {
    /// Mounts `source`; `None` where nothing can be mounted.
    pub fn new(source: impl AsRef<Path>) -> Option<Self> {
        Self::with(source, "")
    }

    /// Mounts `source` with options, as after `-o`.
    pub fn with(source: impl AsRef<Path>, options: &str) -> Option<Self> {
        Self::by(topicfs(), source, options)
    }

    /// The same by a command that is topicfs, or starts it.
    pub fn by(mut command: Command, source: impl AsRef<Path>, options: &str) -> Option<Self> {
        if !can_mount() {
            return None;
        }
        let directory = tempfile::tempdir().expect("temporary directory");
        let root = directory.path().canonicalize().expect("a path");
        let point = root.join("mnt");
        fs::create_dir(&point).expect("directory can be made");
        let cache = format!("cache_dir={}", root.join("cache").display());
        let options = if options.is_empty() { cache } else { format!("{cache},{options}") };
        let mounted = Self { directory, point };
        let output = command
            .args(["mount", "-o", &options, "--log-file"])
            .arg(root.join("log"))
            .arg(source.as_ref())
            .arg(&mounted.point)
            .output()
            .expect("topicfs can be started");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Some(mounted)
    }

    /// The mountpoint.
    pub fn point(&self) -> &Path {
        &self.point
    }

    /// A path in the mount.
    pub fn path(&self, path: &str) -> PathBuf {
        self.point.join(path)
    }

    /// What the mount has logged.
    pub fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    /// The most memory that the mount's process has had resident.
    pub fn peak_memory_kib(&self) -> u64 {
        self.memory_kib("VmHWM:")
    }

    /// A figure of memory in the status of the mount's process.
    pub fn memory_kib(&self, figure: &str) -> u64 {
        let status = fs::read_to_string(self.process().join("status")).expect("its status");
        let line = status.lines().find_map(|line| line.strip_prefix(figure)).expect("a figure");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    }

    /// The number of the mount's process.
    pub fn pid(&self) -> u32 {
        let process = self.process();
        process.file_name().and_then(|name| name.to_str()).expect("a name").parse().expect("a number")
    }

    /// Whether it still has a process.
    pub fn is_served(&self) -> bool {
        self.find_process().is_some()
    }

    /// The directory in `/proc` of the mount's process.
    pub fn process(&self) -> PathBuf {
        self.find_process().expect("the mount's process")
    }

    fn find_process(&self) -> Option<PathBuf> {
        let point = self.point.to_str().expect("UTF-8").as_bytes();
        let mut processes = fs::read_dir("/proc").expect("processes");
        let is_it = |path: &PathBuf| {
            let line = fs::read(path.join("cmdline")).unwrap_or_default();
            let mut words = line.split(|byte| *byte == 0);
            words.next().is_some_and(|program| program.ends_with(b"topicfs"))
                && words.any(|word| word == point)
        };
        processes.find_map(|entry| Some(entry.ok()?.path()).filter(is_it))
    }

    /// What its descriptors name below a directory; a name that is gone ends in ` (deleted)`.
    pub fn descriptors_below(&self, directory: &Path) -> Vec<PathBuf> {
        let directory = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
        let entries = fs::read_dir(self.process().join("fd")).expect("its descriptors");
        let names = entries.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
        names.filter(|name| name.starts_with(&directory)).collect()
    }

    fn is_mounted(&self) -> bool {
        let field = format!(" {} ", self.point.display());
        fs::read_to_string("/proc/self/mountinfo").expect("mountinfo").contains(&field)
    }

    fn umount(&self, lazily: bool) -> Output {
        let lazy = lazily.then_some("--lazy");
        topicfs().arg("umount").args(lazy).arg(&self.point).output().expect("topicfs can be started")
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let begun = Instant::now();
        let failed = std::thread::panicking();
        // A process that is being started by another test may hold our files for a moment.
        while !failed && self.is_mounted() && begun.elapsed() < Duration::from_secs(5) {
            self.umount(false);
        }
        if failed {
            eprintln!("log of the mount:\n{}", self.log());
        }
        if self.is_mounted() {
            let why = self.umount(false);
            self.umount(true);
            assert!(failed, "{}", String::from_utf8_lossy(&why.stderr));
        }
    }
}

/// Reads a file of a mount whole, and checks what `stat` says of it: before it is opened the size or 0, then the size.
pub fn read(path: &Path) -> Vec<u8> {
    let describe = |error: std::io::Error| -> ! { panic!("{}: {error}", path.display()) };
    let before = fs::metadata(path).unwrap_or_else(|error| describe(error)).len();
    let mut file = File::open(path).unwrap_or_else(|error| describe(error));
    let open = file.metadata().unwrap_or_else(|error| describe(error)).len();
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).unwrap_or_else(|error| describe(error));
    let len = bytes.len() as u64;
    assert!(before == 0 || before == len, "{}: stat {before}, {len} bytes", path.display());
    assert_eq!(open, len, "{}: stat of the open file", path.display());
    assert_eq!(fs::metadata(path).unwrap_or_else(|error| describe(error)).len(), len, "{}", path.display());
    bytes
}

/// The names in a directory, sorted.
pub fn names(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let name = |entry: std::io::Result<fs::DirEntry>| {
        entry.expect("an entry").file_name().into_string().expect("a name in UTF-8")
    };
    let mut names: Vec<_> = entries.map(name).collect();
    names.sort();
    names
}
