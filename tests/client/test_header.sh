#!/usr/bin/env bash
# The public header alone, without a word of ours before it: C99 by the letter, C11, C++98 and C++17, twice included.
# Usage: test_header.sh INCLUDE_DIR CC
set -euo pipefail
include=${1:?usage: test_header.sh INCLUDE_DIR CC}
cc=${2:?usage: test_header.sh INCLUDE_DIR CC}

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cat >"$dir/alone.c" <<'CODE'
#include <everyo/everyo.h>
#include <everyo/everyo.h>

int use(everyo_client *c, everyo_error *err);

int use(everyo_client *c, everyo_error *err)
{
    everyo_tensor t;
    float value = 1.5f;
    if (everyo_tensor_create(c, EVERYO_FLOAT32, 0, 0, &value, 0, &t, err) != 0) {
        return err->exit_code;
    }
    return everyo_tensor_read(c, &t, &value, sizeof value, 0);
}
CODE
cp "$dir/alone.c" "$dir/alone.cpp"

flags=(-I "$include" -Wall -Wextra -pedantic-errors -Werror -fsyntax-only)
for std in c99 c11; do
  "$cc" -std=$std "${flags[@]}" "$dir/alone.c"
done
if ! command -v c++ >/dev/null; then
  echo "C is fine; there is no C++ compiler to try"
  exit 77
fi
for std in c++98 c++17; do
  # stdint.h and long long are older than C++98 only by name.
  c++ -std=$std "${flags[@]}" -Wno-long-long "$dir/alone.cpp"
done

# It needs nothing but the two headers of the C library that it names.
if grep -E '^#include' "$include/everyo/everyo.h" | grep -vE '<(stddef|stdint)\.h>'; then
  echo "everyo.h includes more than it should"
  exit 1
fi
