//! Tools that read one file.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use topicfs::fs::options::Options;

use crate::common::growing::Growing;
use crate::common::mounted::{self, Mounted};
use crate::common::shown;
use crate::document;
use crate::matrix::{self, Column, Tool};
use crate::script::{is_there, run};

/// A partition of three segments, each of at least so many bytes.
pub fn source(bytes: u64) -> Growing {
    let mut growing = Growing::new();
    for segment in 0..3 {
        if segment > 0 {
            growing.roll();
        }
        while fs::metadata(growing.segment(growing.base())).expect("stat").len() < bytes {
            growing.append(10);
        }
    }
    growing
}

/// Whether a tool says of a file in the mount what it says of the copy; if not, how it differs.
fn compare(tool: &Tool, mount: &Path, plain: &Path, file: &str) -> Result<(), String> {
    let (name, _, script) = *tool;
    let (expected, shown) = (run(script, plain, file, plain), run(script, mount, file, plain));
    assert!(
        expected.status.success(),
        "{name} on a plain file: {}",
        String::from_utf8_lossy(&expected.stderr)
    );
    if (expected.status, &expected.stdout) == (shown.status, &shown.stdout) {
        return Ok(());
    }
    Err(format!(
        "{name} {file}: {} and {} bytes, instead of {} and {}: {}",
        shown.status,
        shown.stdout.len(),
        expected.status,
        expected.stdout.len(),
        String::from_utf8_lossy(&shown.stderr),
    ))
}

/// Copies of files of the topic `t` as plain files.
fn copies(growing: &Growing, files: &[String]) -> tempfile::TempDir {
    let copies = tempfile::tempdir().expect("temporary directory");
    let fs = shown::open(growing.data().to_str().expect("UTF-8"), Options::default());
    for file in files {
        let copy = copies.path().join(file);
        fs::create_dir_all(copy.parent().expect("a directory")).expect("directory can be made");
        fs::write(copy, shown::read(&fs, &format!("t/{file}"))).expect("file can be written");
    }
    copies
}

/// Contents and times of files and directories.
pub type State = BTreeMap<PathBuf, (Vec<u8>, [i64; 4])>;

/// Everything that must not change in a source.
pub fn state(directory: &Path) -> State {
    let mut all = BTreeMap::new();
    let mut waiting = vec![directory.to_owned()];
    while let Some(path) = waiting.pop() {
        let meta = fs::symlink_metadata(&path).expect("stat");
        let times = [meta.mtime(), meta.mtime_nsec(), meta.atime(), meta.atime_nsec()];
        let mut bytes = Vec::new();
        if meta.is_dir() {
            // The time of access of directories is not kept: their listing has no O_NOATIME that is used.
            let entries = fs::read_dir(&path).expect("directory can be listed");
            waiting.extend(entries.map(|entry| entry.expect("an entry").path()));
            all.insert(path, (bytes, [times[0], times[1], 0, 0]));
            continue;
        }
        let file = OpenOptions::new().read(true).custom_flags(libc::O_NOATIME).open(&path);
        file.and_then(|mut file| file.read_to_end(&mut bytes)).expect("file can be read");
        all.insert(path, (bytes, times));
    }
    all
}

pub fn assert_untouched(before: &State, directory: &Path) {
    let after = state(directory);
    assert!(before.keys().eq(after.keys()), "files came or went");
    for (path, state) in before {
        assert!(state.0 == after[path].0, "{}: other bytes", path.display());
        assert_eq!(state.1, after[path].1, "{}: mtime and atime", path.display());
    }
}

#[test]
fn every_tool_reads_a_mount_as_it_reads_plain_files() {
    let growing = source(50_000);
    let before = state(growing.data());
    let Some(mounted) = Mounted::new(growing.data()) else { return };
    let second = mounted::names(&mounted.path("t/0/by-segment")).swap_remove(2);
    let columns: &[(Column, &[&str])] = &[
        (Column::Growing, &["0/log", &format!("0/by-segment/{second}.jsonl"), "0/tail", "all/log.jsonl"]),
        (Column::Range, &["0/by-offset/5..105.jsonl", "all/by-time/2000...txt"]),
        (Column::Source, &[&format!("0/segments/{second}.log")]),
    ];
    let files: Vec<_> = columns.iter().flat_map(|column| column.1).map(|file| (*file).to_owned()).collect();
    let plain = copies(&growing, &files);
    let mut seen = document::Seen::new(matrix::READING);
    for tool in matrix::READING.iter().flat_map(|group| group.1).filter(|tool| is_there(tool.1)) {
        for (column, files) in columns {
            let results = files.iter().map(|file| compare(tool, &mounted.path("t"), plain.path(), file));
            let wrong: Vec<_> = results.filter_map(Result::err).collect();
            seen.add(tool.0, *column, if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) });
        }
    }
    seen.check();
    assert_untouched(&before, growing.data());
}

#[test]
fn tools_are_right_on_a_file_that_nobody_has_measured() {
    if !mounted::can_mount() {
        return;
    }
    // Less than a MiB is measured at once.
    let growing = source(1_300_000);
    let files = ["0/log.jsonl", "0/by-time/2000..2100.jsonl", "all/log.jsonl"].map(str::to_owned);
    let plain = copies(&growing, &files);
    let tools = matrix::READING.iter().flat_map(|group| group.1).filter(|tool| is_there(tool.1)).enumerate();
    let tools: Vec<_> = tools.map(|(number, tool)| (tool, &files[number % files.len()])).collect();
    let next = AtomicUsize::new(0);
    let seen = Mutex::new(document::Seen::new(matrix::READING));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while let Some((tool, file)) = tools.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let mounted = Mounted::new(growing.data()).expect("there is a device");
                    let result = compare(tool, &mounted.path("t"), plain.path(), file);
                    seen.lock().expect("no panic").add(tool.0, Column::Unmeasured, result);
                }
            });
        }
    });
    seen.into_inner().expect("no panic").check();
}
