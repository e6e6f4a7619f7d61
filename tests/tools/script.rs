//! Runs a tool of the matrix.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::common::mounted::{has, skip};

/// Where the `coreutils` binary of uutils is: in `TOPICFS_UUTILS`, where `.ci/run` puts it, or on the path.
fn uutils() -> Option<PathBuf> {
    let given = env::var_os("TOPICFS_UUTILS").map(PathBuf::from);
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/uutils/bin");
    let path = env::var_os("PATH").unwrap_or_default();
    let mut directories = given.into_iter().chain([built]).chain(env::split_paths(&path));
    directories.find(|directory| directory.join("coreutils").is_file())
}

/// Whether a tool is there: a program, or `coreutils`, which is that of uutils. If not, it has been said.
pub fn is_there(program: &str) -> bool {
    if program != "coreutils" {
        return has(program);
    }
    let found = uutils().is_some();
    if !found {
        skip(
            "uutils are not installed: .ci/run does it, or name a directory that has `coreutils` in TOPICFS_UUTILS",
        );
    }
    found
}

/// The path on which scripts find their programs.
pub fn path() -> OsString {
    let path = env::var_os("PATH").unwrap_or_default();
    env::join_paths(env::split_paths(&path).chain(uutils())).expect("a path")
}

/// Runs a script in a directory: `$f` is a file, `$p` the file below another directory, `$w` an empty directory.
pub fn run(script: &str, directory: &Path, file: &str, plain: &Path) -> Output {
    let scratch = tempfile::tempdir().expect("temporary directory");
    Command::new("timeout")
        .args(["60", "sh", "-c", script])
        .current_dir(directory)
        .env("f", file)
        .env("p", plain.join(file))
        .env("w", scratch.path())
        .env("LC_ALL", "C")
        .env("PATH", path())
        .stdin(Stdio::null())
        .output()
        .expect("sh can be started")
}

/// What a program said, shortened.
pub fn said(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(&bytes[..bytes.len().min(500)]).into_owned();
    format!("{}: {}{}", output.status, text(&output.stdout), text(&output.stderr))
}

/// A cell that the matrix calls wrong is wrong. Other versions of a tool may do better, so only CI insists.
pub fn insists() -> bool {
    env::var_os("CI").is_some_and(|ci| ci == "true")
}
