#!/usr/bin/env python3
"""How soon a record is out of a reader: from the broker's acknowledgment to the producer until a reader's line is there.

  benches/latency.py DIR MNT [COUNT [PER_SECOND]]

DIR is a directory of broker.sh that has a broker running, and MNT a mount of DIR/data. All readers run at once, beside one producer
(Latency.java): `cat MNT/latency/0/follow.jsonl`, `topicfs cat DIR/data latency/0/follow.jsonl`, `tail -f -s 0.05` of the tail, kcat, the console
consumer. Clocks are the system's monotonic one, the same in all processes. Where the line is there before the acknowledgment is, the time is negative.
"""

import os
import re
import subprocess
import sys
import threading
import time

here = os.path.dirname(os.path.abspath(__file__))
broker = os.path.join(here, "broker.sh")


def main():
    directory, mount = sys.argv[1:3]
    count, rate = (int(word) for word in (sys.argv[3:5] + ["2000", "100"][len(sys.argv[3:5]):]))
    boot = "127.0.0.1:" + os.environ.get("PORT", "29392")
    topic = "latency"
    producer = subprocess.Popen(
        [broker, "java", os.path.join(here, "Latency.java"), boot, topic, str(count), str(rate), "200"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert producer.stdout.readline() == "warm\n"
    time.sleep(1)
    topicfs = os.environ.get("TOPICFS", "topicfs")
    commands = {
        "cat follow.jsonl": ["cat", f"{mount}/{topic}/0/follow.jsonl"],
        "topicfs cat follow.jsonl": [topicfs, "cat", f"{directory}/data", f"{topic}/0/follow.jsonl"],
        "tail -f -s 0.05": ["tail", "-f", "-n", "0", "-s", "0.05", f"{mount}/{topic}/0/tail.jsonl"],
        "kcat": ["kcat", "-b", boot, "-C", "-t", topic, "-o", "end", "-u", "-q"],
        "kcat, fetch.wait.max.ms=1": ["kcat", "-b", boot, "-C", "-t", topic, "-o", "end", "-u", "-q", "-X", "fetch.wait.max.ms=1"],
        "console consumer": [broker, "java", "org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", boot, "--topic", topic],
    }
    seen = {name: {} for name in commands}
    readers = []
    for name, command in commands.items():
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        threading.Thread(target=note, args=(process.stdout, seen[name]), daemon=True).start()
        readers.append(process)
    time.sleep(8)
    output, _ = producer.communicate("go\n")
    acknowledged = {}
    for line in output.splitlines():
        number, _, acked = (int(word) for word in line.split())
        acknowledged[number] = acked
    time.sleep(2)
    for process in readers:
        process.terminate()
    print(f"| reader | records | median ms | 99 % ms | worst ms |\n|---|---|---|---|---|")
    for name, times in seen.items():
        late = sorted((times[number] - acked) / 1e6 for number, acked in acknowledged.items() if number in times)
        if late:
            at = lambda part: late[min(len(late) - 1, int(len(late) * part))]
            print(f"| {name} | {len(late)} | {at(0.5):.2f} | {at(0.99):.2f} | {late[-1]:.2f} |")
        else:
            print(f"| {name} | 0 | | | |")


def note(stream, times):
    """When each numbered record came."""
    number = re.compile(rb"#(\d+)#")
    rest = b""
    while piece := os.read(stream.fileno(), 1 << 16):
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            if found := number.search(line):
                times.setdefault(int(found[1]), now)


if __name__ == "__main__":
    main()
