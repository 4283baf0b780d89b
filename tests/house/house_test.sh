#!/usr/bin/env bash
# The house rules that a compiler does not check: who may include whom, who may know which kernel
# interface, how long a file may get. Method: read every #include and compare with the table below.
# Usage: house_test.sh SOURCE_DIR
set -euo pipefail
cd "$1"
failures=0
fail() { printf 'house: %s\n' "$1" >&2; failures=$((failures + 1)); }

# room -> rooms it may include (itself is implied). Arrows only point down this list.
allowed() {
  case "$1" in
    protocol)        echo "" ;;
    server/engine)   echo "" ;;
    server/io)       echo "protocol" ;;                      # addresses only
    server/frontend) echo "protocol server/engine" ;;
    server/policy)   echo "protocol server/engine" ;;
    server)          echo "protocol server/engine server/io server/frontend server/policy" ;;
    client)          echo "protocol" ;;
    client/limiter)  echo "server/engine server/policy client" ;;  # a library apart
    bench)           echo "protocol server/engine server/frontend client" ;;
  esac
}

room_of() {
  case "$1" in
    server/engine/*) echo server/engine ;;
    server/io/*) echo server/io ;;
    server/frontend/*) echo server/frontend ;;
    server/policy/*) echo server/policy ;;
    client/limiter/*) echo client/limiter ;;
    */*) echo "${1%%/*}" ;;
  esac
}

count=0
while IFS= read -r file; do
  count=$((count + 1))
  room=$(room_of "$file")
  lines=$(wc -l < "$file")
  [ "$lines" -le 500 ] || fail "$file has $lines lines; 500 at most, split it by idea"

  while IFS= read -r included; do
    target=$(room_of "$included")
    [ -n "$target" ] || continue
    [ "$target" != "$room" ] || continue
    case " $(allowed "$room") " in
      *" $target "*) ;;
      *) fail "$file includes \"$included\": $room may not know $target" ;;
    esac
  done < <(sed -n 's/^#include "\([^"]*\/[^"]*\)".*/\1/p' "$file")

  # Only server/io knows how the kernel moves bytes; the generator has a ring of its own.
  if [ "$room" != server/io ] && [ "$room" != bench ] &&
     grep -qE '^#include <(liburing\.h|sys/epoll\.h|linux/io_uring\.h)>' "$file"; then
    case "$file" in
      client/src/*) grep -q 'liburing\|io_uring' "$file" && fail "$file includes io_uring headers" ;;
      *) fail "$file includes io_uring or epoll headers; only server/io may" ;;
    esac
  fi
  # One source knows how files of policies are written.
  if grep -q '#include <toml++' "$file" && [ "$file" != server/policy/section.hpp ]; then
    fail "$file includes toml++; only server/policy/section.hpp may"
  fi
  # The engine and the front ends see no socket.
  case "$room" in
    server/engine|server/frontend)
      if grep -qE '^#include <(sys/socket|netinet/|arpa/inet|sys/un)' "$file"; then
        fail "$file includes socket headers; $room knows no I/O"
      fi ;;
  esac
done < <(find protocol server client bench -name '*.hpp' -o -name '*.cpp' -o -name '*.h' | sort)

[ "$count" -ge 20 ] || fail "only $count sources found under $PWD: is this the source directory?"
if grep -rn -e '-march=native' CMakeLists.txt cmake CMakePresets.json Makefile | grep -v 'Never -march'; then
  fail "-march=native in the build: a release has to run on any machine"
fi
if grep -rnE 'sleep_for|usleep\(' tests --include='*.cpp' --include='*.hpp'; then
  fail "a test sleeps; wait for a condition instead"
fi

[ "$failures" -eq 0 ] || { echo "house: $failures broken rules" >&2; exit 1; }
echo "house: $count sources, all rules kept"
