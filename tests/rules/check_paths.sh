#!/usr/bin/env bash
# No path of a developer's machine in any file of the project; the homes of "me" and "you" are nobody's.
# shellcheck source=tests/rules/lib.sh
. "$(dirname "$0")/lib.sh"

private='(^|[^A-Za-z0-9_.}/-])/(work|farm|root|home/[a-z][a-z0-9_-]*)(/|["'"'"' ]|$)'
mapfile -t sources < <(all_files)
if ((${#sources[@]})); then
  # The second look is for lines whose only offence was a path that is nobody's.
  grep -InE "$private" -- "${sources[@]}" /dev/null | sed -E 's#/home/(me|you)/##g' | grep -E "$private" \
    | sed -E 's|^([^:]+:[0-9]+):.*|\1: path of a particular machine|' | report || true
fi
verdict "${#sources[@]}" files
