#!/usr/bin/env bash
# `--resume DIR`: a job that goes on from a checkpoint which was fetched to this side ends with the same bits as one that never
# stopped, on a daemon that has never heard of the first one.
# Usage: test_resume.sh BIN_DIR EXAMPLES_DIR
set -euo pipefail
bin=${1:?usage: test_resume.sh BIN_DIR EXAMPLES_DIR}
examples=${2:?usage: test_resume.sh BIN_DIR EXAMPLES_DIR}

for program in everyo-submit everyod everyod-worker; do
  if [[ ! -x $bin/$program ]]; then
    echo "$program is not built"
    exit 77
  fi
done
dir=$(mktemp -d)
daemon=
stop() {
  if [[ -n $daemon ]]; then
    kill "$daemon" 2>/dev/null || true
    wait "$daemon" 2>/dev/null || true
    daemon=
  fi
}
trap 'stop; rm -rf "$dir"' EXIT

# start STATE: a daemon with a fresh state directory; its address is $host.
start() {
  "$bin/everyod" --listen "unix:$dir/$1.socket" --state-dir "$dir/$1" --port-file "$dir/$1.ready" --log-level warn &
  daemon=$!
  local tries=0
  while [[ ! -e $dir/$1.ready ]]; do
    kill -0 "$daemon"
    tries=$((tries + 1))
    ((tries < 400)) || { echo "the daemon is not ready"; exit 1; }
    read -rt 0.05 <> <(:) || true
  done
  host=unix:$dir/$1.socket
}

# result ARGS: trains; the closing object of the run. All it said is in $dir/said.
result() {
  "$bin/everyo-submit" run "$examples/digits.yaml" -H "$host" --json "$@" >"$dir/said"
  tail -n 1 "$dir/said"
}
hash_of() { sed -n 's/.*"parameters_sha256":"\([0-9a-f]\{64\}\)","ranks".*/\1/p' <<<"$1"; }

start first
whole=$(result --set train.epochs=4)
half=$(result --set train.epochs=2)
id=$(sed -n 's/.*"job_id":"\([0-9a-f]*\)".*/\1/p' <<<"$half")
"$bin/everyo-submit" fetch "$id" "$dir/fetched" -H "$host" >/dev/null
stop

start second
resumed=$(result --set train.epochs=4 --resume "$dir/fetched")
if grep -q '"event":"progress","epoch":[12],' "$dir/said" || ! grep -q '"event":"progress","epoch":3,' "$dir/said"; then
  echo "it did not go on after epoch 2:"
  cat "$dir/said"
  exit 1
fi
if [[ -z $(hash_of "$whole") || $(hash_of "$whole") != "$(hash_of "$resumed")" ]]; then
  echo "whole:   $whole"
  echo "resumed: $resumed"
  exit 1
fi
if [[ $(hash_of "$half") == "$(hash_of "$whole")" ]]; then
  echo "two epochs more change nothing: $half"
  exit 1
fi
# A folder without a checkpoint is said before anything is sent.
status=0
"$bin/everyo-submit" run "$examples/digits.yaml" -H "$host" --resume "$dir" >/dev/null 2>&1 || status=$?
if ((status != 66)); then
  echo "a folder without a checkpoint: exit code $status"
  exit 1
fi
