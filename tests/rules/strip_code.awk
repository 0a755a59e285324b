# Prints `path:line:code` for each line of C files, with comments and the text of literals blanked, so that a search for
# a function finds calls and not words. (Line continuations inside literals do not occur in this code base.)
FNR == 1 { in_comment = 0 }
{
    line = $0; out = ""; i = 1; n = length(line)
    while (i <= n) {
        two = substr(line, i, 2); c = substr(line, i, 1)
        if (in_comment) {
            if (two == "*/") { in_comment = 0; i += 2; out = out " " } else i++
        } else if (two == "/*") { in_comment = 1; i += 2
        } else if (two == "//") { break
        } else if (c == "\"" || c == "'") {
            out = out c; i++
            while (i <= n && substr(line, i, 1) != c) i += (substr(line, i, 1) == "\\") ? 2 : 1
            out = out c; i++
        } else { out = out c; i++ }
    }
    print FILENAME ":" FNR ":" out
}
