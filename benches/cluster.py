#!/usr/bin/env python3
"""How soon a whole cluster's disk answers, and what that costs in memory: 10,000 partitions of 500 topics, 100,000 segments.

  benches/cluster.py DIR [ROUNDS [PARTITIONS]]

DIR gets the data directory (`DIR/data`, kept: a second run uses it again), the mountpoint and a cache. The segments are copies of one that `topicfs append`
made, with other base offsets, which no checksum covers; each has its offset and time index, each partition its leader epochs and topic id, the directory
its checkpoints. Each of ROUNDS (default 5), times from starting the command to the end of the last one:

* `topicfs mount` and `ls MNT`, with the page cache and the kernel's names and inodes dropped (as root), and again with all of it warm;
* then `ls` of topics and `stat` of a file of a partition, each asked of once, by system calls in this process;
* anonymous memory of the mount (RssAnon) then, after `cat topics.tsv`, and after `find -maxdepth 3` over all of it.

TOPICFS is the binary (default `topicfs` in PATH).
"""

import os
import shutil
import statistics
import struct
import subprocess
import sys
import time

topicfs = os.environ.get("TOPICFS", "topicfs")
TOPICS, SEGMENTS = 500, 10
NAMES = ["orders", "payments", "clicks", "audit-log", "inventory.changes", "user_events", "shipments", "metrics", "emails", "sessions"]


def main():
    directory = os.path.abspath(sys.argv[1])
    rounds, partitions = (list(map(int, sys.argv[2:4])) + [5, 10_000][len(sys.argv[2:4]):])
    data, mountpoint = os.path.join(directory, "data"), os.path.join(directory, "mnt")
    os.environ["XDG_CACHE_HOME"] = os.path.join(directory, "cache")
    os.makedirs(mountpoint, exist_ok=True)
    if not os.path.exists(os.path.join(data, "meta.properties")):
        make(data, partitions)
    topics = sorted({name.rpartition("-")[0] for name in os.listdir(data) if os.path.isdir(os.path.join(data, name))})
    with open("/proc/sys/vm/drop_caches", "w"):
        pass  # as root, or not at all
    figures = {}
    for _ in range(rounds):
        for kind in ["cold", "warm"]:
            for what, value in once(data, mountpoint, topics, kind).items():
                figures.setdefault(what, []).append(value)
    for what, values in figures.items():
        print(f"{what:40} median {statistics.median(values):9.2f}   {min(values):9.2f} to {max(values):9.2f}", flush=True)


def once(data, mountpoint, topics, kind):
    found = {}
    if kind == "cold":
        drop_caches()
    begun = time.monotonic()
    subprocess.run([topicfs, "mount", data, mountpoint], check=True)
    mounted = time.monotonic()
    listed = subprocess.run(["ls", mountpoint], check=True, stdout=subprocess.PIPE).stdout.split()
    ended = time.monotonic()
    if not {topic.encode() for topic in topics} <= set(listed):
        sys.exit("ls shows something else than the topics")
    found[f"topicfs mount, {kind}, ms"] = (mounted - begun) * 1000
    found[f"topicfs mount and ls MNT, {kind}, ms"] = (ended - begun) * 1000
    process = server(mountpoint)
    if kind == "cold":
        lists = [timed(lambda: os.listdir(os.path.join(mountpoint, topic))) for topic in topics]
        found["ls TOPIC, each for the first time, ms"] = statistics.median(lists)
        found["ls TOPIC, 99 %, ms"] = sorted(lists)[len(lists) * 99 // 100]
        files = [os.path.join(mountpoint, topic, "0") for topic in topics]
        for name in ["log", "info", "offsets/latest"]:
            stats = [timed(lambda: os.stat(os.path.join(file, name))) for file in files[::4]]
            found[f"stat PARTITION/{name}, cold, ms"] = statistics.median(stats)
            found[f"stat PARTITION/{name}, cold, 99 %, ms"] = sorted(stats)[len(stats) * 99 // 100]
            stats = [timed(lambda: os.stat(os.path.join(file, name))) for file in files[::4]]
            found[f"stat PARTITION/{name}, again, ms"] = statistics.median(stats)
        found["RssAnon, idle, MiB"] = anonymous(process)
    else:
        begun = time.monotonic()
        with open(os.path.join(mountpoint, "topics.tsv")) as file:
            lines = file.read().count("\n")
        found["cat topics.tsv, ms"] = (time.monotonic() - begun) * 1000
        assert lines > len(topics), lines
        found["RssAnon after topics.tsv, MiB"] = anonymous(process)
        begun = time.monotonic()
        names = subprocess.run(["find", mountpoint, "-maxdepth", "3"], check=True, stdout=subprocess.PIPE).stdout.count(b"\n")
        found[f"find -maxdepth 3, {names} names, s"] = time.monotonic() - begun
        found["RssAnon after find, MiB"] = anonymous(process)
        time.sleep(5)
        found["RssAnon 5 s later, MiB"] = anonymous(process)
    subprocess.run([topicfs, "umount", mountpoint], check=True)
    return found


def timed(work):
    begun = time.perf_counter()
    work()
    return (time.perf_counter() - begun) * 1000


def drop_caches():
    subprocess.run(["sync"], check=True)
    with open("/proc/sys/vm/drop_caches", "w") as out:
        out.write("3")


def server(mountpoint):
    """The process that serves a mount: the one that has it in its command."""
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{process}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
        except OSError:
            continue
        if b"mount" in words and mountpoint.encode() in words:
            return process
    sys.exit("no process serves the mount")


def anonymous(process):
    with open(f"/proc/{process}/status") as file:
        fields = dict(line.split(":", 1) for line in file)
    return int(fields["RssAnon"].split()[0]) / 1024


def make(data, partitions):
    first = first_segment(os.path.join(os.path.dirname(data), "first"))
    os.makedirs(data, exist_ok=True)
    names, span = [], first["span"]
    for number in range(partitions):
        topic = number % TOPICS
        names.append((f"{NAMES[topic % len(NAMES)]}-{topic:03}", number // TOPICS))
        topic, partition = names[-1]
        path = os.path.join(data, f"{topic}-{partition}")
        os.makedirs(path, exist_ok=True)
        for segment in range(SEGMENTS):
            base = os.path.join(path, f"{segment * span:020}")
            write(base + ".log", shifted(first["log"], segment * span))
            write(base + ".index", first["index"])
            write(base + ".timeindex", first["timeindex"])
        write(os.path.join(path, "leader-epoch-checkpoint"), b"0\n1\n0 0\n")
        write(os.path.join(path, "partition.metadata"), first["metadata"])
    for name, offset in [("log-start-offset-checkpoint", 0), ("replication-offset-checkpoint", SEGMENTS * span), ("recovery-point-offset-checkpoint", SEGMENTS * span)]:
        lines = "".join(f"{topic} {partition} {offset}\n" for topic, partition in names)
        write(os.path.join(data, name), f"0\n{len(names)}\n{lines}".encode())
    write(os.path.join(data, "meta.properties"), b"version=1\nnode.id=1\ncluster.id=abcdefghijklmnopqrstuv\n")


def first_segment(directory):
    """One small segment with its indexes, of 20 batches."""
    shutil.rmtree(directory, ignore_errors=True)
    os.makedirs(directory)
    options = "max.message.bytes=400,index.interval.bytes=1000,compression.type=uncompressed"
    lines = b"".join(b"%04d %s\n" % (number, b"x" * 94) for number in range(60))
    subprocess.run([topicfs, "append", "--create", "-o", options, directory, "first/0"], input=lines, check=True, stderr=subprocess.DEVNULL)
    path = os.path.join(directory, "first-0")

    def read(name):
        with open(os.path.join(path, name), "rb") as file:
            return file.read()

    base = "0" * 20
    first = {"log": read(base + ".log"), "index": read(base + ".index"), "timeindex": read(base + ".timeindex"), "metadata": read("partition.metadata")}
    shutil.rmtree(directory)
    return first | {"span": 60}


def shifted(log, offset):
    log, at = bytearray(log), 0
    while at < len(log):
        base, size = struct.unpack_from(">qi", log, at)
        struct.pack_into(">q", log, at, base + offset)
        at += 12 + size
    return log


def write(path, content):
    with open(path, "wb") as out:
        out.write(content)


main()
