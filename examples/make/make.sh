#!/bin/bash
# make.sh: makes ../data.tar.zst and ../data.tsv anew, with a real Kafka 4.4 broker on loopback. Takes about a minute.
# Needs what ../../benches/broker.sh needs, and zstd. Settings by environment: those of broker.sh.
set -euo pipefail
export LC_ALL=C
here=$(cd "$(dirname "$0")" && pwd)
broker=$here/../../benches/broker.sh
export PORT=${PORT:-29492}
work=$(mktemp -d)
finish() {
    [ ! -e "$work/broker.pid" ] || "$broker" stop "$work"
    rm -rf "$work"
}
trap finish EXIT
# Cleaning at once.
export EXTRA='log.cleaner.backoff.ms=300
log.initial.task.delay.ms=500
log.retention.check.interval.ms=500
transaction.max.timeout.ms=900000
log.segment.delete.delay.ms=100'
example() { "$broker" java "$here/MakeExample.java" "127.0.0.1:$PORT" "$@"; }

"$broker" start "$work"
example week 1
"$broker" stop "$work"
"$broker" start "$work"
example week 2
example settle "$work/data"
example tell >"$here/../data.tsv"
"$broker" stop "$work"

# The controller's own log has 20 MiB of preallocated index files; nothing in it is about records.
rm -r "$work/data/__cluster_metadata-0"
tar -C "$work" --format=gnu --sort=name --owner=0 --group=0 --numeric-owner --mtime='2026-11-29 00:00:00Z' --mode=u=rwX,go=rX \
    -cf - data | zstd -q -19 --single-thread -f -o "$here/../data.tar.zst"
