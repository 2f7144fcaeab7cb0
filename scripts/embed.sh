#!/bin/sh
# Usage: embed.sh DIR FILE...   C source with the bytes of the files of DIR, under their names below it, for
# workspace/data/data_files.h. The same files in the same order give the same text.
set -eu
dir=$1
shift
printf '#include "workspace/data/data_files.h"\n\n'
i=0
for file; do
    printf 'static const unsigned char file_%d[] = {\n' "$i"
    od -An -v -tx1 "$file" | sed 's/ *\([0-9a-f][0-9a-f]\)/0x\1,/g'
    printf '};\n'
    i=$((i + 1))
done
printf '\nconst fy_data_file fy_data_files[] = {\n'
i=0
for file; do
    printf '    {"%s", file_%d, sizeof file_%d},\n' "${file#"$dir"/}" "$i" "$i"
    i=$((i + 1))
done
printf '    {0, 0, 0},\n};\n'
