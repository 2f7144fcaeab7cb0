#!/usr/bin/env bash
# The server's page in a real browser: headless Chromium, driven through chromedriver (Debian: chromium-driver) with curl.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/lib.sh
. tests/lib.sh

if ! command -v chromedriver >/dev/null; then
    skip "the page in headless Chromium" "no chromedriver (Debian: chromium-driver)"
    finish
    exit
fi
m=$TMP/tales.gguf
$FERRY convert tests/data/tales --outtype f32 -o "$m" -q
pids=() session=
trap '[ -z "$session" ] || curl -s -X DELETE "$driver/session/$session" >/dev/null; kill -KILL "${pids[@]}" 2>/dev/null; wait 2>/dev/null; rm -rf "$TMP"' EXIT
# wait_line FILE SED: the first line of what the sed program prints of FILE
wait_line() {
    has_line() { line=$(sed -n "$2" "$1" | head -1) && [ -n "$line" ]; }
    local line
    wait_for 120 has_line "$@"
    echo "$line"
}
# (by the slow kernels, so that there is time to stop an answer)
FY_CPU_MASK=0 $FERRY serve -m "$m" --port 0 -c 32768 2>"$TMP/serve" &
pids+=($!)
url=$(wait_line "$TMP/serve" 's/^listening on //p')
chromedriver --port=0 >"$TMP/driver" 2>&1 &
pids+=($!)
driver=http://127.0.0.1:$(wait_line "$TMP/driver" 's/.*started successfully on port \([0-9]*\).*/\1/p')

wd() { curl -s "$driver/session/$session/$1" -d "${2-{\}}"; } # COMMAND JSON: the answer
# begin ARGUMENT...: a browser with a profile of its own
begin() {
    [ -z "$session" ] || curl -s -X DELETE "$driver/session/$session" >/dev/null
    session=$(jq -n '{capabilities: {alwaysMatch: {browserName: "chrome", "goog:loggingPrefs": {browser: "ALL"},
        "goog:chromeOptions": {args: (["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"] + $ARGS.positional)}}}}' \
        --args -- "$@" | curl -s "$driver/session" -d @- | jq -r .value.sessionId)
    wd url "{\"url\": \"$url/\"}" >/dev/null
}
js() { jq -n --arg s "$1" '{script: $s, args: []}' | curl -s "$driver/session/$session/execute/sync" -d @- | jq -r '.value | if type == "string" then . else tojson end'; }
keys() { # TEXT: typed, key after key, into whatever has the focus
    jq -n --arg t "$1" '{actions: [{type: "key", id: "k", actions: [$t | split("")[] | {type: "keyDown", value: .}, {type: "keyUp", value: .}]}]}' |
        curl -s "$driver/session/$session/actions" -d @- >/dev/null
}
enter=$'\uE007' tab=$'\uE004' escape=$'\uE00C'
is_true() { [ "$(js "return Boolean($1)")" = true ]; }
wait_js() { wait_for 120 is_true "$1"; } # EXPRESSION: until it is true
idle='document.getElementById("log").getAttribute("aria-busy") === "false"'
answer='document.querySelector("article.model .body")'

begin --accept-lang=en
if ! wait_js 'document.getElementById("model").textContent === "tales"'; then
    not_ok "the page shows the model's name" "$(js 'return document.documentElement.outerHTML' | head -c 600)"
    finish
    exit
fi
ok "the page shows the model's name"
check_equal "the focus is in the message" input "$(js 'return document.activeElement.id')"
keys "Tell me a story about a brave girl named Mia and an owl.$enter"
check "a message typed and sent by keys is answered" wait_js "$answer && $idle && $answer.textContent.length > 20"
check "it says how fast" wait_js 'document.querySelector("article.model .tools span").textContent.includes("tokens/s")'
keys "Which animal is in the story?$enter"
check "the second answer took the first from the cache" wait_js \
    '[...document.querySelectorAll("article.model .tools span")].some(e => e.textContent.includes("from the cache"))'
# Buttons under a message; what the settings say is asked for.
press() { # ARTICLE BUTTON: presses the button of that text under the article of that number, the last one: -1
    js "[...[...document.querySelectorAll('article')].at($1).querySelectorAll('button')].find(b => b.textContent === '$2').click(); return 0" >/dev/null
}
last_info='[...document.querySelectorAll("article.model .tools span")].at(-1).textContent'
js 'show_options(); document.getElementById("o-max_tokens").value = "3"; document.getElementById("o-temperature").value = "0"; document.getElementById("dialog").close(); return 0' >/dev/null
press -1 Regenerate
check "Regenerate answers again, with the values of the settings" wait_js "$idle && document.querySelectorAll('article').length === 4 && $last_info.startsWith('3 tokens')"
check "an answer that its limit cuts tells it" wait_js 'document.querySelectorAll("article")[3].querySelector(".error")'
press 2 Edit
check_equal "Edit takes the message back into the field, and what came after it away" "Which animal is in the story? 2" \
    "$(js 'return document.getElementById("input").value + " " + document.querySelectorAll("article").length')"
js 'document.getElementById("input").value = ""; options.system = "Be brief."; return 0' >/dev/null
js 'return new Promise(done => { URL.createObjectURL = blob => { blob.text().then(done); return "#"; }; document.getElementById("export").click(); })' >"$TMP/exported"
check_equal "Export writes what the page shows" '["system","user","assistant"]' "$(jq -c 'map(.role)' "$TMP/exported")"
check "which ferry template reads" grep -q 'Be brief.' <("$FERRY" template -m "$m" --messages "$TMP/exported")
js 'options.system = ""; delete options.max_tokens; delete options.temperature; return 0' >/dev/null
js 'const send = fetch; fetch = (u, o) => send(u, o && o.body ? {...o, body: JSON.stringify({...JSON.parse(o.body), ignore_eos: true})} : o); return 0' >/dev/null
keys "Tell me a long story.$enter"
wait_js 'running' && keys "$escape"
check "Escape stops an answer" wait_js "$idle && [...document.querySelectorAll('.error')].some(e => e.textContent === 'Stopped.')"
is_idle() { curl -s "$url/metrics" | grep -x 'ferry_requests_running 0'; }
check "the server has a free slot again" wait_for 120 is_idle

# With keys alone: from the message back to the settings, and out again.
js 'document.getElementById("settings").focus(); return 0' >/dev/null
keys "$enter"
check "the settings open by a key" wait_js 'document.getElementById("dialog").open'
keys "Answer in one word."
keys "$escape"
check "Escape closes them and keeps them" wait_js '!document.getElementById("dialog").open && options.system === "Answer in one word."'
keys "$tab"
check "Tab moves on" wait_js 'document.activeElement !== document.body'

js 'location.reload(); return 0' >/dev/null
check "a conversation is there after a reload" wait_js 'document.querySelectorAll("article").length >= 4'

# What a model, a file or the storage says is text, never a part of the page.
js 'localStorage.setItem("ferry.chats", JSON.stringify([{messages: [{role: "user", content: "<img src=x onerror=window.bad=1>"},
    {role: "assistant", content: "<script>window.bad=1</script>\n```html\n<b>bold</b>\n```\n", reasoning_content: "<i>x</i>"}]}])); location.reload(); return 0' >/dev/null
check "tags stay text" wait_js 'document.getElementById("list").textContent.includes("<script>window.bad=1</script>")'
check_equal "nothing of it became an element" "0 true" \
    "$(js 'return document.querySelectorAll("#list img, #list script, #list b, #list i").length + " " + (window.bad === undefined)')"
check_equal "a script of another origin would not run" refused "$(js 'return new Promise(done => {
    document.addEventListener("securitypolicyviolation", () => done("refused"));
    const s = document.createElement("script"); s.textContent = "window.bad = 1"; document.body.append(s);
    setTimeout(() => done("ran"), 2000); })')"
check_equal "broken storage is an empty page" 0 "$(js 'localStorage.setItem("ferry.chats", "[{\"messages\":[3]}, 7"); location.reload(); return 0')"
check "it works again" wait_js 'document.querySelector(".empty")'
check_equal "the console is silent but for the refused script" 0 \
    "$(curl -s "$driver/session/$session/se/log" -d '{"type": "browser"}' | jq '[.value[] | select(.message | contains("Content Security Policy") | not)] | length')"

begin --accept-lang=de
check "a German browser reads German" wait_js 'document.getElementById("send").textContent === "Senden"'
light=$(js 'return getComputedStyle(document.body).backgroundColor')
wd goog/cdp/execute '{"cmd": "Emulation.setEmulatedMedia", "params": {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}}' >/dev/null
check_equal "a dark one is dark" "rgb(255, 255, 255) rgb(23, 23, 26)" "$light $(js 'return getComputedStyle(document.body).backgroundColor')"

finish
