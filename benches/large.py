#!/usr/bin/env python3
"""large.py SEGMENT.log DATA COUNT: makes DATA/large-0 of COUNT copies of a segment, offsets shifted so that they follow
each other. The base offset of a batch (magic 2) is outside its checksum, so the copies are sound segments.

large.py --ask MNT/large/0 [N]: asks a mount of DATA for N (default 1000) random records and for the first byte of the log,
and prints medians and 99th percentiles in milliseconds."""
import os, random, statistics, struct, sys, time


def batches(data):
    """Positions of all batches, with base offset and last offset."""
    at = 0
    while at + 61 <= len(data):
        base, size = struct.unpack_from(">qi", data, at)
        yield at, base, base + struct.unpack_from(">i", data, at + 23)[0]
        at += 12 + size


def make(segment, directory, count):
    with open(segment, "rb") as file:
        data = bytearray(file.read())
    places = list(batches(data))
    first, span = places[0][1], places[-1][2] + 1 - places[0][1]
    target = os.path.join(directory, "large-0")
    os.makedirs(target)
    for copy in range(count):
        shift = copy * span - first
        for at, base, _ in places:
            struct.pack_into(">q", data, at, base + shift)
        index = bytearray()
        for at, _, last in places[1:]:  # an entry for each batch, as with a small index.interval.bytes
            index += struct.pack(">ii", last - first, at)
        name = os.path.join(target, "%020d" % (copy * span))
        with open(name + ".log", "wb") as file:
            file.write(data)
        with open(name + ".index", "wb") as file:
            file.write(index)
    print(f"{count} segments, {count * len(data)} bytes, {count * span} records")


def timed(work):
    begun = time.perf_counter()
    work()
    return (time.perf_counter() - begun) * 1000


def read(path, size=-1):
    with open(path, "rb") as file:
        return file.read(size)


def report(what, times):
    times.sort()
    print(f"{what:32} median {statistics.median(times):7.2f} ms   99 % {times[int(len(times) * 0.99)]:7.2f} ms")


def ask(partition, count):
    end = int(dict(line.split(None, 1) for line in read(partition + "/info").decode().replace("log end offset", "end")
                   .splitlines())["end"])
    random.seed(1)
    offsets = [random.randrange(end) for _ in range(count)]
    report("a record by offset", [timed(lambda o=o: read(f"{partition}/by-offset/{o}")) for o in offsets])
    report("the N-th record from the end", [timed(lambda o=o: read(f"{partition}/by-offset/last-{o + 1}")) for o in offsets[:100]])
    report("stat of log", [timed(lambda: os.stat(partition + "/log")) for _ in range(100)])
    report("the first byte of log", [timed(lambda: read(partition + "/log", 1)) for _ in range(100)])
    report("the last 1000 bytes of log", [timed(lambda: tail(partition + "/log", 1000)) for _ in range(100)])


def tail(path, count):
    with open(path, "rb") as file:
        file.seek(-count, os.SEEK_END)
        assert len(file.read()) == count


if sys.argv[1] == "--ask":
    ask(sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 1000)
else:
    make(sys.argv[1], sys.argv[2], int(sys.argv[3]))
