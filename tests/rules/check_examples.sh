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
table=daemon/server/config.def
plain=$(mktemp)
trap 'rm -f "$offences" "$plain"' EXIT

# accepted FILE WHAT: the daemon takes it as a configuration.
accepted() {
  local status=0 said
  said=$("$daemon" --check-config --config "$1" 2>&1) || status=$?
  ((status == 0)) || printf '%s:1: --check-config of %s ends with exit code %d: %s\n' "$conf" "$2" "$status" "$(head -n 1 <<<"$said")" | report
}
accepted "$conf" "the file as it stands"
# Its settings are comments, so what they say has to be tried too.
sed -n 's/^#\([a-z][a-z-]* = .*\)/\1/p' "$conf" >"$plain"
accepted "$plain" "its settings without the comment signs"

# Every key of the table stands in the example with its default, and no other.
awk -v conf="$conf" '
  function field(n,   parts) { split(row, parts, "\""); return parts[2 * n] }
  FILENAME == conf { if (match($0, /^#[a-z][a-z-]* = /)) { key = substr($0, 2, RLENGTH - 4); line[key] = FNR; value[key] = substr($0, RLENGTH + 1) } next }
  /^CONFIG\(/ {
    # CONFIG(name, "flag", "key", KIND, "argument", "default", ...: the 2nd and 4th quoted texts.
    row = $0; key = field(2); fallback = field(4)
    if (key == "") next
    known[key] = 1
    if (!(key in line)) print conf ":1: the key " key " of " FILENAME ":" FNR " is missing"
    else if (fallback != "" && value[key] != fallback) print conf ":" line[key] ": " key " = " value[key] ", but the default is " fallback
  }
  END { for (key in line) if (!(key in known)) print conf ":" line[key] ": there is no key " key }' "$conf" "$table" | report
verdict "${#jobs[@]}" examples
