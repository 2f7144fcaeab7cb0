#!/usr/bin/env python3
"""Does ferry render published chat templates as transformers does?

    pip install jinja2
    python tests/peer/templates.py build/ferry FILE.jinja...

Renders each template with each of the conversations below by jinja2, set up as transformers sets it up, and by
`ferry template --jsonl`: the same text, or both refuse. The exit status is 1 when one differs. llama.cpp's repository
has such templates in models/templates, which the source package of llama-cpp-python carries. ./scripts/test does not
run this."""
import datetime
import json
import os
import pathlib
import subprocess
import sys

from jinja2 import TemplateError, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

NOW = 1764000000


# --- the conversations -----------------------------------------------------------------------------------------------

def user(text):
    return {"role": "user", "content": text}


def assistant(text, **more):
    return {"role": "assistant", "content": text, **more}


def calls(*arguments):
    return [{"id": f"call{i:05}", "type": "function", "function": {"name": "weather", "arguments": a}}
            for i, a in enumerate(arguments)]


def result(i, text):
    return {"role": "tool", "name": "weather", "tool_call_id": f"call{i:05}", "content": text}


SYSTEM = {"role": "system", "content": "Be brief."}
TOOLS = [{"type": "function", "function": {"name": "weather", "description": "The weather of a city", "parameters": {
    "type": "object", "required": ["city"], "properties": {
        "city": {"type": "string", "description": "Its name"}, "days": {"type": "integer", "enum": [1, 2, 3]},
        "unit": {"type": ["string", "null"], "default": "C"}, "tags": {"type": "array", "items": {"type": "string"}},
        "where": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]}}}}},
    {"type": "function", "function": {"name": "time", "description": "The time", "parameters": {
        "type": "object", "properties": {}}}}]
DEEP = {"city": "Bonn", "days": 2, "where": {"x": 1.5}, "tags": ["a"]}
CASES = {
    "one": {"messages": [user("Hello <b>“ü”</b>")]},
    "system": {"messages": [SYSTEM, user("Hi")]},
    "developer": {"messages": [{"role": "developer", "content": "D"}, user("a")]},
    "turns": {"messages": [SYSTEM, user("Hi"), assistant("Hello!"), user("  And now?  ")]},
    "two of one": {"messages": [user("a"), user("b")]},
    "nothing": {"messages": []},
    "without a prompt": {"messages": [user("Hi"), assistant("Hello!")], "add_generation_prompt": False},
    "parts": {"messages": [user([{"type": "text", "text": "A"}, {"type": "text", "text": "B"}])]},
    "tools": {"messages": [user("Weather?")], "tools": TOOLS},
    "a call": {"messages": [SYSTEM, user("Weather?"), assistant("", tool_calls=calls(DEEP)), result(0, "sunny")],
               "tools": TOOLS},
    "a call without text": {"messages": [user("Weather?"), assistant(None, tool_calls=calls({"city": "Bonn"})),
                                         result(0, '{"t": 3}'), assistant("Sunny."), user("Thanks")], "tools": TOOLS},
    "arguments as text": {"messages": [user("Weather?"), assistant("", tool_calls=calls('{"city":"Bonn"}')),
                                       result(0, "sunny")], "tools": TOOLS},
    "two calls": {"messages": [user("Weather?"), assistant("x", tool_calls=calls({"city": "Bonn"}, {"city": "Rom"})),
                               result(0, "1"), result(1, "2")], "tools": TOOLS},
    "thoughts in the text": {"messages": [user("Hi"), assistant("<think>\nhm\n</think>\n\nHello!"), user("Ok")]},
    "thoughts": {"messages": [user("Hi"), assistant("Hello!", reasoning_content="I think"), user("Ok"),
                              assistant("Yes", reasoning_content="more", thinking="t2")]},
    "no thinking": {"messages": [user("Hi")], "extra": {"enable_thinking": False}},
    "settings": {"messages": [user("Hi")], "extra": {
        "enable_thinking": True, "reasoning_effort": "high", "thinking": True, "keep_past_thinking": True,
        "model_identity": "M", "builtin_tools": ["browser", "python"]}},
}


# --- jinja2 as transformers has it -----------------------------------------------------------------------------------

class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_same"), [], [], body).set_lineno(line)

    def _same(self, caller):
        return caller()


def refuse(message):
    raise TemplateError(message)


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    env.filters["tojson"] = lambda x, ensure_ascii=False, indent=None, separators=None, sort_keys=False: json.dumps(
        x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
    env.globals["raise_exception"] = refuse
    env.globals["strftime_now"] = lambda form: datetime.datetime.fromtimestamp(NOW, datetime.timezone.utc).strftime(form)
    return env


def theirs(template, case):
    """-> the text; None: refused"""
    try:
        return template.render(messages=case["messages"], tools=case.get("tools"), documents=None,
                               add_generation_prompt=case.get("add_generation_prompt", True), bos_token="<s>",
                               eos_token="</s>", **case.get("extra", {}))
    except Exception:  # of the template, or of Python where it asks for what is not there
        return None


def ours(program, file):
    """-> a text or None for each case"""
    lines = "".join(json.dumps({"add_generation_prompt": True, **case}) + "\n" for case in CASES.values())
    done = subprocess.run([program, "template", "--file", str(file), "--jsonl", "--bos-token", "<s>", "--eos-token", "</s>"],
                          input=lines, capture_output=True, text=True,
                          env={**os.environ, "SOURCE_DATE_EPOCH": str(NOW), "TZ": "UTC"})
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    if len(answers) != len(CASES):
        raise SystemExit(f"{file}: {done.stderr.strip() or 'lines are missing'}")
    return [None if "error" in a else a["text"] for a in answers]


def main():
    program, *files = sys.argv[1:]
    env, same, refused, differ = environment(), 0, 0, 0
    for file in map(pathlib.Path, files):
        template = env.from_string(file.read_text())
        for (name, case), got in zip(CASES.items(), ours(program, file)):
            want = theirs(template, json.loads(json.dumps(case)))
            same += want == got and want is not None
            refused += want is None and got is None
            if want != got:
                differ += 1
                print(f"{file.name}, {name}:\n  jinja2 {want!r:.300}\n  ferry  {got!r:.300}")
    print(f"{same} texts are the same, {refused} are refused by both, {differ} differ")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
