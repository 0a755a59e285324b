#!/usr/bin/env bash
# Every C file is what clang-format 14 makes of it. Tables (*.def) are laid out by hand.
# shellcheck source=tests/rules/lib.sh
. "$(dirname "$0")/lib.sh"

# The version is pinned: others lay out the same file in another way.
formatter=
for candidate in clang-format-14 clang-format; do
  if command -v "$candidate" >/dev/null && "$candidate" --version | grep -q 'version 14\.'; then
    formatter=$candidate
    break
  fi
done
[[ -n $formatter ]] || skip "clang-format 14 is not installed (apt-get install clang-format-14)"

mapfile -t sources < <(files '\.(c|h|cu|cuh)$')
said=$(mktemp)
trap 'rm -f "$offences" "$said"' EXIT
if ((${#sources[@]})) && ! "$formatter" --style=file --dry-run -Werror "${sources[@]}" >"$said" 2>&1; then
  sed -nE "s|^([^:]+:[0-9]+):[0-9]+: .*clang-format-violations.*|\1: not formatted: run $formatter -i on this file|p" "$said" | report
  # A formatter that fails otherwise (a bad configuration) must not look like a clean tree.
  if [[ ! -s $offences ]]; then
    echo ".clang-format:1: $formatter failed: $(head -n 1 "$said")" | report
  fi
fi
verdict "${#sources[@]}" files
