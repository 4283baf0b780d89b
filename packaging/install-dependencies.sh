#!/bin/sh
# Installs the Debian packages named in debian-packages.txt (or in the files given) that are missing.
# Asks nothing; needs root or sudo only if something is missing.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
[ $# -gt 0 ] || set -- "$here/debian-packages.txt"

if ! command -v apt-get >/dev/null 2>&1; then
  echo "install-dependencies: no apt-get here; install what these files list by your system's means: $*" >&2
  exit 0
fi

missing=""
for package in $(grep -hv '^#' "$@"); do
  status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$status" = installed ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

as_root=""
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null 2>&1; then
    echo "install-dependencies: these packages are missing and this is neither root nor is there sudo:$missing" >&2
    exit 1
  fi
  as_root="sudo"
fi

echo "installing:$missing"
$as_root apt-get update -qq
# shellcheck disable=SC2086  # the list is meant to be split
$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing
