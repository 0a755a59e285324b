#!/usr/bin/env bash
# The example jobs and the example configuration are what the built programs accept.
# Usage: check_examples.sh ROOT EVERYO_SUBMIT EVERYOD
# shellcheck source=tests/rules/lib.sh
. "$(dirname "$0")/lib.sh"
submit=${2:?usage: check_examples.sh ROOT EVERYO_SUBMIT EVERYOD}
daemon=${3:?usage: check_examples.sh ROOT EVERYO_SUBMIT EVERYOD}

mapfile -t jobs < <(files '^deploy/examples/[^/]*\.yaml$')
for job in "${jobs[@]}"; do
  status=0
  said=$("$submit" run "$job" --validate --local 2>&1) || status=$?
  # An example may read a Debian package's files, which need not be here; its other mistakes are found all the same.
  if ((status == 66)) && grep -q '/usr/share/' "$job" && grep -q 'deploy/install-deps.sh --data' "$job"; then
    echo "$rule_name: $job: its data set is not installed (deploy/install-deps.sh --data)"
  elif ((status != 0)); then
    printf '%s:1: --validate ends with exit code %d: %s\n' "$job" "$status" "$(head -n 1 <<<"$said")" | report
  fi
done

conf=deploy/everyod.conf.example
status=0
said=$("$daemon" --check-config --config "$conf" 2>&1) || status=$?
((status == 0)) || printf '%s:1: --check-config ends with exit code %d: %s\n' "$conf" "$status" "$(head -n 1 <<<"$said")" | report
verdict "${#jobs[@]}" examples
