#!/usr/bin/env python3
"""How cost grows: with a partition's length, its segments, the readers at once, and the size of batches.

  benches/growth.py DIR [--quick] [--only length,readers] [--lengths 0.1,1,10,rest] [--segments 10,...] [--readers 1,...] [--rounds N]
  benches/growth.py DIR --draw-only

DIR, on a real disk, gets the data, which is removed again, and growth.json with all that was measured. Of that the tables are printed, and drawn:
docs/growth-length.svg, -segments.svg, -readers.svg and -batches.svg (--plots: another directory). Measured, all in the page cache, ROUNDS times (default 3),
medians, in turn where they are compared with each other; what takes more than 10 s once:

* length: partitions of so many GiB, copies of one segment of up to 1 GiB (large.py), batches of 16 KiB of records of 1 KiB. `rest` is what the disk has
  room for with 15 GB left (--spare), 100 at most; a length for which it has none is left out, and told;
* segments: the same 316 MB in so many segments, each a copy of one, the smallest with one batch of three records. Of those below 1 MiB (1,000 and more)
  topicfs saves no measurements, so that they are measured after each mounting;
* readers: so many processes that read a `log` of 1 KiB records to the end with reads of 128 KiB: each another partition's, all the same one, and each another
  segment on the disk, without FUSE;
* batches: the same lines of 100 bytes and of 1 KiB in batches of 1, 10 and 100 records and of 16 KiB, 128 KiB and 1 MiB, uncompressed and zstd: `topicfs cat` of
  `log`, and `cat` through the mount.

--quick: small data, to try the script; its figures tell nothing. --only: the others' figures are kept as growth.json has them. TOPICFS is the binary (default
`topicfs` in PATH). Needs root or fusermount3; the longest partition should fit into memory.
"""

import argparse
import contextlib
import json
import math
import os
import random
import re
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import time

here = os.path.dirname(os.path.abspath(__file__))
topicfs = os.environ.get("TOPICFS", "topicfs")
GIB, MIB, KIB = 1 << 30, 1 << 20, 1 << 10
KINDS = ["length", "segments", "readers", "batches"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("directory")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--draw-only", action="store_true")
    parser.add_argument("--only", default=",".join(KINDS))
    parser.add_argument("--lengths")
    parser.add_argument("--segments")
    parser.add_argument("--readers", default="1,2,4,8,16,32,64")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--spare", type=float, default=15.0, help="GB of the disk that stay free")
    parser.add_argument("--plots", default=os.path.join(here, "../docs"))
    options = parser.parse_args()
    options.lengths = options.lengths or ("0.01,0.1,0.3" if options.quick else "0.1,1,10,rest")
    options.segments = options.segments or ("10,100,1000" if options.quick else "10,100,1000,10000,100000")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # cleaned up then, too
    directory = os.path.abspath(options.directory)
    os.makedirs(directory, exist_ok=True)
    saved = os.path.join(directory, "growth.json")
    figures = {}
    if os.path.exists(saved):
        with open(saved) as file:
            figures = json.load(file)
    if not options.draw_only:
        for kind in KINDS:
            if kind in options.only.split(","):
                begun = time.monotonic()
                with scratch(directory, kind) as place:
                    figures[kind] = globals()["measure_" + kind](place, options)
                figures[kind].update(quick=options.quick, took=round(time.monotonic() - begun, 1))
                with open(saved, "w") as file:
                    json.dump(figures, file, indent=1)
                print(f"{kind}: {figures[kind]['took']:.0f} s", file=sys.stderr, flush=True)
    for kind in KINDS:
        if kind in figures:
            print(f"\n{kind}" + (" (QUICK RUN)" if figures[kind]["quick"] else "") + "\n")
            globals()["table_" + kind](figures[kind])
            with open(os.path.join(options.plots, f"growth-{kind}.svg"), "w") as file:
                file.write(globals()["draw_" + kind](figures[kind]))


# What is measured


def measure_length(place, options):
    done = {"lengths": [], "left_out": [], "bytes": 0}
    for word in options.lengths.split(","):
        room = (shutil.disk_usage(place).free - options.spare * 1e9) / 1.02  # with indexes and what is measured
        size = min(100.0, math.floor(room / GIB)) if word == "rest" else float(word)
        if word == "rest" and done["lengths"] and size < 1.2 * done["lengths"][-1]["gib"]:
            continue
        # While the copies are made the first segment is there, too.
        if size * GIB > room - min(size, 1) * GIB:
            if word == "rest":
                size -= 1
            else:
                done["left_out"].append(size)
                continue
        data = os.path.join(place, "data")
        one = min(size, 1.0)
        bytes_, records = copies(place, data, int(one * GIB), 16 * KIB, max(1, round(size / one)))
        row = {"gib": bytes_ / GIB, "records": records, "index": [], "anonymous": []}
        while not enough(row["index"], options):
            row["index"].append(index(data, place))
        questions = 50 if options.quick else 200
        random.seed(1)
        for _ in range(options.rounds):
            with mount(data, place) as (mnt, process, _):
                log = f"{mnt}/large/0/log"
                row.setdefault("first_open", []).append(milliseconds(lambda: first(log)))
                row.setdefault("first_size", []).append(milliseconds(lambda: sized(log)))
                row.setdefault("first_byte", []).extend(milliseconds(lambda: first(log)) for _ in range(questions))
                offsets = [random.randrange(records) for _ in range(questions)]
                row.setdefault("by_offset", []).extend(milliseconds(lambda o=o: whole(f"{mnt}/large/0/by-offset/{o}")) for o in offsets)
                with opened(log):
                    row.setdefault("stat", []).extend(milliseconds(lambda: os.stat(log)) for _ in range(questions))
                row.setdefault("end", []).extend(milliseconds(lambda: end(log)) for _ in range(questions))
                row["anonymous"].append(anonymous(process))
        done["lengths"].append(row)
        shutil.rmtree(data)
    return done


def measure_segments(place, options):
    total, batch = (3000 if options.quick else 100_000), 4 * KIB
    counts = list(map(int, options.segments.split(",")))
    rows = []
    for count in counts:
        data = os.path.join(place, str(count))
        # A batch of three records of 1 KiB has 3,150 bytes or so; large.py copies whole segments.
        bytes_, records = copies(place, data, max(1, total // count) * 3 * KIB, batch, count)
        rows.append({"segments": count, "bytes": bytes_, "records": records, "data": data, "cache": os.path.join(place, f"cache-{count}")})
        os.makedirs(rows[-1]["cache"])
    for row in rows:
        row["index"] = []
        while not enough(row["index"], options):
            row["index"].append(index(row["data"], row["cache"]))
    random.seed(1)
    for turn in range(options.rounds):
        with contextlib.ExitStack() as stack:
            mounted = []
            for row in rows:
                mnt, process, took = stack.enter_context(mount(row["data"], row["cache"]))
                mounted.append((row, mnt, process))
                add = lambda what, figure, row=row: row.setdefault(what, []).append(figure)
                log = f"{mnt}/large/0/log"
                add("mount", took)
                add("list", milliseconds(lambda: os.listdir(f"{mnt}/large/0")))
                add("first_open", milliseconds(lambda: first(log)))
                add("first_size", milliseconds(lambda: sized(log)))
                for _ in range(50 if options.quick else 200):
                    offset = random.randrange(row["records"])
                    add("by_offset", milliseconds(lambda: whole(f"{mnt}/large/0/by-offset/{offset}")))
                with opened(log):
                    for _ in range(50):
                        add("stat", milliseconds(lambda: os.stat(log)))
            if turn == 0:
                cat(f"{mounted[0][1]}/large/0/log")  # the machine's first one doesn't count
            for row, mnt, process in mounted:
                if not enough(row.setdefault("cat", []), options):
                    row["cat"].append(cat(f"{mnt}/large/0/log"))
            for row, _, process in mounted:
                row.setdefault("anonymous", []).append(anonymous(process))
    for row in rows:
        del row["data"], row["cache"]
    return {"segments": rows}


def measure_readers(place, options):
    counts = list(map(int, options.readers.split(",")))
    data, most = os.path.join(place, "data"), max(counts)
    segment = make_segment(place, (2 if options.quick else 32) * MIB, 16 * KIB)
    for partition in range(most):
        os.makedirs(f"{data}/t-{partition}")
        shutil.copy(segment, f"{data}/t-{partition}/{0:020}.log")
    os.sync()
    index(data, place)
    rows = {}
    with mount(data, place) as (mnt, process, _):
        logs = [f"{mnt}/t/{partition}/log" for partition in range(most)]
        plain = [f"{data}/t-{partition}/{0:020}.log" for partition in range(most)]
        size = os.path.getsize(plain[0])
        for _ in range(options.rounds):
            for count in counts:
                # A few readers read several times: what takes a hundredth of a second is no figure.
                laps = max(1, min(8, 16 // count))
                for series, files in [("partitions", logs), ("same", logs[:1]), ("plain", plain)]:
                    spans, read = readers(files, count, laps)
                    row = rows.setdefault((series, count), {"series": series, "readers": count, "rate": [], "spread": []})
                    row["rate"].append(read / (max(end for _, end in spans) - min(begin for begin, _ in spans)))
                    times = [end - begin for begin, end in spans]
                    row["spread"].append(max(times) / min(times))
        memory = anonymous(process)
    return {"readers": list(rows.values()), "bytes": size, "anonymous": memory}


def readers(files, count, laps):
    """Begin and end of each reader, and the bytes that all have read."""
    ready, go, done = os.pipe(), os.pipe(), os.pipe()
    children = []
    for number in range(count):
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            try:
                os.close(go[1])
                file = os.open(files[number % len(files)], os.O_RDONLY)
                os.write(ready[1], b".")
                os.read(go[0], 1)  # ends once the parent has closed it
                buffer, total = bytearray(128 * KIB), 0
                begin = time.monotonic()
                for lap in range(laps):
                    while got := os.readv(file, [buffer]):
                        total += got
                    os.close(file)
                    if lap + 1 < laps:
                        file = os.open(files[(number + (lap + 1) * count) % len(files)], os.O_RDONLY)
                os.write(done[1], struct.pack("ddQ", begin, time.monotonic(), total))
                os._exit(0)
            except BaseException as error:
                print(error, file=sys.stderr)
            finally:
                os._exit(1)
        children.append(child)
    try:
        os.close(ready[1])
        for _ in range(count):
            if not os.read(ready[0], 1):
                raise RuntimeError("a reader has failed")
        os.close(go[1])
    finally:
        failed = [os.waitpid(child, 0)[1] for child in children]
    results = [struct.unpack("ddQ", os.read(done[0], 24)) for _ in range(count - sum(map(bool, failed)))]
    for descriptor in [ready[0], go[0], *done]:
        os.close(descriptor)
    if any(failed) or len({total for *_, total in results}) != 1:
        raise RuntimeError("readers have not read the same")
    return [result[:2] for result in results], sum(total for *_, total in results)


BATCHES = [("1 record", 1), ("10", 10), ("100", 100), ("16 KiB", 16 * KIB), ("128 KiB", 128 * KIB), ("1 MiB", MIB)]


def measure_batches(place, options):
    data = os.path.join(place, "data")
    rows = []
    for line in [100, 1024]:
        lines = os.path.join(place, "lines")
        values = (4 if options.quick else 64 if line == 100 else 192) * MIB
        make_lines(lines, values // line, line)
        for name, size in BATCHES:
            room = size
            if size <= 100:
                one = varint(line - 1) + line - 1 + 5
                one += varint(one)
                room = 61 + size * one + (size > 64) * (size - 64) + one * 3 // 4  # and most of a record: a line that comes in two reads must leave 128
            for codec in ["uncompressed", "zstd"]:
                topic = f"{line}-{size}-{codec}"
                # Before it is compressed a batch has to be smaller than that by a 64th and 128 bytes: both get the same batches.
                limit = room if codec == "uncompressed" else (room + 128) * 64 // 63 + 1
                append(data, topic, lines, f"max.message.bytes={limit},compression.type={codec},segment.bytes=2000000000")
                segments = sorted(name for name in os.listdir(f"{data}/{topic}-0") if name.endswith(".log"))
                bytes_, records = dumped(f"{data}/{topic}-0/{segments[0]}")
                if size <= 100 and records != size or codec == "uncompressed" and size > 100 and not 0.85 * size < bytes_ <= size:
                    raise RuntimeError(f"{topic}: batches of {records} records, {bytes_} bytes")
                if codec == "zstd" and abs(records - rows[-1]["records"]) > 1:
                    raise RuntimeError(f"{topic}: batches of {records} records, uncompressed they have {rows[-1]['records']}")
                on_disk = sum(os.path.getsize(f"{data}/{topic}-0/{name}") for name in segments)
                rows.append({"line": line, "batch": name, "codec": codec, "topic": topic, "records": records, "batch_bytes": bytes_, "bytes": values // line * line,
                             "disk": on_disk, "cat": [], "mount": []})
        os.remove(lines)
    os.sync()
    index(data, place, "-o", "formats_listed=txt")
    with mount(data, place) as (mnt, process, _):
        for row in rows:  # once before what counts
            cat(f"{mnt}/{row['topic']}/0/log")
        for _ in range(options.rounds):
            for row in rows:
                row["mount"].append(cat(f"{mnt}/{row['topic']}/0/log"))
                row["cat"].append(run([topicfs, "cat", "-o", f"cache_dir={place}/cache", data, f"{row['topic']}/0/log"]))
    return {"batches": rows}


# What it takes


@contextlib.contextmanager
def scratch(directory, kind):
    """A directory that is gone afterwards, whatever happens."""
    place = os.path.join(directory, "growth-" + kind)
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(place)
    os.makedirs(place)
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


@contextlib.contextmanager
def mount(data, place):
    """A mount with the cache of this place: its directory, its process, and after how many milliseconds it was there."""
    mnt = os.path.join(place, "mnt")
    os.makedirs(mnt, exist_ok=True)
    begun = time.perf_counter()
    with open(os.path.join(place, "mount.log"), "w+") as log:
        process = subprocess.Popen([topicfs, "mount", "--foreground", "-o", f"cache_dir={place}/cache,measure_wait=120s", data, mnt], stdout=log, stderr=log)
        try:
            while not os.path.ismount(mnt):
                if process.poll() is not None or time.perf_counter() - begun > 120:
                    log.seek(0)
                    raise RuntimeError("topicfs mount failed: " + log.read())
                time.sleep(0.0005)
            yield mnt, process, (time.perf_counter() - begun) * 1000
        finally:
            if os.path.ismount(mnt) and subprocess.run([topicfs, "umount", mnt]).returncode:
                subprocess.run(["umount", "-l", mnt])
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def index(data, place, *more):
    """Seconds that measuring takes from the beginning."""
    shutil.rmtree(os.path.join(place, "cache"), ignore_errors=True)
    return run([topicfs, "index", "-o", f"cache_dir={place}/cache", *more, data])


def enough(seconds, options):
    """Whether it was measured often enough: what takes long once only."""
    return len(seconds) >= options.rounds or max(seconds, default=0) > 10


def run(words):
    begun = time.perf_counter()
    with open(os.devnull, "wb") as null:
        ended = subprocess.run(words, stdout=null, stderr=subprocess.PIPE)
    seconds = time.perf_counter() - begun
    if ended.returncode:
        raise RuntimeError(f"{' '.join(words)}: {ended.stderr.decode(errors='replace')}")
    return seconds


def cat(path):
    return run(["cat", path])


def append(data, topic, lines, options):
    os.makedirs(data, exist_ok=True)
    with open(lines, "rb") as stdin:
        ended = subprocess.run([topicfs, "append", "--create", "-o", options, data, f"{topic}/0"], stdin=stdin, stderr=subprocess.PIPE)
    if ended.returncode:
        raise RuntimeError(ended.stderr.decode())


def make_segment(place, size, batch):
    """A segment of about this many bytes, of lines of 1 KiB."""
    lines, data = os.path.join(place, "lines"), os.path.join(place, "one")
    make_lines(lines, max(1, size // KIB), KIB)
    append(data, "t", lines, f"max.message.bytes={batch},compression.type=uncompressed,segment.bytes=2000000000")
    os.remove(lines)
    return os.path.join(data, "t-0", f"{0:020}.log")


def copies(place, data, size, batch, count):
    """Bytes and records of a partition large-0 of so many copies of a segment of that size."""
    segment = make_segment(place, size, batch)
    ended = subprocess.run([sys.executable, os.path.join(here, "large.py"), segment, data, str(count)], stdout=subprocess.PIPE, check=True)
    shutil.rmtree(os.path.dirname(os.path.dirname(segment)))
    os.sync()
    segments, bytes_, records = map(int, re.fullmatch(rb"(\d+) segments, (\d+) bytes, (\d+) records\n", ended.stdout).groups())
    return bytes_, records


def make_lines(path, count, size):
    """Lines of words: zstd makes a third of them, and none is in a batch twice."""
    random.seed(3)
    letters = "etaoinshrdlucmfwypvbgk"
    words = ["".join(random.choices(letters, weights=range(len(letters), 0, -1), k=random.randrange(2, 10))) for _ in range(2000)]
    text = " ".join(random.choices(words, k=600_000))
    at, width = 0, size - 14
    with open(path, "w") as file:
        for begin in range(0, count, 4096):
            lines = []
            for number in range(begin, min(begin + 4096, count)):
                lines.append(f"{number:012} {text[at:at + width]}\n")
                at = at + width if at + 2 * width < len(text) else number % 1000
            file.write("".join(lines))


def dumped(segment):
    """Bytes and records of a batch of this segment: the most frequent of the first 200."""
    dump = subprocess.Popen([topicfs, "dump", segment], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    batches = []
    for line in dump.stdout:
        if found := re.search(r" count: (\d+) .* size: (\d+) ", line):
            batches.append((int(found[2]), int(found[1])))
        if len(batches) == 200:
            break
    dump.kill()
    dump.wait()
    dump.stdout.close()
    return (sorted(bytes_ for bytes_, _ in batches)[len(batches) // 2], statistics.mode(records for _, records in batches))


def varint(number):
    return max(1, math.ceil((number << 1).bit_length() / 7))


def milliseconds(work):
    begun = time.perf_counter()
    work()
    return (time.perf_counter() - begun) * 1000


@contextlib.contextmanager
def opened(path):
    """A descriptor. Python's open() asks for the size, too, and waits until that is measured."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def first(path):
    with opened(path) as file:
        assert len(os.read(file, 1)) == 1


def whole(path):
    with opened(path) as file:
        got = 0
        while piece := os.read(file, 128 * KIB):
            got += len(piece)
        assert got


def sized(path):
    with opened(path) as file:
        assert os.fstat(file).st_size


def end(path):
    with opened(path) as file:
        os.lseek(file, -1000, os.SEEK_END)
        got = 0
        while piece := os.read(file, 1000):
            got += len(piece)
        assert got == 1000


def anonymous(process):
    """Resident anonymous memory, in bytes."""
    with open(f"/proc/{process.pid}/status") as file:
        return int(re.search(r"RssAnon:\s+(\d+) kB", file.read())[1]) * KIB


# Tables


def table(head, rows):
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |")


def short(number):
    """Two or three digits that count."""
    if number >= 100:
        return f"{number:,.0f}"
    return f"{number:.{max(0, 1 - math.floor(math.log10(number)))}f}" if number > 0 else "0"


def middle(row, name):
    return statistics.median(row[name])


def percent99(row, name):
    ordered = sorted(row[name])
    return ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]


def both(row, name):
    return f"{short(middle(row, name))}, {short(percent99(row, name))}"


def table_length(figures):
    table(["GiB", "records", "first byte of `log` after mounting, ms", "its size after mounting", "its first byte: median, 99 %", "a record by offset", "`stat` of the open `log`", "last 1000 bytes",
           "`index`, s", "s per GiB", "anonymous memory, MiB"],
          [[short(row["gib"]), f"{row['records']:,}", short(middle(row, "first_open")), short(middle(row, "first_size")), both(row, "first_byte"), both(row, "by_offset"), both(row, "stat"), both(row, "end"),
            short(middle(row, "index")), short(middle(row, "index") / row["gib"]), short(middle(row, "anonymous") / MIB)] for row in figures["lengths"]])
    for size in figures["left_out"]:
        print(f"\n{size:g} GiB: no room on this disk.")


def cat_ratio(figures, row):
    """How many bytes a second `cat log` has, by what it has with the fewest segments; rounds in turn."""
    base = figures["segments"][0]
    return statistics.median(b / base["bytes"] / (s / row["bytes"]) for b, s in zip(base["cat"], row["cat"]))


def table_segments(figures):
    table(["segments", "bytes each", "mount, ms", "first `ls` of the partition, ms", "then the first byte of `log`, ms", "then its size, ms", "a record by offset, ms: median, 99 %", "`stat` of the open `log`, ms",
           "`cat log`, MB/s", f"× that of {figures['segments'][0]['segments']}", "`index`, s", "anonymous memory, MiB"],
          [[f"{row['segments']:,}", f"{row['bytes'] // row['segments']:,}", short(middle(row, "mount")), short(middle(row, "list")), short(middle(row, "first_open")), short(middle(row, "first_size")), both(row, "by_offset"),
            short(middle(row, "stat")), short(row["bytes"] / middle(row, "cat") / 1e6), short(cat_ratio(figures, row)), short(middle(row, "index")),
            short(middle(row, "anonymous") / MIB)] for row in figures["segments"]])


SERIES = [("partitions", "each another partition's log"), ("same", "all the same log"), ("plain", "segments on the disk, without FUSE")]


def reader_rows(figures, series):
    rows = [row for row in figures["readers"] if row["series"] == series]
    # In turn, so that each round has its own ratio.
    return [(row["readers"], statistics.median(rate / one for rate, one in zip(row["rate"], rows[0]["rate"])), middle(row, "spread"), middle(row, "rate")) for row in rows]


def table_readers(figures):
    rows = {}
    for series, _ in SERIES:
        for count, ratio, spread, rate in reader_rows(figures, series):
            rows.setdefault(count, [str(count)]).extend([f"{rate / 1e6:,.0f}", f"{ratio:.2f}"] + [f"{spread:.2f}"] * (series != "plain"))
    head = [f"{name}: {what}" for name in ("own logs", "same log", "no FUSE") for what in ("MB/s", "× one", "slowest by fastest")]
    table(["readers"] + head[:-1], list(rows.values()))
    print(f"\nThe mount had {short(figures['anonymous'] / MIB)} MiB of anonymous memory afterwards.")


def table_batches(figures):
    rows = {}
    for row in figures["batches"]:
        line = rows.setdefault((row["line"], row["batch"]), [f"{row['line']} bytes", row["batch"], f"{row['records']:,}"])
        line += [f"{row['disk'] / row['bytes']:.2f}"] + [f"{row['bytes'] / middle(row, way) / 1e6:,.0f}" for way in ("cat", "mount")]
    table(["lines", "batches of", "records each", "log by lines", "`topicfs cat`, MB/s", "`cat` of the mount", "zstd: log by lines", "`topicfs cat`, MB/s", "`cat` of the mount"], list(rows.values()))


# Plots: written by hand, the same bytes of the same figures


COLORS = ["#0072b2", "#d55e00", "#009e73", "#cc5fa0", "#b07d00", "#555555"]
WIDTH, LEFT, RIGHT = 720, 62, 14


class Axis:
    """Values to pixels. Logarithmic ones have ticks at powers of ten, or where they are told to have them; others begin at 0."""

    def __init__(self, values, log, ticks=None, label=None):
        self.log, self.label = log, label or plain_number
        low, high = min(values), max(values)
        if log:
            self.low, self.high = math.log10(low) - 0.12, math.log10(high) + 0.12
            if self.high - self.low < 1.05:  # one power of ten at least is on it
                grow = (1.05 - (self.high - self.low)) / 2
                self.low, self.high = self.low - grow, self.high + grow
            powers = range(math.ceil(self.low), math.floor(self.high) + 1)
            self.ticks = ticks or [10.0 ** power for power in powers]
            self.minor = [] if ticks else [m * 10.0 ** p for p in range(math.floor(self.low), math.ceil(self.high)) for m in range(2, 10)
                                           if self.low <= math.log10(m * 10.0 ** p) <= self.high]
            if not ticks and self.high - self.low < 2:
                self.ticks += [m for m in self.minor if round(m / 10 ** math.floor(math.log10(m) + 1e-9)) in (2, 5)]
        else:
            step = 10.0 ** math.floor(math.log10(high))
            step = next(s for s in (step / 5, step / 2, step, step * 2) if high / s <= 6)
            self.low, self.high = 0.0, high * 1.06
            self.ticks, self.minor = [step * n for n in range(int(self.high / step) + 1)], []

    def at(self, value):
        return ((math.log10(value) if self.log else value) - self.low) / (self.high - self.low)


def plain_number(value):
    return f"{value:,.0f}" if value >= 1 and value == round(value) else f"{value:g}"


def bytes_number(value):
    power = 0
    while value >= 1000:
        value, power = value / 1000, power + 1
    return f"{value:g} {['B', 'kB', 'MB', 'GB'][power]}"


def escape(text):
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def text(x, y, words, size=12, anchor="start", more=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}"{more}>{escape(words)}</text>'


def marker(shape, x, y, color):
    shapes = {
        0: f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4"',
        1: f'<rect x="{x - 3.6:.1f}" y="{y - 3.6:.1f}" width="7.2" height="7.2"',
        2: f'<path d="M{x:.1f} {y - 4.8:.1f}L{x + 4.5:.1f} {y + 3.4:.1f}H{x - 4.5:.1f}Z"',
        3: f'<path d="M{x:.1f} {y - 5:.1f}L{x + 5:.1f} {y:.1f}L{x:.1f} {y + 5:.1f}L{x - 5:.1f} {y:.1f}Z"',
        5: f'<path d="M{x - 1.6:.1f} {y - 5:.1f}h3.2v3.4h3.4v3.2h-3.4v3.4h-3.2v-3.4h-3.4v-3.2h3.4Z"',
        4: f'<path d="M{x:.1f} {y + 4.8:.1f}L{x + 4.5:.1f} {y - 3.4:.1f}H{x - 4.5:.1f}Z"',
    }
    return f'{shapes[shape % 6]} fill="{color}" stroke="#ffffff" stroke-width="1"/>'


def legend(series, x, y, width):
    """Entries in rows as they have room, and the height that they take."""
    out, left, top = [], x, y
    for number, (name, color, dashed, _) in enumerate(series):
        takes = 34 + 6.3 * len(name) + 14
        if left > x and left + takes - 14 > x + width:
            left, top = x, top + 18
        dash = ' stroke-dasharray="6 4"' if dashed else ""
        out.append(f'<line x1="{left:.1f}" y1="{top:.1f}" x2="{left + 26:.1f}" y2="{top:.1f}" stroke="{color}" stroke-width="2"{dash}/>')
        out.append(marker(number, left + 13, top, color))
        out.append(text(left + 32, top + 4, name))
        left += takes
    return out, top - y + 18


def panel(x, y, width, height, title, x_axis, x_name, y_axis, y_name, series):
    """A plot at this place, with its legend below, and the height of all."""
    left, top, wide, high = x + LEFT, y + 26, width - LEFT - RIGHT, height
    out = [text(left, y + 14, title, 13, more=' font-weight="bold"')]
    for tick in x_axis.minor:
        at = left + wide * x_axis.at(tick)
        out.append(f'<line x1="{at:.1f}" y1="{top + high}" x2="{at:.1f}" y2="{top + high + 3}" stroke="#888888"/>')
    for tick in y_axis.minor:
        at = top + high - high * y_axis.at(tick)
        out.append(f'<line x1="{left - 3}" y1="{at:.1f}" x2="{left}" y2="{at:.1f}" stroke="#888888"/>')
    for tick in x_axis.ticks:
        at = left + wide * x_axis.at(tick)
        out.append(f'<line x1="{at:.1f}" y1="{top}" x2="{at:.1f}" y2="{top + high + 5}" stroke="#dddddd"/>')
        out.append(text(at, top + high + 18, x_axis.label(tick), anchor="middle"))
    for tick in y_axis.ticks:
        at = top + high - high * y_axis.at(tick)
        out.append(f'<line x1="{left - 5}" y1="{at:.1f}" x2="{left + wide}" y2="{at:.1f}" stroke="#dddddd"/>')
        out.append(text(left - 8, at + 4, y_axis.label(tick), anchor="end"))
    out.append(f'<path d="M{left} {top}V{top + high}H{left + wide}" fill="none" stroke="#444444"/>')
    out.append(text(left + wide / 2, top + high + 36, x_name, anchor="middle"))
    out.append(text(x + 12, top + high / 2, y_name, anchor="middle", more=f' transform="rotate(-90 {x + 12} {top + high / 2:.1f})"'))
    for number, (name, color, dashed, points) in enumerate(series):
        places = [(left + wide * x_axis.at(a), top + high - high * y_axis.at(b)) for a, b in points]
        dash = ' stroke-dasharray="6 4"' if dashed else ""
        line = " ".join(f"{a:.1f},{b:.1f}" for a, b in places)
        out.append(f'<polyline points="{line}" fill="none" stroke="{color}" stroke-width="2"{dash}/>')
        out += [marker(number, a, b, color) for a, b in places]
    below = 26 + high + 48
    if len(series) > 1:
        entries, takes = legend(series, left, y + below + 10, wide)
        return out + entries, below + 10 + takes
    return out, below


def drawing(title, rows):
    """Rows of panels, each the arguments of panel() behind its height."""
    out, y = [], 34
    for row in rows:
        width, tallest = (WIDTH - 16) / len(row), 0
        for number, arguments in enumerate(row):
            more, height = panel(8 + round(number * width), y, round(width), *arguments)
            out += more
            tallest = max(tallest, height)
        y += tallest + 14
    y -= 4
    head = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y:.0f}" viewBox="0 0 {WIDTH} {y:.0f}" role="img" font-family="sans-serif" fill="#222222">',
            f"<title>{escape(title)}</title>", f'<rect width="{WIDTH}" height="{y:.0f}" fill="#ffffff"/>', text(WIDTH / 2, 22, title, 15, "middle")]
    return "\n".join(head + out) + "\n</svg>\n"


def named(*named_points):
    """Series with their colors."""
    return [(name, COLORS[number], False, points) for number, (name, points) in enumerate(named_points)]


def every(series):
    return [point[1] for *_, points in series for point in points]


def quick_title(title, figures):
    return title + (" (quick run, tells nothing)" if figures["quick"] else "")


def draw_length(figures):
    rows = figures["lengths"]
    sizes = [row["gib"] for row in rows]
    of = lambda name: [(row["gib"], middle(row, name)) for row in rows]
    times = named(("first byte of log after mounting", of("first_open")), ("first byte of log", of("first_byte")), ("a record by offset", of("by_offset")),
                  ("last 1000 bytes of log", of("end")), ("stat of the open log", of("stat")),
                  ("index, per GiB", [(row["gib"], middle(row, "index") / row["gib"] * 1000) for row in rows]))
    memory = named(("memory", [(row["gib"], middle(row, "anonymous") / MIB) for row in rows]))
    return drawing(quick_title("Cost by a partition's length", figures), [
        [(300, "Time", Axis(sizes, True), "GiB", Axis(every(times), True), "ms, median", times)],
        [(130, "Anonymous memory of the mount", Axis(sizes, True), "GiB", Axis(every(memory), False), "MiB", memory)],
    ])


def draw_segments(figures):
    rows = figures["segments"]
    counts = [row["segments"] for row in rows]
    of = lambda name: [(row["segments"], middle(row, name)) for row in rows]
    times = named(("mount", of("mount")), ("first ls of the partition", of("list")), ("first byte of log after that", of("first_open")),
                  ("its size after that", of("first_size")), ("a record by offset", of("by_offset")), ("stat of the open log", of("stat")))
    speed = named(("speed", [(row["segments"], cat_ratio(figures, row)) for row in rows]))
    memory = named(("memory", [(row["segments"], middle(row, "anonymous") / MIB) for row in rows]))
    return drawing(quick_title(f"Cost by segments, the same {rows[0]['bytes'] / 1e6:.0f} MB in all", figures), [
        [(280, "Time", Axis(counts, True), "segments", Axis(every(times), True), "ms, median", times)],
        [(150, "Bytes a second of cat log", Axis(counts, True), "segments", Axis(every(speed), True), f"× that of {rows[0]['segments']} segments", speed),
         (150, "Anonymous memory of the mount", Axis(counts, True), "segments", Axis(every(memory), True), "MiB", memory)],
    ])


def draw_readers(figures):
    of = lambda index, shown: named(*[(name, [(row[0], row[index]) for row in reader_rows(figures, series)]) for series, name in shown])
    # Without FUSE a reader is done within its first slice of a processor's time: that says nothing of how even they are.
    speed, spread = of(1, SERIES), of(2, SERIES[:2])
    counts = sorted({row["readers"] for row in figures["readers"]})
    axis = lambda: Axis(counts, True, counts)
    return drawing(quick_title("Cost by readers at once", figures), [
        [(220, "All readers' bytes a second", axis(), "readers", Axis(every(speed), False), "× one reader", speed),
         (220, "How even they are", axis(), "readers", Axis(every(spread), False), "slowest by fastest", spread)],
    ])


def draw_batches(figures):
    def lines(size):
        out = []
        for number, (way, codec) in enumerate([("cat", "uncompressed"), ("mount", "uncompressed"), ("cat", "zstd"), ("mount", "zstd")]):
            # Bytes of a batch before it is compressed: those of the uncompressed twin.
            large = {row["batch"]: row["batch_bytes"] for row in figures["batches"] if row["line"] == size and row["codec"] == "uncompressed"}
            points = sorted((large[row["batch"]], row["bytes"] / middle(row, way) / 1e6) for row in figures["batches"] if row["line"] == size and row["codec"] == codec)
            name = ("topicfs cat" if way == "cat" else "cat of the mount") + (", zstd" if codec == "zstd" else "")
            out.append((name, COLORS[number], codec == "zstd", points))
        return out

    small, large = lines(100), lines(1024)
    sizes = [point[0] for series in (small, large) for *_, points in series for point in points]
    y_axis = lambda: Axis(every(small) + every(large), True)
    x_axis = lambda: Axis(sizes, True, label=bytes_number)
    return drawing(quick_title("Cost by the size of batches", figures), [
        [(280, "Lines of 100 bytes", x_axis(), "bytes of a batch, uncompressed", y_axis(), "MB of lines a second", small),
         (280, "Lines of 1 KiB", x_axis(), "bytes of a batch, uncompressed", y_axis(), "MB of lines a second", large)],
    ])


main()
