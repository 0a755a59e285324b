# Shared by the house-rule checks: the list of files, the reports, the verdict. Sourced, not run.
# A check takes one argument, the root of the tree (default: $EO_SOURCE_DIR, else this checkout). Each offence is one line
# `path:line: what is wrong`; the last line sums up. Exit: 0 clean, 1 offences, 77 cannot be checked here.
set -euo pipefail
export LC_ALL=C

rule_name=$(basename "$0" .sh)
rules_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=${1:-${EO_SOURCE_DIR:-$(cd "$rules_dir/../.." && pwd)}}
cd "$root" || exit 70
offences=$(mktemp)
trap 'rm -f "$offences"' EXIT

# all_files: every file of the project, one a line: what git tracks or would track; without git, all but build/.
all_files() {
  if [[ -e .git ]] && command -v git >/dev/null; then
    git -c safe.directory='*' ls-files --cached --others --exclude-standard | while IFS= read -r f; do
      [[ -f $f ]] && printf '%s\n' "$f"
    done
  else
    find . -path ./build -prune -o -type f -print | sed 's|^\./||'
  fi | sort -u
}

# files REGEX: those whose path matches.
files() { all_files | grep -E -- "$1" || true; }

# report: reads `path:line: text` lines from stdin.
report() { cat >>"$offences"; }

skip() {
  printf '%s: skipped: %s\n' "$rule_name" "$1"
  exit 77
}

# verdict N WHAT: prints the offences and exits. N things were looked at; none at all is a failure of the check itself.
verdict() {
  local n
  sort -u -t: -k1,1 -k2,2n "$offences"
  n=$(sort -u "$offences" | wc -l)
  if ((n > 0)); then
    printf '%s: %d offence(s) in %d %s\n' "$rule_name" "$n" "$1" "$2"
    exit 1
  fi
  if (($1 == 0)); then
    printf '%s: found no %s to check below %s\n' "$rule_name" "$2" "$root"
    exit 1
  fi
  printf '%s: %d %s, no offence\n' "$rule_name" "$1" "$2"
  exit 0
}
