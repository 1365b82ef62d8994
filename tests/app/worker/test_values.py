"""Requests and replies survive a process border, and hold nothing that could not."""

import dataclasses
import pickle
from pathlib import Path
from typing import get_args

import pytest
from scripted_engine import DESCRIPTION

from app.values.chat_settings import ChatSettings, SamplingChoice
from app.worker.replies import (
    AnswerEvents,
    AnswerFailed,
    AnswerWithdrawn,
    CostsMeasured,
    DraftOutputInUse,
    LoadCancelled,
    LoadFailed,
    LoadProgress,
    MemoryHeld,
    ModelChanged,
    ModelLoaded,
    ModelUnloaded,
    OldestDropped,
    Problem,
    Reply,
    TokensCounted,
    WorkerFailed,
)
from app.worker.requests import (
    Ask,
    CancelLoad,
    ChangeSettings,
    CloseChat,
    CountTokens,
    LoadModel,
    MeasureCosts,
    Request,
    StopAnswer,
    UnloadModel,
)
from mlx_engine.values.conversation import (
    GenerationFinished,
    Message,
    PromptProgress,
    RoundFinished,
    TextPiece,
)
from mlx_engine.values.errors import Reason
from mlx_engine.values.options import DraftOptions, GenerationOptions, LoadOptions
from mlx_engine.values.stats import GenerationStats, RoundStats

SETTINGS = ChatSettings(
    system="Be brief.",
    sampling=SamplingChoice(temperature=0.0, seed=2**63),
    draft=DraftOptions(depth=3),
    generation=GenerationOptions(max_tokens=9, stop=("\n",)),
    thinking=False,
)
MESSAGES = (Message("user", "Why?"), Message("assistant", "Because.", "Hm."))
PROBLEM = Problem("bug", "KeyError", "words", "Traceback ...")
ROUND = RoundStats(7, 3, 3, 2, 3, 1.0, 9.0, 0.5, Reason("parked-cost", "It does not pay."))
REQUESTS: tuple[Request, ...] = (
    LoadModel("model", LoadOptions(heads=Path("h"), numerics="fast", context_length=99)),
    CancelLoad(),
    UnloadModel(),
    Ask("chat", "m1", MESSAGES[:1], SETTINGS),
    Ask("chat", "m2", MESSAGES, SETTINGS, drops_oldest=True),
    StopAnswer("chat"),
    ChangeSettings("chat", SETTINGS),
    MeasureCosts(),
    CountTokens(("some text",)),
    CloseChat("chat"),
)
REPLIES: tuple[Reply, ...] = (
    LoadProgress(None, 1, 2),
    ModelLoaded("model", DESCRIPTION),
    MemoryHeld(7),
    ModelChanged(DESCRIPTION),
    DraftOutputInUse("chat", "4-bit"),
    ModelUnloaded("words"),
    LoadFailed("model", PROBLEM),
    LoadCancelled("model"),
    CostsMeasured((1.0, 2.0), 0.5),
    TokensCounted(("some text",), (2,)),
    AnswerEvents(
        "chat",
        "m1",
        (
            PromptProgress(1, 2),
            TextPiece("So", depth=1, source="mtp"),
            RoundFinished(ROUND),
            GenerationFinished("end", GenerationStats(accepted_by_depth=(2, 1)), "So"),
        ),
    ),
    OldestDropped("chat", "m1", 4),
    AnswerFailed("chat", "m1", PROBLEM),
    AnswerWithdrawn("chat", "m1"),
    WorkerFailed(PROBLEM),
)


def name(value: object) -> str:
    return type(value).__name__


def test_every_kind_is_looked_at():
    assert {type(value) for value in REQUESTS} == set(get_args(Request))
    assert {type(value) for value in REPLIES} == set(get_args(Reply))


@pytest.mark.parametrize("value", [*REQUESTS, *REPLIES], ids=name)
def test_a_value_crosses_a_process_border(value):
    assert pickle.loads(pickle.dumps(value)) == value


@pytest.mark.parametrize("value", [*REQUESTS, *REPLIES], ids=name)
def test_a_value_is_plain_all_the_way_down(value):
    assert_plain(value)


def assert_plain(value: object) -> None:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            assert_plain(getattr(value, field.name))
            with pytest.raises(dataclasses.FrozenInstanceError):
                setattr(value, field.name, None)
    elif isinstance(value, tuple):
        for part in value:
            assert_plain(part)
    elif isinstance(value, dict):
        for part in (*value, *value.values()):
            assert_plain(part)
    else:
        assert value is None or isinstance(value, str | int | float | Path)
