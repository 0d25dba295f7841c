"""The magics in a real kernel: what reaches the vendor, what is shown, how a cell fails, how it is stopped."""

from __future__ import annotations

import json
import time

import pytest

from tests.loopback import answer

from .conftest import CANARY, Kernel, Ran


def test_a_line_streams_its_answer_and_says_who_gave_it(kernel: Kernel) -> None:
    ran = kernel.run('%route what\'s {"a": 1} in $HOME?')
    assert ran.status == "ok"
    assert kernel.prompts() == ['what\'s {"a": 1} in $HOME?']
    reply, footer = ran.shown
    assert reply["data"] == {"text/plain": answer(), "text/markdown": answer()}
    assert reply["metadata"]["routekit"]["route"] == "chat"
    assert reply["metadata"]["routekit"]["served_by"] == "mock/m"
    assert footer["data"]["text/plain"].startswith("chat → mock/m · ")
    assert "color:#888" in footer["data"]["text/html"]
    assert ran.of("execute_result") == []
    assert ran.printed == ""


def test_names_are_replaced_and_told(kernel: Kernel) -> None:
    ran = kernel.run("x, m = 5, 'chat'\nans = %route -m {m} say {x}, not {y}?")
    assert kernel.prompts() == ["say 5, not {y}?"]
    assert ran.texts[-1].splitlines()[1:] == ["used: x (int, 1 B)", "left as text: {y}"]


def test_raw_replaces_nothing(kernel: Kernel) -> None:
    kernel.run("x = 5\n_ = %route -r say {x}")
    assert kernel.prompts() == ["say {x}"]


def test_a_local_name_is_a_name(kernel: Kernel) -> None:
    kernel.run("def f(inner):\n    return get_ipython().run_line_magic('route', 'say {inner}')\nf(7);")
    assert kernel.prompts() == ["say 7"]


@pytest.mark.parametrize(
    "body", ["\n\n\n  foo? {}\n\n\n", ">>> a\n... b", "%ls\n!x\nwhat's", "a\\\nb\\", "\tx\u2028y\x0cz "]
)
def test_a_cells_body_arrives_byte_for_byte(kernel: Kernel, body: str) -> None:
    assert kernel.run(f"%%route chat\n{body}").status == "ok"
    assert kernel.prompts() == [body]


def test_the_first_bare_word_of_a_cell_is_the_model_wherever_it_stands(kernel: Kernel) -> None:
    assert kernel.run("%%route -s Brief. mock/other -f text\nhi").status == "ok"
    assert kernel.loopback.requests[0].model == "other"
    assert kernel.prompts() == ["Brief.", "hi"]
    failed = kernel.run("%%route mock/other more words\nhi")
    assert failed.traceback[0].startswith("UsageError: %%route takes one model")
    assert kernel.loopback.count("other") == 1


def test_an_answer_is_silent_where_it_was_streamed_and_itself_later(kernel: Kernel) -> None:
    first = kernel.run("x = %route hi\nx")
    assert first.of("execute_result") == []
    later = kernel.run("x")
    assert later.of("execute_result")[0]["data"]["text/plain"] == answer()
    assert kernel.run("%route again").of("execute_result") == []
    last = kernel.run("print(_.text[:5], x.served_by)")
    assert last.printed.startswith("word1 mock/m")


def test_into_binds_and_quiet_shows_nothing(kernel: Kernel) -> None:
    ran = kernel.run("%route --quiet --into mine hi")
    assert ran.of("display_data", "update_display_data") == []
    assert kernel.run("print(mine.text)").printed.strip() == answer()
    assert kernel.run("%route -i 1x hi").traceback == ["UsageError: --into '1x' is no name for a variable"]
    assert kernel.loopback.count("m") == 1


def test_a_long_answer_is_updated_at_most_ten_times_a_second(kernel: Kernel) -> None:
    lines = "\n".join(f"line {number}" for number in range(3000))
    kernel.loopback.script("m", {"text": lines, "delay": 0.0005})
    ran = kernel.run("%route go")
    times = [at for at, message in ran.messages if message["msg_type"] in ("display_data", "update_display_data")]
    # the last state and the footer come when they come
    updates = times[:-2]
    assert len(updates) <= 10 * (updates[-1] - updates[0]) + 2
    assert len({content["transient"].get("display_id") for content in ran.of("update_display_data")}) <= 1
    assert ran.texts[0] == lines


def test_a_slow_answer_is_awaited_in_its_own_place(kernel: Kernel) -> None:
    kernel.loopback.script("m", {"hold": 1.4, "text": "late"})
    ran = kernel.run("%route hi")
    outputs = [content["data"]["text/plain"] for content in ran.of("display_data", "update_display_data")]
    assert outputs[0] == "waiting for chat… 1 s"
    assert ran.texts[0] == "late"
    assert len(ran.shown) == 2


def test_an_interrupt_keeps_the_text_and_ends_the_cell_at_once(kernel: Kernel) -> None:
    kernel.loopback.script("m", {"tokens": 2000, "delay": 0.02})
    assert kernel.run("%route --quiet -m mock/warm hi").status == "ok"
    asked = kernel.start("%route go on")
    ran = Ran()
    kernel.wait_for_output(asked, ran)
    kernel.interrupt()
    kernel.finish(asked, ran)
    assert ran.status == "error"
    assert ran.traceback == ["Interrupted: stopped; what had come is kept"]
    assert ran.texts[0].startswith("word1")
    assert ran.texts[0].endswith("\n(interrupted)")
    assert ran.shown[0]["data"]["text/markdown"].endswith("*(interrupted)*")
    seen = kernel.loopback.requests[-1]
    assert kernel.loopback.wait_for(lambda _: seen.closed_at is not None)
    assert seen.sent < 2000
    why = kernel.run("%routekit why --json")
    assert json.loads(why.texts[0])["attempts"][-1]["outcome"] == "cancelled"


def test_an_interrupt_before_the_first_word_ends_the_cell(kernel: Kernel) -> None:
    kernel.loopback.script("m", {"hang": "headers"})
    asked = kernel.start("%route go")
    assert kernel.loopback.wait_for(lambda there: len(there.requests) == 1, 10)
    kernel.interrupt()
    ran = kernel.finish(asked, Ran())
    assert ran.traceback == ["Interrupted: stopped before anything came"]


def test_a_failure_fails_the_cell_in_few_lines_and_soft_goes_on(kernel: Kernel) -> None:
    kernel.loopback.script("m", {"status": 401, "body": {"error": {"message": "no", "code": "invalid_api_key"}}})
    soft = kernel.run("err = %route --soft hi\nprint(type(err).__name__, err.exit_code)")
    assert soft.status == "ok"
    assert soft.printed.split()[-1] == "77"
    ran = kernel.run("%route hi\nprint('never')")
    assert ran.status == "error"
    assert ran.printed == ""
    assert len(ran.traceback) <= 5
    # The key is in a variable, and its vendor refuses it: a new one goes there, as a cell sets it.
    assert any(line.strip().startswith("try: %env ") for line in ran.traceback)


def test_a_cut_answer_stays_is_marked_and_fails(kernel: Kernel) -> None:
    kernel.loopback.script("m", {"tokens": 20, "cut_after": 5})
    ran = kernel.run("%route hi")
    assert ran.status == "error"
    assert ran.reply["content"]["ename"] == "TruncatedAnswer"
    assert ran.texts[0].startswith("word1 word2")
    assert ran.texts[0].endswith("(cut off)")


def test_a_substitute_is_named_with_the_reason(kernel: Kernel) -> None:
    kernel.loopback.script("first", {"status": 503})
    ran = kernel.run("%route -m pair hi")
    lines = ran.texts[-1].splitlines()
    assert lines[0].startswith("pair → mock/second")
    assert lines[1].startswith("not mock/first: 503")


def test_no_key_shows_anywhere(kernel: Kernel) -> None:
    said = {"error": {"message": f"Incorrect API key provided: {CANARY}", "code": "invalid_api_key"}}
    kernel.loopback.script("m", {"status": 401, "body": said})
    kernel.loopback.script("ok", {})
    everything = []
    for code in (
        "%xmode Verbose",
        "%route hi",
        "%tb",
        "%route -m mock/ok hi",
        "_.record",
        "%routekit why",
        "%routekit why --json",
        "%routekit keys list",
        "%routekit config show",
        "%routekit health",
        "%route --debug -m nope hi",
        "%route --soft hi",
        "%route --error -m mock/ok what now?",
        "%xmode Context",
    ):
        everything += [message for _, message in kernel.run(code).messages]
    assert CANARY not in json.dumps(everything, default=str)
    assert CANARY not in json.dumps(kernel.prompts())
    assert kernel.loopback.requests[0].header("authorization") == [f"Bearer {CANARY}"]


def test_the_last_error_is_asked_about(kernel: Kernel) -> None:
    failed = kernel.run("def f():\n    return undefined_thing\nf()")
    number = failed.reply["content"]["execution_count"]
    kernel.run("%route --error why {not_mine}?")
    prompt = kernel.prompts()[0]
    assert prompt.startswith("why {not_mine}?\n\n```\nTraceback")
    assert "NameError: name 'undefined_thing' is not defined" in prompt
    assert "/IPython/" not in prompt
    assert "```python\ndef f():" in prompt
    kernel.run(f"%route explain {{Err[{number}]}} of {{In[{number}]}}")
    assert "undefined_thing" in kernel.prompts()[-1]


def test_a_mistyped_verb_costs_nothing(kernel: Kernel) -> None:
    ran = kernel.run("%routekit modles")
    assert ran.traceback[0].startswith("UsageError: unknown command 'modles'; did you mean models")
    assert kernel.run("%route --fromat code hi").traceback[0].startswith("UsageError: unknown option --fromat")
    assert kernel.loopback.requests == []


def test_verbs_are_tables_with_a_plain_twin(kernel: Kernel) -> None:
    kernel.run("_ = %route hi")
    table = kernel.run("%routekit routes list").shown[0]["data"]
    assert "<table>" in table["text/html"]
    assert "chat" in table["text/plain"]
    preview = kernel.run("%routekit routes preview pair").shown[0]["data"]
    assert preview["text/html"].startswith("<svg ")
    assert "← would serve" in preview["text/plain"]
    for verb in ("stats", "health"):
        assert "<svg " in kernel.run(f"%routekit {verb}").shown[0]["data"]["text/html"]


def test_a_record_is_drawn_as_a_tree(kernel: Kernel) -> None:
    kernel.loopback.script("first", {"status": 503})
    kernel.run("ans = %route -m pair hi")
    data = kernel.run("ans.record").of("execute_result")[0]["data"]
    assert data["image/svg+xml"].startswith("<svg ")
    lines = data["text/plain"].splitlines()
    assert lines[0].startswith("▸ pair")
    assert lines[1].startswith("  ✕ mock/first")
    assert lines[2].startswith("  ● mock/second")


def test_completion_gives_models_formats_and_verbs(kernel: Kernel) -> None:
    def complete(code: str) -> list[str]:
        kernel.client.complete(code)
        return list(kernel.client.get_shell_msg(timeout=10)["content"]["matches"])

    assert complete("%route -m pa") == ["pair"]
    assert complete("%%route ch") == ["chat"]
    assert complete("%route -f ma") == ["markdown", "math"]
    assert complete("%routekit hea") == ["health"]
    assert complete("%routekit health r") == ["reset"]
    assert kernel.loopback.requests == []


@pytest.mark.parametrize(
    ("format", "text", "kind", "expected"),
    [
        ("code", "Sure:\n```python\nx = 1\n```\n", "text/plain", "x = 1\n"),
        ("json", '```json\n{"a": 1}\n```', "application/json", {"a": 1}),
        ("math", "\\[x^2\\]", "text/latex", "$$\nx^2\n$$"),
        ("text", "*a*", "text/plain", "*a*"),
        ("md", "![a](https://x.example/y.png)", "text/markdown", "[a](https://x.example/y.png)"),
    ],
)
def test_formats(kernel: Kernel, format: str, text: str, kind: str, expected: object) -> None:
    kernel.loopback.script("m", {"text": text})
    ran = kernel.run(f"%route -f {format} go")
    assert ran.shown[0]["data"][kind] == expected
    if format == "code":
        assert ran.reply["content"]["payload"][0]["text"] == "x = 1\n"


def test_html_is_shown_in_a_frame_that_can_do_nothing(kernel: Kernel) -> None:
    kernel.loopback.script("m", {"text": "<script>alert(1)</script><img src='https://x.example/p.png'>"})
    html = kernel.run("%route -f html go").shown[0]["data"]["text/html"]
    assert html.startswith('<iframe sandbox="" ')
    assert "<script" not in html
    assert "default-src &#x27;none&#x27;" in html


def test_the_config_is_read_again_when_it_changes(kernel: Kernel) -> None:
    kernel.run("_ = %route hi")
    kernel.config((kernel.home / "config.toml").read_text("utf-8") + '[routes.later]\ntargets = ["mock/late"]\n')
    assert kernel.run("%route -m later hi").status == "ok"
    assert kernel.loopback.count("late") == 1


def test_unloading_leaves_no_trace_and_loading_twice_is_quiet(kernel: Kernel) -> None:
    state = (
        "ip = get_ipython()\n"
        "f = ip.display_formatter.formatters\n"
        "def state():\n"
        "    import sys\n"
        "    return (sorted(ip.magics_manager.magics['line']), sorted(ip.magics_manager.magics['cell']),\n"
        "            list(map(repr, ip.input_transformers_cleanup)), list(map(repr, ip.Completer.custom_matchers)),\n"
        "            {k: list(map(repr, v)) for k, v in ip.events.callbacks.items()}, repr(sys.excepthook),\n"
        "            {k: sorted(map(str, v.deferred_printers)) for k, v in f.items()}, ip.CustomTB)\n"
    )
    kernel.run(f"{state}%unload_ext routekit\nbefore = state()")
    loaded = kernel.run("%load_ext routekit\nassert state() != before\n%load_ext routekit")
    assert loaded.status == "ok"
    assert loaded.of("display_data") == []
    used = kernel.run("ans = %route hi\nans.record")
    assert used.status == "ok"
    after = kernel.run("%unload_ext routekit\nassert state() == before")
    assert after.status == "ok", after.traceback
    assert kernel.run("%route hi").status == "error"
    assert kernel.run("%load_ext routekit").printed == ""


def test_a_conversation_goes_on_only_where_that_is_said(kernel: Kernel) -> None:
    kernel.run("%unload_ext routekit\n%load_ext routekit")
    kernel.loopback.script("m", {"text": "one"}, {"text": "two"}, {"text": "three"}, {"text": "four"})
    kernel.run("%route -m mock/m first")
    kernel.run("ans = %route -c second")
    kernel.run("%route alone")
    kernel.run("%route -c third")
    sent = [[message["content"] for message in seen.body["messages"]] for seen in kernel.loopback.requests]
    assert sent[0] == ["first"]
    assert sent[1] == ["first", "one", "second"]
    assert sent[2] == ["alone"]
    assert sent[3] == ["first", "one", "second", "two", "third"]
    assert [seen.model for seen in kernel.loopback.requests] == ["m"] * 4
    assert kernel.run("print(ans.conversation == ans.record.session)").printed.strip() == "True"


def test_an_interrupted_answer_is_part_of_the_conversation(kernel: Kernel) -> None:
    kernel.run("%unload_ext routekit\n%load_ext routekit")
    kernel.loopback.script("m", {"tokens": 500, "delay": 0.02}, {"text": "fine"})
    asked = kernel.start("%route -c go on")
    ran = Ran()
    kernel.wait_for_output(asked, ran)
    kernel.interrupt()
    kernel.finish(asked, ran)
    assert kernel.run("%route -c and then?").status == "ok"
    contents = [message["content"] for message in kernel.loopback.requests[-1].body["messages"]]
    assert contents[0] == "go on"
    assert contents[1].startswith("word1")
    assert contents[-1] == "and then?"


def test_a_schema_gives_data(kernel: Kernel) -> None:
    kernel.loopback.script("m", {"text": '{"name": "Rex", "age": 3}'})
    ran = kernel.run("dog = %route --schema 'name, age int' invent a dog\nprint(dog.data['age'] + 1)")
    assert ran.status == "ok", ran.traceback
    assert ran.printed.strip() == "4"
    assert ran.shown[0]["data"]["application/json"] == {"name": "Rex", "age": 3}


def test_files_go_along(kernel: Kernel) -> None:
    png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    kernel.run(f"import base64, pathlib\n_ = pathlib.Path('dot.png').write_bytes(base64.b64decode('{png}'))")
    kernel.run("_ = pathlib.Path('notes.txt').write_text('the notes\\n')")
    ran = kernel.run("%route -a dot.png --fragment notes.txt what is this?")
    assert ran.status == "ok", ran.traceback
    content = kernel.loopback.requests[0].body["messages"][0]["content"]
    assert content[0] == {"type": "text", "text": "the notes\nwhat is this?"}
    assert content[1]["type"] == "image_url"
    failed = kernel.run("%route --fragment absent.txt hi")
    assert failed.traceback == ["RequestRefused: absent.txt cannot be read: No such file or directory"]


def test_a_notebook_that_cannot_answer_says_so_instead_of_hanging(kernel: Kernel) -> None:
    ran = kernel.run("%routekit keys set mock")
    assert ran.status == "error"
    assert "this notebook can give none" in ran.traceback[0] or "UsageError" in ran.traceback[0]


def test_a_key_is_typed_hidden(kernel: Kernel) -> None:
    kernel.config(kernel.home.joinpath("config.toml").read_text("utf-8").replace('"env:MOCK_KEY"', '"keyring"'))
    asked = kernel.client.execute("%routekit keys set mock --store file", stop_on_error=False, allow_stdin=True)
    message = kernel.client.get_stdin_msg(timeout=20)
    assert message["content"]["password"] is True
    kernel.client.input("sk-typed-into-a-field-91")
    ran = kernel.finish(asked, Ran())
    assert ran.status == "ok", ran.traceback
    assert "sk-typed-into-a-field-91" not in json.dumps([message for _, message in ran.messages], default=str)
    kernel.run("_ = %route hi")
    assert kernel.loopback.requests[0].header("authorization") == ["Bearer sk-typed-into-a-field-91"]


def test_a_captured_answer_is_captured(kernel: Kernel) -> None:
    ran = kernel.run("%%capture got\n%route what?")
    assert ran.of("display_data", "update_display_data") == []
    assert kernel.run("print(got.outputs[0].data['text/plain'])").printed.strip() == answer()


def test_a_fault_of_our_own_is_one_line_without_its_words(kernel: Kernel) -> None:
    broken = "class Odd:\n    shape = (1, 2)\nOdd.__module__ = 'pandas'\nOdd.__name__ = 'DataFrame'\nodd = Odd()\n"
    ran = kernel.run(f"{broken}%route say {{odd}}")
    assert ran.traceback == ["UsageError: {odd} cannot be written as text: AttributeError"]
    assert kernel.loopback.requests == []


def test_an_interrupt_of_a_command_is_one_line_too(kernel: Kernel) -> None:
    slow = 'key = "cmd:sleep 20"'
    kernel.config(kernel.home.joinpath("config.toml").read_text("utf-8").replace('key = "env:MOCK_KEY"', slow))
    asked = kernel.start("%xmode Verbose\nprint('now')\n%routekit keys check")
    ran = Ran()
    while "now" not in ran.printed:
        kernel.wait_for_output(asked, ran)
    time.sleep(0.3)
    kernel.interrupt()
    kernel.finish(asked, ran)
    assert ran.traceback == ["Interrupted: stopped"]


def test_what_needs_a_terminal_says_so(kernel: Kernel) -> None:
    assert kernel.run("%routekit chat").traceback[0] == "UsageError: chat is for terminals"
    assert kernel.run("%routekit config edit").traceback[0] == "UsageError: config edit is for terminals"


def test_a_command_that_waits_works_beside_the_kernels_loop(kernel: Kernel) -> None:
    ran = kernel.run("%routekit keys check")
    assert ran.status == "ok", ran.traceback
    assert "mock" in ran.texts[0]


def test_one_command_may_use_another_profile(kernel: Kernel) -> None:
    assert "demo-primary" in kernel.run("%routekit --profile demo routes list").texts[0]
    assert "mock/m" in kernel.run("%routekit routes list").texts[0]


def test_a_conversation_of_the_log_is_continued_by_its_id(kernel: Kernel) -> None:
    kernel.loopback.script("m", {"text": "one"}, {"text": "two"})
    kernel.run("ans = %route --log remember this")
    ran = kernel.run("kept = ans.conversation\nnext_one = %route --cid {kept} and now?")
    assert ran.status == "ok", ran.traceback
    assert kernel.prompts() == ["remember this", "remember this", "one", "and now?"]
    unkept = kernel.run("ans = %route -n hi\nprint(ans.conversation)")
    assert unkept.printed.strip() == "None"
