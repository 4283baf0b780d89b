#!/usr/bin/env bash
# What the table of keys costs in memory, over the wire: filled from empty, left idle until its keys
# expire, filled with as many others; and a flood of new keys into a table that is full.
#
#   1  RSS is never above 1.6 times what 32 bytes a key allow, and below a quarter of its peak once
#      the keys have expired and the sweep has been round
#   2  at --memory 64MiB: keys that were limited before a flood of ten times as many keys as fit get
#      not one token more, and what is refused is counted
#
# Exit status 1 if one of these does not hold.
set -euo pipefail

usage() {
  cat <<'TEXT'
usage: bench/memory.sh [--keys 20000000] [--flood-keys 32000000] [--life 30] [--connections 8]
                       [--server-cpu 0] [--bench-cpu 1] [--bin build/release/bin]
  --keys   0: only the flood
  --life   seconds after which a key is idle; longer than filling takes
TEXT
}
refuse() {
  printf 'memory.sh: %s\n' "$1" >&2
  usage >&2
  exit 2
}
keys=20000000 flood_keys=32000000 life=30 connections=8 server_cpu=0 bench_cpu=1
bin="$(cd "$(dirname "$0")/.." && pwd)/build/release/bin"
while [ $# -gt 0 ]; do
  case "$1" in --help|-h) usage; exit 0 ;; esac
  [ $# -ge 2 ] || refuse "$1 needs a value, or is unknown"
  case "$1" in
    --keys) keys=$2 ;;
    --flood-keys) flood_keys=$2 ;;
    --life) life=$2 ;;
    --connections) connections=$2 ;;
    --server-cpu) server_cpu=$2 ;;
    --bench-cpu) bench_cpu=$2 ;;
    --bin) bin=$2 ;;
    *) refuse "unknown option $1" ;;
  esac
  shift 2
done
for program in paild pail pail-bench; do
  [ -x "$bin/$program" ] || { echo "memory.sh: no $program in $bin: build it first" >&2; exit 1; }
done

work=$(mktemp -d)
paild_pid="" watch_pid="" is_bad=0
stop() { # PID
  [ -n "$1" ] || return 0
  kill "$1" 2>/dev/null || true
  wait "$1" 2>/dev/null || true
}
finish() {
  stop "$watch_pid"
  stop "$paild_pid"
  rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM

start() { # OPTIONS
  taskset -c "$server_cpu" "$bin/paild" --shards 1 --listen 127.0.0.1:0 --resp none \
    --tcp-congestion cubic --ready-file "$work/ready.json" "$@" >"$work/paild.out" 2>"$work/paild.err" &
  paild_pid=$!
  for _ in $(seq 400); do
    [ ! -s "$work/ready.json" ] || break
    kill -0 "$paild_pid" 2>/dev/null || break
    sleep 0.05
  done
  [ -s "$work/ready.json" ] || { cat "$work/paild.err" >&2; exit 1; }
  address=$(sed -n 's/.*"native": *\["\([^"]*\)".*/\1/p' "$work/ready.json")
}
end() {
  stop "$paild_pid"
  paild_pid=""
  rm -f "$work"/*
}
rss_kib() { awk '/VmRSS/ {print $2}' "/proc/$paild_pid/status"; }
stat_of() { # NAME
  "$bin/pail" --server "$address" --json stats | tr ',{' '\n\n' | sed -n "s/.*\"$1\": *\([0-9]*\).*/\1/p"
}
# Takes one token of each of COUNT keys under POLICY, in order. "full": the table may have no room.
take_each() { # POLICY COUNT [full]
  "$bin/pail-bench" --server "$address" --connections "$connections" --pipeline 64 --keys "$2" \
    --dist sequential --policy "$1" --requests "$2" --tcp-congestion cubic --pin "$bench_cpu" \
    --json "$work/run.json" >/dev/null 2>"$work/run.err" || [ "${3:-}" = full ] || { cat "$work/run.err" >&2; exit 1; }
}
number_in_run() { # NAME
  sed -n "s/.*\"$1\": *\([0-9]*\).*/\1/p" "$work/run.json" | head -n 1
}
expect() { # CONDITION-OF-AWK TEXT
  if awk "BEGIN {exit !($1)}"; then
    printf '  ok      %s\n' "$2"
  else
    printf '  FAILED  %s\n' "$2"
    is_bad=1
  fi
}
# "entries rss", ten times a second.
watch() {
  while sleep 0.1; do echo "$(stat_of keys) $(rss_kib)"; done >"$work/samples" 2>/dev/null
}

fill_twice() {
  start --memory 4GiB --policy "first=1/${life}s,1" --policy "second=1/${life}s,1"
  empty=$(rss_kib)
  printf 'empty: %s KiB resident\n' "$empty"
  watch &
  watch_pid=$!
  SECONDS=0
  take_each first "$keys"
  filled=$(rss_kib)
  printf 'filled with %s keys in %s s: %s MiB, %s bytes a key\n' "$keys" "$SECONDS" $((filled / 1024)) \
    "$(awk "BEGIN {printf \"%.1f\", ($filled - $empty) * 1024 / $keys}")"
  SECONDS=0
  least=$filled still=0
  while [ "$SECONDS" -lt $((life + 60)) ] && [ "$still" -lt 15 ]; do
    sleep 1
    now=$(rss_kib)
    if [ "$now" -lt "$least" ]; then least=$now still=0; else still=$((still + 1)); fi
    # Before the first keys expire nothing can happen.
    [ "$SECONDS" -gt "$life" ] || still=0
  done
  printf 'after %s s without a request: %s MiB\n' $((SECONDS - still)) $((least / 1024))
  SECONDS=0
  take_each second "$keys"
  printf 'filled with other keys in %s s: %s MiB\n' "$SECONDS" $(($(rss_kib) / 1024))
  stop "$watch_pid"
  watch_pid=""
  peak=$(awk '/VmHWM/ {print $2}' "/proc/$paild_pid/status")  # the kernel misses no moment
  printf 'peak: %s MiB\n' $((peak / 1024))
  expect "$least * 4 < $peak" "idle keys leave $(awk "BEGIN {printf \"%.1f\", 100 * $least / $peak}") % of the peak"
  expect "$peak * 1024 < 1.6 * 32 * $keys" \
    "the peak is $(awk "BEGIN {printf \"%.2f\", $peak * 1024 / 32 / $keys}") of 32 bytes a key"
  worst=$(awk '$1 >= 1000000 && $1 >= keys {keys = $1; r = $2 * 1024 / 32 / keys; if (r > worst) worst = r}
               END {printf "%.2f", worst}' "$work/samples")
  expect "$worst < 1.6" "while it grows beyond a million keys it is at most $worst of 32 bytes a key"
  end
}

flood() {
  local limited=1000
  start --memory 64MiB --policy "few=1/d,1" --policy "flood=1/d,1"
  take_each few "$limited"
  expect "$(number_in_run admitted) == $limited" "$limited keys have taken their budget"
  take_each flood "$flood_keys" full
  entered=$(number_in_run admitted)
  refused=$(stat_of keys_refused)
  printf '64 MiB hold %s of %s keys; %s MiB resident\n' "$entered" "$flood_keys" $(($(rss_kib) / 1024))
  expect "$flood_keys >= 10 * $entered" "ten times as many came as fit"
  expect "$entered + $refused == $flood_keys" "$refused refusals are counted"
  take_each few "$limited"
  expect "$(number_in_run admitted) == 0" "after the flood none of the $limited has a token more"
  end
}

[ "$keys" = 0 ] || fill_twice
[ "$flood_keys" = 0 ] || flood
exit "$is_bad"
