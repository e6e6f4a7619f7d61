#!/bin/bash
# read.sh DIR SET [ROUNDS]: how fast partition 0 of a topic of DIR/data (see make-data.sh) can be read, value by value.
#
# Every reader runs once to be checked, then ROUNDS times (default 5), interleaved, all with the files in the page cache. Prints
# the median, the range, the processor time of the reader itself (not of the broker or the mount), and the ratio to kcat's median.
#
#   cat             the raw segments: what the machine can do at best; no records are parsed
#   kcat            kcat -C -e -q from a broker on DIR/data
#   console         kafka-console-consumer from that broker (not by default)
#   dump            kafka-dump-log --print-data-log on the segments
#   topicfs-first   cat MNT/SET/0/log, nothing known about the partition: FRESH runs before each round, unmeasured
#   topicfs         cat MNT/SET/0/log, measured before
#   topicfs-cat     topicfs cat of the same without a mount (not by default, like the next two)
#   topicfs-dump    topicfs dump --print-data-log on the segments
#   verify          topicfs verify of the partition
#
# Settings by environment:
#   MNT      where DIR/data is mounted with topicfs; without it the topicfs readers are left out
#   FRESH    a command that makes topicfs forget all: unmount, delete its cache, mount again; without it topicfs-first is left out
#   READERS  which of the readers above, in which order
#   BASE     the reader that the others are compared with (default kcat)
#   TOPICFS  the program (default topicfs)
#   OUT      a file to which each single run is added: set, reader, seconds, processor seconds
# and those of broker.sh. The check: all readers of records print the same bytes; dump prints one line for each record, and topicfs
# dump the same bytes.
# Needs kcat (Debian: kcat), python3 and what broker.sh needs.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
dir=$(cd "$1" && pwd)
set=$2
rounds=${3:-5}
export PORT=${PORT:-29392}
boot=127.0.0.1:$PORT
scratch=$(mktemp -d)
times=$scratch/times

if [ -z "${READERS:-}" ]; then
    READERS="cat kcat dump"
    [ -z "${MNT:-}" ] || [ -z "${FRESH:-}" ] || READERS+=" topicfs-first"
    [ -z "${MNT:-}" ] || READERS+=" topicfs"
fi

finish() {
    [ ! -e "$dir/broker.pid" ] || "$here/broker.sh" stop "$dir"
    rm -rf "$scratch"
}
trap finish EXIT

logs=("$dir/data/$set-0/"*.log)

reader() { # NAME: prints the topic
    case $1 in
        cat) cat "${logs[@]}" ;;
        kcat) kcat -C -b "$boot" -t "$set" -p 0 -o beginning -e -q ;;
        # Without the count it would wait for more records.
        console) "$here/broker.sh" java org.apache.kafka.tools.consumer.ConsoleConsumer --bootstrap-server "$boot" \
            --topic "$set" --partition 0 --offset earliest --max-messages "$records" ;;
        dump) HEAP=2g "$here/broker.sh" java org.apache.kafka.tools.DumpLogSegments --print-data-log \
            --files "$(IFS=,; echo "${logs[*]}")" ;;
        topicfs | topicfs-first) cat "$MNT/$set/0/log" ;;
        topicfs-cat) "${TOPICFS:-topicfs}" cat "$dir/data/$set-0" "$set/0/log" ;;
        topicfs-dump) "${TOPICFS:-topicfs}" dump --print-data-log "${logs[@]}" ;;
        verify) "${TOPICFS:-topicfs}" verify "$dir/data/$set-0" ;;
        *) echo "no reader $1" >&2; exit 2 ;;
    esac
}

before() { # NAME: what is not measured
    [ "$1" != topicfs-first ] || bash -c "$FRESH" >&2
}

"$here/broker.sh" start "$dir"

# The check is the warming up, too.
expected=$(kcat -C -b "$boot" -t "$set" -p 0 -o beginning -e -q | tee >(wc -l >"$scratch/records") | sha256sum)
while [ ! -s "$scratch/records" ]; do sleep 0.1; done
records=$(cat "$scratch/records")
bytes=$(kcat -C -b "$boot" -t "$set" -p 0 -o beginning -e -q | wc -c)
for r in $READERS; do
    before "$r"
    case $r in
        cat | kcat | verify) reader "$r" >/dev/null ;;
        dump | topicfs-dump)
            sum=$(reader "$r" 2>"$scratch/err" | tee >(grep -ac '^| offset: ' >"$scratch/lines") | sha256sum)
            while [ ! -s "$scratch/lines" ]; do sleep 0.1; done
            [ "$(cat "$scratch/lines")" = "$records" ] || { echo "$r: not $records records" >&2; exit 1; }
            [ "${dumped:=$sum}" = "$sum" ] || { echo "$r prints something else than the other dump" >&2; exit 1; }
            ;;
        *) [ "$(reader "$r" | sha256sum)" = "$expected" ] || { echo "$r prints something else than kcat" >&2; exit 1; } ;;
    esac
done

TIMEFORMAT='%R %U %S'
for _ in $(seq "$rounds"); do
    for r in $READERS; do
        before "$r"
        { time reader "$r" >/dev/null 2>"$scratch/err"; } 2>"$scratch/time" || { cat "$scratch/err" >&2; exit 1; }
        echo "$r $(tail -1 "$scratch/time")" >>"$times"
    done
done

python3 - "$times" "$bytes" "$records" "${OUT:-/dev/null}" "$set" "${BASE:-kcat}" <<'P'
import statistics, sys

path, size, records, out, name, base = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:]
times, cpu = {}, {}
with open(out, "a") as runs:
    for line in open(path):
        reader, real, user, system = line.split()
        times.setdefault(reader, []).append(float(real))
        cpu.setdefault(reader, []).append(float(user) + float(system))
        runs.write(f"{name} {reader} {real} {cpu[reader][-1]:.3f}\n")
median = {reader: statistics.median(t) for reader, t in times.items()}
print(f"{name}: {records} records, {size / 1e6:.0f} MB of values with newlines")
print(f"{'reader':14} {'median s':>8} {'range':>15} {'cpu s':>6} {'MB/s':>6} {'records/s':>10} {'x ' + base:>6}")
for reader, t in times.items():
    m = median[reader]
    ratio = f"{median[base] / m:.2f}" if base in median else "-"
    print(f"{reader:14} {m:8.2f} {f'{min(t):.2f}-{max(t):.2f}':>15} {statistics.median(cpu[reader]):6.2f} {size / m / 1e6:6.0f} {records / m:10.0f} {ratio:>6}")
P
