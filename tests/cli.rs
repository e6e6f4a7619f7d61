//! The binary from outside: help, errors, exit codes, and mounts that come and go.
//!
//! Tests that mount need /dev/fuse and root or fusermount3; without them they say so and pass.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test says what is wrong by failing")]

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// The binary with `args`, away from the user's own settings.
fn topicfs(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_topicfs"));
    command.args(args).env_remove("RUST_LOG").env_remove("NOTIFY_SOCKET").stdin(Stdio::null());
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs it and expects one line on stderr, nothing on stdout and exit code 2.
fn error(args: &[&str]) -> String {
    error_of(&topicfs(args).output().unwrap())
}

fn error_of(output: &Output) -> String {
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert_eq!(text(&output.stdout), "");
    let line = stderr.strip_prefix("topicfs: ").and_then(|line| line.strip_suffix('\n'));
    let line = line.unwrap_or_else(|| panic!("not an error of ours: {stderr:?}"));
    assert!(!line.contains('\n'), "more than one line: {stderr:?}");
    line.to_owned()
}

#[test]
fn help_is_on_stdout_and_fine() {
    for args in
        [&["--help"][..], &["-h"], &["help"], &["mount", "--help"], &["help", "umount"], &["--version"]]
    {
        let output = topicfs(args).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        assert!(!output.stdout.is_empty() && output.stderr.is_empty(), "{args:?}");
    }
}

#[test]
fn no_arguments_show_the_help_and_are_an_error() {
    let output = topicfs(&[]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("Usage: topicfs"));
}

#[test]
fn a_configuration_is_checked_and_its_patterns_are_told() {
    let directory = TempDir::new().unwrap();
    let (file, data) = (directory.path().join("c.yaml"), directory.path().join("data"));
    for topic in ["a-0", "a-1", "a.b-0", "orders-7"] {
        fs::create_dir_all(data.join(topic)).unwrap();
        fs::write(data.join(topic).join("00000000000000000000.log"), "").unwrap();
    }
    let check = |yaml: &str, with_source: bool| {
        fs::write(&file, yaml).unwrap();
        let mut command = topicfs(&["config", "check", "c.yaml"]);
        command.args(with_source.then_some("data")).current_dir(directory.path());
        command.output().unwrap()
    };
    let yaml = "topics:\n  'a*': {}\n  '*s': {tail_records: 5}\n  gone: {}\n";
    let fine = check(yaml, true);
    assert_eq!((fine.status.code(), text(&fine.stderr)), (Some(0), String::new()));
    assert_eq!(text(&fine.stdout), "c.yaml: fine\na*: a, a.b\n*s: orders\ngone: no topic\n");
    assert_eq!(text(&check(yaml, false).stdout), "c.yaml: fine\n");
    assert_eq!(
        error_of(&check("topics:\n  a:\n    cache_dir: /x\n", true)),
        "c.yaml:3:5: topics.a: `cache_dir` is one for all topics; it belongs at the top of the file"
    );
    assert_eq!(error_of(&check("formats:\n  x: '%o\n", false)), "c.yaml:3:1: found unexpected end of stream");
}

#[test]
fn mistakes_are_one_line_with_what_would_work() {
    assert_eq!(
        error(&["moun"]),
        "unrecognized subcommand 'moun'; some similar subcommands exist: 'man', 'umount', 'mount'; \
         see `topicfs --help`"
    );
    assert_eq!(
        error(&["mount", "-o", "isolaton=read_committed", "/data", "/mnt"]),
        "-o isolaton=read_committed: unknown option, did you mean `isolation`?"
    );
    assert_eq!(
        error(&["mount", "-o", "rw", "/data", "/mnt"]),
        "-o rw: a mount is read-only unless it is for appending: `--rw`, or the option `append`"
    );
    assert_eq!(
        error(&["mount", "/", "/no/such/place"]),
        "mountpoint /no/such/place does not exist; `mkdir -p /no/such/place` makes it"
    );
    assert_eq!(error(&["umount", "/no/such"]), "/no/such: No such file or directory (os error 2)");
}

#[test]
fn mistakes_in_a_configuration_have_a_place() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("c.yaml");
    fs::write(&file, "# mine\nisolation: read_comitted\n").unwrap();
    let file = file.to_str().unwrap();
    let line = error(&["mount", "--config", file, "/data", "/mnt"]);
    let expected = format!("{file}:2:12: isolation: expected `read_uncommitted` or `read_committed`");
    assert!(line.starts_with(&expected), "{line}");
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let mut command = topicfs(&["completions", "bash"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(text(&output.stderr), "");
    // As `cat` ends; or the script went out before the pipe was closed.
    assert!(output.status.signal() == Some(libc::SIGPIPE) || output.status.success());
}

#[test]
fn documents_are_generated() {
    for shell in ["bash", "zsh", "fish"] {
        let output = topicfs(&["completions", shell]).output().unwrap();
        assert!(output.status.success() && text(&output.stdout).contains("umount"), "{shell}");
    }
    assert!(text(&topicfs(&["man"]).output().unwrap().stdout).contains(".TH topicfs 1"));
    let directory = tempfile::tempdir().unwrap();
    let pages = directory.path().join("man1");
    assert!(topicfs(&["man", "--out", pages.to_str().unwrap()]).status().unwrap().success());
    assert!(pages.join("topicfs.1").exists() && pages.join("topicfs-mount.1").exists());
}

/// A source, a mountpoint, and the promise that nothing stays mounted.
struct Place {
    directory: TempDir,
    data: PathBuf,
    mountpoint: PathBuf,
}

impl Place {
    /// `None` where nothing can be mounted.
    fn new() -> Option<Self> {
        if fs::OpenOptions::new().read(true).write(true).open("/dev/fuse").is_err() {
            eprintln!("no /dev/fuse: not tested");
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let archive = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/data.tar.zst");
        let archive = zstd::Decoder::new(fs::File::open(archive).unwrap()).unwrap();
        tar::Archive::new(archive).unpack(&root).unwrap();
        let (data, mountpoint) = (root.join("data"), root.join("mnt"));
        fs::create_dir(&mountpoint).unwrap();
        Some(Self { directory, data, mountpoint })
    }

    fn mount(&self, more: &[&str]) -> Command {
        let log = self.directory.path().join("log");
        let mut command = topicfs(&["mount", "--log-file", log.to_str().unwrap()]);
        command.args(more).args([&self.data, &self.mountpoint]);
        command
    }

    fn umount(&self, more: &[&str]) -> Output {
        topicfs(&["umount"]).args(more).arg(&self.mountpoint).output().unwrap()
    }

    /// A mount whose process is a child of the test.
    fn mount_in_foreground(&self) -> Child {
        let served = self.served();
        let child = self.mount(&["--foreground"]).spawn().unwrap();
        wait_until("mounted", || self.served() > served);
        child
    }

    /// How often a mount has said that it serves.
    fn served(&self) -> usize {
        self.log().matches(" is mounted on ").count()
    }

    /// The lines of mountinfo for the mountpoint.
    fn lines(&self) -> Vec<String> {
        let field = format!(" {} ", self.mountpoint.display());
        let all = fs::read_to_string("/proc/self/mountinfo").unwrap();
        all.lines().filter(|line| line.contains(&field)).map(str::to_owned).collect()
    }

    fn mounts(&self) -> usize {
        self.lines().len()
    }

    fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        while self.mounts() > 0 && self.umount(&["--lazy"]).status.success() {}
    }
}

fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(20), "not {what} within 20 s");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn signal(child: &Child, signal: i32) {
    let kill = Command::new("kill").args([format!("-{signal}"), child.id().to_string()]).status().unwrap();
    assert!(kill.success());
}

/// Somebody whose working directory keeps the mount busy.
fn user_of(place: &Place) -> Child {
    Command::new("sleep").arg("60").current_dir(&place.mountpoint).spawn().unwrap()
}

fn end(mut user: Child) {
    user.kill().unwrap();
    user.wait().unwrap();
}

#[test]
fn a_mount_serves_when_the_command_returns() {
    let Some(place) = Place::new() else { return };
    // `output` waits for the end of stdout and stderr: the mount doesn't hold on to them.
    let output = place.mount(&[]).output().unwrap();
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    fs::read_dir(&place.mountpoint).unwrap();

    let lines = place.lines();
    let [line] = &lines[..] else { panic!("{lines:?}") };
    for flag in ["ro", "nosuid", "nodev", "noexec", "noatime", "default_permissions"] {
        assert!(line.split([' ', ',']).any(|word| word == flag), "{flag}: {line}");
    }
    assert!(line.contains(&format!(" - fuse.topicfs {} ", place.data.display())), "{line}");

    let again = error_of(&place.mount(&[]).output().unwrap());
    assert!(again.contains(" is already mounted on ") && again.contains("topicfs umount"), "{again}");

    let output = place.umount(&[]);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    assert_eq!(place.mounts(), 0);
    wait_until("logged", || place.log().contains("unmounted"));
}

#[test]
fn errors_of_the_background_come_before_the_prompt() {
    let Some(mut place) = Place::new() else { return };
    place.data = place.data.join("no-such-directory");
    let line = error_of(&place.mount(&[]).output().unwrap());
    assert!(line.contains("no-such-directory"), "{line}");
    assert_eq!(place.mounts(), 0);
}

#[test]
fn source_and_mountpoint_lie_apart() {
    let Some(mut place) = Place::new() else { return };
    let outside = place.mountpoint.clone();
    place.mountpoint = place.data.join("mnt");
    fs::create_dir(&place.mountpoint).unwrap();
    let line = error_of(&place.mount(&[]).output().unwrap());
    assert!(line.contains("lies inside the source"), "{line}");
    fs::remove_dir(&place.mountpoint).unwrap();

    place.mountpoint = outside;
    assert!(place.mount(&[]).status().unwrap().success());
    let second = place.directory.path().join("second");
    fs::create_dir(&second).unwrap();
    let log = place.directory.path().join("log");
    let log = ["--log-file", log.to_str().unwrap()];
    let line =
        error(&["mount", log[0], log[1], place.mountpoint.to_str().unwrap(), second.to_str().unwrap()]);
    assert!(line.contains("lies in the topicfs mount on"), "{line}");
}

/// Whether this process was started so that it ignores a signal, which a mount respects.
fn ignores(number: libc::c_int) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap().trim();
    u64::from_str_radix(ignored, 16).unwrap() & 1 << (number - 1) != 0
}

#[test]
fn signals_unmount() {
    let Some(place) = Place::new() else { return };
    for number in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        if number != libc::SIGTERM && ignores(number) {
            println!(
                "signal {number} is ignored here, as under nohup or behind `&`, and by what is started from here: not tried"
            );
            continue;
        }
        let mut child = place.mount_in_foreground();
        signal(&child, number);
        assert_eq!(child.wait().unwrap().code(), Some(0), "{number}");
        assert_eq!(place.mounts(), 0, "{number}");
    }
}

#[test]
fn a_busy_mount_is_named_and_goes_lazily() {
    let Some(place) = Place::new() else { return };
    let mut child = place.mount_in_foreground();
    let user = user_of(&place);

    let line = error_of(&place.umount(&[]));
    assert!(line.contains(" is busy") && line.contains("topicfs umount --lazy"), "{line}");
    assert!(line.contains(&format!("sleep (pid {})", user.id())), "{line}");
    assert_eq!(place.mounts(), 1);

    assert!(place.umount(&["--lazy"]).status.success());
    assert_eq!(place.mounts(), 0);
    end(user);
    assert_eq!(child.wait().unwrap().code(), Some(0), "the last user's end is the end of the mount");
}

#[test]
fn a_second_signal_ends_a_busy_mount_at_once() {
    let Some(place) = Place::new() else { return };
    let mut child = place.mount_in_foreground();
    let user = user_of(&place);
    signal(&child, libc::SIGTERM);
    wait_until("detached", || place.mounts() == 0 && place.log().contains(" is busy"));
    signal(&child, libc::SIGTERM);
    assert_eq!(child.wait().unwrap().code(), Some(128 + libc::SIGTERM));
    end(user);
}

#[test]
fn a_dead_mount_is_taken_away_by_umount_and_by_the_next_mount() {
    let Some(place) = Place::new() else { return };
    let die = || {
        end(place.mount_in_foreground());
        let error = fs::read_dir(&place.mountpoint).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOTCONN));
    };
    die();
    assert!(place.umount(&[]).status.success());
    assert_eq!(place.mounts(), 0);

    die();
    let output = place.mount(&[]).output().unwrap();
    assert!(output.status.success());
    let note = format!("took away the dead mount of {}", place.data.display());
    assert!(text(&output.stderr).contains(&note), "{}", text(&output.stderr));
    assert_eq!(place.mounts(), 1);
    fs::read_dir(&place.mountpoint).unwrap();
}

#[test]
fn a_mount_that_ends_leaves_what_has_been_mounted_there_since() {
    let Some(place) = Place::new() else { return };
    let mut first = place.mount_in_foreground();
    assert!(place.umount(&[]).status.success());
    let mut second = place.mount_in_foreground();
    assert_eq!(first.wait().unwrap().code(), Some(0));
    fs::read_dir(&place.mountpoint).unwrap();
    signal(&second, libc::SIGTERM);
    assert_eq!(second.wait().unwrap().code(), Some(0));
}

#[test]
fn mount_calls_the_helper_as_it_does() {
    let Some(place) = Place::new() else { return };
    let helper = place.directory.path().join("mount.topicfs");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_topicfs"), &helper).unwrap();
    let log = place.directory.path().join("log");
    let options = format!("rw,nofail,x-systemd.automount,log_file={}", log.display());
    let call = |more: &[&str], options: &str| {
        let mut command = Command::new(&helper);
        command.args([&place.data, &place.mountpoint]).args(more).arg("-o").arg(options);
        command.stdin(Stdio::null()).output().unwrap()
    };
    let line = error_of(&call(&[], &format!("{options},isolaton=x")));
    assert!(line.contains("did you mean `isolation`"), "{line}");

    let fake = call(&["-fnv"], &options);
    assert!(fake.status.success() && text(&fake.stdout).contains(" on "), "{fake:?}");
    assert_eq!(place.mounts(), 0);

    let output = call(&["-s"], &format!("{options},isolaton=x"));
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(place.mounts(), 1);
}

#[test]
fn readiness_is_reported_to_systemd() {
    let Some(place) = Place::new() else { return };
    let path = place.directory.path().join("notify");
    let socket = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut child = place.mount(&["--foreground"]).env("NOTIFY_SOCKET", &path).spawn().unwrap();
    let mut buffer = [0; 256];
    let len = socket.recv(&mut buffer).unwrap();
    assert!(text(&buffer[..len]).starts_with("READY=1\n"));
    fs::read_dir(&place.mountpoint).unwrap();
    signal(&child, libc::SIGTERM);
    assert!(child.wait().unwrap().success());
}
