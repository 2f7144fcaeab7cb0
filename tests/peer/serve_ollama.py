#!/usr/bin/env python3
"""The official ollama client against `ferry serve`: does it find what it expects?

    pip install ollama
    python tests/peer/serve_ollama.py build/ferry tests/data/tales

The checkpoint is converted, a server started on a free port, and the client's calls made: list, ps, show, chat and generate,
with and without streams, schemas, tools, errors. Exit status 1 when something differs. ./scripts/test does not run this."""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

try:
    import ollama
except ImportError:
    sys.exit("SKIP: the Python package ollama is not installed (pip install ollama)")

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


def models(c):
    listed = c.list().models
    check("the model is listed", [m.model for m in listed] == ["tale"] and listed[0].details.format == "gguf", listed)
    check("it runs", [m.model for m in c.ps().models] == ["tale"])
    shown = c.show("tale")
    check("it is shown", shown.modelinfo["general.architecture"] == "llama" and "completion" in shown.capabilities, shown)


def texts(c):
    options = {"temperature": 0, "num_predict": 24}
    messages = [{"role": "user", "content": "Tell me a tale."}]
    whole = c.chat("tale", messages, options=options)
    check("a chat is answered", whole.done and whole.done_reason == "length" and whole.eval_count == 24 and whole.total_duration > 0, whole)
    parts = list(c.chat("tale", messages, options=options, stream=True))
    check("its stream says the same", "".join(p.message.content for p in parts) == whole.message.content and parts[-1].done, parts)
    check("generate says the same", c.generate("tale", "Tell me a tale.", options=options).response == whole.message.content)
    check("in a stream, too", "".join(p.response for p in c.generate("tale", "Tell me a tale.", options=options, stream=True)) == whole.message.content)
    schema = {"type": "object", "properties": {"city": {"enum": ["Paris", "Rome"]}}, "required": ["city"], "additionalProperties": False}
    held = c.chat("tale", messages, format=schema, options={"temperature": 1})
    check("a schema holds", json.loads(held.message.content)["city"] in ("Paris", "Rome"), held)

    def add(a: int, b: int) -> int:
        """Adds.

        Args:
            a: one
            b: another
        """
        return a + b

    seen = c.chat("tale", messages, tools=[add], options=options)
    check("tools are shown", seen.prompt_eval_count > whole.prompt_eval_count, seen)
    call = ollama.Message.ToolCall(function=ollama.Message.ToolCall.Function(name="add", arguments={"a": 1, "b": 2}))
    history = [*messages, ollama.Message(role="assistant", tool_calls=[call]), {"role": "tool", "tool_name": "add", "content": "3"}]
    check("and their results", c.chat("tale", history, tools=[add], options=options).done)
    check("no messages load the model", c.chat("tale").done_reason == "load" and c.generate("tale").done_reason == "load")


def refusals(c):
    for name, message, ask in [
        ("a context beyond the slot", "num_ctx.*9999.*1024", dict(options={"num_ctx": 9999})),
        ("a format that is none", "format", dict(format={"type": "strange"})),
        ("a picture", "images", dict(messages=[{"role": "user", "content": "a", "images": [b"x"]}])),
    ]:
        try:
            c.chat(**{"model": "tale", "messages": [{"role": "user", "content": "a"}], **ask})
            check(name + " is refused", False)
        except ollama.ResponseError as e:
            check(name + " is refused", e.status_code == 400 and re.search(message, e.error), e.error)


def main():
    ferry, checkpoint = sys.argv[1:3]
    with tempfile.TemporaryDirectory() as tmp:
        model = str(pathlib.Path(tmp) / "m.gguf")
        subprocess.run([ferry, "convert", checkpoint, "--outtype", "f32", "-o", model, "-q"], check=True)
        p, url = start(ferry, model, "-c", "1024", "--alias", "tale")
        c = ollama.Client(host=url)
        models(c)
        texts(c)
        refusals(c)
        p.terminate()
        check("the server ends", p.wait(10) == 0)
    sys.exit(failures > 0)


main()
