//! Who may mount, read and unmount: root and ordinary users, each with a kernel that checks.
//!
//! All of it happens in a mount namespace of its own, with a FUSE device and a configuration that users may use, and
//! with `mount.topicfs` in `/sbin`. What is mounted there ends with it.
#![expect(clippy::expect_used, reason = "a test says what is wrong by failing")]

mod common;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};

use common::fixtures;
use common::mounted::{can_mount, has, is_root};
use tempfile::TempDir;

const ROOT: u32 = 0;
/// Who mounts without being root.
const MOUNTER: u32 = 65534;
/// Owner and group of a source.
const OWNER: u32 = 12345;
/// In no relation to any of it.
const STRANGER: u32 = 23456;

/// Makes the namespace. `$W` is its own place.
const SETUP: &str = r#"
set -e
mount -t tmpfs -o mode=755 none "$W"
mknod "$W/fuse" c 10 229
chmod 666 "$W/fuse"
mount --bind "$W/fuse" /dev/fuse
[ -e /etc/fuse.conf ] || touch /etc/fuse.conf
echo user_allow_other > "$W/fuse.conf"
mount --bind "$W/fuse.conf" /etc/fuse.conf
mkdir "$W/bin" "$W/upper" "$W/work" "$W/mnt" "$W/logs"
touch "$W/bin/topicfs"
mount --bind "$TOPICFS" "$W/bin/topicfs"
sbin=$(readlink -f /sbin)
mount -t overlay -o "lowerdir=$sbin,upperdir=$W/upper,workdir=$W/work" none "$sbin"
ln -s "$W/bin/topicfs" "$sbin/mount.topicfs"
ln -s "$W/bin/topicfs" "$sbin/topicfs"
cp -r "$CASE" "$W/data"
chmod -R u=rwX,go=rX "$W/data"
chown 65534:65534 "$W/mnt"
chmod 777 "$W/logs"
echo ready
exec cat
"#;

/// A mount namespace and the process that keeps it.
struct World {
    keeper: Child,
    directory: TempDir,
}

impl World {
    /// `None` where there can't be one.
    fn new() -> Option<Self> {
        let programs = ["unshare", "nsenter", "setpriv", "fusermount3", "umount"];
        if !(can_mount() && is_root() && programs.into_iter().all(has)) {
            return None;
        }
        let directory = tempfile::tempdir().expect("temporary directory");
        let mut keeper = Command::new("unshare")
            .args(["--mount", "--propagation", "private", "sh", "-c", SETUP])
            .env("W", directory.path())
            .env("TOPICFS", env!("CARGO_BIN_EXE_topicfs"))
            .env("CASE", fixtures::case("4.4.0", "codecs").data())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("unshare can be started");
        let mut line = String::new();
        let said = BufReader::new(keeper.stdout.take().expect("a pipe")).read_line(&mut line);
        let world = Self { keeper, directory };
        assert!(said.is_ok() && line == "ready\n", "the namespace can't be made");
        Some(world)
    }

    /// Runs a script in it as a user.
    fn run(&self, user: u32, script: &str) -> Output {
        let (user, world) = (user.to_string(), self.directory.path());
        let path = std::env::var("PATH").expect("PATH");
        let helper = r#"
            mounted() { until grep -q " $W/mnt " /proc/self/mountinfo; do sleep 0.02; done; }
            gone() { while grep -q " $W/mnt " /proc/self/mountinfo; do sleep 0.02; done; }
        "#;
        Command::new("nsenter")
            .args(["--mount", "--target", &self.keeper.id().to_string(), "setpriv", "--clear-groups"])
            .args(["--reuid", &user, "--regid", &user, "timeout", "20", "sh", "-c"])
            .arg(format!("{helper}\n{script}"))
            .env_clear()
            .env("W", world)
            .env("PATH", format!("{}:{path}:/sbin:/usr/sbin", world.join("bin").display()))
            .env("XDG_CACHE_HOME", world.join("logs").join(format!("cache-{user}")))
            .env("LC_ALL", "C")
            .current_dir("/")
            .stdin(Stdio::null())
            .output()
            .expect("nsenter can be started")
    }

    /// What a script prints, which must succeed.
    fn ok(&self, user: u32, script: &str) -> String {
        let output = self.run(user, script);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(output.status.success(), "{script}: {}{}", text(&output.stdout), text(&output.stderr));
        text(&output.stdout)
    }

    /// What a script complains of, which must fail.
    fn fails(&self, user: u32, script: &str) -> String {
        let output = self.run(user, script);
        assert!(!output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stdout));
        String::from_utf8_lossy(&output.stderr).into_owned()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.run(
            ROOT,
            r#"grep " $W/mnt " /proc/self/mountinfo | while read -r line; do umount -l "$W/mnt"; done"#,
        );
        let _ = self.keeper.kill();
        let _ = self.keeper.wait();
    }
}

/// `topicfs mount` with options.
fn mount(options: &str) -> String {
    format!(r#"topicfs mount --log-file "$W/logs/$$" {options} "$W/data" "$W/mnt""#)
}

#[test]
fn a_users_mount_is_for_that_user_alone() {
    let Some(world) = World::new() else { return };
    world.ok(MOUNTER, &mount(""));
    let records = world.ok(MOUNTER, r#"wc -l < "$W/mnt/codec-none/0/log.jsonl""#);
    assert_eq!(records, "58\n");
    let modes = r#"cd "$W/mnt/codec-none/0" && stat -c '%a %u %g' . log tail by-offset by-offset/1 segments/*0.log info"#;
    assert_eq!(
        world.ok(MOUNTER, modes).lines().collect::<Vec<_>>(),
        [
            "500 65534 65534",
            "400 65534 65534",
            "400 65534 65534",
            "500 65534 65534",
            "400 65534 65534",
            "400 65534 65534",
            "400 65534 65534",
        ]
    );
    for user in [ROOT, STRANGER] {
        let refused = world.fails(user, r#"ls "$W/mnt""#);
        assert!(refused.contains("Permission denied"), "{refused}");
    }
    let line = world.ok(MOUNTER, r#"grep " $W/mnt " /proc/self/mountinfo"#);
    for word in ["ro", "nosuid", "nodev", "noexec", "default_permissions", "user_id=65534", "fuse.topicfs"] {
        assert!(line.trim_end().split([' ', ',']).any(|it| it == word), "{word}: {line}");
    }
    assert!(!line.contains("allow_other"), "{line}");

    let again = world.fails(MOUNTER, &mount(""));
    assert!(again.contains("is already mounted on"), "{again}");
    world.ok(MOUNTER, r#"topicfs umount "$W/mnt" && gone"#);
}

#[test]
fn a_users_mount_ends_by_signals_and_from_outside() {
    let Some(world) = World::new() else { return };
    let endings = [
        (r#"kill -TERM $!"#, 0),
        (r#"kill -INT $!"#, 0),
        (r#"fusermount3 -u "$W/mnt""#, 0),
        (r#"topicfs umount "$W/mnt""#, 0),
    ];
    // A shell has its background jobs ignore SIGINT, and what was ignored before a mount stays so.
    for (ending, code) in endings {
        let script = format!(
            r#"env --default-signal=INT {} & mounted; ls "$W/mnt" > /dev/null; {ending}; wait $!; echo $?; gone"#,
            mount("--foreground")
        );
        assert_eq!(world.ok(MOUNTER, &script), format!("{code}\n"), "{ending}");
    }
    let script = format!(
        r#"env --default-signal=INT {} & mounted; umount "$W/mnt"; wait $!; echo $?; gone"#,
        mount("--foreground")
    );
    assert_eq!(world.ok(ROOT, &script), "0\n");
}

#[test]
fn a_dead_mount_of_a_user_is_named_and_freed_without_root() {
    let Some(world) = World::new() else { return };
    let die = format!(
        r#"env --default-signal=INT {} & mounted; ls "$W/mnt" > /dev/null; kill -KILL $!; wait $!; ls "$W/mnt""#,
        mount("--foreground")
    );
    let dead = world.fails(MOUNTER, &die);
    assert!(dead.contains("Transport endpoint is not connected"), "{dead}");
    world.ok(MOUNTER, r#"topicfs umount "$W/mnt" && gone"#);

    world.fails(MOUNTER, &die);
    let output = world.run(MOUNTER, &mount(""));
    let note = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && note.contains("took away the dead mount of"), "{note}");
    world.ok(MOUNTER, r#"ls "$W/mnt/codec-none/0" && topicfs umount "$W/mnt" && gone"#);
}

#[test]
fn with_allow_other_the_kernel_checks_the_rights_of_the_source() {
    let Some(world) = World::new() else { return };
    let own = format!(
        r#"cd "$W/data" && chown -R {OWNER}:{OWNER} codec-none-0 codec-none-1 && chmod 750 codec-none-0 codec-none-1 &&
        chmod 751 codec-none-0/*.log; chmod 640 codec-none-1/*.log; chmod 644 codec-none-2/*.log"#
    );
    world.ok(ROOT, &own);
    world.ok(ROOT, &mount("-o allow_other"));
    let modes = r#"cd "$W/mnt/codec-none" && stat -c '%a %u %g' 0 0/log 0/segments/*.log 1/log 1/by-segment 2 2/log 2/by-offset/1"#;
    let owned = |modes: &str| format!("{modes} {OWNER} {OWNER}");
    assert_eq!(
        world.ok(ROOT, modes).lines().collect::<Vec<_>>(),
        [
            &owned("550"),
            &owned("440"),
            &owned("440"),
            &owned("440"),
            &owned("550"),
            "555 0 0",
            "444 0 0",
            "444 0 0",
        ]
    );
    let read = |number: u32| format!(r#"wc -l < "$W/mnt/codec-none/{number}/log.jsonl""#);
    for user in [ROOT, OWNER, STRANGER, MOUNTER] {
        assert_eq!(world.ok(user, &read(2)), "73\n", "{user}");
    }
    for user in [ROOT, OWNER] {
        assert_eq!(world.ok(user, &read(1)), "61\n", "{user}");
    }
    for number in [0, 1] {
        let refused = world.fails(STRANGER, &read(number));
        assert!(refused.contains("Permission denied") || refused.contains("cannot open"), "{refused}");
    }
    let line = world.ok(ROOT, r#"grep " $W/mnt " /proc/self/mountinfo"#);
    assert!(line.contains("allow_other") && line.contains("default_permissions"), "{line}");
    world.ok(ROOT, r#"umount "$W/mnt""#);
}

#[test]
fn a_user_lets_others_in_where_the_system_allows_it() {
    let Some(world) = World::new() else { return };
    world.ok(MOUNTER, &mount("-o allow_other"));
    for user in [ROOT, STRANGER] {
        assert_eq!(world.ok(user, r#"wc -l < "$W/mnt/codec-none/0/log.jsonl""#), "58\n", "{user}");
    }
    world.ok(MOUNTER, r#"topicfs umount "$W/mnt" && gone"#);

    world.ok(ROOT, r##"echo "# nothing" > "$W/fuse.conf""##);
    let refused = world.fails(MOUNTER, &mount("-o allow_other"));
    assert!(refused.contains("user_allow_other") && refused.lines().count() == 1, "{refused}");
}

#[test]
fn a_user_who_may_not_read_the_source_is_told() {
    let Some(world) = World::new() else { return };
    world.ok(ROOT, r#"chmod 700 "$W/data""#);
    let refused = world.fails(MOUNTER, &mount(""));
    assert!(refused.contains("/data: permission denied"), "{refused}");
    assert_eq!(refused.lines().count(), 1, "{refused}");
    world.ok(ROOT, r#"chmod 755 "$W/data"; chmod 600 "$W"/data/codec-none-0/*.log"#);
    world.ok(MOUNTER, &mount(""));
    let refused = world.fails(MOUNTER, r#"cat "$W/mnt/codec-none/0/log""#);
    assert!(refused.contains("Permission denied"), "{refused}");
    assert_eq!(world.ok(MOUNTER, r#"wc -l < "$W/mnt/codec-none/1/log.jsonl""#), "61\n");
}

#[test]
fn mount_8_and_umount_8_know_it() {
    let Some(world) = World::new() else { return };
    for fs_type in ["topicfs", "fuse.topicfs"] {
        let mount = format!(
            r#"mount -t {fs_type} -o "ro,nofail,cache_dir=$W/logs/cache,log_file=$W/logs/log" "$W/data" "$W/mnt""#
        );
        world.ok(ROOT, &mount);
        assert_eq!(world.ok(ROOT, r#"wc -l < "$W/mnt/codec-none/0/log.jsonl""#), "58\n", "{fs_type}");
        let line = world.ok(ROOT, r#"grep " $W/mnt " /proc/self/mountinfo"#);
        assert!(line.contains(" - fuse.topicfs "), "{line}");
        world.ok(ROOT, r#"umount "$W/mnt" && gone && until grep -q unmounted "$W/logs/log"; do sleep 0.02; done; rm "$W/logs/log""#);
    }
    let fstab = r#"echo "$W/data $W/mnt fuse.topicfs ro,nofail,cache_dir=$W/logs/cache,log_file=$W/logs/log 0 0" > "$W/fstab" && mount -a -T "$W/fstab""#;
    world.ok(ROOT, fstab);
    assert_eq!(world.ok(ROOT, r#"wc -l < "$W/mnt/codec-none/0/log.jsonl" && umount "$W/mnt""#), "58\n");
    let refused = world.fails(ROOT, r#"mount -t topicfs -o isolaton=x "$W/data" "$W/mnt""#);
    assert!(refused.contains("did you mean `isolation`"), "{refused}");
}

#[test]
fn a_mountpoint_that_is_not_empty_is_asked_for() {
    let Some(world) = World::new() else { return };
    world.ok(ROOT, r#"touch "$W/mnt/x""#);
    let refused = world.fails(ROOT, &mount(""));
    assert!(refused.contains("is not empty") && refused.lines().count() == 1, "{refused}");
    world.ok(ROOT, &mount("-o nonempty"));
    assert_eq!(
        world.ok(ROOT, r#"ls "$W/mnt/codec-none" && umount "$W/mnt" && ls "$W/mnt""#),
        "0\n1\n2\nall\ninfo\ninfo.json\nx\n"
    );
}

/// What of a source may not change by reading: every file's checksum, and its time of change.
const STATE: &str = r#"state() { find "$1" -type f -exec sha256sum {} + | sort -k 2; find "$1" -printf '%p %T@ %C@\n' | sort; }"#;

#[test]
fn a_source_that_can_only_be_read_is_read() {
    let Some(world) = World::new() else { return };
    // Somebody else's, who lets others read; mounted read-only, and once more without access times.
    world.ok(
        ROOT,
        &format!(
            r#"cp -a "$W/data" "$W/theirs" && chown -R {OWNER}:{OWNER} "$W/theirs" && chmod -R a=rX "$W/theirs"
            mkdir "$W/ro" "$W/noatime"
            mount --bind "$W/theirs" "$W/ro" && mount -o remount,bind,ro "$W/ro"
            mount --bind "$W/theirs" "$W/noatime" && mount -o remount,bind,noatime "$W/noatime""#
        ),
    );
    let mut sources = vec!["theirs", "ro", "noatime"];
    let image = r#"truncate -s 16M "$W/image" && mkfs.ext4 -q -d "$W/theirs" "$W/image" && chmod 444 "$W/image" &&
        mkdir "$W/ext4" && mount -o loop,ro "$W/image" "$W/ext4""#;
    if ["mkfs.ext4", "losetup"].into_iter().all(has) && world.run(ROOT, image).status.success() {
        sources.push("ext4");
    } else {
        println!("skipped: an image can't be mounted here");
    }
    for source in sources {
        for user in [ROOT, OWNER, MOUNTER] {
            // fusermount3 knows users by their names, which the owner hasn't got.
            let mounted = if user == OWNER {
                String::new()
            } else {
                format!(
                    r#"topicfs mount --log-file "$W/logs/{source}-{user}" "$W/{source}" "$W/mnt"
                    wc -l < "$W/mnt/codec-none/0/log.jsonl"
                    topicfs umount "$W/mnt"; gone"#
                )
            };
            let script = format!(
                r#"set -e
                {STATE}
                state "$W/{source}" > "$W/logs/before-{user}"
                topicfs cat "$W/{source}" codec-none/0/log.jsonl | wc -l
                topicfs ls "$W/{source}" codec-none/0/segments | grep -c log
                topicfs tail -n 2 "$W/{source}" codec-none/0/log | wc -l
                topicfs manifest "$W/{source}" | grep -c codec-none-0
                topicfs verify "$W/{source}" > /dev/null
                {mounted}
                state "$W/{source}" | cmp - "$W/logs/before-{user}"
                rm "$W/logs/before-{user}""#
            );
            world.ok(ROOT, &format!(r#"chown {user}:{user} "$W/mnt""#));
            let printed = world.ok(user, &script);
            let lines: Vec<&str> = printed.lines().collect();
            assert_eq!(lines[..3], ["58", "1", "2"], "{source}, {user}: {printed}");
            assert_eq!(lines.len(), if user == OWNER { 4 } else { 5 });
            assert!(user == OWNER || lines[4] == "58", "{source}, {user}: {printed}");
        }
    }
}

#[test]
fn reading_leaves_access_times_where_the_kernel_allows_it() {
    let Some(world) = World::new() else { return };
    world.ok(
        ROOT,
        &format!(
            r#"mkdir "$W/own" && mount -t tmpfs -o strictatime none "$W/own" && cp -r "$W/data" "$W/own/data" &&
            chown -R {OWNER}:{OWNER} "$W/own/data" && chmod -R a+rX "$W/own/data""#
        ),
    );
    let read = r#"at() { stat -c %x "$W"/own/data/codec-none-0/*.log; }
        at; sleep 0.05; topicfs cat "$W/own/data" codec-none/0/log.jsonl | wc -l; at"#;
    for user in [ROOT, OWNER] {
        let printed = world.ok(user, read);
        let lines: Vec<&str> = printed.lines().collect();
        assert_eq!((lines[0], lines[1]), (lines[2], "58"), "{user}");
    }
    // Who is neither may not ask for that, and reads all the same.
    let printed = world.ok(STRANGER, read);
    let lines: Vec<&str> = printed.lines().collect();
    assert!(lines[0] != lines[2] && lines[1] == "58", "{printed}");
}
