#!/usr/bin/env bash
# everyod loads no numeric library (design section 5): what it needs at start is named here.
# Usage: check_links.sh ROOT PROGRAM...
# shellcheck source=tests/rules/lib.sh
. "$(dirname "$0")/lib.sh"
shift || true

command -v readelf >/dev/null || skip "readelf is not installed (apt-get install binutils)"
n=0
for program in "$@"; do
  [[ -f $program ]] || { echo "$program:1: program is missing" | report; continue; }
  n=$((n + 1))
  readelf --dynamic --wide "$program" | awk -v program="$(basename "$program")" '
    /\(NEEDED\)/ {
      lib = $NF; gsub(/[\[\]]/, "", lib)
      if (lib ~ /^lib(openblas|blas|lapack|gomp|omp|iomp5|sleef|dnnl|cuda|cublas|cudart|nccl|mpi)/)
        print program ":1: needs " lib ", a numeric library"
    }' | report
done
verdict "$n" programs
