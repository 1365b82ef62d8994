"""Nothing that sees a model's text takes time out of proportion to the text's length."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import process_time
from types import FrameType

import pytest

from app.store.chats import cut_snippet
from app.store.words import WordFinder, index_text
from app.values.attached_text import said_with
from app.window.transcript.code_colours import coloured_lines
from app.window.transcript.drafted_spans import aligned
from app.window.transcript.markdown_text import copied, markdown_html
from app.window.transcript.segment_column import link_definitions
from app.window.transcript.streaming_markdown import StreamingMarkdown, settled

UNITS = (
    "*  ", "*   ", "-  ", "- ", "> ", "[", "![", "(", "](", "[a](", "$", "$$", "$a", "\\(", "\\[",
    "`", "` ", "<", "<!--", "&", "_", "*_", "**a", "~~", "|", "|-", "|a|\n", "# ", "1. ", "\t",
    "  \n", "\n ", "[^1", "[^1]: a\n", "[a]: b\n", "\\", "{", "\\begin{align}\n", "\\hat{", "x^",
    "<sub>", "http://a(", "字**。", "> * ", "```\n", "```a\n```\n", "$$\n", "    a\n\n", "![[",
    "[[]", "- [ ] ", "a|b\n", "\\$", "x", '"', "a\n",
)  # fmt: skip
NESTED = (
    ("![", "](a)"),
    ("[", "](a)"),
    ("(", ")"),
    ("**", "**"),
    ("<sub>", "</sub>"),
    ("[^1", "]"),
)


def show(text: str) -> list[str]:
    stream = StreamingMarkdown()
    stream.append(f"Here:\n\n{text}\n\nDone.\n")
    stream.finish()
    definitions = link_definitions(stream.segments)
    return [
        markdown_html(segment.markdown, definitions) if segment.kind == "prose" else segment.code
        for segment in stream.segments
    ]


def split(text: str) -> None:
    stream = StreamingMarkdown()
    stream.append(text + "\n")
    stream.finish()


def find(text: str) -> None:
    index_text(text)
    finder = WordFinder(["zz", "a"])
    cut_snippet(text, finder)
    list(finder.ranges(text))


PATHS: dict[str, Callable[[str], object]] = {
    "shown": show,
    "copied": copied,
    "grows": lambda text: markdown_html(settled(text)),
    "found": find,
    "attached": lambda text: said_with(f"a\n\nAttachment x:\n\n{text}"),
    "drafted": lambda text: list(aligned(text, text[::-1])),
    "code": lambda text: list(coloured_lines(text, "")),
}
LONG = (("copied", unit) for unit in ("![", "\\(", "$$\n", "<sub>", "\\begin{align}\n", "[^1"))
VERY_LONG = (("split", unit) for unit in ("```\n", "x", "    a\n\nb\n\n", "\n"))


@contextmanager
def within(seconds: int) -> Iterator[None]:
    def fail(_: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"more than {seconds} s")

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def seconds(path: Callable[[str], object], text: str) -> float:
    began = process_time()
    path(text)
    return process_time() - began


def assert_linear(path: Callable[[str], object], text: Callable[[int], str], size: int) -> None:
    with within(60):
        short = max(0.003, seconds(path, text(size)))
        took = seconds(path, text(8 * size))
        if took >= 24 * short:  # once more: something else may have had the processor
            took = min(took, seconds(path, text(8 * size)))
    assert took < 24 * short, (text(20), short, took)


@pytest.mark.parametrize("name", PATHS)
def test_time_grows_with_the_text(name):
    for unit in UNITS:
        assert_linear(PATHS[name], lambda size, unit=unit: (unit * size)[:size], 300)
    for opened, closed in NESTED:
        width = len(opened + closed)
        assert_linear(
            PATHS[name],
            lambda size, o=opened, c=closed, w=width: o * (size // w) + "x" + c * (size // w),
            300,
        )


@pytest.mark.parametrize(("name", "unit"), [*LONG, *VERY_LONG])
def test_time_grows_with_a_long_text(name, unit):
    path, size = (split, 60_000) if name == "split" else (PATHS[name], 5_000)
    assert_linear(path, lambda size: (unit * size)[:size], size)
