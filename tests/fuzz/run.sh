#!/usr/bin/env bash
# Runs every fuzzer of build/fuzz for a bounded time, FUZZ_SECONDS each (60), or only those named:
#
#   tests/fuzz/run.sh [native ...]
#
# As many at once as there are cores. Exits 1 if any found a fault, and says how to meet it again.
set -euo pipefail
cd "$(dirname "$0")/../.."
seconds=${FUZZ_SECONDS:-60}
jobs=${JOBS:-$(nproc)}
build=$PWD/build/fuzz
found=$build/found
names=("$@")
if [ $# -eq 0 ]; then
  for binary in "$build"/bin/fuzz_*; do names+=("${binary##*/fuzz_}"); done
fi

# A small quarantine: filling the default 256 MB costs two thirds of the runs.
export ASAN_OPTIONS=quarantine_size_mb=8:abort_on_error=0

fuzz() {
  local name=$1 work=$found/$1
  mkdir -p "$work"
  # The first directory collects what is new, so that the next run goes on from there.
  "$build/bin/fuzz_$name" -max_total_time="$seconds" -max_len=4096 -timeout=60 -rss_limit_mb=2048 \
    -print_final_stats=1 -artifact_prefix="$found/$name-" "$work" "$build/corpus/$name" \
    >"$found/$name.log" 2>&1
}

mkdir -p "$found"
declare -A pids
failed=()
await() {  # the fuzzer of the name: done or failed
  local name=$1
  if wait "${pids[$name]}"; then
    printf '%-16s clean: %s runs, %s inputs of interest\n' "$name" \
      "$(sed -n 's/^stat::number_of_executed_units: *//p' "$found/$name.log")" \
      "$(find "$found/$name" -type f | wc -l)"
  else
    failed+=("$name")
    printf '%-16s FAULT, the end of %s:\n' "$name" "$found/$name.log"
    grep -v -e REDUCE -e NEW "$found/$name.log" | tail -n 40
    echo "again: build/fuzz/bin/fuzz_$name FILE, the file named after 'Test unit written to'"
  fi
}

echo "fuzzing for $seconds s each: ${names[*]}"
for ((first = 0; first < ${#names[@]}; first += jobs)); do
  batch=("${names[@]:first:jobs}")
  for name in "${batch[@]}"; do
    fuzz "$name" &
    pids[$name]=$!
  done
  for name in "${batch[@]}"; do await "$name"; done
done
[ ${#failed[@]} -eq 0 ] || { echo "faults found by: ${failed[*]}" >&2; exit 1; }
