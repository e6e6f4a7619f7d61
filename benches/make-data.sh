#!/bin/bash
# make-data.sh DIR [SET...]: fills the data directory DIR/data with what the benchmarks read, by a real broker and producer.
#
#   set        records    a value is             codec
#   kib        1048576    1 KiB of words         none
#   small      8000000    100 bytes of words     none
#   json-zstd  ~1960000   300 to 600 of JSON     zstd
#   json-lz4   the same   the same               lz4
#   json-none  the same   the same               none
#   small-keys 8000000    100 bytes of words     none; only when asked for: 1,000,000 keys
#   month      10000000   1 KiB of words         none; only when asked for: 10.8 GB in 103 segments of 100 MiB, 259 ms apart, 1,000,000 keys
#
# One topic a set, with one partition; the producer's and the broker's defaults (batches of 16 KiB, segments of 1 GiB). Sets that are
# there are left alone. Takes 4 GB and some minutes. See broker.sh for settings.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
dir=$1
shift
export PORT=${PORT:-29392}
[ $# -gt 0 ] || set -- kib small json-zstd json-lz4 json-none
todo=()
for s in "$@"; do [ -d "$dir/data/$s-0" ] || todo+=("$s"); done
[ ${#todo[@]} -gt 0 ] || exit 0
"$here/broker.sh" start "$dir"
trap '"$here/broker.sh" stop "$dir"' EXIT
for s in "${todo[@]}"; do "$here/broker.sh" java "$here/MakeData.java" "127.0.0.1:$PORT" "$s"; done
