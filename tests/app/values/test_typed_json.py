"""Settings come back from JSON as they were; what is wrong is reset one by one and named."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.values.chat_settings import (
    ChatSettings,
    SamplingChoice,
    settings_from_json,
    settings_to_json,
)
from app.values.typed_json import encode, read_fields
from mlx_engine.values.options import DraftOptions, GenerationOptions, SamplingOptions


@dataclass(frozen=True, slots=True)
class Inner:
    count: int = 1
    ratio: float = 0.5


@dataclass(frozen=True, slots=True)
class Outer:
    name: str = "x"
    on: bool = False
    kind: Literal["a", "b", 3] = "a"
    path: Path | None = None
    blob: bytes = b""
    many: tuple[int, ...] = ()
    biases: Mapping[int, float] = field(default_factory=dict)
    inner: Inner = field(default_factory=Inner)
    named: Mapping[str, Inner] = field(default_factory=dict)


FULL = Outer(
    "é\ud800",
    True,
    3,
    Path("/a b"),
    b"\0\xff",
    (1, 2),
    {7: -1.5},
    Inner(2, 1.0),
    {"n": Inner(3, 0.0)},
)


def test_all_kinds_come_back():
    reading = read_fields(Outer(), json.loads(json.dumps(encode(FULL))), "s")
    assert reading.value == FULL and reading.notes == ()


@pytest.mark.parametrize(
    ("key", "wrong"),
    [
        ("name", 1),
        ("name", None),
        ("on", 1),
        ("on", "true"),
        ("kind", "c"),
        ("kind", 3.0),
        ("path", 5),
        ("path", "a\0b"),
        ("blob", "not base64!"),
        ("many", [1, "2"]),
        ("many", [True]),
        ("many", {"0": 1}),
        ("inner", 7),
        ("biases", [1]),
    ],
)
def test_a_wrong_value_is_reset_alone(key, wrong):
    content = encode(FULL) | {key: wrong}
    reading = read_fields(Outer(), content, "s")
    assert encode(reading.value) == encode(FULL) | {key: encode(Outer())[key]}
    assert len(reading.notes) == 1 and reading.notes[0].startswith(f"s.{key}: ")


def test_wrong_entries_inside_are_reset_alone():
    content = {
        "inner": {"count": "many", "ratio": 2},
        "biases": {"1": 1, "x": 2, "-1": 1, "3": "high", "4": float("nan")},
        "named": {"good": {"count": 5}, "bad": {"count": None}, "none": 3},
    }
    reading = read_fields(Outer(), content, "s")
    assert reading.value.inner == Inner(1, 2.0)
    assert reading.value.biases == {1: 1.0}
    assert reading.value.named == {"good": Inner(5), "bad": Inner(), "none": Inner()}
    assert len(reading.notes) == 7


def test_unknown_keys_are_kept_at_every_level():
    old = {"later": [1], "inner": {"more": True, "count": 9}, "named": {"n": {"x": 1}, "gone": {}}}
    content = encode(FULL, old)
    assert content["later"] == [1]
    assert content["inner"] == {"more": True, "count": 2, "ratio": 1.0}
    assert content["named"] == {"n": {"x": 1, "count": 3, "ratio": 0.0}}
    assert read_fields(Outer(), content, "s").value == FULL


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["draft", "depth", "load", "heads", "seed", "stop", "1"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(JSON | st.fixed_dictionaries(dict.fromkeys(("draft", "sampling", "load", "system"), JSON)))
def test_any_json_makes_settings(content):
    reading = settings_from_json(json.dumps(content))
    assert settings_from_json(settings_to_json(reading.value)).value == reading.value
    for note in reading.notes:
        assert len(note) < 200 and note.startswith("settings")


def test_sampling_an_older_version_wrote_down_unasked_was_not_chosen():
    old = json.dumps({"sampling": asdict(SamplingOptions()), "system": "Hm"})
    assert settings_from_json(old).value == ChatSettings(system="Hm")
    chosen = json.dumps({"sampling": asdict(SamplingOptions(0.0))})
    assert settings_from_json(chosen).value.sampling.over(SamplingOptions(0.6)).temperature == 0.0


def test_settings_of_a_chat_come_back():
    settings = ChatSettings(
        "/m",
        "Be brief.\n",
        DraftOptions("prompt-lookup", 8, 0.5, "greedy"),
        SamplingChoice(1.5, 40, 0.9, 0.05, 1.1, 0.2, -0.2, 2**64 - 1),
        GenerationOptions(100, ("a", "b"), True),
    )
    assert settings_from_json(settings_to_json(settings)).value == settings
    assert settings_from_json(settings_to_json(settings)).notes == ()
    assert settings_from_json("[" * 100_000).value == ChatSettings()


@pytest.mark.parametrize(
    "content",
    [{"sampling": {"temperature": 99}}, {"draft": {"depth": 9}}, {"generation": {"max_tokens": 0}}],
)
def test_values_out_of_range_are_reset(content):
    reading = settings_from_json(json.dumps(content))
    assert reading.value == ChatSettings() and len(reading.notes) == 1
