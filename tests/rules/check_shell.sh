#!/usr/bin/env bash
# Every shell script passes shellcheck.
# shellcheck source=tests/rules/lib.sh
. "$(dirname "$0")/lib.sh"

command -v shellcheck >/dev/null || skip "shellcheck is not installed (apt-get install shellcheck)"
mapfile -t scripts < <(files '\.(sh|bash)$|^\.ci/run$')
if ((${#scripts[@]})); then
  shellcheck --shell=bash --external-sources --format=gcc "${scripts[@]}" | sed -E 's/^([^:]+:[0-9]+):[0-9]+: /\1: /' | report || true
fi
verdict "${#scripts[@]}" scripts
