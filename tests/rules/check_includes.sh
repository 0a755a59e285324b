#!/usr/bin/env bash
# Who may include whom. The rules are two tables, layers.txt (our own headers) and libraries.txt (everybody else's);
# the first row whose pattern matches decides.
# shellcheck source=tests/rules/lib.sh
. "$(dirname "$0")/lib.sh"

mapfile -t sources < <(files '\.(c|h|def|cu|cuh)(\.in)?$')
if ((${#sources[@]})); then
  includes=$(mktemp)
  present=$(mktemp)
  trap 'rm -f "$offences" "$includes" "$present"' EXIT
  all_files >"$present"
  # path line form name; form is q for "..." and a for <...>
  awk 'match($0, /^[ \t]*#[ \t]*include[ \t]*["<][^">]+[">]/) {
    text = substr($0, RSTART, RLENGTH); sub(/^[^"<]*/, "", text)
    print FILENAME, FNR, (substr(text, 1, 1) == "\"" ? "q" : "a"), substr(text, 2, length(text) - 2)
  }' "${sources[@]}" >"$includes"

  awk -v dir="$rules_dir" -v present="$present" '
    function load(file, pat, allow, line, n, f) {
      n = 0
      while ((getline line < file) > 0) {
        if (line ~ /^[ \t]*(#|$)/) continue
        split(line, f, /[ \t]+/); n++
        pat[n] = f[1]; allow[n] = f[2]
      }
      close(file)
      if (n == 0) { print file ":1: table is missing or empty" }
      return n
    }
    BEGIN { nl = load(dir "/layers.txt", lp, la); nt = load(dir "/libraries.txt", tp, ta)
      while ((getline line < present) > 0) { sub(/\.in$/, "", line); exists[line] = 1 }
    }
    # Every file has its room, also one that includes nothing.
    FNR == NR {
      for (i = 1; i <= nl; i++) if ($1 ~ ("^(" lp[i] ")")) next
      print $1 ":1: no row of tests/rules/layers.txt covers this file"
      next
    }
    {
      path = $1; where = path ":" $2; form = $3; name = $4
      for (i = 1; i <= nt; i++) if (name ~ ("^(" tp[i] ")$")) {
        if (path !~ ("^(" ta[i] ")$") && path !~ /^(tests|bench)\//) print where ": may not include <" name ">: allowed only in " ta[i]
        next
      }
      if (form == "a" && name !~ /^everyo\//) {
        print where ": unknown header <" name ">: a new library needs a row in tests/rules/libraries.txt and docs/dependencies.md"
        next
      }
      target = (name ~ /^everyo\//) ? "client/include/" name : name
      if (name !~ /\//) { print where ": \"" name "\" is not written from the repository root"; next }
      if (!(target in exists)) {
        print where ": \"" name "\" does not exist (includes are written from the repository root)"
        next
      }
      if (target ~ /^(tests|bench|deploy)\// && path !~ /^(tests|bench|deploy)\//) {
        print where ": nothing includes " target
        next
      }
      for (i = 1; i <= nl; i++) if (path ~ ("^(" lp[i] ")")) {
        # Its own folder is always allowed; the row says what else.
        own = path; sub(/[^\/]*$/, "", own)
        if (index(target, own) == 1 && substr(target, length(own) + 1) !~ /\//) next
        if (target !~ ("^(" la[i] ")")) print where ": may not include \"" name "\": this room may include " la[i]
        next
      }
    }' <(printf '%s\n' "${sources[@]}") "$includes" | report
fi
verdict "${#sources[@]}" files
