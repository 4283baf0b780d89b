#!/usr/bin/env bash
# What bad company costs the good: the p99 of 50 active connections beside a crowd, against the same
# without it, in alternating runs; and how much memory the server needs for the crowd.
#
# The crowd shares the generator's core and paces itself, but what it takes there is counted against
# the server too: the ratios are upper bounds.
set -euo pipefail

usage() {
  cat <<'TEXT'
usage: bench/crowds.sh [--crowds "idle:10000 mute:500 flood:1 loris:5000 connect:2000"] [--rounds 3]
                       [--seconds 2] [--connections 50] [--rate 20000] [--io auto]
                       [--server-cpu 0] [--bench-cpu 1] [--bin build/release/bin]
  --rate   requests a second that the good offer (0: as many as they can, one at a time each)
TEXT
}
refuse() {
  printf 'crowds.sh: %s\n' "$1" >&2
  usage >&2
  exit 2
}
crowds="idle:10000 mute:500 flood:1 loris:5000 connect:2000"
rounds=3 seconds=2 connections=50 rate=0 io=auto server_cpu=0 bench_cpu=1
bin="$(cd "$(dirname "$0")/.." && pwd)/build/release/bin"
while [ $# -gt 0 ]; do
  case "$1" in --help|-h) usage; exit 0 ;; esac
  [ $# -ge 2 ] || refuse "$1 needs a value, or is unknown"
  case "$1" in
    --crowds) crowds=$2 ;;
    --rounds) rounds=$2 ;;
    --seconds) seconds=$2 ;;
    --connections) connections=$2 ;;
    --rate) rate=$2 ;;
    --io) io=$2 ;;
    --server-cpu) server_cpu=$2 ;;
    --bench-cpu) bench_cpu=$2 ;;
    --bin) bin=$2 ;;
    *) refuse "unknown option $1" ;;
  esac
  shift 2
done
for program in paild pail-bench crowd-bench; do
  [ -x "$bin/$program" ] || { echo "crowds.sh: no $program in $bin: build it first" >&2; exit 1; }
done

work=$(mktemp -d)
paild_pid="" crowd_pid=""
stop() { # PID
  [ -n "$1" ] || return 0
  kill "$1" 2>/dev/null || true
  wait "$1" 2>/dev/null || true
}
finish() {
  stop "$crowd_pid"
  stop "$paild_pid"
  rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM

await() { # FILE PID
  for _ in $(seq 400); do
    [ ! -s "$1" ] || return 0
    kill -0 "$2" 2>/dev/null || break
    sleep 0.05
  done
  echo "crowds.sh: nothing in $1:" >&2
  cat "$work"/*.err >&2
  exit 1
}

p99_us() {
  local arrival=()
  [ "$rate" = 0 ] || arrival=(--arrival "$rate/s")
  "$bin/pail-bench" --server "$address" --connections "$connections" --pipeline 1 --keys 100000 \
    --rate 100/s --burst 100 "${arrival[@]}" --duration "${seconds}s" --tcp-congestion cubic \
    --pin "$bench_cpu" --json "$work/run.json" >/dev/null 2>"$work/run.err" ||
    { cat "$work/run.err" >&2; exit 1; }
  awk -F'[:,]' '/"p99"/ {printf "%.1f", $2}' "$work/run.json"
}
rss_kib() { awk '/VmRSS/ {print $2}' "/proc/$paild_pid/status"; }

median() { sort -n | awk '{v[NR] = $1} END {m = int((NR + 1) / 2); print NR % 2 ? v[m] : (v[m] + v[m + 1]) / 2}'; }

printf '%-14s %9s %9s %15s %7s %12s %14s\n' crowd 'alone us' 'with us' 'ratio' '' 'RSS +MiB' 'KiB a peer'
for crowd in $crowds; do
  kind=${crowd%%:*} count=${crowd##*:}
  rm -f "$work"/*
  taskset -c "$server_cpu" "$bin/paild" --shards 1 --listen 127.0.0.1:0 --io "$io" \
    --tcp-congestion cubic --ready-file "$work/ready.json" >"$work/paild.out" 2>"$work/paild.err" &
  paild_pid=$!
  await "$work/ready.json" "$paild_pid"
  address=$(sed -n 's/.*"native": *\["\([^"]*\)".*/\1/p' "$work/ready.json")
  p99_us >/dev/null # touches what all runs need
  before=$(rss_kib)
  most=$before
  for _ in $(seq "$rounds"); do
    alone=$(p99_us)
    taskset -c "$bench_cpu" "$bin/crowd-bench" "$kind" --count "$count" --server "$address" \
      --tcp-congestion cubic >"$work/crowd.out" 2>"$work/crowd.err" &
    crowd_pid=$!
    await "$work/crowd.out" "$crowd_pid"
    with=$(p99_us)
    now=$(rss_kib)
    [ "$now" -le "$most" ] || most=$now
    stop "$crowd_pid"
    crowd_pid=""
    rm -f "$work/crowd.out"
    echo "$alone $with" >>"$work/runs"
  done
  stop "$paild_pid"
  paild_pid=""
  awk '{print $2 / $1}' "$work/runs" | sort -n >"$work/ratios"
  printf '%-14s %9.1f %9.1f %7.2f %15s %12.1f %14.2f\n' "$crowd" \
    "$(awk '{print $1}' "$work/runs" | median)" "$(awk '{print $2}' "$work/runs" | median)" \
    "$(median <"$work/ratios")" "$(head -n 1 "$work/ratios")..$(tail -n 1 "$work/ratios")" \
    "$(awk "BEGIN {print ($most - $before) / 1024}")" "$(awk "BEGIN {print ($most - $before) / $count}")"
done
