#!/bin/sh
# Usage: embed_templates.sh FILE   C source with the chat templates of FILE, for model/template/chat_template.h.
# A line "{# NAME: SUMMARY #}" begins each. As the renderer does, a template ignores a line end after "%}", and its last one.
set -eu
printf '#include "model/template/chat_template.h"\n\nconst fy_chat_builtin fy_chat_builtins[] = {\n'
awk '
function quoted(s) { gsub(/[\\"]/, "\\\\&", s); return "\"" s "\"" }
/^\{# .*: .* #\}$/ {
    if (begun) print "},"
    colon = index($0, ":")
    printf "    {%s, %s", quoted(substr($0, 4, colon - 4)), quoted(substr($0, colon + 2, length($0) - colon - 4))
    begun = 1; separator = ",\n     "
    next
}
{ printf "%s%s", separator, quoted($0); separator = (/%\}$/ ? "" : " \"\\n\"") "\n     " }
END { print "},"; print "    {0, 0, 0}," }
' "$1"
printf '};\n'
