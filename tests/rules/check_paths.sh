#!/usr/bin/env bash
# No path of a developer's machine in any file of the project.
# shellcheck source=tests/rules/lib.sh
. "$(dirname "$0")/lib.sh"

mapfile -t sources < <(all_files)
if ((${#sources[@]})); then
  grep -InE '(^|[^A-Za-z0-9_.}/-])/(work|farm|root|home/[a-z][a-z0-9_-]*)(/|["'"'"' ]|$)' -- "${sources[@]}" /dev/null \
    | sed -E 's|^([^:]+:[0-9]+):.*|\1: path of a particular machine|' | report || true
fi
verdict "${#sources[@]}" files
