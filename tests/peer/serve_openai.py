#!/usr/bin/env python3
"""The official openai client against `ferry serve`: does it find what it expects?

    pip install openai
    python tests/peer/serve_openai.py build/ferry tests/data/tales

The checkpoint is converted, a server started on a free port, and every call that the client offers for it made: models,
chat, completions, responses and embeddings, with and without streams, log probabilities, several choices, stop strings, seeds, errors, keys, and a
client that leaves in the middle of an answer. The client checks the form of every answer (pydantic), this script what they
say. Exit status 1 when something differs. ./scripts/test does not run this."""
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import urllib.request

import openai

failures = 0


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


def metric(url, name, key):
    req = urllib.request.Request(url + "/metrics", headers={"Authorization": "Bearer " + key})
    return float(re.search(rf"^ferry_{name} (\S+)$", urllib.request.urlopen(req).read().decode(), re.M)[1])


def chats(c):
    messages = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": [{"type": "text", "text": "Tell me a tale."}]}]
    ask = dict(model="any", messages=messages, temperature=0, max_completion_tokens=24)
    whole = c.chat.completions.create(**ask)
    check("a chat is answered", whole.object == "chat.completion" and whole.choices[0].finish_reason == "length"
          and whole.usage.completion_tokens == 24, whole)
    text, roles, finish, usage = "", [], [], None
    for e in c.chat.completions.create(**ask, stream=True, stream_options={"include_usage": True}):
        if not e.choices:
            usage = e.usage
            continue
        d = e.choices[0].delta
        text += d.content or ""
        roles += [d.role] if d.role else []
        finish += [e.choices[0].finish_reason] if e.choices[0].finish_reason else []
    check("its stream says the same", text == whole.choices[0].message.content, text)
    check("one role, one end, usage last", roles == ["assistant"] and finish == ["length"] and usage.completion_tokens == 24, (roles, finish))
    check("the prompt came from the cache", usage.prompt_tokens_details.cached_tokens == usage.prompt_tokens - 1, usage)
    probs = c.chat.completions.create(**ask, logprobs=True, top_logprobs=5).choices[0]
    tokens = probs.logprobs.content
    check("log probabilities of every token", len(tokens) == 24 and all(len(t.top_logprobs) == 5 for t in tokens))
    check("their texts are the content", "".join(t.token for t in tokens) == probs.message.content)
    check("their bytes too", b"".join(bytes(t.bytes) for t in tokens).decode() == probs.message.content)
    three = c.chat.completions.create(**{**ask, "temperature": 1}, n=3, seed=4)
    check("three choices", [x.index for x in three.choices] == [0, 1, 2] and three.usage.completion_tokens > 24)
    again = c.chat.completions.create(**{**ask, "temperature": 1}, n=3, seed=4)
    check("the same seed, the same three", [x.message.content for x in three.choices] == [x.message.content for x in again.choices])
    stop = c.chat.completions.create(**ask, stop=[" upon", "zzz"]).choices[0]
    check("a stop string ends it", stop.finish_reason == "stop" and stop.message.content == "Once", stop)
    banned = c.chat.completions.create(**ask, logit_bias={str(408): -100}).choices[0]
    check("a bias forbids a token", not banned.message.content.startswith("Once"), banned)


def texts(c):
    whole = c.completions.create(model="x", prompt="Once upon a time", max_tokens=16, temperature=0, logprobs=3)
    choice = whole.choices[0]
    check("a completion", whole.object == "text_completion" and len(choice.logprobs.tokens) == 16)
    check("its tokens are its text", "".join(choice.logprobs.tokens) == choice.text, choice)
    check("with offsets", all(choice.text[o:].startswith(t) for o, t in zip(choice.logprobs.text_offset, choice.logprobs.tokens)))
    parts = [e.choices[0] for e in c.completions.create(model="x", prompt="Once upon a time", max_tokens=16, temperature=0, stream=True)]
    check("its stream says the same", "".join(p.text for p in parts) == choice.text)
    many = c.completions.create(model="x", prompt=["Once", "Once upon"], max_tokens=4, temperature=0, n=2)
    check("two prompts with two choices", [x.index for x in many.choices] == [0, 1, 2, 3])
    scored = c.completions.create(model="x", prompt="Once upon a time", max_tokens=0, echo=True, logprobs=1)
    check("a text is scored", scored.choices[0].text == "Once upon a time" and scored.choices[0].logprobs.token_logprobs[0] is None
          and scored.usage.completion_tokens == 0, scored)


def embeddings(c):
    texts = ["Once upon a time", "a fox"]
    whole = c.embeddings.create(model="x", input=texts)  # the client asks for base64
    check("texts have embeddings", [d.index for d in whole.data] == [0, 1] and whole.usage.prompt_tokens == whole.usage.total_tokens > 0, whole)
    check("of length 1", all(abs(sum(v * v for v in d.embedding) - 1) < 1e-5 for d in whole.data))
    check("as floats the same", c.embeddings.create(model="x", input=texts, encoding_format="float").data[1].embedding
          == c.embeddings.create(model="x", input=texts[1], encoding_format="float").data[0].embedding)


def responses(c):
    ask = dict(model="x", instructions="Be kind.", input="Tell me a tale.", temperature=0, max_output_tokens=24)
    whole = c.responses.create(**ask)
    check("a response is incomplete at its limit", whole.status == "incomplete" and whole.incomplete_details.reason == "max_output_tokens"
          and whole.usage.output_tokens == 24 and whole.output_text, whole)
    with c.responses.stream(**ask) as stream:  # the client puts the events together
        kinds = [e.type for e in stream]
    check("its stream says the same", "response.output_text.delta" in kinds and kinds[-1] == "response.incomplete", kinds)
    deltas = [e.delta for e in c.responses.create(**ask, stream=True) if e.type == "response.output_text.delta"]
    check("in pieces", "".join(deltas) == whole.output_text and len(deltas) > 10, deltas)
    schema = {"type": "object", "properties": {"city": {"enum": ["Paris", "Rome"]}}, "required": ["city"], "additionalProperties": False}
    held = c.responses.create(model="x", input="Hi", temperature=1, text={"format": {"type": "json_schema", "name": "a", "schema": schema}})
    check("a schema holds", json.loads(held.output_text)["city"] in ("Paris", "Rome"), held.output_text)
    tools = [{"type": "function", "name": "go", "description": "", "parameters": schema, "strict": True}]
    called = c.responses.create(model="x", input="Hi", temperature=1, tools=tools, tool_choice="required", parallel_tool_calls=False)
    call = called.output[0]
    check("a tool is called", call.type == "function_call" and call.name == "go" and json.loads(call.arguments)["city"], call)
    history = [{"role": "user", "content": "Hi"}, *[i.model_dump(exclude_none=True) for i in called.output],
               {"type": "function_call_output", "call_id": call.call_id, "output": "done"}]
    check("and answered", c.responses.create(model="x", input=history, tools=tools, max_output_tokens=3).usage.output_tokens <= 3)
    check("tokens are counted", c.responses.input_tokens.count(model="x", input="Hi").input_tokens > 5)
    try:
        c.responses.create(model="x", input="Hi", previous_response_id=called.id)
        check("an earlier response is refused", False)
    except openai.BadRequestError as e:
        check("an earlier response is refused", e.body["param"] == "previous_response_id", e.body)


def refusals(c, url):
    for name, error, ask in [
        ("no messages", openai.BadRequestError, dict(messages=[])),
        ("a bad temperature", openai.BadRequestError, dict(messages=[{"role": "user", "content": "a"}], temperature=-1)),
        ("a prompt that is too long", openai.BadRequestError, dict(messages=[{"role": "user", "content": "a b " * 2000}])),
    ]:
        try:
            c.chat.completions.create(model="x", **ask)
            check(name + " is refused", False)
        except error as e:
            check(name + " is refused", e.body["message"] and e.body["type"] and e.body["code"] == 400, e.body)
    try:
        openai.OpenAI(base_url=url + "/v1", api_key="wrong", max_retries=0).models.list()
        check("a wrong key is refused", False)
    except openai.AuthenticationError as e:
        check("a wrong key is refused", e.status_code == 401)
    try:
        c.models.retrieve("nothing")
        check("another model is not there", False)
    except openai.NotFoundError:
        check("another model is not there", True)


def leaving(c, url):
    stream = c.completions.create(model="x", prompt="Once", max_tokens=480, temperature=1, stream=True, extra_body={"ignore_eos": True})
    next(iter(stream))
    stream.close()
    begin = time.monotonic()
    while metric(url, "slots_busy", "k") > 0 and time.monotonic() - begin < 5:
        time.sleep(0.01)
    check("a client that leaves frees its slot", metric(url, "slots_busy", "k") == 0)


def main():
    ferry, checkpoint = sys.argv[1:3]
    with tempfile.TemporaryDirectory() as tmp:
        model = str(pathlib.Path(tmp) / "m.gguf")
        subprocess.run([ferry, "convert", checkpoint, "--outtype", "f32", "-o", model, "-q"], check=True)
        p, url = start(ferry, model, "--api-key", "k", "-c", "512", "--alias", "tale")
        c = openai.OpenAI(base_url=url + "/v1", api_key="k", max_retries=0)
        check("the model has its alias", [m.id for m in c.models.list()] == ["tale"] and c.models.retrieve("tale").id == "tale")
        chats(c)
        texts(c)
        embeddings(c)
        responses(c)
        refusals(c, url)
        leaving(c, url)
        p.terminate()
        check("the server ends", p.wait(10) == 0)
    sys.exit(failures > 0)


main()
