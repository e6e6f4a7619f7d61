#!/usr/bin/env python3
"""How fast a log is compacted, beside Kafka's own cleaner; and how long a look at very many segments takes.

  benches/clean.py DIR [ROUNDS [MB]]

DIR, on a real disk, gets the data; it should be empty. Each of ROUNDS (default 3):

* a log of MB (default 1024) of records of 1 KiB, keys drawn from a million, in segments of 100 MiB and batches of 16 KiB, half of it compacted before as
  cleaner-offset-checkpoint says: compacted by `topicfs clean`, and by Kafka's `Cleaner` in a JVM that has done it before, without its throttle, both on a
  fresh copy that is in the page cache. Of topicfs the time counts that it says it took, of Kafka the call of doClean; both sync what they write, and
  neither of these times has the removal of the old files. The whole command's time is printed, too.
* the same without a codec, and with lz4;
* 100,000 empty-handed segments in 100 partitions: `topicfs clean --dry-run` with retention, page cache dropped (as root).

Printed: medians, ratios, and the most memory that topicfs had. TOPICFS is the binary (default `topicfs` in PATH). Needs a JDK, and Kafka's jars (broker.sh).
"""

import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import time

here = os.path.dirname(os.path.abspath(__file__))
topicfs = os.environ.get("TOPICFS", "topicfs")
KEYS, SEGMENT, BATCH, SLOTS = 1_000_000, 100 << 20, 16 << 10, (128 << 20) // 24
PARTITIONS, SEGMENTS = 100, 1000


def main():
    directory = os.path.abspath(sys.argv[1])
    rounds, megabytes = (list(map(int, sys.argv[2:4])) + [3, 1024][len(sys.argv[2:4]):])
    os.makedirs(directory, exist_ok=True)
    driver = Driver(directory)
    for codec in ["none", "lz4"]:
        source = os.path.join(directory, f"source-{codec}")
        records = make(source, megabytes, codec)
        ours, wholes, kafkas, memory = [], [], [], 0
        for _ in range(rounds):
            seconds, whole, most = clean(copy(source, directory))
            ours.append(seconds)
            wholes.append(whole)
            memory = max(memory, most)
            kafkas.append(driver.compact(copy(source, directory), records // 2))
        size = sum(os.path.getsize(os.path.join(source, "t-0", name)) for name in os.listdir(os.path.join(source, "t-0")))
        report(f"{size >> 20} MiB, {codec}", ours, kafkas)
        print(f"  the whole command {statistics.median(wholes):.2f} s; most memory {memory >> 10} MiB, of which the map of keys may take 128", flush=True)
        shutil.rmtree(source)
    look(directory, rounds)


def make(source, megabytes, codec):
    """A closed data directory; how many records it has."""
    shutil.rmtree(source, ignore_errors=True)
    os.makedirs(source)
    random.seed(1)
    count = megabytes * 1024
    filler = "".join(random.choice("abcdefghijklmnopqrstuvwxyz 0123456789") for _ in range(64 * 1024))
    options = f"segment.bytes={SEGMENT},max.message.bytes={BATCH},compression.type={codec if codec != 'none' else 'uncompressed'}"
    append = subprocess.Popen([topicfs, "append", "--create", "-o", options, source, "t/0.tsv"], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
    lines = []
    for number in range(count):
        at = random.randrange(60 * 1024)
        lines.append(f"key-{random.randrange(KEYS):012}\t{number:012} {filler[at:at + 970]}\n")
        if len(lines) == 4096:
            append.stdin.write("".join(lines).encode())
            lines.clear()
    append.stdin.write("".join(lines).encode())
    append.stdin.close()
    if append.wait():
        sys.exit("topicfs append failed")
    with open(os.path.join(source, "cleaner-offset-checkpoint"), "w") as out:
        out.write(f"0\n1\nt 0 {count // 2}\n")
    return count


def copy(source, directory):
    to = os.path.join(directory, "copy")
    shutil.rmtree(to, ignore_errors=True)
    subprocess.run(["cp", "-a", source, to], check=True)
    subprocess.run(["sync"], check=True)
    return to


def clean(data):
    options = f"cleanup.policy=compact,min.cleanable.dirty.ratio=0.1,segment.bytes={SEGMENT}"
    begun = time.monotonic()
    process = subprocess.Popen([topicfs, "clean", "-o", options, data], stdout=subprocess.PIPE, text=True)
    told = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit("topicfs clean failed")
    return float(re.search(r" in ([0-9.]+) s:", told)[1]), time.monotonic() - begun, usage.ru_maxrss


class Driver:
    """Kafka's cleaner, in one JVM."""

    def __init__(self, directory):
        tests = os.path.join(here, "../tests/brokers/Driver.java")
        errors = open(os.path.join(directory, "driver.log"), "w")
        command = [os.path.join(here, "broker.sh"), "java", tests]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True)

    def compact(self, data, checkpoint):
        words = ["compact", os.path.join(data, "t-0"), "0", str(int(time.time() * 1000)), str(checkpoint), str(SLOTS)]
        words += ["cleanup.policy=compact", f"segment.bytes={SEGMENT}", "min.cleanable.dirty.ratio=0.1"]
        self.process.stdin.write("\t".join(words) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        if "thrown" in answer:
            sys.exit(answer["thrown"])
        return answer["millis"] / 1000


def look(directory, rounds):
    """Very many segments, each of one small batch, with its indexes."""
    source = os.path.join(directory, "many")
    shutil.rmtree(source, ignore_errors=True)
    os.makedirs(source)
    options = "segment.bytes=100,max.message.bytes=100,compression.type=uncompressed"
    first = subprocess.run([topicfs, "append", "--create", "-o", options, source, "many/0"], input=b"x" * 20 + b"\n", stderr=subprocess.DEVNULL)
    if first.returncode:
        sys.exit("topicfs append failed")
    one = os.path.join(source, "many-0")
    files = {name: open(os.path.join(one, name), "rb").read() for name in os.listdir(one)}
    log = files["0" * 20 + ".log"]
    for partition in range(PARTITIONS):
        path = os.path.join(source, f"many-{partition}")
        os.makedirs(path, exist_ok=True)
        for number in range(SEGMENTS):
            base = f"{number:020}"
            for extension, content in [("log", number.to_bytes(8, "big") + log[8:]), ("index", b""), ("timeindex", files["0" * 20 + ".timeindex"])]:
                with open(os.path.join(path, f"{base}.{extension}"), "wb") as out:
                    out.write(content)
    seconds = []
    for _ in range(rounds):
        subprocess.run(["sync"], check=True)
        drop = "/proc/sys/vm/drop_caches"
        if os.access(drop, os.W_OK):
            with open(drop, "w") as out:
                out.write("3")
        begun = time.monotonic()
        subprocess.run([topicfs, "clean", "--dry-run", "-o", "cleanup.policy=delete,retention.ms=1", source], check=True, stdout=subprocess.DEVNULL)
        seconds.append(time.monotonic() - begun)
    print(f"clean --dry-run of {PARTITIONS * SEGMENTS} segments, cold: {statistics.median(seconds):.2f} s")
    shutil.rmtree(source)


def report(what, ours, kafkas):
    ratios = [kafka / our for our, kafka in zip(ours, kafkas)]
    print(f"{what}: topicfs clean {statistics.median(ours):.2f} s, Kafka's cleaner {statistics.median(kafkas):.2f} s, "
          f"ratio {statistics.median(ratios):.1f} ({min(ratios):.1f} to {max(ratios):.1f})", flush=True)


main()
