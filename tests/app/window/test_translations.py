"""The translations are complete, fit their originals, and are compiled as they are written."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import pytest
from PySide6.QtCore import QTranslator
from translations import MARKS, ROOT, SOURCES, TRANSLATIONS

MANY = 2
MARKED = re.compile(rf"\b({'|'.join(MARKS)})\(")


class Text(NamedTuple):
    """What tr and Words take: `comment` is the English of one where it is of a count."""

    text: str
    comment: str
    is_of_count: bool


def calls_in_the_source() -> Iterator[tuple[Path, list[ast.expr]]]:
    """What is called with a text: where, and with what."""
    for file in SOURCES:
        source = (ROOT / file).read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(source)) if MARKED.search(source) else ():
            match node:
                case ast.Call(ast.Name(name), [_, *_] as given) if name in MARKS:
                    yield file, given


def texts_in_the_source() -> set[Text]:
    found = set()
    for _, given in calls_in_the_source():
        match given:
            case [ast.Constant(text), *others]:
                comment = [other.value for other in others if isinstance(other, ast.Constant)]
                found.add(Text(text, "".join(comment[:1]), len(others) > 1))
    return found


def test_no_text_is_filled_in_before_it_is_translated():
    """Errors are said in the window's language too."""
    found = []
    for file, given in calls_in_the_source():
        match given[0]:
            case ast.JoinedStr() | ast.IfExp(body=ast.JoinedStr()) as text:
                found.append(f"{file}:{text.lineno}")
    assert found == []


def test_every_error_that_a_window_shows_is_gathered():
    """Those of requests of other programs are not shown, and one is made of its own fields."""
    kinds = re.compile(rf"^class (\w+)\((?:{'|'.join(MARKS)})\)", re.MULTILINE)
    made = {name for file in SOURCES for name in kinds.findall((ROOT / file).read_text("utf-8"))}
    assert made - {*MARKS} == {"TooManyAnswers", "ChoiceNeededError"}


def test_drafting_that_stops_for_a_while_is_called_paused_everywhere():
    said = [text.text for text in texts_in_the_source() if text.text.startswith("Drafting ")]
    assert len([text for text in said if text.startswith("Drafting is paused")]) > 1
    assert not [text for text in said if text.startswith("Drafting rests")]
    for file in TRANSLATIONS:
        assert "ruhen" not in file.read_text(encoding="utf-8")


def messages(file: Path) -> Iterator[tuple[Text, list[str]]]:
    """Each with its translations: that of one and that of many for a count."""
    for message in ElementTree.parse(file).iter("message"):
        translation = message.find("translation")
        assert translation is not None
        assert translation.get("type") is None, message.findtext("source")
        text = message.findtext("source", ""), message.findtext("comment", "")
        if message.get("numerus") == "yes":
            forms = [form.text or "" for form in translation.iter("numerusform")]
            yield Text(*text, True), forms
        else:
            yield Text(*text, False), [translation.text or ""]


def fields(text: str) -> list[str]:
    return sorted(re.findall(r"\{[^{}]*\}", text))


@pytest.mark.parametrize("file", TRANSLATIONS, ids=lambda file: file.stem)
def test_every_text_is_translated(file):
    translated = dict(messages(file))
    assert set(translated) == texts_in_the_source(), "run tests/helpers/translations.py"
    assert len(translated) > 600
    for text, forms in translated.items():
        assert all(forms), text
        assert fields(forms[-1]) == fields(text.text), text
        assert set(fields(forms[0])) <= {*fields(text.text), *fields(text.comment)}, text
        assert len(forms) == 1 + text.is_of_count, text


@pytest.mark.parametrize("file", TRANSLATIONS, ids=lambda file: file.stem)
def test_the_compiled_ones_are_those_that_are_written(file):
    compiled = QTranslator()
    assert compiled.load(str(file.with_suffix(".qm")))
    for text, forms in messages(file):
        counts = (1, MANY) if text.is_of_count else (-1,)
        said = [compiled.translate("", text.text, text.comment, count) for count in counts]
        assert said == forms, "run tests/helpers/translations.py"
