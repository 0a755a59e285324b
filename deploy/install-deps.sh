#!/usr/bin/env bash
# Installs the Debian packages EveryO is built from. docs/dependencies.md says what each one is for.
# Idempotent: with everything present it only asks dpkg and returns.
set -euo pipefail

usage() {
  cat <<'TEXT'
Usage: deploy/install-deps.sh [--dev] [--data] [--quiet]

Installs what building and running EveryO needs on Debian 12 or a relative of it. Works as root or through sudo.

  --dev     also what the tests and checks use (clang, formatters, sanitizer runtimes, coverage)
  --data    also the data sets that example jobs read from Debian packages (Fashion-MNIST, 30 MB)
  --quiet   print nothing unless something goes wrong
  --help    print this text
TEXT
}

build_packages=(
  gcc libc6-dev binutils cmake ninja-build pkg-config git ca-certificates
  libuv1-dev libmsgpack-dev libssl-dev libsqlite3-dev libyaml-dev libjansson-dev
  zlib1g-dev libsleef-dev libopenblas0-openmp libdnnl-dev
  libprotobuf-c-dev protobuf-c-compiler
  check
)
dev_packages=(
  clang clang-14 clang-format-14 clang-tidy-14 libclang-rt-14-dev llvm-14 ccache shellcheck gcovr
  iproute2 procps sqlite3 python3 python3-msgpack libonnx-testdata
)
data_packages=(dataset-fashion-mnist)

quiet=0
packages=("${build_packages[@]}")
for arg in "$@"; do
  case $arg in
    --dev) packages+=("${dev_packages[@]}") ;;
    --data) packages+=("${data_packages[@]}") ;;
    --quiet) quiet=1 ;;
    -h | --help) usage; exit 0 ;;
    *) printf 'install-deps.sh: unknown option %s\n\n' "$arg" >&2; usage >&2; exit 64 ;;
  esac
done

say() { ((quiet)) || printf '%s\n' "$*"; }
die() { printf 'install-deps.sh: %s\n' "$1" >&2; exit 1; }

# present PACKAGE: installed and configured, in the state that dpkg calls "ii".
missing=()
installed=" $(dpkg-query --show --showformat='${binary:Package} ${db:Status-Abbrev}\n' 2>/dev/null \
  | awk '$2 == "ii" { sub(/:.*/, "", $1); printf "%s ", $1 }')"
for package in "${packages[@]}"; do
  [[ $installed == *" $package "* ]] || missing+=("$package")
done
if ((${#missing[@]} == 0)); then
  say "install-deps.sh: all ${#packages[@]} packages are installed"
  exit 0
fi

command -v apt-get >/dev/null || die "this system has no apt-get; install by hand what docs/dependencies.md lists"
as_root=()
if ((EUID != 0)); then
  command -v sudo >/dev/null || die "not root and no sudo; let an administrator run: apt-get install ${missing[*]}"
  as_root=(sudo)
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
# run COMMAND...: quiet on success, the whole output on failure.
run() {
  if ! "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive "$@" >"$log" 2>&1; then
    cat "$log" >&2
    return 1
  fi
}

say "install-deps.sh: installing ${#missing[@]} packages: ${missing[*]}"
# The index of a fresh machine is empty or names versions that the mirror no longer has.
run apt-get update || die "apt-get update failed: see above; is the network up and /etc/apt/sources.list right?"
run apt-get install --yes --no-install-recommends "${missing[@]}" \
  || die "apt-get install failed: see above; EveryO is developed on Debian 12 (bookworm)"
say "install-deps.sh: done"
