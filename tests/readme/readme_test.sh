#!/usr/bin/env bash
# What README.md says one can type is typed here, and must succeed: every line of its ```sh blocks,
# in order. Each line of a ```text block must be among what they said, whatever durations it tells.
# A block of another kind is only read by people.
#
# The lines run unchanged, in a directory where build/release/bin holds stand-ins for the programs:
# they add an address of the test's own, and `paild` (and `make run`) serve in the background until
# the next one starts. Of `make TARGET` only `run` is carried out; the others must exist.
#
# The ```cpp block is a program by then (README_PROGRAM, see CMakeLists.txt): it must run and end
# with 0. Links to files must lead somewhere.
#
# Usage: readme_test.sh SOURCE_DIR BIN_DIR README_PROGRAM
set -euo pipefail
source_dir=$1 bin=$2 program=$3
readme=$source_dir/README.md
room=$(mktemp -d)
export source_dir bin room

stop_server() { [ ! -f "$room/pid" ] || kill "$(cat "$room/pid")" 2>/dev/null || true; }
trap 'stop_server; rm -rf "$room"' EXIT

mkdir -p "$room/build/release/bin" "$room/path"
stand_in() { cat >"$1"; chmod +x "$1"; }

stand_in "$room/build/release/bin/paild" <<'PAILD'
#!/usr/bin/env bash
set -euo pipefail
[ ! -f "$room/pid" ] || kill "$(cat "$room/pid")" || true
rm -f "$room/ready" "$room/paild.log"
words=() listens=0
while [ $# -gt 0 ]; do
  case $1 in
    --listen)
      listens=1; shift
      case $1 in
        unix:*) words+=(--listen "unix:$room/pail.sock") ;;
        *) words+=(--listen "${1%:*}:0") ;;
      esac ;;
    *) words+=("$1") ;;
  esac
  shift
done
[ $listens -eq 1 ] || words+=(--listen 127.0.0.1:0)
"$bin/paild" "${words[@]}" --ready-file "$room/ready" >"$room/paild.log" 2>&1 &
echo $! >"$room/pid"
until [ -s "$room/ready" ]; do
  kill -0 "$(cat "$room/pid")" || { cat "$room/paild.log" >&2; exit 1; }
done
sed 's/.*"native": *\["\([^"]*\)".*/\1/' "$room/ready" >"$room/address"
PAILD

for name in pail pail-bench; do
  stand_in "$room/build/release/bin/$name" <<CLIENT
#!/usr/bin/env bash
exec "\$bin/$name" "\$@" --server "\$(cat "\$room/address")"
CLIENT
done

stand_in "$room/path/make" <<'MAKE'
#!/usr/bin/env bash
set -euo pipefail
for target in "$@"; do
  env -u MAKEFLAGS -u MAKELEVEL "$(PATH=${PATH#*:} command -v make)" -C "$source_dir" -n "$target" >/dev/null
  [ "$target" != run ] || build/release/bin/paild
done
MAKE

export PATH="$room/path:$PATH"
cd "$room"
failures=0
fail() { printf 'readme: %s\n' "$1" >&2; failures=$((failures + 1)); }

count=0
while IFS= read -r line; do
  [ -n "$line" ] || continue
  count=$((count + 1))
  printf '$ %s\n' "$line"
  bash -c "$line" </dev/null >"$room/out" 2>&1 || fail "exit status $?: $line"
  tee -a "$room/said" <"$room/out"
done < <(sed -n '/^```sh$/,/^```$/{/^```/d;p}' "$readme")
[ "$count" -ge 4 ] || fail "only $count lines to run were found"

without_durations() { sed -E 's/[0-9.]+ (ns|us|ms|s|min|h|d)\b/DURATION/g' "$@"; }
without_durations "$room/said" >"$room/said_ever"
samples=0
while IFS= read -r line; do
  samples=$((samples + 1))
  grep -qxF -- "$line" "$room/said_ever" || fail "no command says: $line"
done < <(sed -n '/^```text$/,/^```$/{/^```/d;p}' "$readme" | without_durations)
[ "$samples" -ge 3 ] || fail "only $samples lines of sample output were found"

# What is named in passing.
while IFS= read -r target; do
  make "$target" || fail "there is no make $target"
done < <(grep -o '`make [a-z]*`' "$readme" | tr -d '`' | sed 's/make //' | grep -v '^run$' | sort -u)
while IFS= read -r link; do
  [ -e "$source_dir/$link" ] || fail "a link leads nowhere: $link"
done < <(grep -oE '\]\([^)#]+' "$readme" | sed 's/](//' | grep -v '^https\?:' | sort -u)

# What paild itself says one can try.
advice=0
build/release/bin/paild
while IFS= read -r line; do
  line="$bin/${line##*/bin/}"
  printf '$ %s\n' "${line/--duration 5s/--duration 100ms}"
  bash -c "${line/--duration 5s/--duration 100ms}" </dev/null >"$room/out" 2>&1 ||
    { cat "$room/out" >&2; fail "paild's advice ends with $?: $line"; }
  advice=$((advice + 1))
done < <(grep -E '^ +[^ ]*pail(-bench)? --server' "$room/paild.log")
[ "$advice" -eq 3 ] || fail "paild advises $advice lines, not 3"

PAIL_README_SERVER=$(cat "$room/address") "$program" || fail "the C++ snippet ends with $?"

[ "$failures" -eq 0 ] || { echo "readme: $failures faults" >&2; exit 1; }
echo "readme: $count commands, $advice lines of advice and the C++ snippet do what they should"
