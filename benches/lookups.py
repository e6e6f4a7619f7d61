#!/usr/bin/env python3
"""How long it takes to look one thing up in a large partition, through the mount: open, read and close, one after another.

  benches/lookups.py DIR [COUNT [SEGMENTS]]

DIR gets a partition of SEGMENTS (default 1000) segments of 10 MiB (`DIR/data`, kept: a second run uses it again): records of 1 KiB a hundred milliseconds
apart, in batches of 16 KiB, made by `topicfs append`. Then COUNT (default 1000) questions of each kind, each about another record, at random places:

* warm, a second time in the same order after all was read once; beside them the same loop on a FUSE file system that answers at once (`examples/null_fuse.rs`)
  with the same flags, names that are looked up for the first time each, and on files of tmpfs, which is what the loop itself costs;
* cold, fifty of each kind, with the partition's files taken out of the page cache before each: the mount and its memory stay.

Then `stat` of an open `log`, and `wc -c log` and `tail -n 10` as processes, beside the same commands on an empty file of tmpfs.

TOPICFS is the binary (default `topicfs` in PATH), NULL_FUSE the null file system (default `target/release/examples/null_fuse`).
"""

import datetime
import os
import random
import shutil
import statistics
import subprocess
import sys
import time

topicfs = os.environ.get("TOPICFS", "topicfs")
null_fuse = os.environ.get("NULL_FUSE", "target/release/examples/null_fuse")
RECORD, BATCH, SEGMENT, BEGIN_MS, STEP_MS = 1024, 16 << 10, 10 << 20, 1_700_000_000_000, 100


def main():
    directory = os.path.abspath(sys.argv[1])
    count, segments = (list(map(int, sys.argv[2:4])) + [1000, 1000][len(sys.argv[2:4]):])
    data, mountpoint = os.path.join(directory, "data"), os.path.join(directory, "mnt")
    os.environ["XDG_CACHE_HOME"] = os.path.join(directory, "cache")
    os.makedirs(mountpoint, exist_ok=True)
    if not os.path.exists(os.path.join(data, "meta.properties")):
        make(data, segments)
    subprocess.run([topicfs, "index", data], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    subprocess.run([topicfs, "mount", data, mountpoint], check=True, stderr=subprocess.DEVNULL)
    try:
        ask(os.path.join(mountpoint, "t", "0"), os.path.join(data, "t-0"), count)
    finally:
        subprocess.run([topicfs, "umount", mountpoint], check=True)
    ask_null(os.path.join(directory, "null"), count)


def make(data, segments):
    shutil.rmtree(data, ignore_errors=True)
    os.makedirs(data)
    options = f"segment.bytes={SEGMENT},max.message.bytes={BATCH},compression.type=uncompressed"
    command = [topicfs, "append", "--create", "-o", options, data, "t/0.jsonl"]
    append = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
    filler = "".join(random.Random(1).choice("abcdefghijklmnopqrstuvwxyz 0123456789") for _ in range(64 * 1024))
    for first in range(0, segments * (SEGMENT // (RECORD + 24)), 4096):
        lines = []
        for number in range(first, first + 4096):
            at = number * 7919 % (60 * 1024)
            lines.append(f'{{"timestamp":{BEGIN_MS + number * STEP_MS},"key":"key-{number % 1_000_000:07}","value":"{number:012} {filler[at:at + RECORD - 13]}"}}\n')
        append.stdin.write("".join(lines).encode())
    append.stdin.close()
    if append.wait():
        sys.exit("topicfs append failed")
    with open(os.path.join(data, "meta.properties"), "w") as out:
        out.write("version=1\nnode.id=1\n")


def ask(partition, source, count):
    with open(f"{partition}/offsets/latest") as file:
        end = int(file.read())
    chosen = random.Random(2)
    offsets = [chosen.randrange(end) for _ in range(count)]
    instants = [BEGIN_MS + offset * STEP_MS - chosen.randrange(STEP_MS) for offset in offsets]
    iso = [datetime.datetime.fromtimestamp(ms / 1000, datetime.timezone.utc).isoformat(timespec="milliseconds").removesuffix("+00:00") for ms in instants]
    kinds = {
        "by-offset/N": [f"by-offset/{offset}" for offset in offsets],
        "by-offset/N.jsonl": [f"by-offset/{offset}.jsonl" for offset in offsets],
        "by-offset/last-N": [f"by-offset/last-{end - offset}" for offset in offsets],
        "offsets/MS": [f"offsets/{ms}" for ms in instants],
        "offsets/ISO": [f"offsets/{time}" for time in iso],
        "by-time/ISO..+100ms.txt": [f"by-time/{time}..+100ms.txt" for time in iso],
    }
    for name, names in kinds.items():
        paths = [f"{partition}/{one}".encode() for one in names]
        answer = read(paths[0])
        if name.startswith("offsets") and int(answer) != offsets[0] or name == "by-offset/N" and int(answer[:12]) != offsets[0]:
            sys.exit(f"{names[0]} is {answer[:40]}")
        begun = time.perf_counter()
        for path in paths:
            read(path)
        first = (time.perf_counter() - begun) / count * 1e6
        report(f"{name}, warm (first {first:.0f})", [timed(path) for path in paths])
        report(f"{name}, cold", [cold(path, source) for path in paths[:50]])
    log = os.open(f"{partition}/log", os.O_RDONLY)
    times = []
    for _ in range(count):
        begun = time.perf_counter()
        os.fstat(log)
        times.append((time.perf_counter() - begun) * 1e6)
    report("fstat of an open log", times)
    os.close(log)
    empty = "/dev/shm/topicfs-empty"
    open(empty, "w").close()
    for command in [["wc", "-c"], ["tail", "-n", "10"]]:
        for path in [f"{partition}/log", empty]:
            report(f"{' '.join(command)} {path if path == empty else 'log'}", [process(command + [path]) for _ in range(40)])
    os.unlink(empty)


def ask_null(directory, count):
    """The same loop where nothing is looked up: what FUSE, and what Python, takes."""
    os.makedirs(directory, exist_ok=True)
    backing = os.path.join(os.path.dirname(directory), "backing")
    server = subprocess.Popen([null_fuse, directory, backing, str(RECORD)])
    try:
        while not os.path.ismount(directory):
            time.sleep(0.01)
        paths = [f"{directory}/{number}".encode() for number in range(2 * count)]
        for path in paths[:count]:
            read(path)
        report("null file system, names looked up", [timed(path) for path in paths[count:]])
        report("null file system, names known", [timed(path) for path in paths[count:]])
    finally:
        subprocess.run(["umount", directory], check=True)
        server.wait()
        os.unlink(backing)
    there = "/dev/shm/topicfs-lookups"
    with open(there, "wb") as out:
        out.write(b"x" * RECORD)
    report("tmpfs", [timed(there.encode()) for _ in range(count)])
    os.unlink(there)


def read(path):
    file = os.open(path, os.O_RDONLY)
    content = os.read(file, 64 * 1024)
    os.close(file)
    return content


def timed(path):
    begun = time.perf_counter()
    read(path)
    return (time.perf_counter() - begun) * 1e6


def cold(path, source):
    """The whole partition is taken out of the page cache, and nothing else of the machine."""
    for name in os.listdir(source):
        file = os.open(os.path.join(source, name), os.O_RDONLY)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(file)
    return timed(path)


def process(command):
    begun = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return (time.perf_counter() - begun) * 1e6


def report(what, times):
    times.sort()
    print(f"{what:44} median {statistics.median(times):8.0f} us   99 % {times[len(times) * 99 // 100]:8.0f} us", flush=True)


main()
