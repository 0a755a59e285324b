#!/usr/bin/env bash
# docs/protocol.md describes every method that travels on the network, and shows no bytes but those of the golden transcripts.
# Usage: check_protocol.sh [ROOT]
# shellcheck source=tests/rules/lib.sh
. "$(dirname "$0")/../rules/lib.sh"

page=docs/protocol.md
table=proto/tables/messages.def
vectors=$(mktemp)
trap 'rm -f "$offences" "$vectors"' EXIT

n=0
while IFS=: read -r line row; do
  [[ $row =~ ^EO_MESSAGE\(\"([a-z.]+)\",\ [A-Z_]+,\ (CLIENT|PEER|EVENT), ]] || continue
  n=$((n + 1))
  method=${BASH_REMATCH[1]}
  grep -qE "^##+ ${method//./\\.}\$" "$page" || echo "$table:$line: $method has no heading in $page" | report
done < <(grep -n '^EO_MESSAGE(' "$table")

# Hex of the transcripts, one line of digits per file and frame part; a block of the page must be a part of one.
for file in tests/vectors/protocol-*/*.txt; do
  awk '/^[<>#]/ { if (text != "") print text; text = ""; next } { gsub(/ /, ""); text = text $0 } END { print text }' "$file"
done >"$vectors"

while IFS=: read -r line text; do
  grep -qF -- "$text" "$vectors" || echo "$page:$line: bytes that no golden transcript has" | report
done < <(awk '/^```hex$/ { inside = 1; start = FNR; text = ""; next } /^```/ { if (inside) print start ":" text; inside = 0; next } inside { gsub(/ /, ""); text = text $0 }' "$page")
verdict "$n" methods
