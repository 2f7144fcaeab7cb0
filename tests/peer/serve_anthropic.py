#!/usr/bin/env python3
"""The official anthropic client against `ferry serve`: does it find what it expects?

    pip install anthropic
    python tests/peer/serve_anthropic.py build/ferry tests/data/tales

The checkpoint is converted, a server started on a free port, and messages asked for as the client does it: whole and in
streams, with system texts, stop sequences, tools in both directions, counted tokens, errors, keys, and a client that leaves in
the middle of an answer. The client checks the form of every answer (pydantic), this script what they say. Exit status 1 when
something differs, 77 when the client is not installed. ./scripts/test does not run this."""
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import urllib.request

try:
    import anthropic
except ImportError:
    print("skipped: the Python package anthropic is not installed")
    sys.exit(77)

failures = 0
# (temperature is not a parameter of the newest client any more; the API still takes it)
GREEDY = {"temperature": 0}
TALE = "Tell me a story about a brave girl named Mia and an owl."
TOOLS = [
    {"name": "get_weather", "description": "The weather of a place", "input_schema": {
        "type": "object", "properties": {"city": {"type": "string", "enum": ["Paris", "Rome"]}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
        "required": ["city", "days"], "additionalProperties": False}},
    {"name": "stop", "input_schema": {"type": "object", "properties": {}}},
]


def check(name, ok, detail=""):
    global failures
    failures += not ok
    print(("ok   " if ok else "FAIL ") + name + ("" if ok else f": {detail!r}"))


def start(ferry, model, *options):
    p = subprocess.Popen([ferry, "serve", "-m", model, "--port", "0", *options], stderr=subprocess.PIPE, text=True)
    for line in p.stderr:
        if found := re.match(r"listening on (http://\S+)", line):
            return p, found[1]
    sys.exit("the server did not start")


def metric(url, name):
    req = urllib.request.Request(url + "/metrics", headers={"x-api-key": "k"})
    return float(re.search(rf"^ferry_{name} (\S+)$", urllib.request.urlopen(req).read().decode(), re.M)[1])


def texts(c):
    ask = dict(model="any", system="Be kind.", max_tokens=24, messages=[{"role": "user", "content": [{"type": "text", "text": TALE}]}], extra_body=GREEDY)
    whole = c.messages.create(**ask)
    text = whole.content[0].text
    check("a message", (whole.type, whole.role, whole.stop_reason, whole.usage.output_tokens) == ("message", "assistant", "max_tokens", 24), whole)
    check("with one block of text", len(whole.content) == 1 and whole.content[0].type == "text" and len(text) > 20, whole)
    with c.messages.stream(**ask) as s:
        events = [e.type for e in s]
        final = s.get_final_message()
    check("its stream says the same", final.content[0].text == text and final.stop_reason == "max_tokens", final)
    check("usage comes with it", final.usage.output_tokens == 24 and final.usage.cache_read_input_tokens > 0, final.usage)
    check("events in their order", events[:2] == ["message_start", "content_block_start"] and events[-1] == "message_stop"
          and events.count("content_block_stop") == 1 and events.count("message_delta") == 1, events)
    total = whole.usage.input_tokens + (whole.usage.cache_read_input_tokens or 0)
    count = c.messages.count_tokens(model="any", system="Be kind.", messages=ask["messages"]).input_tokens
    check("count_tokens counts what the message took", count == total, (count, total))
    word = text.split()[4]
    stopped = c.messages.create(**ask, stop_sequences=["zzz", word])
    check("a stop sequence ends it and is named", (stopped.stop_reason, stopped.stop_sequence) == ("stop_sequence", word)
          and stopped.content[0].text == text[:text.index(word)], stopped)
    sampled = dict(ask, extra_body={"temperature": 1, "top_p": 0.9, "top_k": 30, "seed": 7})
    check("the same seed, the same text", c.messages.create(**sampled).content == c.messages.create(**sampled).content)
    turns = [{"role": "user", "content": TALE}, {"role": "assistant", "content": text}, {"role": "user", "content": "And then?"}]
    more = c.messages.create(**{**ask, "messages": turns})
    check("a conversation goes on, from the cache", more.usage.cache_read_input_tokens > 24, more.usage)


def valid(block):
    return block.name == "stop" or (set(block.input) == {"city", "days"} and block.input["city"] in ("Paris", "Rome") and 1 <= block.input["days"] <= 9)


def calls(c):
    ask = dict(model="any", max_tokens=200, messages=[{"role": "user", "content": "How warm is it in Paris?"}], tools=TOOLS, extra_body=GREEDY)
    named = {"type": "tool", "name": "get_weather", "disable_parallel_tool_use": True}
    whole = c.messages.create(**ask, tool_choice=named)
    use = whole.content[0]
    check("a call that has to come", whole.stop_reason == "tool_use" and len(whole.content) == 1 and use.type == "tool_use" and valid(use), whole)
    with c.messages.stream(**ask, tool_choice=named) as s:
        pieces = "".join(e.partial_json for e in s if e.type == "input_json")
        final = s.get_final_message()
    check("its stream gives the same input", json.loads(pieces) == use.input == final.content[0].input, (pieces, use))
    check("the ids are new ones", use.id != final.content[0].id and use.id, use)
    some = [c.messages.create(**{**ask, "extra_body": {"temperature": 1.5, "seed": i}}, tool_choice={"type": "any", "disable_parallel_tool_use": True})
            for i in range(10)]
    check("any: one call, its input valid", all(m.stop_reason != "tool_use" or (len(m.content) == 1 and valid(m.content[0])) for m in some), some)
    none = c.messages.create(**{**ask, "max_tokens": 20}, tool_choice={"type": "none"})
    check("none: text", [b.type for b in none.content] == ["text"], none)
    auto = c.messages.create(**{**ask, "max_tokens": 20})
    check("auto: text or valid calls", all(b.type == "text" or valid(b) for b in auto.content), auto)
    back = [*ask["messages"], {"role": "assistant", "content": whole.content},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": use.id, "content": [{"type": "text", "text": "21 degrees"}]}]}]
    reply = c.messages.create(**{**ask, "max_tokens": 20, "messages": back})
    check("results go back in", reply.usage.output_tokens > 0 and reply.usage.input_tokens + reply.usage.cache_read_input_tokens
          == c.messages.count_tokens(model="any", messages=back, tools=TOOLS).input_tokens, reply)
    failed = [*back[:2], {"role": "user", "content": [{"type": "tool_result", "tool_use_id": use.id, "content": "no answer", "is_error": True}]}]
    check("also those of a failure", c.messages.create(**{**ask, "max_tokens": 5, "messages": failed}).type == "message")


def refusals(c, url):
    hi = [{"role": "user", "content": "a"}]
    image = [{"role": "user", "content": [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}]}]
    for name, ask in [
        ("no messages", dict(messages=[], max_tokens=5)),
        ("max_tokens 0", dict(messages=hi, max_tokens=0)),
        ("a bad temperature", dict(messages=hi, max_tokens=5, extra_body={"temperature": -1})),
        ("an image", dict(messages=image, max_tokens=5)),
        ("a tool that is not there", dict(messages=hi, max_tokens=5, tools=TOOLS, tool_choice={"type": "tool", "name": "x"})),
        ("a prompt that is too long", dict(messages=[{"role": "user", "content": "a b " * 2000}], max_tokens=5)),
    ]:
        for stream in (False, True):
            try:
                c.messages.create(model="x", stream=stream, **ask)
                check(f"{name} is refused (stream: {stream})", False)
            except anthropic.BadRequestError as e:
                check(f"{name} is refused (stream: {stream})", e.body["type"] == "error" and e.body["error"]["type"] == "invalid_request_error"
                      and e.body["error"]["message"], e.body)
    try:
        anthropic.Anthropic(base_url=url, api_key="wrong", max_retries=0).messages.create(model="x", max_tokens=5, messages=hi)
        check("a wrong key is refused", False)
    except anthropic.AuthenticationError as e:
        check("a wrong key is refused", e.body["error"]["type"] == "authentication_error", e.body)


def leaving(c, url):
    with c.messages.stream(model="x", max_tokens=400, messages=[{"role": "user", "content": TALE}], extra_body={"ignore_eos": True}) as s:
        next(iter(s))
    begin = time.monotonic()
    while metric(url, "slots_busy") > 0 and time.monotonic() - begin < 5:
        time.sleep(0.01)
    check("a client that leaves frees its slot", metric(url, "slots_busy") == 0)


def main():
    ferry, checkpoint = sys.argv[1:3]
    with tempfile.TemporaryDirectory() as tmp:
        model = str(pathlib.Path(tmp) / "m.gguf")
        subprocess.run([ferry, "convert", checkpoint, "--outtype", "f32", "-o", model, "-q"], check=True)
        p, url = start(ferry, model, "--api-key", "k", "-c", "1024", "--alias", "tale")
        c = anthropic.Anthropic(base_url=url, api_key="k", max_retries=0)
        texts(c)
        calls(c)
        refusals(c, url)
        leaving(c, url)
        p.terminate()
        check("the server ends", p.wait(10) == 0)
    sys.exit(failures > 0)


main()
