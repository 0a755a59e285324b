#!/usr/bin/env bash
# The prefix rule of design section 1, read from the built archives and from what the shared library exports.
# Usage: check_symbols.sh ROOT LIBRARY... ; ROOT is not used, all checks take it first.
# shellcheck source=tests/rules/lib.sh
. "$(dirname "$0")/lib.sh"
shift || true

command -v nm >/dev/null || skip "nm is not installed (apt-get install binutils)"
n=0
for archive in "$@"; do
  [[ -f $archive ]] || { echo "$archive:1: archive is missing" | report; continue; }
  n=$((n + 1))
  dynamic=()
  [[ $archive == *.so* ]] && dynamic=(--dynamic)
  # Instrumentation (sanitizers, gcov, fuzzer) adds reserved names that begin with two underscores.
  nm "${dynamic[@]}" --extern-only --defined-only "$archive" 2>/dev/null | awk -v lib="$(basename "$archive")" '
    /:$/ { object = $1; sub(/:$/, "", object) }
    NF == 3 && $3 !~ /^(eo_|everyo_|__)/ { print lib (object == "" ? "" : "(" object ")") ":1: external symbol " $3 " lacks the prefix eo_ (public: everyo_)" }' | report
done
verdict "$n" libraries
