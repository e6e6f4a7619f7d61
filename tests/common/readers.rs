//! Programs that read on while a file grows, each with its output in a file.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use super::mounted::wait_until;

/// Reads on, as a script would that waits for growth.
const LOOP: &str = "
import os, sys, time
file = os.open(sys.argv[1], os.O_RDONLY)
while True:
    piece = os.read(file, 1 << 16)
    if piece:
        os.write(1, piece)
    else:
        time.sleep(0.05)
";

/// Waits with poll for what a file has, as an event loop does.
const POLL: &str = "
import os, select, sys
file = os.open(sys.argv[1], os.O_RDONLY)
poll = select.poll()
poll.register(file, select.POLLIN)
while True:
    poll.poll()
    piece = os.read(file, 1 << 16)
    if not piece:
        sys.exit('the end')
    os.write(1, piece)
";

/// How a file is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// GNU `tail -f`.
    Tail,
    /// GNU `tail -F`.
    TailByName,
    /// busybox's `tail -f`.
    Busybox,
    /// A loop in Python.
    Loop,
    /// `cat`.
    Cat,
    /// A loop in Python that waits with poll.
    Poll,
}

impl By {
    fn words(self) -> &'static [&'static str] {
        match self {
            Self::Tail => &["tail", "-n", "+1", "-s", "0.1", "-f"],
            Self::TailByName => &["tail", "-n", "+1", "-s", "0.1", "-F"],
            Self::Busybox => &["busybox", "tail", "-n", "+1", "-f"],
            Self::Loop => &["python3", "-c", LOOP],
            Self::Cat => &["cat"],
            Self::Poll => &["python3", "-c", POLL],
        }
    }

    /// The program.
    pub fn program(self) -> &'static str {
        self.words()[0]
    }
}

/// One of them.
#[derive(Debug)]
pub struct Reader {
    child: Child,
    out: PathBuf,
    err: PathBuf,
    /// How, and of what.
    pub name: String,
}

impl Reader {
    /// Starts one on `file`; what it says goes into two files of `directory`.
    pub fn start(by: By, file: &Path, directory: &Path) -> Self {
        let number = fs::read_dir(directory).expect("a directory").count();
        let [out, err] = ["out", "err"].map(|kind| directory.join(format!("{number}-{kind}")));
        let [to_out, to_err] = [&out, &err].map(|path| File::create(path).expect("a file can be made"));
        let words = by.words();
        let child = Command::new(words[0])
            .args(&words[1..])
            .arg(file)
            .stdin(Stdio::null())
            .stdout(to_out)
            .stderr(to_err)
            .spawn()
            .expect("it can be started");
        Self { child, out, err, name: format!("{by:?} {}", file.display()) }
    }

    /// All that it has printed.
    pub fn output(&self) -> Vec<u8> {
        fs::read(&self.out).expect("its output")
    }

    /// How much that is.
    pub fn len(&self) -> u64 {
        fs::metadata(&self.out).expect("its output").len()
    }

    /// Its last bytes, about `kib` KiB.
    pub fn last(&self, kib: u64) -> Vec<u8> {
        let mut file = File::open(&self.out).expect("its output");
        file.seek(SeekFrom::Start(self.len().saturating_sub(kib << 10))).expect("it can be sought");
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).expect("it can be read");
        bytes
    }

    /// Whether it has `file` open.
    pub fn has_open(&self, file: &Path) -> bool {
        let Ok(open) = fs::read_dir(format!("/proc/{}/fd", self.child.id())) else { return false };
        open.flatten().any(|entry| fs::read_link(entry.path()).is_ok_and(|path| path == file))
    }

    /// What it complained about.
    pub fn complaint(&self) -> String {
        fs::read_to_string(&self.err).expect("its messages")
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a child of ours")
    }

    /// Ends it, which it must not survive; `None` if it had ended before.
    pub fn end(&mut self, signal: i32) -> Option<ExitStatus> {
        if self.ended().is_some() {
            return None;
        }
        let sent = Command::new("kill").arg(format!("-{signal}")).arg(self.child.id().to_string()).status();
        assert!(sent.expect("kill can be started").success(), "{}", self.name);
        wait_until(&format!("{} ends by signal {signal}", self.name), || self.ended().is_some());
        let status = self.ended().expect("it has ended");
        assert!(status.signal() == Some(signal) || status.code().is_some(), "{}: {status}", self.name);
        Some(status)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether this process, and so each that it starts, takes no notice of SIGINT.
pub fn ignores_interrupts() -> bool {
    let status = fs::read_to_string("/proc/self/status").expect("its status");
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).expect("a mask");
    u64::from_str_radix(mask.trim(), 16).expect("hexadecimal") & 2 != 0
}
