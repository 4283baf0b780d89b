#!/usr/bin/env bash
# Redis clients as people use them, against a paild of our own: each connects, says hello in its own
# way, and is limited by CL.THROTTLE. A client that is not installed is skipped, and says so.
# Usage: redis_clients_test.sh SOURCE_DIR BIN_DIR
set -euo pipefail
source_dir=$1
bin=$2
here=$source_dir/tests/redis_clients
work=$(mktemp -d)
pids=()
finish() {
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  wait
  rm -rf "$work"
}
trap finish EXIT
failures=0
tested=0
fail() { printf 'FAILED: %s\n' "$1" >&2; failures=$((failures + 1)); }
skip() { printf 'skipped: %s\n' "$1"; }
# same NAME EXPECTED ACTUAL
same() {
  tested=$((tested + 1))
  if [ "$2" = "$3" ]; then printf 'ok: %s\n' "$1"; else fail "$1: expected '$2', got '$3'"; fi
}
has() { command -v "$1" >/dev/null 2>&1; }

"$bin/paild" --listen 127.0.0.1:0 --resp 127.0.0.1:0 --shards 2 --policy partner=1/d,2 \
  --ready-file "$work/ready" >"$work/paild.log" 2>&1 &
pids+=($!)
for _ in $(seq 200); do [ -s "$work/ready" ] && break; read -rt 0.05 <> <(:) || true; done
port=$(sed -n 's/.*"resp":\["127.0.0.1:\([0-9]*\)".*/\1/p' "$work/ready")
[ -n "$port" ] || { cat "$work/paild.log" >&2; echo "no RESP port in the ready file" >&2; exit 1; }

if has redis-cli; then
  cli() { timeout 20 redis-cli -p "$port" "$@" | tr '\n' ' '; }
  same "redis-cli" "0 16 15 -1 2 " "$(cli CL.THROTTLE cli 15 30 60)"
  same "redis-cli -3" "status ok limit 2 remaining 1 retry_after_ms 0 reset_after_ms 86400000 " \
    "$(cli -3 PAIL.TAKE partner cli3)"
  same "redis-cli, typed" "OK 1 1 PONG " \
    "$(printf 'SET typed 0\nINCR typed\nEXPIRE typed 60\nPING\n' | cli)"
  same "redis-cli --pipe" "0" "$(printf 'INCR piped\r\nINCR piped\r\n' |
    timeout 20 redis-cli -p "$port" --pipe | sed -n 's/^errors: \([0-9]*\),.*/\1/p')"
else
  skip "redis-cli is not installed (redis-tools)"
fi

if has redis-benchmark; then
  answer=$(timeout 60 redis-benchmark -p "$port" -P 64 -r 1000 -n 20000 -q \
    CL.THROTTLE k:__rand_int__ 15 30 60 2>&1 | tr '\r' '\n' | tail -n 1)
  same "redis-benchmark" "1" "$(grep -c 'requests per second' <<<"$answer")"
else
  skip "redis-benchmark is not installed (redis-tools)"
fi

if has cc && [ -e /usr/include/hiredis/hiredis.h ]; then
  cc -o "$work/hiredis" "$here/with_hiredis.c" -lhiredis
  same "hiredis" "0 1 1 " "$(timeout 20 "$work/hiredis" "$port" | tr '\n' ' ')"
else
  skip "hiredis is not installed (libhiredis-dev)"
fi

if [ -x /usr/bin/python3 ] && /usr/bin/python3 -c 'import redis' 2>/dev/null; then
  same "redis-py" "[0, 1, 0, -1, 60] [1, 1, 0, 60, 60] [1, True, 2, False] 60 " \
    "$(timeout 20 /usr/bin/python3 "$here/with_redis_py.py" "$port" | tr '\n' ' ')"
else
  skip "redis-py is not installed (python3-redis)"
fi

# The newest of both, if they can be had.
if has npm && has node &&
   (cd "$work" && timeout 60 npm install --silent --no-audit --no-fund redis ioredis >npm.log 2>&1); then
  cp "$here"/with_*.mjs "$work"
  for client in redis ioredis; do
    same "npm $client" "0,1,0,-1,60 1,1,0,60,60 1 1 " \
      "$(cd "$work" && timeout 20 node "with_$client.mjs" "$port" 2>&1 | tr '\n' ' ')"
  done
else
  skip "redis and ioredis of npm cannot be had here"
fi

modules=/usr/lib/nginx/modules
if has nginx && has curl && [ -e $modules/ngx_http_lua_module.so ] &&
   [ -e /usr/share/lua/5.1/nginx/redis.lua ]; then
  sed -e "s|@WORK@|$work|g; s|@PORT@|$port|g; s|@MODULES@|$modules|g" "$here/nginx.conf" \
    >"$work/nginx.conf"
  nginx -p "$work" -c "$work/nginx.conf" -e "$work/error.log" &
  pids+=($!)
  codes=""
  for _ in $(seq 200); do
    [ -S "$work/nginx.sock" ] && break
    read -rt 0.05 <> <(:) || true
  done
  for _ in 1 2 3 4; do
    codes+="$(curl -s -o "$work/body" -D "$work/headers" -w '%{http_code} ' \
      --unix-socket "$work/nginx.sock" http://gateway/)"
  done
  same "nginx with lua-nginx-redis" "200 200 429 429 " "$codes"
  same "its Retry-After" "1" "$(grep -ciE '^retry-after: ([1-9]|[1-5][0-9]|60)\b' "$work/headers")"
  [ $failures -eq 0 ] || cat "$work/error.log"
else
  skip "nginx with Lua is not installed (libnginx-mod-http-lua, lua-nginx-redis)"
fi

[ $failures -eq 0 ] || exit 1
echo "$tested checks passed"
