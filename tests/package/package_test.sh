#!/usr/bin/env bash
# Concern: whoever installs the client finds all of it, by CMake and by pkg-config, and nothing of the sources
# is needed. Method: install into an empty directory, move it, build tests/package/consumer against it in both
# ways, and let the program ask a paild. The lines that README.md gives are those of the consumer.
#
# Usage: package_test.sh SOURCE_DIR BUILD_DIR CXX
set -euo pipefail
source_dir=$1 build=$2 cxx=$3
room=$(mktemp -d)
pid=
trap '[ -z "$pid" ] || kill "$pid" 2>/dev/null || true; rm -rf "$room"' EXIT
fail() { echo "package: $1" >&2; exit 1; }

cmake --install "$build" --component client --prefix "$room/first" >"$room/install.log"
mv "$room/first" "$room/prefix"  # nothing may have remembered where it was
if grep -rIl -e "$source_dir" -e "$room/first" "$room/prefix"; then fail "these remember a path"; fi

cmake -S "$source_dir/tests/package/consumer" -B "$room/cmake" -DCMAKE_CXX_COMPILER="$cxx" \
  -DCMAKE_PREFIX_PATH="$room/prefix" >"$room/configure.log" || { cat "$room/configure.log" >&2; exit 1; }
cmake --build "$room/cmake" >"$room/build.log" || { cat "$room/build.log" >&2; exit 1; }

"$room/cmake/alone" || fail "the limiter in process failed"

pc=$(find "$room/prefix" -name pail.pc)
[ -n "$pc" ] || fail "no pail.pc"
# shellcheck disable=SC2046  # flags are words
PKG_CONFIG_PATH=$(dirname "$pc") "$cxx" -std=c++20 -o "$room/by-pkg-config" "$source_dir/tests/package/consumer/main.cpp" \
  $(PKG_CONFIG_PATH=$(dirname "$pc") pkg-config --cflags --libs --static pail)

for program in "$room/cmake/gateway" "$room/by-pkg-config"; do
  rm -f "$room/ready"
  "$build/bin/paild" --listen "unix:$room/pail.sock" --ready-file "$room/ready" >"$room/paild.log" 2>&1 &
  pid=$!
  until [ -s "$room/ready" ]; do
    kill -0 "$pid" || { cat "$room/paild.log" >&2; exit 1; }
  done
  "$program" "unix:$room/pail.sock" || fail "$(basename "$program") failed"
  kill "$pid"
  wait "$pid"
  pid=
done

tail -n 2 "$source_dir/tests/package/consumer/CMakeLists.txt" | sed 's/gateway/my_gateway/' | while IFS= read -r line; do
  grep -qxF -- "$line" "$source_dir/README.md" || fail "README.md does not say: $line"
done
echo "package: installed, moved, found by CMake and pkg-config, and it works"
