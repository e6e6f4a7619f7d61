#!/usr/bin/env python3
"""How fast lines are appended, beside what limits that and what people use otherwise.

  benches/append.py DIR [ROUNDS [MB]]

DIR, on a real disk, gets the data; it should be empty. Compared, interleaved, ROUNDS (default 5) times, medians and ratios printed:

* a file of 1 KiB lines, MB (default 1024) of it, written to `append` with writes of 128 KiB and 1 MiB, by dd; the same into a FUSE file system that only
  writes what it gets to a file in DIR (examples/null_fuse.rs): the ceiling; and into one that puts as many bytes in front as a batch has: what the format costs there;
* `cat FILE > append`, and the same into that file system;
* 200,000 lines of 101 bytes, each a write of its own; the same there;
* 300 lines, each with an fsync; the same into that file system, and into a plain file in DIR;
* `topicfs append` of the first file, `kcat -P` and kafka-producer-perf-test of as many records to a broker on this machine (broker.sh; KAFKA=0 leaves them out).

Topicfs and null_fuse: TOPICFS (default `topicfs` in PATH) and NULL_FUSE (default target/release/examples/null_fuse). Needs root or fusermount3, kcat, a JDK.
"""

import os
import shutil
import statistics
import subprocess
import sys
import time

here = os.path.dirname(os.path.abspath(__file__))
topicfs = os.environ.get("TOPICFS", "topicfs")
null_fuse = os.environ.get("NULL_FUSE", os.path.join(here, "../target/release/examples/null_fuse"))
broker = os.path.join(here, "broker.sh")
boot = "127.0.0.1:" + os.environ.get("PORT", "29392")
LINES, LINE, SMALL = 200_000, 1024, 101


def main():
    directory = os.path.abspath(sys.argv[1])
    rounds, megabytes = (list(map(int, sys.argv[2:4])) + [5, 1024][len(sys.argv[2:4]):])
    os.makedirs(directory, exist_ok=True)
    lines = os.path.join(directory, "lines")
    count = megabytes * 1024
    make(lines, count, LINE)
    small = os.path.join(directory, "small")
    make(small, LINES, SMALL)
    done = {}
    for _ in range(rounds):
        for name, work in works(directory, lines, small, count):
            seconds = work()
            if seconds is not None:
                done.setdefault(name, []).append(seconds)
    report(done, megabytes, count)


def make(path, count, size):
    line = lambda number: (f"{number:012} " + "abcdefghijklmnopqrstuvwxyz0123456789" * 30)[:size - 1] + "\n"
    with open(path, "w") as out:
        for number in range(count):
            out.write(line(number))


def works(directory, lines, small, count):
    """What is measured, in turn: names and what takes the seconds."""
    through = {
        "128 KiB": lambda to: run(["dd", f"if={lines}", f"of={to}", "bs=128K", "conv=notrunc", "status=none"]),
        "1 MiB": lambda to: run(["dd", f"if={lines}", f"of={to}", "bs=1M", "conv=notrunc", "status=none"]),
        "cat": lambda to: run(["sh", "-c", f"cat {lines} > {to}"]),
        "line a write": lambda to: run(["dd", f"if={small}", f"of={to}", f"bs={SMALL}", "conv=notrunc", "status=none"]),
        "fsync a line": lambda to: synced(to),
    }
    for name, work in through.items():
        yield f"{name}: append", lambda work=work: mounted(directory, work)
        yield f"{name}: null", lambda work=work: nulled(directory, "file", work)
        if name == "fsync a line":
            yield f"{name}: plain file", lambda: synced(os.path.join(directory, "plain"))
        elif name != "line a write":
            yield f"{name}: framed", lambda work=work: nulled(directory, "framed", work)
    yield "topicfs append", lambda: appended(directory, lines)
    if os.environ.get("KAFKA") != "0":
        yield "kcat -P", lambda: produced(directory, ["kcat", "-P", "-b", boot, "-t", "bench", "-p", "0", "-l", lines])
        perf = ["org.apache.kafka.tools.ProducerPerformance", "--topic", "bench", "--num-records", str(count), "--record-size", str(LINE - 1),
                "--throughput", "-1", "--producer-props", f"bootstrap.servers={boot}"]
        yield "producer-perf-test", lambda: produced(directory, [broker, "java"] + perf)


def run(words, **more):
    begun = time.monotonic()
    subprocess.run(words, check=True, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL, **more)
    return time.monotonic() - begun


def synced(path):
    begun = time.monotonic()
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for number in range(300):
        os.write(file, b"x" * 100 + b"\n")
        os.fsync(file)
    os.close(file)
    return time.monotonic() - begun


def fresh(*paths):
    for path in paths:
        shutil.rmtree(path, ignore_errors=True)
        os.makedirs(path)
    os.sync()


def mounted(directory, work):
    data, mount = os.path.join(directory, "data"), os.path.join(directory, "mnt")
    fresh(data, mount)
    subprocess.run([topicfs, "mount", "--rw", data, mount], check=True)
    try:
        os.mkdir(os.path.join(mount, "t"))
        return work(os.path.join(mount, "t/0/append"))
    finally:
        subprocess.run([topicfs, "umount", mount], check=True)


def nulled(directory, name, work):
    mount, backing = os.path.join(directory, "null"), os.path.join(directory, "backing")
    fresh(mount)
    serving = subprocess.Popen([null_fuse, mount, backing])
    file = os.path.join(mount, name)
    while not os.path.exists(file):
        time.sleep(0.01)
    try:
        return work(file)
    finally:
        subprocess.run(["umount", mount], check=True)
        serving.wait()
        os.remove(backing)


def appended(directory, lines):
    data = os.path.join(directory, "data")
    fresh(data)
    with open(lines) as stdin:
        return run([topicfs, "append", "--create", data, "t/0"], stdin=stdin)


def produced(directory, words):
    kafka = os.path.join(directory, "kafka")
    fresh(kafka)
    subprocess.run([broker, "start", kafka], check=True, env=dict(os.environ, EXTRA="auto.create.topics.enable=true"))
    try:
        # The topic is there, and the broker warm.
        subprocess.run(["sh", "-c", f"head -n 20000 {os.path.join(directory, 'small')} | kcat -P -b {boot} -t bench -p 0"], check=True)
        return run(words)
    finally:
        subprocess.run([broker, "stop", kafka])


def report(done, megabytes, count):
    print(f"| what | median s | least s | MB/s or per s |\n|---|---|---|---|")
    medians = {name: statistics.median(seconds) for name, seconds in done.items()}
    for name, seconds in done.items():
        median = medians[name]
        if name.startswith("line a write"):
            rate = f"{LINES / median:,.0f} lines/s"
        elif name.startswith("fsync"):
            rate = f"{300 / median:,.0f} lines/s"
        else:
            rate = f"{megabytes * 1.048576 / median:,.0f} MB/s"
        print(f"| {name} | {median:.3f} | {min(seconds):.3f} | {rate} |")
    print()
    for name in ("128 KiB", "1 MiB", "cat", "line a write"):
        framed = medians.get(f"{name}: framed")
        print(f"{name}: {medians[name + ': null'] / medians[name + ': append']:.2f} of the null file system"
              + (f", {framed / medians[name + ': append']:.2f} of the one that frames" if framed else ""))
    for rival in ("plain file", "null"):
        print(f"fsync a line: {medians[f'fsync a line: {rival}'] / medians['fsync a line: append']:.2f} of a {rival}")
    for rival in ("kcat -P", "producer-perf-test"):
        if rival in medians:
            print(f"topicfs append: {medians[rival] / medians['topicfs append']:.1f} times {rival}")


main()
