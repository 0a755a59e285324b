#!/usr/bin/env bash
# Every row of proto/tables/errors.def has its page, which agrees with the row, a place that raises it, and a test that
# mentions it; no page is left over.
# shellcheck source=tests/rules/lib.sh
. "$(dirname "$0")/../rules/lib.sh"

table=proto/tables/errors.def
row='^EO_ERROR\(([A-Z_]+), *([0-9]+), *([0-9]+), *([01]), *"(.*)"\)$'
code=$(mktemp)
trap 'rm -f "$offences" "$code"' EXIT

# Sources without comments and literals, as `path:line:text`. A comparison with a code is no place that raises it.
mapfile -t sources < <(files '^(proto|backends|distributed|daemon|client)/.*\.c$' | grep -vE '^proto/base/error(_render)?\.c$')
((${#sources[@]})) && awk -f "$rules_dir/strip_code.awk" "${sources[@]}" |
  sed -E 's/([=!]=|case) *EO_E_[A-Z_]+//g' >"$code"
mapfile -t tests < <(files '^tests/.*\.(c|h|sh|py)$' | grep -v '^tests/tables/check_errors\.sh$')

check_page() {
  local line=$1 name=$2 number=$3 exit_status=$4 retry=$5 summary=$6 page=docs/errors/EO-$3.md again
  if [[ ! -f $page ]]; then
    echo "$table:$line: $name has no page $page"
    return
  fi
  again='does not help'
  [[ $retry == 1 ]] && again='may help'
  [[ $(sed -n 1p "$page") == "# EO-$number: $summary" ]] || echo "$page:1: must be \"# EO-$number: $summary\""
  [[ $(sed -n 3p "$page") == "\`$name\`, exit status $exit_status, trying again $again." ]] ||
    echo "$page:3: must be \"\`$name\`, exit status $exit_status, trying again $again.\""
  grep -q "^error EO-$number: " "$page" || echo "$page:1: shows no example, a line \"error EO-$number: ...\""
  grep -q '^What to do:$' "$page" || echo "$page:1: does not say what to do, under \"What to do:\""
}

check_use() {
  local line=$1 name=$2 number=$3 raised="EO_E_$2([^A-Z0-9_]|\$)"
  # The one code with a macro of its own.
  [[ $name == INTERNAL ]] && raised='EO_BUG *\('
  grep -qE "$raised" "$code" || echo "$table:$line: nothing raises EO_E_$name"
  ((${#tests[@]})) && grep -qE "EO_E_$name([^A-Z0-9_]|\$)|EO-$number" "${tests[@]}" ||
    echo "$table:$line: no test mentions EO_E_$name or EO-$number"
}

n=0 at=0
declare -A known
while IFS= read -r text; do
  at=$((at + 1))
  [[ $text == EO_ERROR\(* ]] || continue
  if [[ ! $text =~ $row ]]; then
    echo "$table:$at: not of the form EO_ERROR(NAME, number, exit, retry, \"summary\")" | report
    continue
  fi
  n=$((n + 1))
  known[${BASH_REMATCH[2]}]=1
  set -- "${BASH_REMATCH[@]}"
  { check_page "$at" "${@:2}"; check_use "$at" "$2" "$3"; } | report
done <"$table"

while IFS= read -r page; do
  number=${page##*EO-}
  [[ -n ${known[${number%.md}]:-} ]] || echo "$page:1: no row of $table has this number" | report
done < <(files '^docs/errors/EO-.*\.md$')
verdict "$n" errors
