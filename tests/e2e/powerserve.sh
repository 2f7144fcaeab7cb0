#!/usr/bin/env bash
# A workspace as `powerserve create` makes it: no manifest, workspace.json and hparams.json with its keys, its programs.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh
# shellcheck source=tests/serve_lib.sh
. tests/serve_lib.sh

w=$TMP/proj
"$FERRY" convert tests/data/tales --outtype q8_0 -o "$TMP/tales.gguf" -q
"$FERRY" create "$TMP/tales.gguf" -o "$TMP/ours" -q
mkdir -p "$w/bin" "$w/qnn_libs"
cp -r "$TMP/ours/tales" "$w/st-05b"
rm "$w/st-05b/parity.json"
cp "$TMP/ours/bin/ferry" "$w/bin/powerserve-run"
cp "$TMP/ours/bin/ferry" "$w/bin/powerserve-server"
# what its create writes for every model
cat >"$w/hparams.json" <<'JSON'
{"n_threads": 4, "batch_size": 128, "sampler": {"seed": 0, "temperature": 1.0, "top_p": 1.0, "top_k": 1, "min_keep": 0,
 "penalty_last_n": 64, "penalty_repeat": 1, "penalty_freq": 0, "penalty_present": 0, "penalize_nl": false, "ignore_eos": false}}
JSON
echo '{"executables": "bin", "hparams_config": "hparams.json", "model_main": "st-05b", "model_draft": ""}' >"$w/workspace.json"

text=$("$FERRY" run -d "$w" -p 'Once upon a time' -n 12 2>"$TMP/words")
check_equal "run -d computes its main model" "$("$FERRY" run -m "$TMP/tales.gguf" -p 'Once upon a time' -n 12 -q)" "$text"
check_equal "that there is no manifest is said once" 1 "$(grep -c 'a workspace of PowerServe: no manifest.json lists its files' "$TMP/words")"
check_equal "verify finds that its files fit each other" "$w: 7 files, which fit each other; not signed" \
    "$("$FERRY" verify "$w" 2>"$TMP/words" | tail -n 1 | sed -E 's/ [0-9.]+ MB,//')"
check_equal "and reports that once" 1 "$(grep -c 'no manifest.json' "$TMP/words")"
check "as JSON, too" jq -e '.ok and .files == 7' <("$FERRY" verify "$w" --json -q)
check_status "a signature that is asked for is not there" 4 "problem" "$FERRY" verify "$w" --require-signature
check_equal "inspect shows the model" "$("$FERRY" inspect "$TMP/tales.gguf" --json | jq -c '[.tensors[] | [.name, .type]]')" \
    "$("$FERRY" inspect "$w" --json 2>/dev/null | jq -c '[.tensors[] | [.name, .type]]')"
check "create makes a workspace of ours of it" "$FERRY" create "$w" -o "$TMP/again" -q
check "which verifies" "$FERRY" verify "$TMP/again" -q
check_equal "with the same weights" "$(sha256sum <"$w/st-05b/ggml/weights.gguf")" "$(cat "$TMP"/again/*/ggml/weights.gguf | sha256sum)"
check_status "what needs a manifest says how to get one" 1 "has no manifest.json; .*'ferry create' makes of this one of PowerServe" \
    "$FERRY" pack "$w" -o "$TMP/x.tar"

# --- its server's requests ----------------------------------------------------------------------------------------
"$FERRY" serve -d "$w" --port 0 -c 512 2>"$TMP/words" &
pid=$!
servers+=("$pid")
wait_address "$TMP/words"
check_equal "serve -d serves the main model by its name" '["st-05b"]' "$(curl -s "$url/v1/models" | jq -c '[.data[].id]')"
ask='{"model":"st-05b","prompt":"Once upon a time","max_tokens":12,"temperature":0,"top_p":1,"presence_penalty":0,"frequency_penalty":0,"repeat_penalty":1,"n":1,"best_of":1,"logprobs":0,"stream":false}'
check_equal "its texts are those of run" "$text" "$(post /completions "$ask" | jq -r '.choices[0].text')"
check_equal "under both paths" "$text" "$(post /v1/completions "$ask" | jq -r '.choices[0].text')"
check_equal "a stream ends with [DONE]" "$text data: [DONE]" \
    "$(post /v1/completions "${ask/false/true}" >"$TMP/stream"; sed -n 's/^data: {/{/p' "$TMP/stream" | jq -rj '.choices[0].text') $(grep . "$TMP/stream" | tail -1)"
chat='{"model":"st-05b","messages":[{"role":"user","content":"Tell me a tale"}],"max_tokens":12,"temperature":0,"repeat_penalty":1}'
said=$(post /chat/completions "$chat" | jq -c '.choices[0].message.content')
check_equal "main+draft is answered by the main model" "$said" "$(post /v1/chat/completions "${chat/st-05b/st-05b+draft}" | jq -c '.choices[0].message.content')"
check_equal "with one warning" 1 "$(post /completions "${ask/st-05b/a+b}" >/dev/null; grep -c 'names a model and a draft' "$TMP/words")"
check_equal "a model is not a path that is read" "$said" "$(post /chat/completions "${chat/st-05b/\/etc\/passwd}" | jq -c '.choices[0].message.content')"
check_equal "a request without messages is refused" 400 "$(curl -s -o /dev/null -w '%{http_code}' "$url/chat/completions" -d '{"model":"st-05b"}')"
kill -TERM "$pid"
wait "$pid"

# --- what is wrong in it is found -----------------------------------------------------------------------------------
cp -r "$w" "$TMP/bad"
jq '.llm_config.n_layers = 3' "$w/st-05b/model.json" >"$TMP/bad/st-05b/model.json"
check_status "a model.json of another model" 4 'problem' "$FERRY" verify "$TMP/bad"
cp -r "$w" "$TMP/less"
rm "$TMP/less/st-05b/ggml/weights.gguf"
check_status "weights that are not there" 1 'weights.gguf' "$FERRY" run -d "$TMP/less" -p x
cp -r "$w" "$TMP/link"
ln -s /etc/passwd "$TMP/link/st-05b/extra"
check_status "a link is not taken" 4 'extra: is neither a file nor a directory' "$FERRY" run -d "$TMP/link" -p x
cp -r "$TMP/ours" "$TMP/lost"
rm "$TMP/lost/manifest.json"
check_status "a workspace of ours that lost its manifest is not PowerServe's" 1 'has no manifest.json; expected' "$FERRY" run -d "$TMP/lost" -p x

# --- what its runtime was seen to do ----------------------------------------------------------------------------------
"$FERRY" convert tests/data/tales --outtype f32 -o "$TMP/f32.gguf" -q
check_status "create warns of weights that are f32 throughout" 0 "PowerServe's runtime could not compute.*all weights are f32, on which it crashes" \
    "$FERRY" create "$TMP/f32.gguf" --no-parity -o "$TMP/w32"
finish
