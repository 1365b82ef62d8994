"""Slash commands do what they say; bad ones give a helpful line and never end the chat."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from fake_runtime import FakeRuntime
from PIL import Image
from scripted_engine import DESCRIPTION, Answer

from mlx_engine.command_line.conversation import COMMANDS
from mlx_engine.values.options import CacheOptions, DraftOptions

Talk = Callable[..., FakeRuntime]


@pytest.fixture
def talk() -> Talk:
    """Type lines into a fresh chat."""

    def type_lines(*lines: str) -> FakeRuntime:
        runtime = FakeRuntime()
        runtime.type(*lines)
        assert runtime.run("chat") == 0
        return runtime

    return type_lines


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("/", "/help lists"),
        ("/dance", "There is no command /dance"),
        ("/stat", "did you mean /stats?"),
        ("/draft 9", "auto or 0 to 8"),
        ("/draft luck", "prompt-lookup"),
        ("/cache 5", "16, 8 or 4"),
        ("/cache 8 2", "head_bits=2"),
        ("/cache few", "a whole number"),
        ("/cache 8 4 4", "bits, head_bits"),
        ("/sampling warm", "key=value"),
        ("/sampling temperature=99", "0 to 10"),
        ("/sampling logit_bias=1:5000", "-1000 to 1000"),
        ("/stats", "no figures yet"),
        ("/regenerate", "send a message first"),
        ("/continue", "send a message first"),
        ("/edit", "/edit N TEXT"),
        ("/edit 1", "/edit N TEXT"),
        ("/edit one two", "/edit N TEXT"),
        ("/edit 5 text", "not one of yours"),
        ("/edit 0 text", "not one of yours"),
        (f"/edit {'9' * 5000} text", "not one of yours"),
        (f"/draft {'9' * 5000}", "auto or 0 to 8"),
        (f"/sampling seed={'9' * 5000}", "a whole number"),
        (f"/sampling logit_bias={'9' * 5000}:1", "ID:BIAS"),
        ("/save ~nobody-of-that-name/chat.md", "~nobody-of-that-name/chat.md is not possible"),
        ("/save a\0b.md", "could not be written"),
        ("/load a\0b.json", "not a chat"),
        ("/save", "Write /save FILE"),
        ("/save chat.exe", ".md or .json"),
        ("/save nowhere/at/all/chat.md", "cannot be written: No such file"),
        (f"/save {'x' * 300}.md", "cannot be written: File name too long"),
        ("/load /", "/ cannot be read: Is a directory"),
        ("/draft depth=9", "auto or 0 to 8"),
        ("/draft source=luck", "prompt-lookup"),
        ("/load", "Write /load FILE"),
        ("/load nowhere.json", "cannot be read: No such file"),
        ("/regenerate 5", "Write /regenerate alone"),
        ("/clear all", "Write /clear alone"),
        ("/quit now", "Write /quit alone"),
    ],
)
def test_a_bad_command_is_a_line(talk: Talk, line: str, says: str) -> None:
    runtime = talk(line, "Still here")
    assert says in runtime.err
    assert runtime.out == "You said: Still here\n"


def test_help_lists_every_command(talk: Talk) -> None:
    shown = talk("/help").err
    assert all(f"\n/{name} " in shown for name in COMMANDS)


def test_quit_leaves(talk: Talk) -> None:
    assert talk("/QUIT", "Not reached").out == ""


def test_two_slashes_send_one(talk: Talk) -> None:
    assert talk("//etc/hosts").out == "You said: /etc/hosts\n"


def test_system(talk: Talk) -> None:
    runtime = talk("/system Be brief.", "/system")
    assert runtime.engine.sessions[0].system == "Be brief."
    assert runtime.err.count("System prompt: Be brief.") == 2
    assert talk("/system x", "/system off").engine.sessions[0].system is None


def test_draft(talk: Talk) -> None:
    runtime = talk("/draft 2", "/draft")
    assert runtime.engine.sessions[0].draft == DraftOptions(depth=2)
    assert runtime.err.count("source=mtp depth=2") == 2
    assert "depth is set to 0" in talk("/draft off").err
    keyed = talk("/draft depth=2 source=prompt-lookup").engine.sessions[0].draft
    assert keyed == talk("/draft 2 prompt-lookup").engine.sessions[0].draft
    assert "switched off" in talk("/draft none").err


def test_the_cache_is_shown_and_set_and_kept_by_a_new_chat(talk: Talk) -> None:
    runtime = talk("/cache", "one", "/cache 8 4", "/cache 4", "/clear", "/cache")
    assert "16 bits\n" in runtime.err
    assert "8 bits, 4 for drafting (the next message reads" in runtime.err
    assert [one.cache for one in runtime.engine.sessions] == [CacheOptions(4, 4)]


def test_sampling(talk: Talk) -> None:
    runtime = talk("/sampling temperature=0 seed=3")
    sampling = runtime.engine.sessions[0].sampling
    assert (sampling.temperature, sampling.seed, sampling.top_k) == (0.0, 3, 20)
    assert "temperature=0 top_k=20" in runtime.err


def test_stats_show_depths_and_stages(talk: Talk) -> None:
    shown = talk("one two three four", "/stats").err
    for words in ("depth 1 ", "depth 3 ", "draft ", "verify ", "host ", "ms a pass", "19 GB"):
        assert words in shown


def test_regenerate_edit_and_continue(talk: Talk) -> None:
    runtime = talk("one", "two", "/edit 1 three", "/regenerate", "/continue")
    session = runtime.engine.sessions[0]
    assert [m.text for m in session.messages] == ["three", "You said: three" * 2]
    assert runtime.out.splitlines()[2:] == ["You said: three"] * 3


def test_an_answer_cannot_be_edited(talk: Talk) -> None:
    assert "not one of yours" in talk("one", "/edit 2 x").err


def test_a_complete_answer_is_not_continued_in_silence(talk: Talk) -> None:
    complete = FakeRuntime()
    complete.engine.answers = [Answer("All of it."), Answer("")]
    complete.type("one", "/continue")
    assert complete.run("chat") == 0
    assert "The answer is complete; /regenerate gives another." in complete.err
    assert "is complete" not in talk("one", "/continue").err


def test_messages_are_numbered(talk: Talk) -> None:
    shown = talk("/messages", "one", "/messages").err
    assert "There are no messages yet." in shown
    assert "  1 user      one\n  2 assistant You said: one\n" in shown


def test_oldest_turns_are_dropped_and_stay_listed(talk: Talk) -> None:
    shown = talk("one", "two", "/drop", "/messages").err
    assert "Messages 1 to 2 are not read any more; /continue goes on." in shown
    assert "  1 user      (not read) one\n" in shown
    assert "  3 user      two\n" in shown


def test_save_and_load(talk: Talk, tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    talk("/system Hm", "one", f"/save {path}")
    assert [m["text"] for m in json.loads(path.read_text())["messages"]] == ["one", "You said: one"]
    runtime = talk(f"/load {path}", "two")
    session = runtime.engine.sessions[-1]
    assert session.system == "Hm"
    assert [m.text for m in session.messages][:3] == ["one", "You said: one", "two"]


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    Image.new("RGB", (6, 4), "red").save(tmp_path / "photo.png")
    return tmp_path / "photo.png"


def test_pictures_go_with_the_next_message(photo: Path, tmp_path: Path) -> None:
    runtime, saved = FakeRuntime(), tmp_path / "chat.json"
    runtime.engine.description = replace(DESCRIPTION, vision=None)
    lines = (f"/image {tmp_path / 'none.png'}", f"/image {photo}", "two", "three", "/messages")
    runtime.type(*lines, f"/save {saved}", f"/load {saved}", "/image")
    assert runtime.run("chat", "--image", str(photo), "--image", str(photo)) == 0
    (session,) = runtime.engine.sessions
    asked = [message for message in session.messages if message.role == "user"]
    assert [len(message.images) for message in asked] == [3, 0]
    assert asked[0].images[0].decode().getpixel((0, 0)) == (255, 0, 0)
    assert "next message: 6 x 4, 6 x 4, 6 x 4" in runtime.err
    assert "none.png" in runtime.err
    assert "(3 pictures) two" in runtime.err
    assert runtime.err.rstrip().endswith("next message: none")
    assert "so that it cannot go on" not in runtime.err
    blind = FakeRuntime()
    blind.type(f"/load {saved}")
    assert blind.run("chat") == 0
    assert "so that it cannot go on with this model: /clear begins another" in blind.err


def test_a_path_may_be_quoted_or_escaped_as_a_terminal_does_with_dropped_files(
    photo: Path, tmp_path: Path
) -> None:
    runtime, odd = FakeRuntime(), photo.rename(tmp_path / "it's my photo.png")
    runtime.engine.description = replace(DESCRIPTION, vision=None)
    escaped = str(odd).replace("'", "\\'").replace(" ", "\\ ")
    runtime.type(*(f"/image {path}" for path in (odd, f'"{odd}"', escaped)))
    assert runtime.run("chat") == 0
    assert "next message: 6 x 4, 6 x 4, 6 x 4" in runtime.err


def test_pictures_for_a_model_that_sees_none(talk: Talk, photo: Path) -> None:
    runtime = talk(f"/image {photo}", "two")
    assert "for text alone" in runtime.err
    assert runtime.engine.sessions[-1].messages[0].images == ()
    assert runtime.run("chat", "--once", "a", "--image", str(photo)) == 2
    assert runtime.run("chat", "--once", "a", "--image", f"{photo}.jpg") == 2
    assert "photo.png.jpg" in runtime.err


def test_clear_keeps_the_settings(talk: Talk) -> None:
    runtime = talk("one", "/system Hm", "/draft 2", "/clear", "two")
    (session,) = runtime.engine.sessions
    assert [message.text for message in session.messages] == ["two", "You said: two"]
    assert (session.system, session.draft) == ("Hm", DraftOptions(depth=2))
