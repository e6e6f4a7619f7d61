#!/usr/bin/env python3
"""What a scan of cold data costs a broker: `cat log` of a large partition beside producers and consumers, in little memory.

  benches/beside.py DIR BIG [SECONDS [ROUNDS [MEMORY]]]

DIR gets a broker (broker.sh) with a topic `live`, to which a producer sends 20 MB/s. A consumer reads it half a minute late, as far as the page cache holds it
without anybody's help; another one reads the newest records, which Latency.java sends. BIG is a source that large.py made. Everything runs in a control group
of MEMORY (default 4G), so that there is pressure. Each round has a phase without a scan, one with `cat log` at the default `page_cache`, and one where
that is as good as unlimited; a phase takes SECONDS (default 30). Needs root, a memory control group (version 1 or 2), kcat, and topicfs in PATH or TOPICFS.

Printed for each phase: the times from a record's sending to its acknowledgment, and to its line from kcat; what the broker read from the disk.
"""

import os
import re
import subprocess
import sys
import threading
import time

from latency import note

here = os.path.dirname(os.path.abspath(__file__))
broker = os.path.join(here, "broker.sh")
topicfs = os.environ.get("TOPICFS", "topicfs")
boot = "127.0.0.1:" + os.environ.get("PORT", "29392")
RATE = 20_000_000
LATE = 30


def main():
    directory, big = sys.argv[1:3]
    seconds, rounds, memory = (sys.argv[3:6] + ["30", "3", "4G"][len(sys.argv[3:6]):])
    seconds, rounds = int(seconds), int(rounds)
    confine(memory)
    forget(big)
    mount = os.path.join(directory, "mnt")
    os.makedirs(mount, exist_ok=True)
    environment = dict(os.environ, EXTRA="log.segment.bytes=268435456\nlog.retention.bytes=4294967296\nauto.create.topics.enable=true")
    subprocess.run([broker, "start", directory], check=True, env=environment)
    pid = open(os.path.join(directory, "broker.pid")).read().strip()
    producing = subprocess.Popen(
        [broker, "java", "org.apache.kafka.tools.ProducerPerformance", "--topic", "live", "--num-records", "1000000000", "--record-size", "1000",
         "--throughput", str(RATE // 1000), "--producer-props", f"bootstrap.servers={boot}", "acks=1"],
        stdout=subprocess.DEVNULL, env=dict(os.environ, HEAP="256m"))
    try:
        time.sleep(LATE)
        late = Late()
        print(f"| scan | records | ack median ms | 99 % ms | worst ms | line median ms | 99 % ms | worst ms | broker read MB | late consumer MB/s | scanned GB |")
        print("|---|---|---|---|---|---|---|---|---|---|---|")
        for _ in range(rounds):
            for name, share in (("none", None), ("page_cache=512MiB", "512MiB"), ("page_cache=1TiB", "1TiB")):
                phase(name, share, seconds, directory, big, mount, pid, late)
    finally:
        producing.terminate()
        subprocess.run([broker, "stop", directory])


def phase(name, share, seconds, directory, big, mount, pid, late):
    producer = subprocess.Popen([broker, "java", os.path.join(here, "Latency.java"), boot, "latency", str(seconds * 100), "100", "200"],
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=dict(os.environ, HEAP="128m"))
    assert producer.stdout.readline() == "warm\n"
    consumer = subprocess.Popen(["kcat", "-b", boot, "-C", "-t", "latency", "-o", "end", "-u", "-q"], stdout=subprocess.PIPE)
    lines = {}
    threading.Thread(target=note, args=(consumer.stdout, lines), daemon=True).start()
    scan = Scan(big, mount, share)
    time.sleep(3)
    read, got, scanned = read_bytes(pid), late.bytes, scan.bytes
    output, _ = producer.communicate("go\n")
    read, got, scanned = read_bytes(pid) - read, late.bytes - got, scan.bytes - scanned
    scan.end()
    time.sleep(1)
    consumer.terminate()
    # What this phase did to the page cache is over when the late consumer has got past it.
    forget(big)
    time.sleep(LATE)
    sent, acks = {}, []
    for line in output.splitlines():
        number, at, acked = (int(word) for word in line.split())
        sent[number] = at
        acks.append((acked - at) / 1e6)
    came = [(lines[number] - at) / 1e6 for number, at in sent.items() if number in lines]
    print(f"| {name} | {len(came)} of {len(acks)} | {figures(acks)} | {figures(came)} | {read / 1e6:.0f} | {got / 1e6 / seconds:.1f} | {scanned / 1e9:.1f} |", flush=True)


class Scan:
    """`cat log`, again and again."""

    def __init__(self, big, mount, share):
        self.bytes, self.share, self.mount, self.process, self.ends = 0, share, mount, None, False
        if share:
            subprocess.run([topicfs, "mount", big, mount, "-o", f"page_cache={share}", "--log-file", "/dev/null"], check=True)
            self.thread = threading.Thread(target=self.run)
            self.thread.start()

    def run(self):
        while not self.ends:
            self.process = subprocess.Popen(["cat", os.path.join(self.mount, "large/0/log")], stdout=subprocess.PIPE)
            while piece := os.read(self.process.stdout.fileno(), 1 << 20):
                self.bytes += len(piece)
                if self.ends:
                    self.process.kill()
            self.process.wait()

    def end(self):
        if self.share:
            self.ends = True
            self.thread.join()
            subprocess.run([topicfs, "umount", self.mount], check=True)


class Late:
    """A consumer that reads as fast as the producer sends, half a minute late."""

    def __init__(self):
        self.bytes = 0
        process = subprocess.Popen(["kcat", "-b", boot, "-C", "-t", "live", "-o", "beginning", "-u", "-q"], stdout=subprocess.PIPE)
        threading.Thread(target=self.run, args=(process,), daemon=True).start()

    def run(self, process):
        begun = time.monotonic()
        while piece := os.read(process.stdout.fileno(), 1 << 16):
            self.bytes += len(piece)
            ahead = self.bytes / RATE - (time.monotonic() - begun)
            if ahead > 0:
                time.sleep(ahead)


def forget(big):
    """Takes the large partition out of the page cache."""
    directory = os.path.join(big, "large-0")
    for name in os.listdir(directory):
        with open(os.path.join(directory, name), "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def confine(memory):
    """This process and what it starts: so much memory, the page cache included."""
    if os.path.exists("/sys/fs/cgroup/cgroup.controllers"):
        group, limit = "/sys/fs/cgroup/topicfs-beside", "memory.max"
    else:
        group, limit = "/sys/fs/cgroup/memory/topicfs-beside", "memory.limit_in_bytes"
    os.makedirs(group, exist_ok=True)
    with open(os.path.join(group, limit), "w") as file:
        file.write(memory)
    with open(os.path.join(group, "cgroup.procs"), "w") as file:
        file.write(str(os.getpid()))


def read_bytes(pid):
    with open(f"/proc/{pid}/io") as file:
        return int(re.search(r"^read_bytes: (\d+)", file.read(), re.M)[1])


def figures(times):
    times = sorted(times)
    at = lambda part: times[min(len(times) - 1, int(len(times) * part))]
    return f"{at(0.5):.2f} | {at(0.99):.2f} | {times[-1]:.1f}" if times else "| |"


main()
