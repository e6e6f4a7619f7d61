#!/usr/bin/env bash
# Counts the instructions of the hot loops, and fails where one takes more than docs/performance.md lets pass.
#
#   benches/count.sh [WORD..]                  # the loops with one of the words in their names; all
#   TOPICFS_BLESS=1 benches/count.sh           # writes the table
#
# topicfs itself is built as in a release, but for the optimisation while linking; libraries are those of its tests, which have most of it and are
# built before anyway. Needs valgrind.
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_INCREMENTAL=0
exec cargo bench --quiet --locked --profile dev --bench instructions \
    --config 'profile.dev.package.topicfs.opt-level = 3' \
    --config 'profile.dev.package.topicfs.codegen-units = 4' \
    --config 'profile.dev.package.topicfs.debug-assertions = false' \
    --config 'profile.dev.package.topicfs.overflow-checks = false' \
    -- "$@"
