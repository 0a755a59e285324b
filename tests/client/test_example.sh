#!/usr/bin/env bash
# The C example multiplies and differentiates on a private daemon, says so, and leaves no process and no file behind.
# Usage: test_example.sh REMOTE_MATMUL
set -euo pipefail
program=${1:?usage: test_example.sh REMOTE_MATMUL}

if [[ ! -x $(dirname "$program")/everyod ]]; then
  echo "everyod is not built"
  exit 77
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/run"
XDG_RUNTIME_DIR=$dir/run "$program" local: >"$dir/said"

diff -u - "$dir/said" <<'SAYS'
a @ b = [[58, 64], [139, 154]]
x = 1: x*x = 1, gradient 2
x = 2: x*x = 4, gradient 4
x = 3: x*x = 9, gradient 6
SAYS

left=$(ls -A "$dir/run")
if [[ -n $left ]]; then
  echo "left behind: $left"
  exit 1
fi
# Daemon and worker carry the private folder in their arguments.
for args in /proc/[0-9]*/cmdline; do
  if tr '\0' ' ' <"$args" 2>/dev/null | grep -qF -- "$dir/run"; then
    echo "still running: $(tr '\0' ' ' <"$args")"
    exit 1
  fi
done

# A daemon that is not there is said, with the exit code of the error.
status=0
said=$("$program" "unix:$dir/nowhere" 2>&1) || status=$?
if [[ $status != 69 || $said != *EO-1009* ]]; then
  echo "without a daemon: exit code $status: $said"
  exit 1
fi
