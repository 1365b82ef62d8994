"""Code is coloured line by line while it arrives, and by Pygments once it is complete."""

from hypothesis import given, settings
from hypothesis import strategies as st

from app.window.transcript.code_colours import LANGUAGES, LONGEST, LineReader, Word, pygments_words


def coloured(language: str, *lines: str) -> list[tuple[str, str]]:
    reader, state, found = LineReader(language), 0, []
    for line in lines:
        words, state = reader.read(line, state)
        found += [(line[w.start : w.start + w.length], w.colour) for w in words]
    return found


def test_a_line_of_python():
    assert coloured("python", "def f(x): return 'a' + 1.5  # why") == [
        ("def", "keyword"), ("f", "name"), ("return", "keyword"), ("'a'", "string"),
        ("1.5", "number"), ("# why", "comment"),
    ]  # fmt: skip


def test_strings_and_comments_over_lines():
    assert coloured("py", 'x = """one', 'two""" + y') == [
        ('"""one', "string"),
        ('two"""', "string"),
    ]
    assert coloured("c", "a /* b", "int", "c */ int") == [
        ("/* b", "comment"), ("int", "comment"), ("c */", "comment"), ("int", "keyword"),
    ]  # fmt: skip


def test_a_marker_in_a_string_opens_nothing():
    assert coloured("c", 'x = "/*"', "int")[-1] == ("int", "keyword")
    assert coloured("bash", "echo ${#a} # x")[-1] == ("# x", "comment")


def test_unknown_languages_have_no_keywords():
    assert coloured("klingon", "return 'a'") == [("'a'", "string")]


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(sorted(LANGUAGES)), st.text(alphabet="ab(\"'`/*#-<!>1 ", max_size=60))
def test_words_are_in_order_and_inside_the_line(language, line):
    words, _ = LineReader(language).read(line, 0)
    ends = [0, *(w.start + w.length for w in words)]
    assert all(w.length > 0 and w.start >= end for w, end in zip(words, ends, strict=False))
    assert ends[-1] <= len(line)


def test_pygments():
    lines = pygments_words('x = """a\nb"""\n\nint', "python")
    assert lines and len(lines) == 4
    assert lines[1] == [Word(0, 1, "string"), Word(1, 3, "string")]
    assert pygments_words("x", "klingon") is None
    assert pygments_words("x\n" * LONGEST, "python") is None
