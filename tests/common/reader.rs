//! A program that reads from a mount while a test goes on, and what it has printed.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A running program; killed when dropped, with all that it has started.
#[derive(Debug)]
pub struct Reader {
    child: Child,
    file: PathBuf,
    printed: Arc<Mutex<Vec<u8>>>,
}

impl Reader {
    /// Starts a program with these words and a file.
    pub fn start(words: &[&str], file: &Path) -> Self {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).arg(file);
        Self::spawn(&mut command, file)
    }

    /// Starts a script of `sh`, in which `$f` is the file.
    pub fn script(script: &str, file: &Path) -> Self {
        Self::spawn(Command::new("sh").args(["-c", script]).env("f", file), file)
    }

    /// Starts a program that reads a file.
    pub fn spawn(command: &mut Command, file: &Path) -> Self {
        let command =
            command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it can be started");
        let printed = Arc::new(Mutex::new(Vec::new()));
        let mut from = child.stdout.take().expect("a pipe");
        let to = printed.clone();
        std::thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(count @ 1..) = from.read(&mut piece) {
                to.lock().expect("no panic").extend_from_slice(&piece[..count]);
            }
        });
        Self { child, file: file.to_owned(), printed }
    }

    /// What it has printed so far.
    pub fn printed(&self) -> Vec<u8> {
        self.printed.lock().expect("no panic").clone()
    }

    /// Whether it has printed this and nothing else.
    pub fn has_printed(&self, bytes: &[u8]) -> bool {
        *self.printed.lock().expect("no panic") == bytes
    }

    /// The number of its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args(["-s", signal, &self.pid().to_string()]).status();
        assert!(sent.expect("kill can be started").success());
    }

    /// Whether it has opened its file, and waits in the kernel.
    pub fn is_waiting(&self) -> bool {
        let descriptors =
            std::fs::read_dir(format!("/proc/{}/fd", self.pid())).into_iter().flatten().flatten();
        let mut files = descriptors.filter_map(|descriptor| std::fs::read_link(descriptor.path()).ok());
        if !files.any(|file| file == self.file) {
            return false;
        }
        let wchan = std::fs::read_to_string(format!("/proc/{}/wchan", self.pid())).unwrap_or_default();
        wchan.contains("request_wait") || wchan.contains("fuse")
    }

    /// Whether it has an inotify watch.
    pub fn watches(&self) -> bool {
        let infos = std::fs::read_dir(format!("/proc/{}/fdinfo", self.pid())).into_iter().flatten().flatten();
        let mut texts = infos.filter_map(|info| std::fs::read_to_string(info.path()).ok());
        texts.any(|text| text.contains("inotify wd:"))
    }

    /// How it has ended, if it has within this time.
    pub fn ended_within(&mut self, limit: Duration) -> Option<ExitStatus> {
        let begun = Instant::now();
        while begun.elapsed() < limit {
            if let Some(status) = self.child.try_wait().expect("it is ours") {
                return Some(status);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        None
    }

    /// What it said on standard error; call it when it has ended.
    pub fn complaint(&mut self) -> String {
        let mut text = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            stderr.read_to_string(&mut text).expect("UTF-8");
        }
        text
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let group = format!("-{}", self.pid());
        let _ = Command::new("kill").args(["-s", "KILL", "--", &group]).stderr(Stdio::null()).status();
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
