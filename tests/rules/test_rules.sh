#!/usr/bin/env bash
# Proves that every house-rule check can fail: each one passes on a small clean tree and reports, by file and line, an
# offence planted in a copy of it. Usage: test_rules.sh
# The planted texts are literal on purpose:
# shellcheck disable=SC2016
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
tree_checks="check_includes check_simple_mistakes check_format check_layout check_docs check_paths check_shell"
n_cases=0 n_failed=0 n_skipped=0

# put PATH TEXT: a file of the tree under test.
put() {
  mkdir -p "$tree/$(dirname "$1")"
  printf '%b' "$2" >"$tree/$1"
}

clean_tree() {
  tree=$scratch/tree
  rm -rf "$tree"
  mkdir -p "$tree"
  cp "$here/../../.clang-format" "$tree/"
  put proto/README.md '# proto\n\n[the table](tables/README.md#how-to-add-one)\n'
  put proto/tables/README.md '# tables\n\n## How to add one\n'
  put proto/tables/ops.def '/* a table */\n'
  put proto/base/README.md '# base\n'
  put proto/base/error.h '#include "proto/tables/ops.def"\n\n#include <stdint.h>\n'
  put proto/base/error.c '#include "proto/base/error.h"\n\n/* strcpy(a, b); abort(); system("x"); are words here */\nconst char *eo_error_x = "assert(1); /* atoi(x) */";\n'
  put daemon/README.md '# daemon\n'
  put daemon/engine/README.md '# engine\n'
  put daemon/engine/tensor.c '#include "proto/base/error.h"\n'
  put daemon/server/README.md '# server\n'
  put daemon/server/loop.c '#include "daemon/engine/tensor.h"\n\n#include <uv.h>\n'
  put daemon/engine/tensor.h 'int tensor_x;\n'
  put deploy/README.md '# deploy\n'
  put deploy/go.sh '#!/bin/sh\necho "$1"\n'
}

# run CHECK [ARG...]: output in $scratch/out, status in $status.
run() {
  local check=$1
  shift
  status=0
  "$here/$check.sh" "$tree" "$@" >"$scratch/out" 2>&1 || status=$?
}

verdict() {
  n_cases=$((n_cases + 1))
  if [[ $1 == ok ]]; then return; fi
  n_failed=$((n_failed + 1))
  printf 'FAILED: %s\n' "$2"
  sed 's/^/    /' "$scratch/out"
}

# passes CHECK [ARG...]: the check accepts the tree as it is.
passes() {
  run "$@"
  if ((status == 77)); then
    n_skipped=$((n_skipped + 1))
    return 0
  fi
  if ((status == 0)); then verdict ok; else verdict bad "$1 rejects a clean tree (exit $status)"; fi
}

# catches CHECK PATH:LINE TEXT [ARG...]: the check exits 1 and has a line that begins with PATH:LINE and contains TEXT.
catches() {
  local check=$1 where=$2 text=$3
  shift 3
  run "$check" "$@"
  if ((status == 77)); then
    n_skipped=$((n_skipped + 1))
    return 0
  fi
  if ((status == 1)) && grep -F -- "$text" "$scratch/out" | grep -qE -- "^$where: "; then
    verdict ok
  else
    verdict bad "$check misses '$text' at $where (exit $status)"
  fi
}

# planted CHECK PATH LINE TEXT CONTENT: a clean tree, then the offence, then the check.
planted() {
  clean_tree
  put "$2" "$5"
  catches "$1" "$2:$3" "$4"
}

clean_tree
for check in $tree_checks; do passes "$check"; done

# An empty tree proves nothing, so no check may be content with one.
tree=$scratch/empty
mkdir -p "$tree"
for check in $tree_checks; do
  run "$check"
  if ((status == 1 || status == 77)); then verdict ok; else verdict bad "$check is content with an empty tree"; fi
done

# Rooms.
planted check_includes proto/frame.c 1 'may not include' '#include "daemon/engine/tensor.h"\n'
clean_tree
put proto/frame.h 'int x;\n'
put proto/base/text.c '#include "proto/base/error.h"\n#include "proto/frame.h"\n'
catches check_includes proto/base/text.c:2 'may not include'
planted check_includes daemon/engine/plan.c 1 'allowed only in' '#include <uv.h>\n'
planted check_includes daemon/engine/plan.c 1 'may not include' '#include "daemon/server/loop.c"\n'
planted check_includes daemon/nn/layer.c 1 'does not exist' '#include "daemon/nn/none.h"\n'
planted check_includes daemon/engine/plan.c 1 'repository root' '#include "tensor.h"\n'
clean_tree
put backends/cuda/cuda.h 'int x;\n'
put backends/cpu/a.c '#include "backends/cuda/cuda.h"\n'
catches check_includes backends/cpu/a.c:1 'may not include'
clean_tree
put tests/support/a.h 'int x;\n'
put daemon/engine/plan.c '#include "tests/support/a.h"\n'
catches check_includes daemon/engine/plan.c:1 'nothing includes'
planted check_includes client/lib/a.c 1 'may not include' '#include "daemon/engine/tensor.h"\n'
planted check_includes deploy/examples/a.c 1 'may not include' '#include "proto/base/error.h"\n'
planted check_includes tools/a.c 1 'no row' 'int x;\n'
planted check_includes proto/frame.c 3 'allowed only in' '\n\n#  include <msgpack.h>\n'
for header in openssl/evp.h sqlite3.h yaml.h jansson.h cblas.h sleef.h zlib.h omp.h check.h cuda_runtime.h nccl.h mpi.h; do
  planted check_includes daemon/engine/plan.c 1 'allowed only in' "#include <$header>\n"
done
planted check_includes daemon/engine/plan.c 1 'unknown header' '#include <curl/curl.h>\n'

# Calls and marks. The mistakes are written apart so that this file does not carry them itself.
while read -r path text; do
  planted check_simple_mistakes "$path" 2 '' "int y;\n$text\n"
done <<'CASES'
proto/a.c   sprintf(a, b);
proto/a.c   x = strcpy(a, b);
proto/a.c   (void)strcat (a, b);
proto/a.c   strncpy(a, b, 3);
proto/a.c   gets(a);
proto/a.c   return atoi(a);
tests/a.c   x = atof(a);
proto/a.c   p = alloca(8);
bench/a.c   system("ls");
proto/a.c   popen("ls", "r");
proto/a.c   char *p = tmpnam(NULL);
proto/a.c   srand(1);
proto/a.c   strtok(a, b);
proto/a.c   assert(x);
client/a.c  if (x) abort();
proto/a.c   exit(1);
daemon/nn/a.c exit (1);
tests/a.c   sleep(1);
tests/a.c   usleep(1000);
proto/a.c   #if 0
proto/a.h   #  if 0 /* old */
CASES
for mark in TODO FIXME XXX HACK; do
  planted check_simple_mistakes proto/a.c 1 'unfinished' "/* $mark: later */\n"
  planted check_simple_mistakes deploy/a.sh 1 'unfinished' "# $mark\n"
done
planted check_simple_mistakes cmake/a.cmake 1 'fast-math' 'add_compile_options(-ffast-math)\n'
clean_tree
put tests/a.c '#include <assert.h>\nvoid f(int ck_x) { ck_assert(ck_x); assert(ck_x); static_assert(1, ""); exit(0); }\n'
put proto/a.c 'static_assert(sizeof(int) == 4, "");\nint f(void) { return snprintf(0, 0, "x") + x.exit(1) + my_abort(); }\n#if 0x1\n#endif\n'
put proto/b.c 'char t[] = "/tmp/eo.XXXXXX"; // mkstemp\n'
passes check_simple_mistakes

planted check_format proto/a.c 1 'not formatted' 'int   x;\n'
clean_tree
put .clang-format 'NoSuchKey: 1\n'
catches check_format .clang-format:1 'failed'

planted check_layout tools/a.sh 1 'top level' 'echo\n'
planted check_layout NOTES.md 1 'top level' 'x\n'
planted check_layout daemon/engine/attic/a.c 1 'attic' 'int x;\n'
planted check_layout daemon/engine/a.c 1 'empty' ''
planted check_layout daemon/engine/a.c 1 'empty' '\n  \n'
planted check_layout daemon/engine/a.c 901 'one subject' "$(printf 'int x;\\n%.0s' {1..901})"
clean_tree
printf 'int x;\n%.0s' {1..900} >"$tree/daemon/engine/a.c"
passes check_layout

# Documents.
clean_tree
rm "$tree/daemon/engine/README.md"
catches check_docs daemon/engine/README.md:1 'missing'
clean_tree
rm "$tree/deploy/README.md"
catches check_docs deploy/README.md:1 'missing'
planted check_docs docs/a.md 3 'dead link' 'x\n\n[a](b.md)\n'
planted check_docs docs/a.md 1 'no heading' '[a](../proto/README.md#nowhere)\n'
planted check_docs docs/a.md 2 'no heading' '# Here\n[a](#there)\n'
planted check_docs docs/a.md 1 'dead link' '[a]: none.md\n'
clean_tree
put docs/README.md '# Docs and `more`\n[a](#docs-and-more) `[x](none.md)` [b](https://example.org/none.md) [c](../proto/)\n```\n[d](none.md)\n```\n'
passes check_docs

# Paths of a machine, written apart for the same reason.
for folder in work farm root home/someone; do
  planted check_paths docs/a.md 2 'particular machine' "x\nsee /$folder/x.md\n"
done
clean_tree
put docs/a.md 'daemon/work/x build/root/ $d/home/x /home/me/x.yaml https://x.org/work/ /var/lib/everyod\n'
passes check_paths

planted check_shell deploy/a.sh 2 'Double quote' '#!/bin/bash\nrm $1\n'

# Examples: judged by stand-ins that accept everything, or nothing.
example_tree() {
  clean_tree
  put deploy/examples/a.yaml 'name: a\n'
  put daemon/server/config.def 'CONFIG(a_b, "--a-b", "a-b", COUNT, "N", "3", 0, 9, START,\n  "help")\nCONFIG(c, "--c", "", FLAG, "", "no")\nCONFIG(d, "", "d", PATH, "F", "")\n'
  put deploy/everyod.conf.example '# A comment = no key.\n#a-b = 3\n#d = /x\n'
}
example_tree
passes check_examples /bin/true /bin/true
catches check_examples deploy/examples/a.yaml:1 'exit code 1' /bin/false /bin/true
catches check_examples deploy/everyod.conf.example:1 'exit code 1' /bin/true /bin/false
rm "$tree/deploy/examples/a.yaml"
run check_examples /bin/true /bin/true
if ((status == 1)); then verdict ok; else verdict bad "check_examples is content without an example"; fi
example_tree
put deploy/everyod.conf.example '#a-b = 4\n#d = /x\n#e = 1\n'
catches check_examples deploy/everyod.conf.example:1 'default is 3' /bin/true /bin/true
catches check_examples deploy/everyod.conf.example:3 'no key e' /bin/true /bin/true
put deploy/everyod.conf.example '#a-b = 3\n'
catches check_examples deploy/everyod.conf.example:1 'd of' /bin/true /bin/true

# Built things: made here with the compiler at hand.
if command -v "${CC:-cc}" >/dev/null && command -v ar >/dev/null; then
  clean_tree
  put a.c 'int eo_fine; static int hidden; int *eo_hidden(void) { return &hidden; }\nint *eo_hidden(void);\n'
  put b.c 'int frame_encode;\n'
  put m.c 'int main(void) { return 0; }\n'
  for f in a b; do
    "${CC:-cc}" -fPIC -c -o "$tree/$f.o" "$tree/$f.c"
    ar rc "$tree/lib$f.a" "$tree/$f.o"
  done
  "${CC:-cc}" -o "$tree/m" "$tree/m.c"
  passes check_symbols "$tree/liba.a"
  catches check_symbols 'libb.a\(b.o\):1' 'frame_encode' "$tree/liba.a" "$tree/libb.a"
  catches check_symbols '.*/none.a:1' 'missing' "$tree/none.a"
  "${CC:-cc}" -shared -o "$tree/libb.so.0" "$tree/b.o"
  catches check_symbols 'libb.so.0:1' 'frame_encode' "$tree/libb.so.0"
  passes check_links "$tree/m"
  # A program that needs a numeric library: an empty one under that name is enough.
  put e.c 'int e(void) { return 1; }\n'
  "${CC:-cc}" -shared -fPIC -Wl,-soname,libopenblas.so.0 -o "$tree/libopenblas.so.0" "$tree/e.c"
  "${CC:-cc}" -Wl,--no-as-needed -o "$tree/m2" "$tree/m.c" "$tree/libopenblas.so.0"
  catches check_links 'm2:1' 'numeric library' "$tree/m" "$tree/m2"
fi

printf 'test_rules: %d cases, %d failed, %d skipped for want of a tool\n' "$n_cases" "$n_failed" "$n_skipped"
((n_failed == 0))
