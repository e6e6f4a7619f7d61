#!/usr/bin/env python3
"""How fast bytes come out of a mount and out of `topicfs cat`, beside what limits that and what people use otherwise.

  benches/fast.py DIR [ROUNDS [SECTION...]]

DIR was filled by make-data.sh; what else is needed is made there, and kept. Everything is in the page cache. Each section runs its readers once
to warm up, then ROUNDS times (default 5), interleaved; printed are medians, ranges and the ratio of medians.

  direct    `log` of `kib` and `small`, with reads of 128 KiB (cat) and 1 MiB (dd), and files of `segments/`, beside a FUSE file system that gives constant
            bytes with the same flags, out of a processor's cache and out of memory (examples/null_fuse.rs), and beside ext4; `passthrough=always` too
  cached    a sealed range, read for the second time, beside that file system with cached pages, and ext4
  codecs    `json-lz4`, `json-zstd` by `topicfs cat` and through the mount, beside a bare decompression of the same batches on two threads
            (examples/decompress.rs)
  jsonl     `log.jsonl` of `json-none` on one processor, in bytes of output
  first     measuring partitions for the first time, in bytes of source
  readers   32 readers of `log` at once, of one file and of 12 partitions, beside one
  grep      `grep -c` and `rg -c -j2` over a topic of 12 partitions, beside the same over its rendered lines in plain files and that file system
  rivals    `kcat -C`, kafka-dump-log and kafka-console-consumer, a broker on the same machine, beside `topicfs cat`, the mount, and that file system with as many bytes; the JVM's tools run
            once in three rounds

Needs root, kcat, ripgrep, a JDK for `rivals`. TOPICFS is the binary (default `topicfs` in PATH), EXAMPLES has the built examples (default
target/release/examples).
"""

import glob
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

here = os.path.dirname(os.path.abspath(__file__))
topicfs = os.environ.get("TOPICFS", "topicfs")
examples = os.environ.get("EXAMPLES", os.path.join(here, "../target/release/examples"))
broker = os.path.join(here, "broker.sh")
PORT = os.environ.get("PORT", "29392")
SECTIONS = ["direct", "cached", "codecs", "jsonl", "first", "readers", "grep", "rivals"]
MIB = 1 << 20


def main():
    directory = os.path.abspath(sys.argv[1])
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    for section in sys.argv[3:] or SECTIONS:
        print(f"\n## {section}\n", flush=True)
        globals()[section](Ground(directory, rounds))


class Ground:
    """Where it happens."""

    def __init__(self, directory, rounds):
        self.directory, self.rounds = directory, rounds
        self.data = os.path.join(directory, "data")

    def run(self, *words, stdout=subprocess.DEVNULL, environment=None):
        subprocess.run(words, check=True, stdout=stdout, stderr=subprocess.DEVNULL, env=environment)

    def index(self, data=None):
        self.run(topicfs, "index", data or self.data)

    def logs(self, name):
        return sorted(glob.glob(f"{self.data}/{name}-0/*.log"))

    def size(self, name, file="log"):
        """Bytes of a file of the tree."""
        with subprocess.Popen([topicfs, "cat", self.data, f"{name}/0/{file}"], stdout=subprocess.PIPE) as reading:
            return sum(len(piece) for piece in iter(lambda: reading.stdout.read(MIB), b""))


class Mounted:
    """A mount of topicfs, or of nothing, for as long as the block lasts."""

    def __init__(self, ground, *options, data=None, null=None):
        self.ground, self.options, self.data, self.null = ground, options, data or ground.data, null

    def __enter__(self):
        self.path = tempfile.mkdtemp(prefix="fast-")
        if self.null is None:
            words = [word for option in self.options for word in ("-o", option)]
            self.ground.run(topicfs, "mount", *words, self.data, self.path)
            return self.path
        self.backing = tempfile.mktemp(prefix="fast-")
        self.serving = subprocess.Popen([os.path.join(examples, "null_fuse"), self.path, self.backing, str(self.null)])
        while not os.path.exists(os.path.join(self.path, "file")):
            time.sleep(0.01)
        return self.path

    def __exit__(self, *_):
        subprocess.run(["umount", self.path], check=True)
        os.rmdir(self.path)
        if self.null is not None:
            self.serving.wait()
            os.remove(self.backing)


def timed(work):
    begun = time.perf_counter()
    took = work()
    return time.perf_counter() - begun if took is None else took


def command(ground, *words):
    return lambda: ground.run(*words)


def counted(*words):
    """A command whose output somebody reads: grep looks for no more than one match where nobody does."""
    return lambda: None if subprocess.run(words, stdout=subprocess.PIPE).returncode < 2 else sys.exit(f"{words[0]} failed")


def cat(ground, *files):
    return command(ground, "cat", *files)


def dd(ground, file):
    return command(ground, "dd", f"if={file}", "of=/dev/null", "bs=1M", "status=none")


def compare(ground, works, size=None, base=None, rare=()):
    """Runs works in turn and prints a line for each: name, seconds, MB/s, and how much faster than `base` it is. Those of `rare` run in each third round."""
    for name, work in works.items():
        if name not in rare:
            work()
    times = {name: [] for name in works}
    for number in range(ground.rounds):
        for name, work in works.items():
            if name not in rare or number % 3 == 0:
                times[name].append(timed(work))
    medians = {name: statistics.median(all) for name, all in times.items()}
    print(f"| what | median s | range | MB/s | × {base} |\n|---|---|---|---|---|")
    for name, all in times.items():
        rate = f"{size / medians[name] / 1e6:.0f}" if size else ""
        ratio = f"{medians[base] / medians[name]:.2f}" if base else ""
        print(f"| {name} | {medians[name]:.3f} | {min(all):.3f}–{max(all):.3f} | {rate} | {ratio} |")
    print(flush=True)
    return medians


def direct(ground):
    ground.index()
    for name in ["kib", "small"]:
        size = ground.size(name)
        with Mounted(ground) as mount, Mounted(ground, null=size) as null:
            compare(ground, {
                "null, 128 KiB": cat(ground, f"{null}/constant"),
                f"cat {name}/0/log": cat(ground, f"{mount}/{name}/0/log"),
            }, size, "null, 128 KiB")
            compare(ground, {
                "null, 1 MiB": dd(ground, f"{null}/constant"),
                f"dd bs=1M {name}/0/log": dd(ground, f"{mount}/{name}/0/log"),
                f"topicfs cat {name}/0/log": command(ground, topicfs, "cat", ground.data, f"{name}/0/log"),
            }, size, "null, 1 MiB")
    logs = ground.logs("kib")
    size = sum(map(os.path.getsize, logs))
    with Mounted(ground) as mount, Mounted(ground, "passthrough=always") as through, Mounted(ground, null=size) as null:
        files = lambda mount: [f"{mount}/kib/0/segments/{os.path.basename(log)}" for log in logs]
        compare(ground, {
            "ext4, 128 KiB": cat(ground, *logs),
            "null, 128 KiB": cat(ground, f"{null}/constant"),
            "null, from memory": cat(ground, f"{null}/cold"),
            "cat segments/*": cat(ground, *files(mount)),
            "cat segments/*, passthrough": cat(ground, *files(through)),
        }, size, "null, 128 KiB")


def cached(ground):
    ground.index()
    with Mounted(ground, "page_cache=64GiB") as mount:
        segment = f"{mount}/kib/0/by-segment/{os.path.basename(ground.logs('kib')[0])[:-4]}"
        plain = os.path.join(ground.directory, "plain")
        with open(plain, "wb") as out:
            ground.run("cat", segment, stdout=out)
        size = os.path.getsize(plain)
        with Mounted(ground, null=size) as null:
            compare(ground, {
                "ext4": cat(ground, plain),
                "null, the second time": cat(ground, f"{null}/cached"),
                "cat by-segment/…, the second time": cat(ground, segment),
            }, size, "ext4")
    os.remove(plain)


def codecs(ground):
    ground.index()
    for name in ["json-lz4", "json-zstd"]:
        size = ground.size(name)
        bare = lambda threads: lambda: sum(
            float(subprocess.run([os.path.join(examples, "decompress"), log, str(threads)], check=True, capture_output=True, text=True).stdout)
            for log in ground.logs(name))
        with Mounted(ground) as mount:
            compare(ground, {
                f"{name}: bare, 1 thread": bare(1),
                f"{name}: bare, 2 threads": bare(2),
                f"topicfs cat {name}/0/log": command(ground, topicfs, "cat", ground.data, f"{name}/0/log"),
                f"cat MNT/{name}/0/log": cat(ground, f"{mount}/{name}/0/log"),
                f"topicfs cat {name}/0/log.jsonl": command(ground, topicfs, "cat", ground.data, f"{name}/0/log.jsonl"),
            }, size, f"{name}: bare, 2 threads")


def jsonl(ground):
    ground.index()
    for name in ["json-none", "kib"]:
        size = ground.size(name, "log.jsonl")
        compare(ground, {
            f"taskset -c 0 topicfs cat {name}/0/log.jsonl": command(ground, "taskset", "-c", "0", topicfs, "cat", ground.data, f"{name}/0/log.jsonl"),
            f"topicfs cat {name}/0/log.jsonl": command(ground, topicfs, "cat", ground.data, f"{name}/0/log.jsonl"),
        }, size)


def in_segments(ground, name):
    """The same lines in a partition of segments of 128 MiB: a segment is measured by one thread."""
    data = os.path.join(ground.directory, "in-segments")
    if not os.path.exists(f"{data}/{name}-0"):
        os.makedirs(data, exist_ok=True)
        with subprocess.Popen([topicfs, "cat", ground.data, f"{name}/0/log"], stdout=subprocess.PIPE) as lines:
            subprocess.run([topicfs, "append", "--create", "-o", "segment.bytes=134217728,max.message.bytes=16384", data, f"{name}/0"],
                           stdin=lines.stdout, check=True, stderr=subprocess.DEVNULL)
    return os.path.join(data, f"{name}-0")


def first(ground):
    partitions = {name: os.path.join(ground.data, f"{name}-0") for name in ["kib", "small", "json-lz4", "json-zstd"]}
    partitions |= {f"{name}, in segments of 128 MiB": in_segments(ground, name) for name in ["kib", "small"]}
    for name, partition in partitions.items():
        size = sum(map(os.path.getsize, glob.glob(f"{partition}/*.log")))
        fresh = os.path.join(ground.directory, "fresh")

        def measure():
            shutil.rmtree(fresh, ignore_errors=True)
            return timed(command(ground, topicfs, "index", "-o", f"formats_listed=txt,cache_dir={fresh}", partition))

        compare(ground, {f"`topicfs index -o formats_listed=txt`, {name}": measure}, size)


def topic_of_twelve(ground):
    """A topic `twelve` of 12 partitions, each with a twelfth of `kib`; and its lines in plain files."""
    data, plain = os.path.join(ground.directory, "twelve"), os.path.join(ground.directory, "twelve-plain")
    if not os.path.exists(plain):
        subprocess.run(["rm", "-rf", data, plain], check=True)
        os.makedirs(data)
        os.makedirs(plain + ".new")
        with subprocess.Popen([topicfs, "cat", ground.data, "kib/0/log"], stdout=subprocess.PIPE) as lines:
            for number in range(12):
                with open(f"{plain}.new/{number}", "wb") as out:
                    out.writelines(line for line, _ in zip(lines.stdout, range(1048576 // 12)))
                with open(f"{plain}.new/{number}", "rb") as part:
                    subprocess.run([topicfs, "append", "--create", data, f"twelve/{number}"], stdin=part, check=True, stderr=subprocess.DEVNULL)
            lines.stdout.read()
        os.rename(plain + ".new", plain)
    ground.index(data)
    return data, plain


def at_once(commands):
    """Seconds until the last of the commands has ended, and until the first one has."""
    begun = time.perf_counter()
    running = {process.pid: process for process in [subprocess.Popen(words, stdout=subprocess.DEVNULL) for words in commands]}
    ends = []
    while running:
        del running[os.wait()[0]]
        ends.append(time.perf_counter() - begun)
    return ends[-1], ends[0]


def readers(ground):
    data, _ = topic_of_twelve(ground)
    with Mounted(ground, data=data) as mount:
        files = [f"{mount}/twelve/{number}/log" for number in range(12)]
        with open(files[0], "rb") as file:
            size = os.fstat(file.fileno()).st_size  # that of each: lines of 1 KiB
        rates = {}
        for what, commands in {
            "1 reader": [["cat", *files]],
            "32 readers of 12 partitions": [["cat", files[number % 12]] for number in range(32)],
            "32 readers of one": [["cat", files[0]] for _ in range(32)],
        }.items():
            at_once(commands)
            rates[what] = []
            for _ in range(ground.rounds):
                last, soonest = at_once(commands)
                rates[what].append((sum(len(words) - 1 for words in commands) * size / last / 1e6, last / soonest))
        print("| what | MB/s together | × one reader | the last one's time by the first one's |\n|---|---|---|---|")
        one = statistics.median(rate for rate, _ in rates["1 reader"])
        for what, all in rates.items():
            rate, spread = (statistics.median(column) for column in zip(*all))
            print(f"| {what} | {rate:.0f} | {rate / one:.2f} | {spread:.2f} |", flush=True)


def grep(ground):
    data, plain = topic_of_twelve(ground)
    plains = [f"{plain}/{number}" for number in range(12)]
    for what, words in {"grep -c": ["grep", "-c", "zephyr zenith"], "rg -c -j2": ["rg", "-c", "-j2", "zephyr zenith"]}.items():
        size = os.path.getsize(plains[0])
        with Mounted(ground, data=data) as mount, Mounted(ground, "page_cache=64GiB", data=data) as roomy, Mounted(ground, null=size) as null:
            constants = [f"{null}/constant-{number}" for number in range(12)]
            logs = [f"{mount}/twelve/{number}/log" for number in range(12)]
            ranges = [f"{roomy}/twelve/{number}/by-offset/0..{1048576 // 12}.txt" for number in range(12)]
            compare(ground, {
                f"{what} of plain files": counted(*words, *plains),
                f"{what} of `log`": counted(*words, *logs),
                f"{what} of ranges, cached": counted(*words, *ranges),
                f"{what} of null": counted(*words, *constants),
            }, base=f"{what} of plain files")


def rivals(ground):
    ground.index()
    subprocess.run([broker, "start", ground.directory], check=True)
    try:
        for name in ["kib", "small", "json-zstd", "json-lz4"]:
            size = ground.size(name)
            records = int(subprocess.run(f"{topicfs} cat {ground.data} {name}/0/log | wc -l", shell=True, check=True, capture_output=True, text=True).stdout)
            jvm = dict(os.environ, HEAP="2g")
            kcat = ["kcat", "-C", "-b", f"127.0.0.1:{PORT}", "-t", name, "-p", "0", "-o", "beginning", "-e", "-q"]
            console = [broker, "java", "org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", f"127.0.0.1:{PORT}", "--topic", name,
                       "--partition", "0", "--offset", "earliest", "--max-messages", str(records)]
            dump = [broker, "java", "org.apache.kafka.tools.DumpLogSegments", "--print-data-log", "--files", ",".join(ground.logs(name))]
            with Mounted(ground) as mount, Mounted(ground, null=ground.size(name)) as null:
                compare(ground, {
                    "null of that size": cat(ground, f"{null}/constant"),
                    "kcat": command(ground, *kcat),
                    "console consumer": command(ground, *console),
                    "kafka-dump-log": lambda: ground.run(*dump, environment=jvm),
                    f"cat MNT/{name}/0/log": cat(ground, f"{mount}/{name}/0/log"),
                    f"cat MNT/{name}/0/log.jsonl": cat(ground, f"{mount}/{name}/0/log.jsonl"),
                    f"topicfs cat {name}/0/log": command(ground, topicfs, "cat", ground.data, f"{name}/0/log"),
                }, size, "kcat", rare=("console consumer", "kafka-dump-log"))
    finally:
        subprocess.run([broker, "stop", ground.directory], check=True)


main()
