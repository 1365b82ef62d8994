"""The corpus is the same for the same seed, and what is set aside stays aside."""

import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

TRAINING = Path(__file__).parents[2] / "assets" / "pocket_model" / "training"


@pytest.fixture(scope="module", autouse=True)
def training_code() -> Iterator[None]:
    sys.path.insert(0, str(TRAINING))
    yield
    sys.path.remove(str(TRAINING))


@pytest.fixture(scope="module")
def material(training_code: None) -> Any:
    from corpus import read_material

    return read_material()


def chats(material: Any, seed: int) -> list[Any]:
    from corpus import draw_chat

    draw = random.Random(seed)
    return [turn for _ in range(2000) for turn in draw_chat(material, draw)]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_same_seed_draws_the_same_chats(material: Any) -> None:
    assert chats(material, 1) == chats(material, 1)
    assert chats(material, 1) != chats(material, 2)


def test_set_aside_templates_are_not_trained() -> None:
    from phrasings import SET_ASIDE, TRAINED

    for form, templates in SET_ASIDE.items():
        assert not set(templates) & set(TRAINED[form])


def test_set_aside_names_are_never_asked(material: Any) -> None:
    aside = {fact.name for fact in material.set_aside}
    assert len(aside) == 23
    asked = " ".join(turn.question for turn in chats(material, 3))
    words = {word.strip("`().,?:!") for word in asked.split()}
    assert not words & aside


def test_a_known_fact_is_read_from_the_interpreter(material: Any) -> None:
    facts = {fact.name: fact for fact in material.known}
    assert facts["str.splitlines"].signature == "str.splitlines(keepends=False)"
    assert "absolute" in facts["abs"].text
    assert len(facts) > 400
