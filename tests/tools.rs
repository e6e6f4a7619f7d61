//! The tools that people use, on a mount: each answer is the one that the same tool gives on plain copies.
//!
//! `cargo test --test tools -- --nocapture` prints the table of tools and files.
#![expect(clippy::expect_used, reason = "a test says what is wrong by failing")]

mod common;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use common::fixtures;
use common::growing::Growing;
use common::mounted::{self, Mounted, has};
use common::shown;
use topicfs::fs::options::Options;

/// A name, the program that it needs, and a script. `$f` is the file, `$p` a plain copy of it, `$w` an empty directory.
type Tool = (&'static str, &'static str, &'static str);

const TOOLS: &[Tool] = &[
    ("cat", "cat", r#"cat "$f""#),
    ("cat <", "cat", r#"cat < "$f""#),
    ("cat twice", "cat", r#"cat "$f" "$f""#),
    ("head -n", "head", r#"head -n 7 "$f""#),
    ("head -c", "head", r#"head -c 1000 "$f""#),
    ("head -n -N", "head", r#"head -n -5 "$f""#),
    ("head -c -N", "head", r#"head -c -100 "$f""#),
    ("tail -n", "tail", r#"tail -n 3 "$f""#),
    ("tail -c", "tail", r#"tail -c 1000 "$f""#),
    ("tail -n +N", "tail", r#"tail -n +5 "$f""#),
    ("tail -c +N", "tail", r#"tail -c +1000 "$f""#),
    ("tac", "tac", r#"tac "$f""#),
    ("wc -l", "wc", r#"wc -l "$f""#),
    ("wc -c", "wc", r#"wc -c "$f""#),
    ("wc -l <", "wc", r#"wc -l < "$f""#),
    ("wc", "wc", r#"wc "$f""#),
    ("grep", "grep", r#"grep -a e "$f""#),
    ("grep -c", "grep", r#"grep -a -c e "$f""#),
    ("grep -m", "grep", r#"grep -a -b -m 3 e "$f""#),
    ("sed", "sed", r#"sed -n '2,5p;$p' "$f""#),
    ("awk", "awk", r#"awk '{n += length($0)} END {print NR, n}' "$f""#),
    ("sort", "sort", r#"sort "$f""#),
    ("cut", "cut", r#"cut -c1-20 "$f""#),
    ("uniq", "uniq", r#"uniq -c "$f""#),
    ("nl", "nl", r#"nl "$f""#),
    ("split", "split", r#"split -b 3000 "$f" "$w/x" && cat "$w"/*"#),
    ("md5sum", "md5sum", r#"md5sum "$f""#),
    ("sha256sum", "sha256sum", r#"sha256sum "$f""#),
    ("cksum", "cksum", r#"cksum "$f""#),
    ("dd skip=", "dd", r#"dd if="$f" bs=1000 skip=3 count=2 status=none"#),
    ("dd bs=1M", "dd", r#"dd if="$f" bs=1M status=none"#),
    ("dd iflag=", "dd", r#"dd if="$f" bs=4k iflag=skip_bytes,count_bytes skip=1234 count=567 status=none"#),
    ("od", "od", r#"od -An -tx1 -j100 -N64 "$f""#),
    ("hexdump -s", "hexdump", r#"hexdump -C -s 100 -n 64 "$f""#),
    ("xxd -s", "xxd", r#"xxd -s 100 -l 64 "$f" && xxd -s -64 "$f""#),
    ("cp", "cp", r#"cp "$f" "$w/x" && cat "$w/x""#),
    ("cp --sparse", "cp", r#"cp --sparse=always "$f" "$w/x" && cat "$w/x""#),
    ("cp -r", "cp", r#"mkdir "$w/d" && cp -r "$f" "$w/d" && cat "$w/d"/*"#),
    ("install", "install", r#"install "$f" "$w/x" && cat "$w/x""#),
    ("rsync -a", "rsync", r#"rsync -a "$f" "$w/x" && cat "$w/x""#),
    ("tar", "tar", r#"tar cf "$w/x" "$f" && tar xOf "$w/x""#),
    ("tar -z", "gzip", r#"tar czf "$w/x" "$f" && tar xzOf "$w/x""#),
    ("gzip", "gzip", r#"gzip -c "$f" | gzip -dc"#),
    ("less", "less", r#"LESSOPEN= less -f "$f" < /dev/null"#),
    ("find -size", "find", r#"find "$f" -type f -size +100c -printf '%s\n'"#),
    ("du -b", "du", r#"du -b "$f""#),
    ("stat", "stat", r#"stat -c '%s %F' "$f""#),
    ("test -s", "test", r#"test -s "$f" && test -r "$f" && test -f "$f" && echo yes"#),
    ("jq", "jq", r#"case $f in *.jsonl) jq -c '.offset, .value' "$f" ;; esac"#),
    ("rg", "rg", r#"rg --no-config -a -c e "$f"; rg --no-config -a -N e "$f" | md5sum"#),
    ("rg --mmap", "rg", r#"rg --no-config --mmap -a -c e "$f""#),
    (
        "python read",
        "python3",
        r#"python3 -c 'import sys; sys.stdout.buffer.write(open(sys.argv[1], "rb").read())' "$f""#,
    ),
    ("python seek", "python3", PYTHON_SEEK),
    ("python mmap", "python3", PYTHON_MMAP),
    (
        "python copy",
        "python3",
        r#"python3 -c 'import shutil, sys; shutil.copyfile(*sys.argv[1:])' "$f" "$w/x" && cat "$w/x""#,
    ),
    ("perl", "perl", r#"perl -ne 'print length, "\n" if /e/' "$f""#),
    (
        "perl -s",
        "perl",
        r#"perl -e 'open F, "<", shift; seek F, -500, 2; print tell F; print <F>; print -s F' "$f""#,
    ),
    ("diff", "diff", r#"diff -a "$f" "$p" && echo same"#),
    ("cmp", "cmp", r#"cmp "$f" "$p" && cmp -n 100 -i 50 "$f" "$p" && echo same"#),
    (
        "bash read",
        "bash",
        r#"bash -c 'n=0; while IFS= read -r line && [ $((++n)) -lt 50 ]; do echo "${#line}"; done < "$f"' 2>/dev/null"#,
    ),
    ("busybox cat", "busybox", r#"busybox cat "$f""#),
    ("busybox head", "busybox", r#"busybox head -n 7 "$f""#),
    ("busybox tail", "busybox", r#"busybox tail -n 3 "$f" && busybox tail -c 1000 "$f""#),
    ("busybox tac", "busybox", r#"busybox tac "$f""#),
    ("busybox wc", "busybox", r#"busybox wc "$f" && busybox wc -c "$f""#),
    ("busybox grep", "busybox", r#"busybox grep -c e "$f""#),
    ("busybox sed", "busybox", r#"busybox sed -n '2,5p;$p' "$f""#),
    ("busybox awk", "busybox", r#"busybox awk 'END {print NR}' "$f""#),
    ("busybox cp", "busybox", r#"busybox cp "$f" "$w/x" && cat "$w/x""#),
    ("busybox tar", "busybox", r#"busybox tar cf "$w/x" "$f" && busybox tar xOf "$w/x""#),
    ("busybox find", "busybox", r#"busybox find "$f" -type f -size +100c"#),
    ("busybox du", "busybox", r#"busybox du "$f" > /dev/null && echo fine"#),
    ("busybox dd", "busybox", r#"busybox dd if="$f" bs=1000 skip=3 count=2 2>/dev/null"#),
    ("busybox md5sum", "busybox", r#"busybox md5sum "$f""#),
    ("busybox less", "busybox", r#"busybox less "$f" < /dev/null"#),
];

const PYTHON_SEEK: &str = r#"python3 -c '
import os, sys
f = open(sys.argv[1], "rb")
print(f.seek(0, os.SEEK_END), os.fstat(f.fileno()).st_size)
f.seek(-300, os.SEEK_END); print(f.read())
f.seek(100); print(f.read(100))
print(len(f.readlines()))' "$f""#;

const PYTHON_MMAP: &str = r#"python3 -c '
import mmap, sys
with open(sys.argv[1], "rb") as f:
    for how in (mmap.MAP_SHARED, mmap.MAP_PRIVATE):
        m = mmap.mmap(f.fileno(), 0, flags=how, prot=mmap.PROT_READ)
        print(len(m), m[:100], m[-100:], m.count(b"e") if hasattr(m, "count") else bytes(m).count(b"e"))' "$f""#;

/// Tools that look at a file's size before they open it, or never: while a size isn't known they are told 0 (`wc` makes
/// its columns narrower then, busybox `cat` and `less` print nothing). They are right once anybody has looked at the open
/// file, and after `topicfs index`.
const LOOK_BEFORE_OPENING: &[&str] = &[
    "wc",
    "find -size",
    "du -b",
    "stat",
    "test -s",
    "busybox cat",
    "busybox less",
    "busybox tar",
    "busybox find",
    "busybox cp",
];

/// A partition of three segments, each of at least so many bytes.
fn source(bytes: u64) -> Growing {
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

/// Runs a tool's script in a directory, where `file` is. What it prints of its own surroundings is taken out.
fn run(script: &str, directory: &Path, file: &str, plain: &Path) -> Output {
    let scratch = tempfile::tempdir().expect("temporary directory");
    Command::new("timeout")
        .args(["60", "sh", "-c", script])
        .current_dir(directory)
        .env("f", file)
        .env("p", plain.join(file))
        .env("w", scratch.path())
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output()
        .expect("sh can be started")
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

/// Everything that must not change in a source: contents and times, of files and directories.
fn state(directory: &Path) -> BTreeMap<PathBuf, (Vec<u8>, [i64; 4])> {
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

fn assert_untouched(before: &BTreeMap<PathBuf, (Vec<u8>, [i64; 4])>, directory: &Path) {
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
    let files = ["log", "log.jsonl", "tail", "by-offset/5..105.jsonl", "by-time/2000..2100.tsv"];
    let files = files.map(|file| format!("0/{file}")).into_iter();
    let files: Vec<_> = files
        .chain([format!("0/by-segment/{second}"), format!("0/segments/{second}.log")])
        .chain(["all/log.jsonl", "all/by-time/2000...txt"].map(str::to_owned))
        .collect();
    let plain = copies(&growing, &files);
    let (mut table, mut wrong) = (String::new(), Vec::new());
    for tool in TOOLS.iter().filter(|tool| has(tool.1)) {
        write!(table, "{:15}", tool.0).expect("a string");
        for file in &files {
            let result = compare(tool, &mounted.path("t"), plain.path(), file);
            write!(table, "  {}", if result.is_ok() { "ok" } else { "--" }).expect("a string");
            wrong.extend(result.err());
        }
        table.push('\n');
    }
    println!("columns: {}\n{table}", files.join(", "));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
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
    let fresh = |tool: &&Tool| !LOOK_BEFORE_OPENING.contains(&tool.0) && has(tool.1);
    let tools = TOOLS.iter().filter(fresh).enumerate();
    let tools: Vec<_> = tools.map(|(number, tool)| (tool, &files[number % files.len()])).collect();
    let next = std::sync::atomic::AtomicUsize::new(0);
    let wrong = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while let Some((tool, file)) =
                    tools.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
                {
                    let mounted = Mounted::new(growing.data()).expect("there is a device");
                    let result = compare(tool, &mounted.path("t"), plain.path(), file);
                    wrong.lock().expect("no panic").extend(result.err());
                }
            });
        }
    });
    let wrong = wrong.into_inner().expect("no panic");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Walks over everything. `$w` is an empty directory; a copy that is made there is compared with the mount.
const WALKS: &[(&str, &str)] = &[
    ("ls", "ls -lR . | wc -l"),
    ("ls", "ls -laR . > /dev/null"),
    ("find", "find . | wc -l"),
    ("find", "find . -type f -newermt 2000-01-01 -ls > /dev/null"),
    ("grep", "grep -ra e . | wc -c"),
    ("grep", "grep -rc nothing-of-the-kind . > /dev/null || test $? = 1"),
    ("rg", "rg --no-config --hidden -c e . > /dev/null"),
    ("du", "du -a . | wc -l"),
    ("du", "du -sb ."),
    ("tar", r#"tar cf - . | (cd "$w" && tar xf -) && diff -r . "$w""#),
    ("rsync", r#"rsync -a ./ "$w" && diff -r . "$w""#),
    ("cp", r#"cp -r . "$w" && diff -r . "$w""#),
    ("cp", r#"cp -a . "$w" && diff -r . "$w""#),
    (
        "python3",
        "python3 -c 'import os; print(sum(len(open(os.path.join(d, f), \"rb\").read()) for d, _, fs in os.walk(\".\") for f in fs))'",
    ),
    ("busybox", "busybox ls -lR . | wc -l"),
    ("busybox", "busybox find . | wc -l"),
    ("busybox", "busybox grep -r e . | wc -c"),
    ("busybox", "busybox du -a . | wc -l"),
    ("busybox", r#"busybox tar cf - . | (cd "$w" && busybox tar xf -) && diff -r . "$w""#),
    ("busybox", r#"busybox cp -r . "$w" && diff -r . "$w""#),
];

#[test]
fn walks_over_a_whole_mount_end_and_leave_the_source_as_it_was() {
    if !mounted::can_mount() {
        return;
    }
    for (version, name) in [
        ("4.4.0", "shapes"),
        ("4.4.0", "txn"),
        ("4.4.0", "compacted"),
        ("4.4.0", "times"),
        ("0.8.2.2", "codecs"),
    ] {
        let source = fixtures::copy(&fixtures::case(version, name).data());
        let before = state(source.path());
        let mounted = Mounted::new(source.path()).expect("there is a device");
        for (_, script) in WALKS.iter().filter(|walk| has(walk.0)) {
            let output = run(script, mounted.point(), ".", mounted.point());
            let text = |bytes: &[u8]| String::from_utf8_lossy(&bytes[..bytes.len().min(500)]).into_owned();
            let said = format!("{}{}", text(&output.stdout), text(&output.stderr));
            assert!(
                output.status.success() && output.stderr.is_empty(),
                "{version} {name}: {script}: {said}"
            );
        }
        drop(mounted);
        assert_untouched(&before, source.path());
    }
}

#[test]
fn everything_that_brokers_ever_wrote_in_one_mount_is_listed_in_bounded_memory() {
    let sources: Vec<_> = fixtures::cases().iter().flat_map(fixtures::Case::data_dirs).collect();
    let spec: Vec<_> = sources.iter().map(|path| path.to_str().expect("UTF-8")).collect();
    let Some(mounted) = Mounted::new(spec.join(",")) else { return };
    let output = run("ls -lR . | grep -c '^[-d]'", mounted.point(), ".", mounted.point());
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let files: usize = String::from_utf8_lossy(&output.stdout).trim().parse().expect("a number");
    println!("{} data directories, {files} names", sources.len());
    assert!(sources.len() > 40 && files > 10_000, "{files} names of {} directories", sources.len());
    let peak = mounted.peak_memory_kib();
    assert!(peak < 256 * 1024, "{peak} KiB");
}
