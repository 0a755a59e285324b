#!/usr/bin/env bash
# Proves that check_errors.sh can fail: it passes on a small clean tree and reports each offence planted in a copy.
# The planted texts are literal on purpose:
# shellcheck disable=SC2016
set -euo pipefail

check=$(cd "$(dirname "$0")" && pwd)/check_errors.sh
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
n_failed=0

put() {
  mkdir -p "$scratch/$(dirname "$1")"
  printf '%b' "$2" >"$scratch/$1"
}

clean_tree() {
  rm -rf "${scratch:?}"/*
  put proto/tables/errors.def '/* rows */\nEO_ERROR(BUSY, 1011,  75,  1, "the daemon is busy")\nEO_ERROR(INTERNAL, 6005, 70, 0, "a fault")\n'
  put docs/errors/EO-1011.md '# EO-1011: the daemon is busy\n\n`BUSY`, exit status 75, trying again may help.\n\nerror EO-1011: x\n\nWhat to do:\n'
  put docs/errors/EO-6005.md '# EO-6005: a fault\n\n`INTERNAL`, exit status 70, trying again does not help.\n\nerror EO-6005: x\n\nWhat to do:\n'
  put daemon/a.c 'return EO_RAISE(err, EO_E_BUSY, "x");\nreturn EO_BUG(err, "x");\n'
  put tests/t.c 'ck(EO_E_BUSY); /* EO-6005 */\n'
}

# expect TEXT: the check fails and says TEXT. With an empty TEXT it passes.
expect() {
  local status=0
  "$check" "$scratch" >"$scratch/out" 2>&1 || status=$?
  if [[ -z $1 && $status == 0 ]] || { [[ -n $1 && $status == 1 ]] && grep -qF -- "$1" "$scratch/out"; }; then
    return
  fi
  n_failed=$((n_failed + 1))
  printf 'FAILED: expected "%s", exit %d\n' "$1" "$status"
  sed 's/^/    /' "$scratch/out"
}

clean_tree && expect ''
clean_tree && rm "$scratch/docs/errors/EO-1011.md" && expect 'errors.def:2: BUSY has no page docs/errors/EO-1011.md'
clean_tree && sed -i '1s/busy/idle/' "$scratch/docs/errors/EO-1011.md" && expect 'docs/errors/EO-1011.md:1: must be'
clean_tree && sed -i '3s/75/76/' "$scratch/docs/errors/EO-1011.md" && expect 'docs/errors/EO-1011.md:3: must be'
clean_tree && sed -i '/^error/d' "$scratch/docs/errors/EO-1011.md" && expect 'EO-1011.md:1: shows no example'
clean_tree && sed -i '/^What/d' "$scratch/docs/errors/EO-1011.md" && expect 'EO-1011.md:1: does not say what to do'
clean_tree && put docs/errors/EO-9999.md '# x\n' && expect 'docs/errors/EO-9999.md:1: no row'
clean_tree && put daemon/a.c 'if (code == EO_E_BUSY) /* EO_E_BUSY */ return EO_BUG(err, "EO_E_BUSY");\n' && expect 'nothing raises EO_E_BUSY'
clean_tree && put daemon/a.c 'return EO_RAISE(err, EO_E_BUSY, "x");\n' && expect 'nothing raises EO_E_INTERNAL'
clean_tree && put daemon/a.c 'x = EO_E_BUSYBODY; EO_BUG(err, "");\n' && expect 'nothing raises EO_E_BUSY'
clean_tree && put tests/t.c 'EO-6005\n' && expect 'no test mentions EO_E_BUSY'
clean_tree && put proto/tables/errors.def 'EO_ERROR(BUSY, 1011, "x")\n' && expect 'errors.def:1: not of the form'
clean_tree && rm -r "$scratch/docs" && put proto/tables/errors.def '' && expect 'found no errors'
if ((n_failed > 0)); then
  exit 1
fi
echo 'test_check_errors: the check reports every planted offence'
