# A hub for test scripts (e2e/hub_server.c): its repositories, its faults, and a cache of its own. Sourced after lib.sh.
# shellcheck shell=bash
hub=$TMP/hub
export HF_HOME=$TMP/home HOME=$TMP/nobody
unset HF_TOKEN HUGGING_FACE_HUB_TOKEN HF_TOKEN_PATH HF_HUB_CACHE HUGGINGFACE_HUB_CACHE HF_HUB_OFFLINE TRANSFORMERS_OFFLINE \
    HF_HUB_DOWNLOAD_TIMEOUT HF_HUB_DISABLE_IMPLICIT_TOKEN http_proxy HTTP_PROXY all_proxy ALL_PROXY

# Files over 20 kB are in LFS, the others have the hash of git.
describe() { # REPO COMMIT REVISION: makes the reply about what is in its files
    local dir=$hub/files/$1/$2 name hash size
    mkdir -p "$hub/api/$1/$(dirname "$3")"
    (cd "$dir" && find . -type f -not -name '*.etag' -printf '%P\n' | sort) | while read -r name; do
        size=$(stat -c %s "$dir/$name")
        hash=$(git hash-object --no-filters "$dir/$name")
        if [ "$size" -gt 20000 ]; then
            sha256sum "$dir/$name" | cut -d' ' -f1 >"$dir/$name.etag"
            jq -n --arg n "$name" --arg h "$hash" --arg s "$(cat "$dir/$name.etag")" --argjson z "$size" \
                '{rfilename: $n, size: $z, blobId: $h, lfs: {sha256: $s, size: $z, pointerSize: 134}}'
        else
            echo "$hash" >"$dir/$name.etag"
            jq -n --arg n "$name" --arg h "$hash" --argjson z "$size" '{rfilename: $n, size: $z, blobId: $h}'
        fi
    done | jq -s --arg c "$2" --arg id "$1" '{_id: "1", id: $id, sha: $c, gated: false, cardData: {tags: ["ä"]}, siblings: .}' \
        >"$hub/api/$1/$3"
}
start_hub() {
    local port
    mkdir -p "$hub"
    mkfifo "$TMP/end"
    build/host/release/tests/e2e/hub_server "$hub" <"$TMP/end" >"$TMP/ports" 2>"$TMP/server.err" &
    server=$!
    exec 9>"$TMP/end"
    until [ -s "$TMP/ports" ]; do kill -0 $server || exit 1; done
    read -r port _ <"$TMP/ports"
    export HF_ENDPOINT=http://127.0.0.1:$port
}
stop_hub() {
    exec 9>&-
    wait $server
    check_equal "the server had nothing to say" "" "$(cat "$TMP/server.err")"
}

fresh() { # an empty cache, no faults, no requests
    rm -rf "$HF_HOME/hub" "$hub/faults" "$hub/log"
}
faults() { # LINES
    printf '%s\n' "$@" >"$hub/faults.new"
    mv "$hub/faults.new" "$hub/faults"
}
asked() { # PATTERN: how many requests
    touch "$hub/log"
    grep -cE -- "$1" "$hub/log"
}
