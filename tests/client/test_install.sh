#!/usr/bin/env bash
# What is installed is complete, can be moved, and is enough to build and run an outside program, found by pkg-config and by
# CMake. Usage: test_install.sh BUILD_DIR SOURCE_DIR CC
set -euo pipefail
build=${1:?usage: test_install.sh BUILD_DIR SOURCE_DIR CC}
source=${2:?usage: test_install.sh BUILD_DIR SOURCE_DIR CC}
cc=${3:?usage: test_install.sh BUILD_DIR SOURCE_DIR CC}

for program in everyo everyo-submit everyod everyod-worker; do
  if [[ ! -x $build/bin/$program ]]; then
    echo "$program is not built"
    exit 77
  fi
done
if grep -q '^EO_SANITIZE:STRING=.' "$build/CMakeCache.txt"; then
  echo "a sanitizer's runtime does not go with an outside program"
  exit 77
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cmake --install "$build" --prefix "$dir/first" >/dev/null
mv "$dir/first" "$dir/prefix" # it may be moved
prefix=$dir/prefix

failed=0
expect() {
  if ! compgen -G "$prefix/$1" >/dev/null; then
    echo "not installed: $1"
    failed=1
  fi
}
for path in bin/{everyo,everyo-submit,everyod} libexec/everyo/everyod-worker 'lib*/libeveryo.so*' include/everyo/everyo.h \
  share/man/man1/{everyo.1,everyo-submit.1} share/man/man8/everyod.8 \
  share/bash-completion/completions/{everyo,everyo-submit} share/zsh/site-functions/_everyo \
  share/fish/vendor_completions.d/{everyo.fish,everyo-submit.fish} share/everyo/examples/digits.{yaml,csv}; do
  expect "$path"
done
lib=$(dirname "$(find "$prefix" -name everyo.pc)")/..

# An outside program, by pkg-config. The worker lies in libexec of the configured prefix; here it has to be shown.
ln -s ../libexec/everyo/everyod-worker "$prefix/bin/everyod-worker"
read -ra flags <<<"$(PKG_CONFIG_PATH=$lib/pkgconfig pkg-config --cflags --libs everyo)"
"$cc" -std=c99 -Wall -Wextra -pedantic-errors -Werror "$source/deploy/examples/remote_matmul.c" "${flags[@]}" -o "$dir/program"
export LD_LIBRARY_PATH=$lib PATH=$prefix/bin:$PATH
said=$("$dir/program" local:)
if [[ $said != *"gradient 6"* ]]; then
  echo "the program says: $said"
  failed=1
fi

# The same by CMake.
mkdir "$dir/outside"
cp "$source/deploy/examples/remote_matmul.c" "$dir/outside/program.c"
cat >"$dir/outside/CMakeLists.txt" <<'CODE'
cmake_minimum_required(VERSION 3.25)
project(outside LANGUAGES C)
find_package(everyo 0.1 REQUIRED)
add_executable(program program.c)
target_link_libraries(program PRIVATE everyo::everyo)
CODE
cmake -S "$dir/outside" -B "$dir/outside/build" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$cc" >/dev/null
cmake --build "$dir/outside/build" >/dev/null
"$dir/outside/build/program" local: >/dev/null

# Nothing of ours but the public functions can be linked to.
foreign=$(nm -D --defined-only "$lib"/libeveryo.so | awk '$3 !~ /^everyo_/ { print $3 }')
if [[ -n $foreign ]]; then
  echo "libeveryo exports more than everyo_*: $foreign"
  failed=1
fi
if command -v man >/dev/null && ! man -l "$prefix/share/man/man1/everyo.1" 2>/dev/null | grep -q 'ask and check'; then
  echo "man cannot show everyo.1"
  failed=1
fi
exit "$failed"
