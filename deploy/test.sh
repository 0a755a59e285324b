#!/usr/bin/env bash
# The whole check of a checkout: installs what is missing, builds every supported way, runs the tests, lists what was
# skipped and why. .ci/run is this script. Ends with ctest's own summary; exit 0 only when everything passed.
# Most functions are called by name through stage():
# shellcheck disable=SC2317
set -uo pipefail

usage() {
  cat <<'TEXT'
Usage: deploy/test.sh [--full] [--no-install] [--jobs N]

Quick tier (at most 20 minutes on 2 cores):
  release        gcc, warnings are errors: all tests but slow and gpu; house rules (format, includes, symbols, documents)
  minimal        every optional dependency off, gcc, then clang: the same tests
  dev            AddressSanitizer and UndefinedBehaviorSanitizer: unit, tables, conformance, fuzz-replay

  --full         also: integration tests under the sanitizers, ThreadSanitizer, libFuzzer, coverage floor, clang-tidy,
                 slow tests (soak, fault trials, training scores)
  --no-install   use what is installed; a stage whose tools are missing is skipped and listed
  --jobs N       parallel compilations and tests (default: the processors this process may use)
  --help         print this text

Logs and JUnit files of each stage lie in build/logs.
TEXT
}

full=0 install=1 jobs=$(nproc)
while (($#)); do
  case $1 in
    --full) full=1 ;;
    --no-install) install=0 ;;
    --jobs) jobs=${2:-}; shift ;;
    -h | --help) usage; exit 0 ;;
    *) printf 'test.sh: unknown option %s\n\n' "$1" >&2; usage >&2; exit 64 ;;
  esac
  shift
done
[[ $jobs =~ ^[1-9][0-9]*$ ]] || { echo "test.sh: --jobs wants a number above 0" >&2; exit 64; }

cd "$(dirname "$0")/.." || exit 70
logs=$PWD/build/logs
rm -rf "$logs"
mkdir -p "$logs"
stages="$logs/stages.txt"   # result<TAB>seconds<TAB>name
skipped="$logs/skipped.txt" # where<TAB>what<TAB>why
: >"$stages"
: >"$skipped"
failed=0

# not_run STAGE REASON: a whole stage that was left out, for the table at the end.
not_run() { printf '%s\t%s\t%s\n' "$1" "(whole stage)" "$2" >>"$skipped"; }

# stage NAME COMMAND...: runs it, shows and keeps its output, records the result. Returns the command's status.
stage() {
  local name=$1 log="$logs/$1.log" start=$SECONDS status
  shift
  printf '\n==== %s\n' "$name"
  "$@" 2>&1 | tee "$log"
  status=${PIPESTATUS[0]}
  if ((status == 0)); then
    printf 'ok\t%d\t%s\n' $((SECONDS - start)) "$name" >>"$stages"
  else
    printf 'FAILED\t%d\t%s\n' $((SECONDS - start)) "$name" >>"$stages"
    failed=1
  fi
  return "$status"
}

configure_and_build() {
  local preset=$1
  shift
  cmake --preset "$preset" "$@" && cmake --build --preset "$preset" --parallel "$jobs"
}

# run_tests PRESET [CTEST OPTION...]: one ctest run; its skipped tests go into the table with their own reasons.
run_tests() {
  local preset=$1 xml="$logs/$1.xml" status=0
  shift
  ctest --preset "$preset" --parallel "$jobs" --output-junit "$xml" "$@" || status=$?
  [[ -f $xml ]] && note_skips "$preset" "$xml"
  return "$status"
}

# note_skips WHERE JUNIT: a skipped test says why on the last line of its output.
note_skips() {
  awk -v where="$1" '
    function plain(s) {
      gsub(/&lt;/, "<", s); gsub(/&gt;/, ">", s); gsub(/&quot;/, "\"", s); gsub(/&apos;/, "\047", s); gsub(/&amp;/, "\\&", s)
      return s
    }
    /<testcase / { name = $0; sub(/.*<testcase name="/, "", name); sub(/".*/, "", name); why = ""; out = 0; skip = 0 }
    /<skipped/ { skip = 1 }
    /<system-out>/ { out = 1; sub(/.*<system-out>/, "") }
    out { line = $0; ended = sub(/<\/system-out>.*/, "", line); if (line ~ /[^ \t]/) why = line; if (ended) out = 0 }
    /<\/testcase>/ && skip { printf "%s\t%s\t%s\n", where, plain(name), (why == "" ? "gave no reason" : plain(why)) }
  ' "$2" >>"$skipped"
}

# check PRESET TOOL [CONFIGURE OPTION...]: build and test one preset when its compiler is here.
check() {
  local preset=$1 tool=$2
  shift 2
  if ! command -v "$tool" >/dev/null; then
    not_run "$preset" "$tool is not installed (deploy/install-deps.sh --dev)"
    return 0
  fi
  if stage "build-$preset" configure_and_build "$preset" "$@"; then
    stage "test-$preset" run_tests "$preset"
  else
    not_run "test-$preset" "its build failed"
  fi
}

fuzz_for_a_while() {
  local seconds_each=60 target corpus found=0 status=0
  for target in build/fuzz/bin/fuzz_*; do
    [[ -x $target ]] || continue
    found=1
    corpus=$logs/corpus-$(basename "$target")
    mkdir -p "$corpus"
    echo "-- $target: $seconds_each s"
    # New inputs go to the log folder; the committed corpus is read only.
    "$target" -max_total_time="$seconds_each" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
      -artifact_prefix="$corpus/" "$corpus" "tests/fuzz/corpus/${target##*/fuzz_}" 2>&1 | tail -n 12
    ((PIPESTATUS[0] == 0)) || status=1
  done
  ((found)) || { echo "no fuzz target was built"; return 1; }
  return "$status"
}

# The floor holds for what reads hostile bytes; kernels are judged by conformance instead.
coverage_report() {
  gcovr --root . --object-directory build/coverage --exclude 'build/' --filter 'proto/' --fail-under-line 90 --print-summary
}

tidy() {
  mapfile -t sources < <(git ls-files 'proto/*.c' 'backends/*.c' 'distributed/*.c' 'daemon/*.c' 'client/*.c')
  run-clang-tidy-14 -quiet -p build/clang -j "$jobs" "${sources[@]}"
}

if ((install)); then
  options=(--dev)
  ((full)) && options+=(--data)
  stage install deploy/install-deps.sh "${options[@]}" || exit 1
fi

# The tests below are those of this checkout: a stale cache may not turn warnings back into warnings.
check release gcc -DEO_WERROR=ON
check minimal gcc
check minimal-clang clang
check dev gcc

if ((full)); then
  [[ -d build/dev ]] && stage test-dev-all run_tests dev-all
  check tsan gcc
  if command -v clang >/dev/null; then
    stage build-fuzz configure_and_build fuzz && stage fuzz fuzz_for_a_while
    if command -v run-clang-tidy-14 >/dev/null; then
      stage build-clang configure_and_build clang && stage clang-tidy tidy
    else
      not_run clang-tidy "run-clang-tidy-14 is not installed (deploy/install-deps.sh --dev)"
    fi
  else
    not_run fuzz "clang is not installed (deploy/install-deps.sh --dev)"
    not_run clang-tidy "clang is not installed (deploy/install-deps.sh --dev)"
  fi
  check coverage gcc
  if command -v gcovr >/dev/null; then
    stage coverage coverage_report
  else
    not_run coverage "gcovr is not installed (deploy/install-deps.sh --dev)"
  fi
  stage test-slow run_tests slow
else
  for name in dev-all tsan fuzz coverage clang-tidy slow; do not_run "$name" "not in the quick tier: deploy/test.sh --full"; done
fi
command -v nvidia-smi >/dev/null || not_run gpu "no NVIDIA driver on this machine"

printf '\n==== Stages\n'
awk -F '\t' '{ printf "  %-7s %5d s  %s\n", $1, $2, $3 }' "$stages"
printf '\n==== Skipped, and why\n'
sort -u "$skipped" | awk -F '\t' '{ printf "  %-14s %-34s %s\n", $1, $2, $3 } END { if (NR == 0) print "  nothing" }'
echo

# Last comes the summary of the first test run that failed, else that of the release build.
shown=test-release
while IFS=$'\t' read -r result _ name; do
  if [[ $result == FAILED && -f $logs/$name.log ]]; then
    shown=$name
    break
  fi
done <"$stages"
printf '==== %s: %s (whole log: %s)\n' "$shown" "$( ((failed)) && echo FAILED || echo passed)" "${logs#"$PWD"/}/$shown.log"
awk '/tests passed, .* tests? failed out of/ { found = 1 } found { print } { last[NR % 15] = $0 }
  END { if (!found) for (i = NR - 14; i <= NR; i++) if (i > 0) print last[i % 15] }' "$logs/$shown.log" 2>/dev/null
exit "$failed"
