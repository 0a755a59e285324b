#!/usr/bin/env bash
# Every folder of code has its README.md, and every relative link in a Markdown file leads somewhere, heading anchors too.
# shellcheck source=tests/rules/lib.sh
. "$(dirname "$0")/lib.sh"

mapfile -t pages < <(files '\.md$')
n=${#pages[@]}

for room in proto backends distributed daemon client tests bench deploy docs; do
  [[ -d $room ]] || continue
  [[ -f $room/README.md ]] || echo "$room/README.md:1: missing: say what lives here, its rule, how to add one more" | report
done
files '^(proto|backends|distributed|daemon|client/(lib|cli))/.*\.(c|def|cu)$' | sed 's|/[^/]*$||' | sort -u | while IFS= read -r folder; do
  [[ -f $folder/README.md ]] || echo "$folder/README.md:1: missing: say what lives here, its rule, how to add one more"
done | report

# anchors FILE: GitHub's names of its headings.
anchors() {
  awk '/^ ? ? ?```/ { fence = !fence } !fence && /^#+ / {
    sub(/^#+ +/, ""); sub(/ +#*$/, ""); text = tolower($0)
    gsub(/[^a-z0-9 _-]/, "", text); gsub(/ /, "-", text)
    print (seen[text]++ ? text "-" seen[text] - 1 : text)
  }' "$1"
}

for page in "${pages[@]}"; do
  # Links of one page as `line target`; code is not searched.
  awk '/^ ? ? ?```/ { fence = !fence; next } fence { next } {
    text = $0; gsub(/`[^`]*`/, "", text)
    while (match(text, /\]\([^() \t]+\)/)) {
      print FNR, substr(text, RSTART + 2, RLENGTH - 3); text = substr(text, RSTART + RLENGTH)
    }
    if (match(text, /^\[[^]]+\]:[ \t]+[^ \t]+/)) { sub(/^\[[^]]+\]:[ \t]+/, "", text); sub(/[ \t].*/, "", text); print FNR, text }
  }' "$page" | while read -r line target; do
    [[ $target =~ ^[a-z][a-z0-9+.-]*: ]] && continue
    path=${target%%#*}
    anchor=${target#"$path"}
    folder=$(dirname "$page")
    if [[ -z $path ]]; then
      file=$page
    elif [[ $path == /* ]]; then
      file=.$path
    else
      file=$folder/$path
    fi
    if [[ ! -e $file ]]; then
      echo "$page:$line: dead link $target"
    elif [[ -n $anchor && $file == *.md ]] && ! anchors "$file" | grep -qxF -- "${anchor#\#}"; then
      echo "$page:$line: no heading for $target"
    fi
  done | report
done
verdict "$n" pages
