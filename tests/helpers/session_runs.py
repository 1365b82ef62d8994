"""Tiny engines with sessions, and what a session said, gathered from its events."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import mlx.core as mx
from chat_templates import QWEN
from tiny_qwen3_5 import Heads, write_tiny_qwen3_5

from mlx_engine.cache.contract import LayerCaches
from mlx_engine.cache.joint import ConversationCaches
from mlx_engine.decoding.session import Session
from mlx_engine.decoding.state import SequenceState
from mlx_engine.engine import Engine
from mlx_engine.loading.load import load_model
from mlx_engine.models.contract import Model
from mlx_engine.values.conversation import (
    Event,
    GenerationFinished,
    PromptProgress,
    RoundFinished,
    TextPiece,
)
from mlx_engine.values.options import (
    DraftOptions,
    GenerationOptions,
    LoadOptions,
    SamplingOptions,
)
from mlx_engine.values.stats import RoundStats

FEW_WORDS = dict.fromkeys((75, 78, 110, 220, 257, 263, 270, 281), 6.0)
"""A bias to a handful of tokens, so that even a random head is right now and then."""
PICKS = SamplingOptions(temperature=0.8, seed=11, logit_bias=FEW_WORDS)
PLAIN = DraftOptions(source="none")


@dataclass(frozen=True)
class Said:
    """One answer: its text by the finished event, its pieces, its rounds."""

    finished: GenerationFinished
    pieces: tuple[TextPiece, ...]
    rounds: tuple[RoundStats, ...]
    progress: tuple[PromptProgress, ...]
    tokens: tuple[int, ...]

    @property
    def text(self) -> str:
        return self.finished.text

    @property
    def reason(self) -> str:
        return self.finished.reason

    def shown(self, channel: str = "answer") -> str:
        return "".join(piece.text for piece in self.pieces if piece.channel == channel)


def listen(
    session: Session, events: Iterable[Event], on_event: Callable[[Event], None] | None = None
) -> Said:
    """Reads an answer to its end and checks that its figures add up."""
    heard: list[Event] = []
    for event in events:
        heard.append(event)
        if on_event is not None:
            on_event(event)
    *before, finished = heard
    assert isinstance(finished, GenerationFinished)
    said = Said(
        finished,
        tuple(event for event in before if isinstance(event, TextPiece)),
        tuple(event.stats for event in before if isinstance(event, RoundFinished)),
        tuple(event for event in before if isinstance(event, PromptProgress)),
        session.tokens,
    )
    check_figures(said)
    assert session.stats == finished.stats
    return said


def check_figures(said: Said) -> None:
    stats = said.finished.stats
    assert stats.generated_tokens == sum(r.emitted for r in said.rounds)
    assert stats.passes == len(said.rounds)
    assert sum(part.drafted for part in stats.by_source) == stats.drafted
    assert sum(part.accepted for part in stats.by_source) == stats.accepted
    for r in said.rounds:
        assert 0 <= r.accepted <= r.drafted <= r.depth or r.drafted == 0
        assert r.accepted <= r.emitted <= r.accepted + 1
        assert min(r.draft_ms, r.verify_ms, r.accept_ms, r.host_ms) >= 0
    positions = [r.position for r in said.rounds]
    steps = [r.emitted for r in said.rounds]
    assert positions == [stats.prompt_tokens + sum(steps[:n]) for n in range(len(steps))]


def tiny_folder(
    folder: Path, template: str | None = None, heads: Heads = "inside", seed: int = 17
) -> Path:
    """A random model of two layers; `template` instead of its ChatML.

    seed: with 17 few texts come to repeat one word.
    """
    write_tiny_qwen3_5(folder, layers=2, heads=heads, seed=seed)
    if template is not None:
        (folder / "chat_template.jinja").write_text(template, encoding="utf-8")
    return folder


def thinking_folder(folder: Path) -> Path:
    """The same with a template that opens a think block, and drops thinking from the history."""
    return tiny_folder(folder, QWEN)


def session_of(
    engine: Engine,
    sampling: SamplingOptions = PICKS,
    depth: int = 3,
    max_tokens: int | None = 12,
    stop: tuple[str, ...] = (),
    **more: object,
) -> Session:
    """A session at a pinned depth; depth 0 is without a draft source at all."""
    return engine.session(
        sampling=sampling,
        draft=DraftOptions(depth=depth) if depth else PLAIN,
        generation=GenerationOptions(max_tokens=max_tokens, stop=stop),
        **more,  # type: ignore[arg-type]
    )


def alone(session: Session) -> Session:
    """A new session that goes on from no other of its engine."""
    session._sequence = SequenceState(session._parts.model, cache=session.cache)
    return session


class Failing:
    """A model that works until told to fail: a `fault` is called before each trunk pass.

    Whatever else the contract asks for is the real model's.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self.faults: Iterator[BaseException | float | None] = iter(())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def forward(self, tokens: mx.array, caches: LayerCaches) -> mx.array:
        """A pass; its fault is an error to raise after it, or a number to spoil its result."""
        return self._faulty(self._model.forward(tokens, caches))

    def joint_forward(self, tokens: mx.array, caches: ConversationCaches) -> mx.array:
        """A pass of several conversations, which may fail too."""
        assert self._model.joint_forward is not None
        return self._faulty(self._model.joint_forward(tokens, caches))

    def _faulty(self, hidden: mx.array) -> mx.array:
        fault = next(self.faults, None)
        if isinstance(fault, BaseException):
            raise fault
        return hidden if fault is None else hidden * fault


def failing_engine(folder: Path) -> tuple[Engine, Failing]:
    """An engine, and the model in it to make fail."""
    loaded = load_model(folder, LoadOptions(), folder)
    model = Failing(loaded.model)
    return Engine(replace(loaded, model=model), LoadOptions()), model


def goes_on_as_a_fresh_one(engine, session, text="And then?"):
    """The next answer equals that of a new session with the same messages, drafts included."""
    history = session.messages
    said = listen(session, session.send(text))
    fresh = alone(session_of(engine, session.sampling))
    fresh.draft, fresh.generation = session.draft, session.generation
    fresh.load_messages(history)
    again = listen(fresh, fresh.send(text))
    assert (said.text, said.tokens) == (again.text, again.tokens)
    # a head that has lost its place keeps the words, but drafts others
    assert drafts(said) == drafts(again)
    return said


def drafts(said):
    return [(r.drafted, r.accepted) for r in said.rounds]


def four_answers(engine: Engine, sampling: SamplingOptions, draft: DraftOptions) -> list[Said]:
    """To a question, another one, that anew, and the first one edited, with a stop string."""
    session = session_of(engine, sampling, depth=0, max_tokens=10)
    session.draft = draft
    answers = [listen(session, session.send("The fox, the fox, the fox"))]
    answers.append(listen(session, session.send("The fox 😀?")))
    answers.append(listen(session, session.regenerate()))
    stop = (answers[0].text[1:4] or "xy",)
    session.generation = GenerationOptions(max_tokens=10, stop=stop)
    answers.append(listen(session, session.edit(0, "The quick fox")))
    return answers


def words_of(answers: Iterable[Said]) -> list[tuple[tuple[int, ...], str, str]]:
    """Tokens, text and reason of each."""
    return [(said.tokens, said.text, said.reason) for said in answers]
