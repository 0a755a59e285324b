#!/usr/bin/env bash
# From a fresh checkout to a trained model: installs what is missing, builds, starts a private daemon, trains the digits
# example with a progress line, and says how good the model is and where it lies.
set -uo pipefail

usage() {
  cat <<'TEXT'
Usage: deploy/demo.sh [--output DIR] [--no-install]

  --output DIR   where the model goes (default: a new folder below build/demo)
  --no-install   use what is installed
  --help         print this text
TEXT
}

output='' install=1
while (($#)); do
  case $1 in
    --output) output=${2:?demo.sh: --output wants a folder}; shift ;;
    --no-install) install=0 ;;
    -h | --help) usage; exit 0 ;;
    *) printf 'demo.sh: unknown option %s\n\n' "$1" >&2; usage >&2; exit 64 ;;
  esac
  shift
done
[[ -z $output || $output == /* ]] || output=$PWD/$output

cd "$(dirname "$0")/.." || exit 70
bin=build/release/bin
log=build/demo/build.log
[[ -n $output ]] || output=$PWD/build/demo/$(date +%Y%m%d-%H%M%S)
mkdir -p build/demo

step() { printf '\n\033[1m%s\033[0m\n' "$1" | if [[ -t 1 && -z ${NO_COLOR:-} ]]; then cat; else sed 's/\x1b\[[0-9]*m//g'; fi; }
# die WHAT HINT: the demo's own failures; a job that fails reports itself.
die() {
  printf '\ndemo.sh: %s\n         %s\n' "$1" "$2" >&2
  exit 1
}

if ((install)); then
  step "1/3 Installing what is missing"
  deploy/install-deps.sh || die "the packages could not be installed" "Install them by hand (docs/dependencies.md) and run deploy/demo.sh --no-install."
fi

step "2/3 Building (the log is $log)"
if ! { cmake --preset release && cmake --build --preset release --target everyod everyod-worker everyo-cli everyo-submit; } >"$log" 2>&1; then
  tail -n 25 "$log" >&2
  die "the build failed; the last lines are above" "The whole log is $log; docs/dependencies.md names the versions that are known to work."
fi
for program in everyod everyod-worker everyo everyo-submit; do
  [[ -x $bin/$program ]] || die "the build made no $bin/$program" "the log is $log"
done
echo "built: $bin/everyod, everyod-worker, everyo, everyo-submit"

step "3/3 Training deploy/examples/digits.yaml (1797 handwritten digits) with a private daemon"
"$bin/everyo-submit" run deploy/examples/digits.yaml --local --output "$output"
status=$?
if ((status != 0)); then
  ((status == 130)) && die "interrupted" "Run deploy/demo.sh again; it starts from the beginning."
  die "the training ended with exit code $status; the message above says why" "$bin/everyo doctor checks this machine; $bin/everyo explain CODE explains an error code."
fi

# run.json holds one "name": value a metric; no JSON tool is demanded of the machine for one number.
metric() { grep -oE "\"$1\" *: *[-0-9.eE+]+" "$output/run.json" 2>/dev/null | tail -n 1 | sed 's/.*: *//'; }
accuracy=$(metric val_accuracy)
[[ -n $accuracy ]] || die "the job ended well, but $output/run.json holds no val_accuracy" "Please report this with the output above."

step "Done"
awk -v a="$accuracy" 'BEGIN { printf "validation accuracy  %.2f %%\n", 100 * a }'
echo "model                $output/model.safetensors"
cat <<TEXT

How to go on:
  $bin/everyo doctor                                     what this machine can do
  $bin/everyo-submit run deploy/examples/iris.yaml --local
  $bin/everyod &                                         a daemon that stays; then leave out --local
  $bin/everyo-submit run deploy/examples/digits.yaml -H hostA,hostB   the same job on two hosts (README.md)
TEXT
