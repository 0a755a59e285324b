#!/usr/bin/env bash
# The generated pages of docs/ are what the tables say now: makes them anew and compares.
# Usage: check_generated.sh ROOT TABLEDOC
set -euo pipefail
root=${1:?usage: check_generated.sh ROOT TABLEDOC}
tabledoc=${2:?usage: check_generated.sh ROOT TABLEDOC}

made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
"$tabledoc" "$made"

stale=0 n=0
while IFS= read -r page; do
  n=$((n + 1))
  if ! diff -u --label "docs/$page in the tree" --label "docs/$page by the tables" "$root/docs/$page" "$made/$page"; then
    stale=$((stale + 1))
  fi
done < <(cd "$made" && find . -type f | sed 's|^\./||' | sort)

# A page that nothing makes any more is stale too; json.md is written by hand.
while IFS= read -r page; do
  if [[ ! -f $made/$page && $page != reference/json.md ]]; then
    echo "docs/$page: no table makes this page"
    stale=$((stale + 1))
  fi
done < <(cd "$root/docs" && find reference man -type f | sort)

if ((stale > 0)); then
  echo "check_generated: $stale stale page(s): build the target docs-generate and commit what it writes"
  exit 1
fi
echo "check_generated: $n pages, none stale"
((n > 0))
