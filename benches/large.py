#!/usr/bin/env python3
"""large.py SEGMENT.log DATA COUNT: makes DATA/large-0 of COUNT copies of a segment, offsets shifted so that they follow
each other. The base offset of a batch (magic 2) is outside its checksum, so the copies are sound segments.

large.py --ask MNT/large/0 [N]: asks a mount of DATA for N (default 1000) random records and for the first byte of the log,
and prints medians and 99th percentiles in milliseconds.

large.py --ask-times MNT/month/0 [N]: asks for N random instants, hours, counted records and keys of the set `month`."""
import datetime, os, random, statistics, struct, sys, time


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


def ask_times(partition, count):
    """Of the set `month`: 10,000,000 records over 30 days, 1,000,000 keys."""
    def edge(name):
        return int(read(f"{partition}/by-offset/{name}.tsv").split(b"\t")[1])

    first, last, end = edge("0"), edge("last-1"), int(read(partition + "/offsets/latest"))
    random.seed(2)
    instants = [random.randrange(first, last) for _ in range(count)]
    hours = [datetime.datetime.fromtimestamp(ms / 1000, datetime.timezone.utc).strftime("%Y-%m-%d/%H") for ms in instants]
    offsets = [random.randrange(5000, end) for _ in range(count)]
    # What comes first reads every batch once; it is told apart.
    report("the first instant of all", [timed(lambda: read(f"{partition}/offsets/{instants[0]}"))])
    report("an instant in offsets/", [timed(lambda t=t: read(f"{partition}/offsets/{t}")) for t in instants])
    for extension in ("txt", "jsonl"):
        report(f"first byte of an hour .{extension}", [timed(lambda h=h: read(f"{partition}/by-time/{h}.{extension}", 1)) for h in hours])
    report("a record by offset", [timed(lambda o=o: read(f"{partition}/by-offset/{o}")) for o in offsets])
    report("12345~7 in offsets/", [timed(lambda o=o: read(f"{partition}/offsets/{o}~7")) for o in offsets])
    report("12345~1000", [timed(lambda o=o: read(f"{partition}/offsets/{o}~1000")) for o in offsets])
    report("last-1000...txt, first byte", [timed(lambda: read(f"{partition}/by-offset/last-1000...txt", 1)) for _ in offsets])
    report("ls by-time", [timed(lambda: os.listdir(partition + "/by-time")) for _ in range(100)])
    report("the first key of all", [timed(lambda: read(f"{partition}/by-key/key-1.key"))])
    keys = [f"{partition}/by-key/key-{random.randrange(1_000_000)}" for _ in range(count)]
    report("stat of a key", [timed(lambda k=k: os.stat(k)) for k in keys])
    report("the latest value of a key", [timed(lambda k=k: read(k)) for k in reversed(keys)])


def tail(path, count):
    with open(path, "rb") as file:
        file.seek(-count, os.SEEK_END)
        assert len(file.read()) == count


if sys.argv[1] in ("--ask", "--ask-times"):
    {"--ask": ask, "--ask-times": ask_times}[sys.argv[1]](sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 1000)
else:
    make(sys.argv[1], sys.argv[2], int(sys.argv[3]))
