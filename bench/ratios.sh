#!/usr/bin/env bash
# What deciding costs: paild against an echo of the same frames, in alternating runs on the same two
# cores. Only the ratio counts: a machine drifts by half between minutes, and both drift together.
#
# One round measures every pipeline depth on the echo and on paild, one right after the other; a ratio
# is taken within a round, and the table shows medians over the rounds and the ratios' spread.
set -euo pipefail

usage() {
  cat <<'TEXT'
usage: bench/ratios.sh [--rounds 5] [--seconds 2] [--pipelines "1 16 64 256"] [--connections 50]
                       [--keys 1000000] [--limit policy|inline] [--unix] [--congestion cubic]
                       [--server-cpu 0] [--bench-cpu 1] [--bin build/release/bin] [--json FILE]
  --limit policy   40-byte requests that name a policy (the default); inline: 56 bytes with the limit
  --unix           Unix sockets instead of TCP on loopback
TEXT
}
refuse() {
  printf 'ratios.sh: %s\n' "$1" >&2
  usage >&2
  exit 2
}

rounds=5 seconds=2 pipelines="1 16 64 256" connections=50 keys=1000000 limit=policy transport=tcp
congestion=cubic server_cpu=0 bench_cpu=1 json=""
bin="$(cd "$(dirname "$0")/.." && pwd)/build/release/bin"
while [ $# -gt 0 ]; do
  case "$1" in
    --help|-h) usage; exit 0 ;;
    --unix) transport=unix; shift; continue ;;
  esac
  [ $# -ge 2 ] || refuse "$1 needs a value, or is unknown"
  case "$1" in
    --rounds) rounds=$2 ;;
    --seconds) seconds=$2 ;;
    --pipelines) pipelines=$2 ;;
    --connections) connections=$2 ;;
    --keys) keys=$2 ;;
    --limit) limit=$2 ;;
    --congestion) congestion=$2 ;;
    --server-cpu) server_cpu=$2 ;;
    --bench-cpu) bench_cpu=$2 ;;
    --bin) bin=$2 ;;
    --json) json=$2 ;;
    *) refuse "unknown option $1" ;;
  esac
  shift 2
done
case "$limit" in
  policy) limit_flags="--policy bench" ;;
  inline) limit_flags="--rate 100/s --burst 100" ;;
  *) refuse "--limit is policy or inline, not '$limit'" ;;
esac
[[ "$rounds" =~ ^[1-9][0-9]*$ ]] || refuse "--rounds is a number, not '$rounds'"
[[ "$seconds" =~ ^[1-9][0-9]*$ ]] || refuse "--seconds is a whole number, not '$seconds'"
[[ "$keys" =~ ^[1-9][0-9]*$ ]] || refuse "--keys is a number, not '$keys'"
[ -x "$bin/paild" ] || bin_is_empty=1
[ -x "$bin/pail-bench" ] || bin_is_empty=1
[ -z "${bin_is_empty:-}" ] ||
  { echo "ratios.sh: no paild and pail-bench in $bin: build them first, or say --bin" >&2; exit 1; }

work=$(mktemp -d)
pids=()
finish() {
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  for pid in "${pids[@]}"; do wait "$pid" 2>/dev/null || true; done
  rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM

# Waits for a file to be written by a server that must stay alive. FILE PID LOG
await() {
  for _ in $(seq 100); do
    [ ! -s "$1" ] || return 0
    kill -0 "$2" 2>/dev/null || break
    sleep 0.05
  done
  echo "ratios.sh: a server did not start:" >&2
  cat "$3" >&2
  exit 1
}

if [ "$transport" = unix ]; then
  echo_listen="unix:$work/echo.sock" paild_listen="unix:$work/paild.sock"
else
  echo_listen=127.0.0.1:0 paild_listen=127.0.0.1:0
fi
"$bin/pail-bench" echo --listen "$echo_listen" --tcp-congestion "$congestion" --pin "$server_cpu" \
  >"$work/echo.out" 2>"$work/echo.err" &
pids+=($!)
await "$work/echo.out" $! "$work/echo.err"
taskset -c "$server_cpu" "$bin/paild" --shards 1 --listen "$paild_listen" \
  --tcp-congestion "$congestion" --policy bench=100/s,100 --ready-file "$work/ready.json" \
  >"$work/paild.out" 2>&1 &
pids+=($!)
await "$work/ready.json" $! "$work/paild.out"
echo_address=$(sed -n 's/.*listening on //p' "$work/echo.out")
paild_address=$(sed -n 's/.*"native": *\["\([^"]*\)".*/\1/p' "$work/ready.json")
[ -n "$paild_address" ] || { echo "ratios.sh: no address in paild's ready file" >&2; exit 1; }

# "requests/s p50 p99" of one run (latencies of a batch in us). ADDRESS PIPELINE
measure() {
  # shellcheck disable=SC2086  # limit_flags are several words
  "$bin/pail-bench" --server "$1" --pipeline "$2" --connections "$connections" --keys "$keys" \
    $limit_flags --duration "${seconds}s" --tcp-congestion "$congestion" --pin "$bench_cpu" \
    --json "$work/run.json" 2>"$work/run.err" || { cat "$work/run.err" >&2; exit 1; }
  awk -F'[:,]' '/"requests_per_s"/ {rate = $2} /"p50"/ {p50 = $2} /"p99"/ {p99 = $2}
                END {printf "%.0f %.1f %.1f", rate, p50, p99}' "$work/run.json"
}

for round in $(seq "$rounds"); do
  for pipeline in $pipelines; do
    [ ! -t 2 ] || printf '\rround %d of %d, pipeline %d \033[K' "$round" "$rounds" "$pipeline" >&2
    echoed=$(measure "$echo_address" "$pipeline")
    decided=$(measure "$paild_address" "$pipeline")
    echo "$pipeline $echoed $decided" >>"$work/runs"
  done
done
[ ! -t 2 ] || printf '\r\033[K' >&2

# Columns of runs: 1 pipeline; 2, 3, 4 echo's rate, p50, p99; 5, 6, 7 paild's.
# shellcheck disable=SC2016  # the expressions are awk's
# One row a depth: medians of both, median, least and most of the ratios.
summary() {
  for pipeline in $pipelines; do
    median() { awk -v p="$pipeline" "\$1 == p {print $1}" "$work/runs" | sort -n |
      awk '{v[NR] = $1} END {m = int((NR + 1) / 2); print NR % 2 ? v[m] : (v[m] + v[m + 1]) / 2}'; }
    extreme() { awk -v p="$pipeline" '$1 == p {print $5 / $2}' "$work/runs" | sort -n | "$1" -n 1; }
    echo "$pipeline $(median '$2') $(median '$5') $(median '$5 / $2') $(extreme head) $(extreme tail)" \
      "$(median '$3') $(median '$6') $(median '$4') $(median '$7')"
  done
}
summary >"$work/summary"

echo "paild --shards 1 on CPU $server_cpu, pail-bench on CPU $bench_cpu, $transport, $congestion;" \
  "$connections connections, $keys random 16-byte keys, $limit limit; $rounds rounds of ${seconds} s"
printf '%8s %12s %12s %7s %15s %19s\n' pipeline echo/s paild/s ratio 'least..most' \
  'p50 echo, paild us'
awk '{printf "%8d %12.0f %12.0f %7.2f %15s %19s\n", $1, $2, $3, $4,
      sprintf("%.2f..%.2f", $5, $6), sprintf("%.0f, %.0f", $7, $8)}' "$work/summary"

if [ -n "$json" ]; then
  {
    printf '{"transport": "%s", "tcp_congestion": "%s", "connections": %d, "keys": %d,' \
      "$transport" "$congestion" "$connections" "$keys"
    printf ' "limit": "%s", "rounds": %d, "seconds": %d, "rows": [' "$limit" "$rounds" "$seconds"
    awk '{printf "%s\n  {\"pipeline\": %d, \"echo_per_s\": %.0f, \"paild_per_s\": %.0f, \"ratio\": %.3f,",
          (NR == 1 ? "" : ","), $1, $2, $3, $4
          printf " \"ratio_least\": %.3f, \"ratio_most\": %.3f, \"echo_p50_us\": %.1f,", $5, $6, $7
          printf " \"paild_p50_us\": %.1f, \"echo_p99_us\": %.1f, \"paild_p99_us\": %.1f}", $8, $9, $10}' \
      "$work/summary"
    printf '\n]}\n'
  } >"$json"
fi
