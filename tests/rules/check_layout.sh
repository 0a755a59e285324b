#!/usr/bin/env bash
# The top level holds what design section 1 lists and nothing else; no attic, no empty file, no file of several subjects.
# shellcheck source=tests/rules/lib.sh
. "$(dirname "$0")/lib.sh"

max_lines=900

all_files | awk -F/ '
  BEGIN {
    n = split("proto backends distributed daemon client tests bench deploy docs cmake .ci", folder, " ")
    for (i = 1; i <= n; i++) known[folder[i] "/"] = 1
    n = split("CMakeLists.txt CMakePresets.json README.md CONTRIBUTING.md CHANGELOG.md SECURITY.md LICENSE " \
              ".clang-format .clang-tidy .editorconfig .gitignore .gitattributes", file, " ")
    for (i = 1; i <= n; i++) known[file[i]] = 1
  }
  !(($1 (NF > 1 ? "/" : "")) in known) { print $0 ":1: does not belong at the top level: see the layout in docs/architecture.md" }
  $0 ~ /(^|\/)(attic|old|unused|deprecated|backup)\// || $0 ~ /(\.orig|\.rej|\.bak|~)$/ { print $0 ":1: no attic: git remembers" }' | report

mapfile -t written < <(files '\.(c|h|def|cu|cuh|sh|cmake|md|awk|py)$|(^|/)CMakeLists\.txt$')
if ((${#written[@]})); then
  # -L lists the files without a match.
  grep -L '[^[:space:]]' -- "${written[@]}" | sed 's|$|:1: empty file: no placeholders|' | report || true
  awk -v max="$max_lines" 'FNR == max + 1 && FILENAME ~ /\.(c|h|cu|cuh|sh|py)$/ {
    print FILENAME ":" FNR ": longer than " max " lines: is this one subject?"
  }' "${written[@]}" | report
fi
verdict "${#written[@]}" files
