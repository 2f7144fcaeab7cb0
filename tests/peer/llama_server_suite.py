#!/usr/bin/env python3
"""llama-server's own test suite (tools/server/tests of llama.cpp, MIT) against `ferry serve`.

    pip install pytest requests openai wget filelock
    FERRY_LLAMA_CPP=~/llama.cpp python tests/peer/llama_server_suite.py [build/ferry] [-k WORD]

The suite is used as it lies in a checkout of llama.cpp ($FERRY_LLAMA_CPP, else ../llama.cpp beside the repository): it starts
tests/peer/llama_server, which translates the flags. The model is stories260K, converted from $FERRY_REAL, else ../shared/real.
Neither is part of the repository; without one of them the run is skipped.

Every case runs unchanged. What fails runs once more with the adaptations of `Adapted`: the words that another generator draws
are other words, and ?compat=llama asks for llama-server's names. What still fails has to be in BY_CHOICE, with the reason. Cases
that the suite skips or has commented out, because llama-server fails them, are switched on: ferry has to pass them.
Results are TAP on standard output, a table at the end. Exit status 1 when a case fails that is not in that list.
./scripts/test does not run this."""
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent

# Of things that ferry does not have: adapters at run time, several models, images, tools that the server runs, ...
NOT_OFFERED = {
    "test_lora", "test_mcp_servers", "test_proxy", "test_rerank", "test_router", "test_sleep", "test_stream", "test_tools_builtin",
    "test_vision_api", "test_compat_gcp",
}

PARTS = "the texts of a message's parts are joined without a separator, as they were written"
IMAGES = "images are a mistake of the request: status 400, not 500"
COMPLETIONS = "/completions is /v1/completions: OpenAI's form; llama-server's own is /completion"
CORS = "exact headers: what a page of a listed origin needs, no cookies, no method that is not there"
BERT = "the test counts BERT's tokens; stories260K, which stands in for it, needs more"
FORMAT = "ferry's slot files are its own: they name the model by its hash"

# Test, or test[part of its parameters]: why ferry does something else.
BY_CHOICE = {
    "test_server_props": "no answer tells a path",
    "test_server_model_aliases_and_tags": "a model has one name",
    "test_chat_completion[user_prompt": PARTS,
    "test_chat_template_assistant_prefill[prefill1": PARTS,
    "test_apply_chat_template": "the text is what transformers renders, BOS included",
    "test_completion_with_response_format[response_format1": "JSON schema's 'items' is a schema; a list is refused by name",
    "test_anthropic_tool_result_with_image": IMAGES,
    "test_anthropic_vision_format_accepted": IMAGES,
    "test_anthropic_empty_messages": "a conversation without a message is a mistake of the request",
    "test_ctx_shift_disabled_short_prompt[-1-248": "the last token needs no position: one more fits",
    "test_clear_and_restore": "the test reads marks in llama-server's log",
    "test_access_static_assets_without_api_key": "the page is one file",
    "test_correct_api_key": COMPLETIONS,
    "test_correct_api_key_anthropic_header": COMPLETIONS,
    "test_cors_options[Credentials": CORS,
    "test_cors_options[Methods": CORS,
    "test_cors_options[Headers": CORS,
    "test_slot_restore_legacy_token_list": FORMAT,
    "test_slot_save_restore": "a prompt takes its beginning from any slot: less is computed",
    "test_slot_ctx_not_exceeded": "the prompt fits stories15M's vocabulary; stories260K, which stands in for it, needs more tokens",
    "test_embedding_usage_single": BERT,
    "test_embedding_usage_multiple": BERT,
    "test_responses_stream_with_llama_telemetry": "an answer that its limit cuts is 'incomplete', as OpenAI has it",
}


# --- inside pytest ------------------------------------------------------------------------------------------------------------


class Adapted:
    """What a second run changes; nothing of the first but the download of models."""

    def __init__(self, utils):
        self.words(utils)
        self.names(utils)

    @staticmethod
    def words(utils):
        """llama.cpp's generator with seed 42 says "Suddenly"; ours says something else. Any word will do, but at temperature 0
        of a model that is at hand."""
        match = utils.match_regex

        def match_regex(regex, text):
            server = sys._getframe(1).f_globals.get("server")
            drawn = server is None or server.temperature != 0 or not str(server.model_hf_repo).endswith("stories260K")
            return match(regex, text) or (drawn and re.search(r"\w", text) is not None)

        utils.match_regex = match_regex

    @staticmethod
    def names(utils):
        """Every request asks for llama-server's names."""
        make_url = utils.ServerProcess.make_url

        def with_compat(self, path, host=None):
            return make_url(self, path + ("&" if "?" in path else "?") + "compat=llama", host)

        utils.ServerProcess.make_url = with_compat
        import openai

        begin = openai.OpenAI.__init__

        def init(self, *args, **kwargs):
            begin(self, *args, default_query={"compat": "llama"}, **kwargs)

        openai.OpenAI.__init__ = init


def pytest_sessionstart(session):
    """After conftest.py, before the tests are read."""
    import pytest
    import utils

    utils.ServerPreset.load_all = staticmethod(lambda: None)
    utils.download_file = lambda url, path=None: os.environ["LLAMA_SUITE_MODELS"] + "/draft.gguf"
    start = utils.ServerProcess.start

    def start_or_skip(self, *args, **kwargs):
        try:
            return start(self, *args, **kwargs)
        except RuntimeError:
            if self.process is None or self.process.returncode != 77:
                raise
        pytest.skip("not offered")

    utils.ServerProcess.start = start_or_skip
    if os.environ.get("LLAMA_SUITE_ADAPTED"):
        Adapted(utils)


def pytest_collection_modifyitems(items):
    import pytest

    for item in items:
        if item.module.__name__.split(".")[-1] in NOT_OFFERED:
            item.add_marker(pytest.mark.skip(reason="not offered"))


def pytest_runtest_logreport(report):
    skipped = report.outcome == "skipped"
    if report.when == "call" or report.outcome == "failed" or skipped:
        why = report.longrepr[2] if skipped else str(report.longrepr or "")
        with open(os.environ["LLAMA_SUITE_RESULTS"], "a") as f:
            f.write(json.dumps([report.nodeid, report.outcome, why]) + "\n")


# --- around it ----------------------------------------------------------------------------------------------------------------


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def convert(ferry, real, out):
    """stories260K, whole and in parts, a draft model for it, and the same with five of its tokens for filling in the middle."""
    coder = out / "coder"
    shutil.copytree(real / "stories260K-hf-f32", coder, copy_function=shutil.copyfile)
    coder.chmod(0o755)
    config = json.loads((coder / "tokenizer_config.json").read_text())
    marks = "<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|repo_name|>", "<|file_sep|>"
    config["added_tokens_decoder"] = {str(507 + i): {"content": mark, "special": True} for i, mark in enumerate(marks)}
    (coder / "tokenizer_config.json").write_text(json.dumps(config))
    subprocess.run([ferry, "convert", coder, "--outtype", "f32", "-q", "-o", out / "infill.gguf"], check=True)
    checkpoint = real / "stories260K-hf-f32"
    for name, kind, more in (("stories260K.gguf", "f32", []), ("split.gguf", "f32", ["--split-max-size", "480K"]),
                             ("draft.gguf", "q8_0", [])):
        subprocess.run([ferry, "convert", checkpoint, "--outtype", kind, "-q", "-o", out / name, *more], check=True)


def run(tests, env, results, what):
    results.unlink(missing_ok=True)
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "llama_server_suite", "--tb=short", *what],
        cwd=tests, env=dict(env, LLAMA_SUITE_RESULTS=str(results)), stdout=sys.stderr)
    found = {}
    for line in results.read_text().splitlines() if results.exists() else []:
        case, outcome, why = json.loads(line)
        found[case] = (outcome, why)
    return found


def switched_on(text, name):
    """Of a file, what llama-server does not pass and ferry has to: cases that are commented out, or skipped."""
    if name == "test_tool_call.py":
        begin, end = text.index("\n# @pytest.mark.parametrize"), text.index("\n@pytest.mark.slow\n", text.index("\n# @pytest.mark.param"))
        return text[:begin] + re.sub(r"^# ?", "", text[begin:end], flags=re.M) + text[end:]
    return re.sub(r"@pytest\.mark\.skip\(.*\n", "", text)


def run_switched_on(tests, env, results, work):
    found = {}
    for name, word in (("test_tool_call.py", "required_tool_tiny"), ("test_completion.py", "cache_vs_nocache")):
        copy = work / "unit" / name
        copy.parent.mkdir(exist_ok=True)
        copy.write_text(switched_on((tests / "unit" / name).read_text(), name))
        path = os.pathsep.join((str(HERE), str(tests)))
        cases = run(tests, dict(env, PYTHONPATH=path), results, ["-p", "conftest", str(copy), "-k", word])
        found.update({f"switched on: unit/{name}::" + case.split("::")[-1]: result for case, result in cases.items()})
    return found


def reason_for(case):
    name = case.split("::")[-1]
    for key, reason in BY_CHOICE.items():
        test, _, part = key.partition("[")
        if name.split("[")[0] == test and part.rstrip("]") in name:
            return reason
    return None


class Tap:
    def __init__(self):
        self.n = 0

    def line(self, ok, text):
        self.n += 1
        print(f"{'ok' if ok else 'not ok'} {self.n} - {text}", flush=True)


def main():
    args = sys.argv[1:]
    ferry = pathlib.Path(args.pop(0) if args and not args[0].startswith("-") else "build/ferry").resolve()
    repository = HERE.parent.parent
    checkout = pathlib.Path(os.environ.get("FERRY_LLAMA_CPP", repository.parent / "llama.cpp"))
    real = pathlib.Path(os.environ.get("FERRY_REAL", repository.parent / "shared/real"))
    tests = checkout / "tools/server/tests"
    tap = Tap()
    for needed in (tests / "utils.py", real / "stories260K-hf-f32"):
        if not needed.exists():
            tap.line(True, f"llama_server_suite # SKIP llama_server_suite: there is no {needed}")
            return 0
    with tempfile.TemporaryDirectory() as tmp:
        work = pathlib.Path(tmp)
        convert(ferry, real, work)
        origins = "localhost,web.mydomain.fr,origin"
        env = dict(os.environ, FERRY=str(ferry), LLAMA_SUITE_MODELS=tmp, LLAMA_SUITE_ORIGINS=origins, PORT=str(free_port()),
                   LLAMA_SERVER_BIN_PATH=str(HERE / "llama_server"), PYTHONPATH=str(HERE))
        results = work / "results"
        first = run(tests, env, results, args or ["unit"])
        failed = [case for case, (outcome, _) in first.items() if outcome == "failed"]
        second = run(tests, dict(env, LLAMA_SUITE_ADAPTED="1"), results, failed) if failed else {}
        more = {} if args else run_switched_on(tests, env, results, work)
    return report(tap, first, second, more)


def report(tap, first, second, more):
    counts = dict.fromkeys(("passed unchanged", "passed adapted", "by choice", "not offered", "skipped by the suite", "failed"), 0)
    for case, (outcome, why) in first.items():
        late, late_why = second.get(case, (outcome, why))
        reason = reason_for(case)
        if outcome == "passed":
            kind, note = "passed unchanged", ""
        elif outcome == "skipped":
            kind = "not offered" if "not offered" in why else "skipped by the suite"
            note = f" # SKIP {kind}"
        elif late == "passed":
            kind, note = "passed adapted", " (adapted)"
        elif reason:
            kind, note = "by choice", f" # SKIP by choice: {reason}"
        else:
            kind, note = "failed", ""
            print("# " + late_why.replace("\n", "\n# "), file=sys.stderr)
        counts[kind] += 1
        tap.line(kind != "failed", case + note)
    for case, (outcome, why) in more.items():
        counts["failed"] += outcome != "passed"
        tap.line(outcome == "passed", case)
    print(f"# {len(first)} cases: " + ", ".join(f"{n} {kind}" for kind, n in counts.items()) + f"; {len(more)} switched on")
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
