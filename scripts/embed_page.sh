#!/bin/sh
# Usage: embed_page.sh PAGE.html   C source with the server's page and its Content-Security-Policy, which allows the one
# script and the one style of the page by their hashes and nothing else. Each stands between lines <TAG> and </TAG>.
set -eu
hash() { # TAG -> base64 of the SHA-256 of what stands between its tags
    awk -v tag="$1" '$0 == "</" tag ">" { inside = 0 } inside { print } $0 == "<" tag ">" { inside = 1; printf "\n" }' "$2" |
        sha256sum | sed 's/ .*//; s/../\\x&/g' | xargs -0 printf '%b' | head -c 32 | base64
}
printf '#include "server/page.h"\n\nstatic const unsigned char page[] = {\n'
od -An -v -tx1 "$1" | sed 's/ *\([0-9a-f][0-9a-f]\)/0x\1,/g'
printf '};\n\nconst fy_page fy_server_page = {\n    page, sizeof page,\n    "default-src %s; script-src %s; style-src %s; "\n' \
    "'none'" "'sha256-$(hash script "$1")'" "'sha256-$(hash style "$1")'"
printf '    "connect-src %s; img-src data:; base-uri %s; form-action %s; frame-ancestors %s"};\n' "'self'" "'none'" "'none'" "'none'"
