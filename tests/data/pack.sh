#!/bin/bash
# pack.sh FIXTURES [OUT]: packs the folders kafka-*, damage and tiered of FIXTURES (what make/make.sh and
# make/old/cases.sh write) as OUT/FOLDER.tar.zst; OUT is this directory unless given.
# The same files always give the same archives: sorted names, owner 0, one date, plain modes.
# Where a case has data.tar.gz in place of data/, it is unpacked first: GNU sparse entries are not for every
# reader of tar files, and zeros cost nothing under zstd.
set -euo pipefail
export LC_ALL=C
here=$(cd "$(dirname "$0")" && pwd)
fixtures=$(cd "$1" && pwd)
out=$(cd "${2:-$here}" && pwd)
date='2026-11-29 00:00:00Z'

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT

cd "$fixtures"
for folder in kafka-* damage tiered; do
    cp -r --sparse=always "$folder" "$stage/"
    chmod -R u+rwX "$stage/$folder"
    find "$stage/$folder" -name data.tar.gz | while read -r packed; do
        tar -C "${packed%/*}" -xSzf "$packed"
        rm "$packed"
    done
    # Level 19 with one thread and a fixed window: the same bytes on every machine with this zstd.
    tar -C "$stage" --format=gnu --sort=name --owner=0 --group=0 --numeric-owner --mtime="$date" \
        --mode=u=rwX,go=rX -cf - "$folder" | zstd -q -19 --long=27 --single-thread -f -o "$out/$folder.tar.zst"
    rm -rf "${stage:?}/$folder"
done
(cd "$out" && sha256sum ./*.tar.zst | sed 's|\./||' >SHA256SUMS)
