#!/usr/bin/env bash
# check_generated.sh can fail: on an edited page, a missing one and one that nothing makes.
# Usage: test_check_generated.sh ROOT TABLEDOC
set -euo pipefail
root=${1:?usage: test_check_generated.sh ROOT TABLEDOC}
tabledoc=${2:?usage: test_check_generated.sh ROOT TABLEDOC}
check=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/check_generated.sh

tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
failed=0

# expect STATUS TEXT WHAT: the check ends like this on the tree and says TEXT.
expect() {
  local status=0 said
  said=$("$check" "$tree" "$tabledoc" 2>&1) || status=$?
  if [[ $status != "$1" || $said != *"$2"* ]]; then
    echo "$3: exit code $status, said: $said"
    failed=1
  fi
}

mkdir -p "$tree/docs"
cp -r "$root/docs/reference" "$root/docs/man" "$tree/docs"
"$tabledoc" "$tree/docs" # so that this test says nothing about the tree itself
expect 0 "none stale" "a fresh tree"
sed -i 's/matrix product/matrix thing/' "$tree/docs/reference/ops.md"
expect 1 "-\`matmul(a, b; transpose_a, transpose_b)\`: matrix thing" "an edited page"
rm "$tree/docs/reference/ops.md"
expect 1 "ops.md" "a missing page"
"$tabledoc" "$tree/docs"
touch "$tree/docs/man/everyo-old.1"
expect 1 "docs/man/everyo-old.1: no table makes this page" "a page of the past"
exit "$failed"
