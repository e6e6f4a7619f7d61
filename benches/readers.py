#!/usr/bin/env python3
"""What many readers of large batches cost in memory: 32 of them, each of a partition of its own, at once.

  benches/readers.py DIR [READERS]

DIR gets a data directory for each size of batch (kept: a second run uses it again): 32 partitions of 64 MiB of text each, in batches of gzip that decode to
1, 4 and 16 MiB. A fresh mount with an empty cache of measurements for each; `cat log > /dev/null` of all partitions at once, twice: while they are measured, and
again. Printed: the most anonymous memory that the mount had (RssAnon, asked for every 10 ms), what it has when all is read, and the time.

TOPICFS is the binary (default `topicfs` in PATH).
"""

import gzip
import os
import random
import shutil
import struct
import subprocess
import sys
import time

topicfs = os.environ.get("TOPICFS", "topicfs")
BYTES, SIZES, NOW_MS = 64 << 20, [1 << 20, 4 << 20, 16 << 20], 1_700_000_000_000


def main():
    directory = os.path.abspath(sys.argv[1])
    readers = int(sys.argv[2]) if len(sys.argv) > 2 else 32
    mountpoint = os.path.join(directory, "mnt")
    os.makedirs(mountpoint, exist_ok=True)
    for size in SIZES:
        data = os.path.join(directory, f"data-{size >> 20}")
        if not os.path.exists(os.path.join(data, "t-31")):
            make(data, size)
        cache = os.path.join(directory, "cache")
        shutil.rmtree(cache, ignore_errors=True)
        server = subprocess.Popen([topicfs, "mount", "--foreground", "-o", f"cache_dir={cache}", data, mountpoint], stderr=subprocess.DEVNULL)
        try:
            while not os.path.ismount(mountpoint):
                time.sleep(0.01)
            for what in ["first", "again"]:
                begun = time.monotonic()
                cats = [subprocess.Popen(["cat", f"{mountpoint}/t/{number}/log"], stdout=subprocess.DEVNULL) for number in range(readers)]
                most = 0
                while any(cat.poll() is None for cat in cats):
                    most = max(most, anonymous(server.pid))
                    time.sleep(0.01)
                if any(cat.returncode for cat in cats):
                    sys.exit("cat failed")
                seconds = time.monotonic() - begun
                time.sleep(1)
                print(f"batches of {size >> 20} MiB, {readers} readers, {what}: at most {most:.0f} MiB, then {anonymous(server.pid):.0f} MiB; "
                      f"{seconds:.2f} s, {readers * BYTES / seconds / 1e6:.0f} MB/s", flush=True)
        finally:
            subprocess.run([topicfs, "umount", mountpoint], check=True)
            server.wait()


def make(data, size):
    """One batch, made here since `topicfs append` makes smaller ones, and copies of it with other base offsets, which no checksum covers."""
    shutil.rmtree(data, ignore_errors=True)
    batch, records = batch_of(size)
    log = b"".join(struct.pack(">q", number * records) + batch for number in range(BYTES // size))
    for number in range(32):
        path = os.path.join(data, f"t-{number}")
        os.makedirs(path)
        with open(os.path.join(path, f"{0:020}.log"), "wb") as out:
            out.write(log)


def batch_of(size):
    """A batch of gzip without its base offset, whose records are `size` bytes together; how many they are."""
    chosen = random.Random(size)
    words = ["".join(chosen.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(chosen.randrange(3, 9))) for _ in range(2000)]
    records = bytearray()
    count = 0
    while len(records) < size - 1024:
        value = " ".join(chosen.choices(words, k=150)).encode()
        record = b"\0" + varint(0) + varint(count) + varint(-1) + varint(len(value)) + value + varint(0)
        records += varint(len(record)) + record
        count += 1
    payload = gzip.compress(bytes(records), 6)
    checked = struct.pack(">hiqqqhii", 1, count - 1, NOW_MS, NOW_MS, -1, -1, -1, count) + payload
    return struct.pack(">iibI", 4 + 1 + 4 + len(checked), 0, 2, crc32c(checked)) + checked, count


def varint(number):
    number = (number << 1) ^ (number >> 63)
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(out) + bytes([number])


def crc32c(data):
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ table[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def anonymous(process):
    with open(f"/proc/{process}/status") as file:
        fields = dict(line.split(":", 1) for line in file if ":" in line)
    return int(fields["RssAnon"].split()[0]) / 1024


main()
