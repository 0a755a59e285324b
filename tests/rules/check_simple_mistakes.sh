#!/usr/bin/env bash
# Calls and marks that have no place in this code base. Comments and string literals may name them.
# shellcheck source=tests/rules/lib.sh
. "$(dirname "$0")/lib.sh"

mapfile -t sources < <(files '\.(c|h|def|cu)$')
code=$(mktemp)
trap 'rm -f "$offences" "$code"' EXIT
if ((${#sources[@]})); then
  awk -f "$rules_dir/strip_code.awk" "${sources[@]}" >"$code"
fi

# ban WHERE REGEX WHY: an offence for each line of code whose path matches WHERE and whose text matches REGEX.
ban() {
  awk -F: -v where="$1" -v re="$2" -v why="$3" '
    { text = substr($0, length($1) + length($2) + 3) }
    $1 ~ where && text ~ re { print $1 ":" $2 ": " why }' "$code" | report
}

word='(^|[^A-Za-z0-9_>.])'
anywhere='.'
product='^(proto|backends|distributed|daemon|client)/'
library='^(proto|backends|distributed|client/lib)/|^daemon/(engine|nn|train|formats|jobs)/'

ban "$anywhere" "${word}(v?sprintf|strcpy|strcat|strncpy|strncat|stpcpy|gets)[ ]*\\(" \
  "unbounded or non-terminating string call: use eo_copy_text, eo_bytes_printf or snprintf"
ban "$anywhere" "${word}ato(i|l|ll|f)[ ]*\\(" "ato* hides errors: use eo_parse_i64 or eo_parse_f64"
ban "$anywhere" "${word}alloca[ ]*\\(" "alloca: use an arena or a bounded array"
ban "$anywhere" "${word}(system|popen)[ ]*\\(" "a shell is never started from C: use posix_spawn or fork and exec"
ban "$anywhere" "${word}(tmpnam|tempnam|mktemp)[ ]*\\(" "racy temporary name: use mkstemp or mkdtemp"
ban "$anywhere" "${word}(strtok|rand|srand|localtime|gmtime|ctime|asctime)[ ]*\\(" \
  "hidden global state: use the _r form, eo_rfc3339 or the Philox generator"
ban "$product" "${word}assert[ ]*\\(" "no assert outside tests: raise an error (EO_RAISE, EO_BUG)"
ban "$product" "${word}abort[ ]*\\(" "no abort: raise an error (EO_BUG)"
ban "$library" "${word}exit[ ]*\\(" "a library never ends the process"
ban "$anywhere" "^[ ]*#[ ]*if[ ]+0([^-9A-Za-z_x.]|\$)" "no dead code: git remembers"
ban '^tests/' "${word}u?sleep[ ]*\\(" "tests wait for events with a deadline, they do not sleep"

# In comments too. /dev/null makes grep print the path of a single file.
mapfile -t written < <(files '\.(c|h|def|cu|sh|cmake|awk|py|yaml|yml|conf|service|in)$|(^|/)(CMakeLists\.txt|run)$' \
  | grep -vE '^tests/(rules|vectors)/')
mapfile -t builds < <(files '\.cmake$|(^|/)CMakeLists\.txt$')
grep -nE '(^|[^A-Za-z0-9_])(TODO|FIXME|XXX|HACK)([^A-Za-z0-9_]|$)' -- "${written[@]}" /dev/null \
  | sed -E 's|^([^:]+:[0-9]+):.*|\1: mark of unfinished work: finish it or file an issue|' | report || true
grep -nE '^[^#]*-f(fast-math|unsafe-math|associative-math)|^[^#]*-Ofast' -- "${builds[@]}" /dev/null \
  | sed -E 's|^([^:]+:[0-9]+):.*|\1: fast-math changes results|' | report || true

verdict $((${#sources[@]} + ${#written[@]})) files
