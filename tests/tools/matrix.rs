//! Which tools there are, what each does, and which of their answers are not those of plain files: with the reason.

/// A name, the program that it needs, and a script of `sh`.
pub type Tool = (&'static str, &'static str, &'static str);

/// A part of a table.
pub type Group = (&'static str, &'static [Tool]);

/// What a file is like that a tool reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Column {
    /// `log`, `tail`, `by-segment/`, `all/log`, of a size that is known.
    Growing,
    /// The same, and periods, of more than a MiB, in a mount in which nobody has opened them.
    Unmeasured,
    /// Ranges of `by-offset/` and periods of `by-time/`.
    Range,
    /// A file in `segments/`.
    Source,
    /// `log` and `tail`, followed.
    Live,
    /// `follow`.
    Follow,
}

/// Why an answer is not that of a plain file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Note {
    /// The size is looked at first.
    LooksFirst,
    /// The kernel copies, up to the size.
    KernelCopies,
    /// A mapping of a file without a size.
    Maps,
    /// What is read is held back.
    Buffers,
}

/// The notes, in the order of their numbers.
pub const NOTES: &[(Note, &str)] = &[
    (
        Note::LooksFirst,
        "Looks at the size before it opens the file, or never opens it, and is told 0 as long as nobody has measured the file. \
         Right once anybody has opened it, and after `topicfs index`.",
    ),
    (
        Note::KernelCopies,
        "Lets the kernel copy (`sendfile`, `splice`), which ends at the size of a file; `follow` has none. Prints nothing and ends. \
         With a program before it that reads, it works: `cat follow.jsonl | ...` with GNU `cat`, or `tail -f tail.jsonl`.",
    ),
    (Note::Maps, "Maps the file, or takes a size of 0 for an empty file. `rg --no-mmap` works."),
    (
        Note::Buffers,
        "Works, but holds back what it has read until a buffer is full or more comes, as it does with a pipe. Programs that print each line at once have \
         an option for that, if any (`--line-buffered`, `-u`, `--unbuffered`).",
    ),
];

/// The answers that are not those of plain files.
pub const NOTED: &[(&str, Column, Note)] = &[
    ("wc", Column::Unmeasured, Note::LooksFirst),
    ("find -size", Column::Unmeasured, Note::LooksFirst),
    ("du -b", Column::Unmeasured, Note::LooksFirst),
    ("stat", Column::Unmeasured, Note::LooksFirst),
    ("test -s", Column::Unmeasured, Note::LooksFirst),
    ("ls -l", Column::Unmeasured, Note::LooksFirst),
    ("file", Column::Unmeasured, Note::LooksFirst),
    ("busybox cat", Column::Unmeasured, Note::LooksFirst),
    ("busybox less", Column::Unmeasured, Note::LooksFirst),
    ("busybox tar", Column::Unmeasured, Note::LooksFirst),
    ("busybox find", Column::Unmeasured, Note::LooksFirst),
    ("busybox cp", Column::Unmeasured, Note::LooksFirst),
    ("head -n", Column::Follow, Note::Buffers),
    ("tail -n +1 -f", Column::Follow, Note::Buffers),
    ("grep", Column::Follow, Note::Buffers),
    ("rg --line-buffered", Column::Follow, Note::Maps),
    ("busybox cat", Column::Follow, Note::KernelCopies),
    ("busybox tail -f", Column::Follow, Note::Buffers),
    ("busybox head", Column::Follow, Note::Buffers),
    ("busybox sed", Column::Follow, Note::Buffers),
    ("uutils wc", Column::Unmeasured, Note::LooksFirst),
    ("uutils du -b", Column::Unmeasured, Note::LooksFirst),
    ("uutils stat", Column::Unmeasured, Note::LooksFirst),
    ("uutils cat", Column::Follow, Note::KernelCopies),
    ("uutils tee", Column::Follow, Note::KernelCopies),
    ("uutils head", Column::Follow, Note::Buffers),
    ("uutils tail -f", Column::Follow, Note::Buffers),
];

/// Why an answer is not that of a plain file, if it isn't.
pub fn note(tool: &str, column: Column) -> Option<Note> {
    NOTED.iter().find(|noted| noted.0 == tool && noted.1 == column).map(|noted| noted.2)
}

/// Tools that read a file: `$f`; `$p` is a plain copy of it, `$w` an empty directory.
pub const READING: &[Group] =
    &[("GNU coreutils", GNU), ("others", OTHERS), ("busybox", BUSYBOX), ("uutils", UUTILS)];

const GNU: &[Tool] = &[
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
    ("cp", "cp", r#"cp "$f" "$w/x" && cat "$w/x""#),
    ("cp --sparse", "cp", r#"cp --sparse=always "$f" "$w/x" && cat "$w/x""#),
    ("cp -r", "cp", r#"mkdir "$w/d" && cp -r "$f" "$w/d" && cat "$w/d"/*"#),
    ("install", "install", r#"install "$f" "$w/x" && cat "$w/x""#),
    ("du -b", "du", r#"du -b "$f""#),
    ("stat", "stat", r#"stat -c '%s %F' "$f""#),
    ("test -s", "test", r#"test -s "$f" && test -r "$f" && test -f "$f" && echo yes"#),
    ("ls -l", "ls", r#"ls -l "$f" | awk '{print $5}'"#),
    ("comm", "comm", r#"comm --nocheck-order -3 "$f" "$p" && echo same"#),
];

const OTHERS: &[Tool] = &[
    ("grep", "grep", r#"grep -a e "$f""#),
    ("grep -c", "grep", r#"grep -a -c e "$f""#),
    ("grep -m", "grep", r#"grep -a -b -m 3 e "$f""#),
    ("sed", "sed", r#"sed -n '2,5p;$p' "$f""#),
    ("awk", "awk", r#"awk '{n += length($0)} END {print NR, n}' "$f""#),
    ("hexdump -s", "hexdump", r#"hexdump -C -s 100 -n 64 "$f""#),
    ("xxd -s", "xxd", r#"xxd -s 100 -l 64 "$f" && xxd -s -64 "$f""#),
    ("rsync -a", "rsync", r#"rsync -a "$f" "$w/x" && cat "$w/x""#),
    ("tar", "tar", r#"tar cf "$w/x" "$f" && tar xOf "$w/x""#),
    ("tar -z", "gzip", r#"tar czf "$w/x" "$f" && tar xzOf "$w/x""#),
    ("gzip", "gzip", r#"gzip -c "$f" | gzip -dc"#),
    ("less", "less", r#"LESSOPEN= less -f "$f" < /dev/null"#),
    ("find -size", "find", r#"find "$f" -type f -size +100c -printf '%s\n'"#),
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
    ("file", "file", r#"file -b "$f""#),
    ("vim -R", "vim", r#"HOME=$w vim -R -es -u NONE -i NONE +%p +q "$f""#),
];

const BUSYBOX: &[Tool] = &[
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

const UUTILS: &[Tool] = &[
    ("uutils cat", "coreutils", r#"coreutils cat "$f""#),
    ("uutils cat <", "coreutils", r#"coreutils cat < "$f""#),
    ("uutils cat |", "coreutils", r#"coreutils cat "$f" | sort"#),
    ("uutils head", "coreutils", r#"coreutils head -n 7 "$f" && coreutils head -c 1000 "$f""#),
    ("uutils head -n -N", "coreutils", r#"coreutils head -n -5 "$f""#),
    ("uutils tail -n", "coreutils", r#"coreutils tail -n 3 "$f""#),
    ("uutils tail -c", "coreutils", r#"coreutils tail -c 1000 "$f""#),
    ("uutils tail -n +N", "coreutils", r#"coreutils tail -n +5 "$f""#),
    ("uutils tac", "coreutils", r#"coreutils tac "$f""#),
    ("uutils wc", "coreutils", r#"coreutils wc "$f""#),
    ("uutils wc -l", "coreutils", r#"coreutils wc -l "$f""#),
    ("uutils wc -c", "coreutils", r#"coreutils wc -c "$f" && coreutils wc -c < "$f""#),
    ("uutils sort", "coreutils", r#"coreutils sort "$f""#),
    ("uutils cut", "coreutils", r#"coreutils cut -c1-20 "$f""#),
    ("uutils uniq", "coreutils", r#"coreutils uniq -c "$f""#),
    ("uutils sha256sum", "coreutils", r#"coreutils sha256sum "$f""#),
    ("uutils dd", "coreutils", r#"coreutils dd if="$f" bs=1000 skip=3 count=2 status=none"#),
    ("uutils od", "coreutils", r#"coreutils od -An -tx1 -j100 -N64 "$f""#),
    ("uutils split", "coreutils", r#"coreutils split -b 3000 "$f" "$w/x" && cat "$w"/*"#),
    ("uutils cp", "coreutils", r#"coreutils cp "$f" "$w/x" && cat "$w/x""#),
    ("uutils du -b", "coreutils", r#"coreutils du -b "$f""#),
    ("uutils stat", "coreutils", r#"coreutils stat -c '%s %F' "$f""#),
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

/// Tools that look at directories, in a topic with the partition 0. `$r` is a directory of records, `$t` a time between
/// those.
pub const WALKING: &[Group] = &[("listing", LISTING), ("copying", COPYING)];

const LISTING: &[Tool] = &[
    ("ls", "ls", "ls . 0 0/by-offset 0/by-segment"),
    ("ls -R", "ls", "ls -R"),
    ("ls -l", "ls", "ls -lR | awk 'NF > 8 {print substr($1, 1, 1), $5 * /^-/, $NF}'"),
    ("ls --color", "ls", "ls --color=always -FR"),
    ("ls -t", "ls", r#"ls -t "$r""#),
    ("find", "find", "find . | sort"),
    ("find -type f -size", "find", "find . -type f -size +500c -printf '%p %s\\n' | sort"),
    ("find -newermt", "find", r#"find "$r" -type f -newermt "@$t" | sort | xargs cat"#),
    ("du -a", "du", "du -ab --exclude=info* 0/segments 0/by-segment | awk '{print $2}' | sort"),
    ("stat *", "stat", "stat -c '%n %F' 0/* 0/*/*"),
    ("grep -r", "grep", "grep -rac e 0/by-segment 0/segments 0/log all/log | sort"),
    ("rg", "rg", "rg --no-config -a --hidden -c e 0/by-segment 0/segments 0/log all/log | sort"),
    (
        "sh: globs",
        "sh",
        r"echo * */log [0-9]*/log 0/by-[st]*/* 0/*.jsonl 0/by-offset/1*; cat [0-9]*/log all/log | md5sum",
    ),
    (
        "bash: globs",
        "bash",
        r#"bash -O globstar -O nullglob -c 'echo */log ** 0/by-offset/[0-9]* {0,all}/l*'"#,
    ),
    ("bash: compgen", "bash", "bash -c 'compgen -f 0/by-offset/; compgen -f 0/lo; compgen -d 0/ | sort'"),
    ("bash: Tab", "python3", PYTHON_TAB),
    ("python glob", "python3", r#"python3 -c 'import glob; print(sorted(glob.glob("**", recursive=True)))'"#),
    ("busybox ls", "busybox", "busybox ls -R"),
    ("busybox find", "busybox", "busybox find . | sort"),
    ("busybox sh: globs", "busybox", "busybox sh -c 'echo */log 0/by-[st]*/* 0/by-offset/1*'"),
    ("uutils ls", "coreutils", "coreutils ls -R"),
];

const COPYING: &[Tool] = &[
    ("cp -r", "cp", r#"cp -r 0 "$w" && cd "$w" && md5sum 0/log* 0/segments/* 0/by-segment/*"#),
    ("cp -a", "cp", r#"cp -a 0 "$w" && cd "$w" && md5sum 0/log* 0/segments/* 0/by-segment/*"#),
    ("rsync -a", "rsync", r#"rsync -a 0 "$w" && cd "$w" && md5sum 0/log* 0/segments/* 0/by-segment/*"#),
    ("rsync -a, again", "rsync", r#"rsync -a 0 "$w" && rsync -ai --exclude=info* 0 "$w" && echo same"#),
    ("tar", "tar", r#"tar cf "$w/x" 0 && cd "$w" && tar xf x && md5sum 0/log* 0/segments/* 0/by-segment/*"#),
    (
        "busybox cp -r",
        "busybox",
        r#"busybox cp -r 0 "$w" && cd "$w" && md5sum 0/log* 0/segments/* 0/by-segment/*"#,
    ),
    (
        "busybox tar",
        "busybox",
        r#"busybox tar cf "$w/x" 0 && cd "$w" && busybox tar xf x && md5sum 0/log* 0/segments/* 0/by-segment/*"#,
    ),
    (
        "uutils cp -r",
        "coreutils",
        r#"coreutils cp -r 0 "$w" && cd "$w" && md5sum 0/log* 0/segments/* 0/by-segment/*"#,
    ),
];

/// Types what a user types, presses Tab where there is something to complete, and prints what came.
const PYTHON_TAB: &str = r#"python3 -c '
import os, pty, re, select, sys
child, fd = pty.fork()
if child == 0:
    os.environ.update(PS1="", TERM="dumb")
    os.execlp("bash", "bash", "--norc", "--noprofile", "-i")
os.write(fd, b"PS1=; bind \"set bell-style none\"; stty -echo; echo be\"\"gin\n")
seen = b""
def until(mark):
    global seen
    while mark not in seen:
        assert select.select([fd], [], [], 20)[0], seen
        seen += os.read(fd, 4096)
    before, seen = seen.split(mark, 1)
    return before
until(b"begin")
os.write(fd, b"echo o\"\"ne; md5sum < 0/by-off\tREA\t; ls 0/by-offset/\t; md5sum 0/by-seg\t*0; echo t\"\"wo\n")
until(b"one")
print(re.findall("[0-9a-f]{32}|README.txt", until(b"two").decode()))
os.write(fd, b"exit\n")'"#;

/// What would change something: refused with `Read-only file system`. In a topic with the partition 0; `$w` has the file `x`.
pub const CHANGING: &[Tool] = &[
    ("mv, away", "mv", r#"mv 0/log "$w/y""#),
    ("mv, within", "mv", "mv 0/log 0/old"),
    ("mv, a directory", "mv", r#"mv 0 "$w/y""#),
    ("mv, into", "mv", r#"mv "$w/x" 0/log"#),
    ("rm", "rm", "rm -f 0/log"),
    ("rm -r", "rm", "rm -rf 0"),
    ("rmdir", "rmdir", "rmdir 0"),
    ("mkdir", "mkdir", "mkdir 0/new"),
    ("touch", "touch", "touch 0/log"),
    ("truncate", "truncate", "truncate -s 0 0/log"),
    ("chmod", "chmod", "chmod 777 0/log"),
    ("chown", "chown", "chown 1:1 0/log"),
    ("ln", "ln", "ln 0/log 0/new"),
    ("ln -s", "ln", "ln -s log 0/new"),
    ("cp, onto", "cp", r#"cp "$w/x" 0/log"#),
    ("cp, into", "cp", r#"cp "$w/x" 0/new"#),
    ("install", "install", r#"install "$w/x" 0/new"#),
    ("rsync, into", "rsync", r#"rsync -a "$w/x" 0/"#),
    ("dd of=", "dd", "dd if=/dev/zero of=0/log count=1"),
    ("tee -a", "tee", "echo x | tee -a 0/log"),
    ("> and >>", "sh", "echo x > 0/log; echo x >> 0/tail"),
    ("sed -i", "sed", "sed -i s/a/b/ 0/log"),
    ("setfattr", "setfattr", "setfattr -n user.x -v y 0/log"),
    ("mkfifo", "mkfifo", "mkfifo 0/new"),
    ("python open", "python3", "python3 -c 'open(\"0/log\", \"r+b\")'"),
    ("busybox mv", "busybox", r#"busybox mv 0/log "$w/y""#),
    ("busybox rm", "busybox", "busybox rm -rf 0"),
    ("uutils mv", "coreutils", r#"coreutils mv 0/log "$w/y""#),
    ("uutils rm", "coreutils", "coreutils rm -rf 0"),
    ("uutils touch", "coreutils", "coreutils touch 0/log"),
];

/// Programs that follow a growing file from its beginning: they print it, then what comes. They mention each record's
/// offset. `$pid` is a process.
pub const LIVE: &[Group] =
    &[("GNU", LIVE_GNU), ("others", LIVE_OTHERS), ("busybox", LIVE_BUSYBOX), ("uutils", LIVE_UUTILS)];

/// Those of them that wait to be told of growth, which needs a mount by root.
pub const TOLD: &[&str] = &["inotifywait -m", "uutils tail -f", "uutils tail -F"];

const LIVE_GNU: &[Tool] = &[
    ("tail -f", "tail", r#"exec tail -n +1 -f "$f""#),
    ("tail -F", "tail", r#"exec tail -n +1 -F "$f""#),
    ("tail --follow=name --retry", "tail", r#"exec tail -n +1 --follow=name --retry "$f""#),
    ("tail -f --pid", "tail", r#"exec tail -n +1 -f --pid=$pid "$f""#),
    ("tail -f -s", "tail", r#"exec tail -n +1 -f -s 0.1 "$f""#),
    ("tail -f -c", "tail", r#"exec tail -c +1 -f "$f""#),
    ("tail -f, several", "tail", r#"exec tail -n +1 -f "$f" "${f%/0/*}/1/${f##*/}""#),
    ("tail -f | grep", "grep", r#"tail -n +1 -f "$f" | grep -a --line-buffered offset"#),
];

const LIVE_OTHERS: &[Tool] = &[
    (
        "less +F",
        "script",
        r#"sleep 600 | TERM=xterm script -qec "stty rows 90 cols 200; less -S +F $f" /dev/null"#,
    ),
    ("tail -f | jq", "jq", r#"tail -n +1 -f "$f" | jq -c --unbuffered ."#),
    (
        "inotifywait -m",
        "inotifywait",
        r#"exec 3< "$f"; exec inotifywait -q -m -e modify --format 'it was %e' "$f""#,
    ),
    ("python loop", "python3", PYTHON_LOOP),
    (
        "perl loop",
        "perl",
        r#"exec perl -e '$| = 1; open F, "<", shift; for (;;) { print while <F>; seek F, 0, 1; select undef, undef, undef, 0.1 }' "$f""#,
    ),
    (
        "bash loop",
        "bash",
        r#"exec bash -c 'while :; do while IFS= read -r line; do printf "%s\n" "$line"; done; sleep 0.1; done < "$f"'"#,
    ),
];

const PYTHON_LOOP: &str = r#"exec python3 -c '
import sys, time
with open(sys.argv[1]) as f:
    while True:
        line = f.readline()
        if line: print(line, end="", flush=True)
        else: time.sleep(0.05)' "$f""#;

const LIVE_BUSYBOX: &[Tool] = &[
    ("busybox tail -f", "busybox", r#"exec busybox tail -n +1 -f "$f""#),
    ("busybox tail -F", "busybox", r#"exec busybox tail -n +1 -F "$f""#),
];

const LIVE_UUTILS: &[Tool] = &[
    ("uutils tail -f", "coreutils", r#"exec coreutils tail -n +1 -f "$f""#),
    ("uutils tail -F", "coreutils", r#"exec coreutils tail -n +1 -F "$f""#),
    ("uutils tail --use-polling", "coreutils", r#"exec coreutils tail -n +1 -f --use-polling "$f""#),
];

/// Programs that read `follow`: they print what comes.
pub const FOLLOW: &[Group] =
    &[("GNU", FOLLOW_GNU), ("others", FOLLOW_OTHERS), ("busybox", FOLLOW_BUSYBOX), ("uutils", FOLLOW_UUTILS)];

const FOLLOW_GNU: &[Tool] = &[
    ("cat", "cat", r#"exec cat "$f""#),
    ("cat |", "cat", r#"cat "$f" | cat"#),
    ("cat <", "cat", r#"exec cat < "$f""#),
    ("head -n", "head", r#"exec head -n 1000 "$f""#),
    ("tail -n +1 -f", "tail", r#"exec tail -n +1 -f "$f""#),
    ("tee", "tee", r#"exec tee < "$f""#),
    ("dd", "dd", r#"exec dd if="$f" bs=64k status=none"#),
    ("grep --line-buffered", "grep", r#"exec grep -a --line-buffered offset "$f""#),
    ("grep", "grep", r#"exec grep -a offset "$f""#),
    ("sed -u", "sed", r#"exec sed -u s/a/a/ "$f""#),
    ("stdbuf -oL cut", "stdbuf", r#"exec stdbuf -oL cut -c 1-500 "$f""#),
];

const FOLLOW_OTHERS: &[Tool] = &[
    ("awk, fflush()", "awk", r#"exec awk '{print; fflush()}' "$f""#),
    ("jq --unbuffered", "jq", r#"exec jq -c --unbuffered . "$f""#),
    ("rg --no-mmap --line-buffered", "rg", r#"exec rg --no-config --no-mmap --line-buffered offset "$f""#),
    ("rg --line-buffered", "rg", r#"exec rg --no-config --line-buffered offset "$f""#),
    (
        "less",
        "script",
        r#"sleep 600 | TERM=xterm script -qec "stty rows 90 cols 200; less -S +F $f" /dev/null"#,
    ),
    (
        "python for",
        "python3",
        r#"exec python3 -c 'import sys; [print(line, end="", flush=True) for line in open(sys.argv[1])]' "$f""#,
    ),
    ("perl -ne", "perl", r#"exec perl -ne '$| = 1; print' "$f""#),
    ("bash read", "bash", r#"exec bash -c 'while IFS= read -r line; do printf "%s\n" "$line"; done < "$f"'"#),
];

const FOLLOW_BUSYBOX: &[Tool] = &[
    ("busybox cat", "busybox", r#"exec busybox cat "$f""#),
    ("busybox tail -f", "busybox", r#"exec busybox tail -n +1 -f "$f""#),
    ("busybox head", "busybox", r#"exec busybox head -n 1000 "$f""#),
    ("busybox sed", "busybox", r#"exec busybox sed s/a/a/ "$f""#),
];

const FOLLOW_UUTILS: &[Tool] = &[
    ("uutils cat", "coreutils", r#"exec coreutils cat "$f""#),
    ("uutils tail -f", "coreutils", r#"exec coreutils tail -n +1 -f "$f""#),
    ("uutils head", "coreutils", r#"exec coreutils head -n 1000 "$f""#),
    ("uutils tee", "coreutils", r#"exec coreutils tee < "$f""#),
];
