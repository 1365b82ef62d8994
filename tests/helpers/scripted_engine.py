"""An engine that says what the test wrote: real event values, no model and no MLX."""

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, cycle, islice

from mlx_engine.values.conversation import (
    Event,
    FinishReason,
    Generation,
    GenerationFinished,
    Message,
    PromptProgress,
    RoundFinished,
    TextPiece,
    Tool,
)
from mlx_engine.values.errors import BadPrompt, EngineError, EngineMisuse, Reason
from mlx_engine.values.memory_plan import CacheBytes
from mlx_engine.values.model_description import ModelDescription, TensorGroup
from mlx_engine.values.options import (
    UNQUANTISED,
    CacheOptions,
    DraftOptions,
    DraftOutput,
    GenerationOptions,
    SamplingOptions,
    TemplateValue,
)
from mlx_engine.values.picture import Picture
from mlx_engine.values.stats import GenerationStats, RoundStats, count_by_depth

AUTOMATIC_DEPTH = 3
ROUND_MS = 10.0

DESCRIPTION = ModelDescription(
    name="Scripted",
    path="scripted.gguf",
    architecture="qwen3_5",
    parameters=27_400_000_000,
    quantisation="Q4_K_M",
    nbytes=18_200_000_000,
    layers=64,
    hidden_size=5120,
    vocabulary=248_320,
    context_length=262_144,
    mtp_heads=1,
    mtp=None,
    vision=Reason("no-vision", "This model sees no pictures: it was made for text alone."),
    groups=(
        TensorGroup("attention", 64, "4-bit affine, groups of 64", 9_000_000_000, 5_000_000_000),
        TensorGroup("MTP head", 15, "8-bit affine, groups of 64", 400_000_000, 425_000_000),
    ),
    trunk_cache=CacheBytes(2, 32_768, 512, states=150_000_000),
    head_cache=CacheBytes(),
    sampling=SamplingOptions(temperature=0.6, top_k=20, top_p=0.95),
)
NO_HEADS = replace(
    DESCRIPTION,
    mtp_heads=0,
    mtp=Reason("no-heads", "This file has no MTP heads (block 64 has no eh_proj)."),
)


@dataclass(frozen=True, slots=True)
class Answer:
    """What one turn says. accepted: draft tokens that stand, round by round, over and over.

    error: raised after the text instead of finishing. pause_s: real time a round takes. reason: why
    it ends, if nobody stops it.
    """

    text: str
    thinking: str = ""
    accepted: tuple[int, ...] = (2, 0, 3)
    why: Reason | None = None
    error: BaseException | None = None
    prompt_tokens: int = 8
    pause_s: float = 0.0
    reason: FinishReason = "end"


@dataclass(slots=True, weakref_slot=True)
class ScriptedSession:
    """A conversation; it takes the answers of its engine one after the other."""

    engine: "ScriptedEngine"
    system: str | None
    sampling: SamplingOptions
    draft: DraftOptions
    generation: GenerationOptions
    thinking: bool | None = None
    template_arguments: Mapping[str, TemplateValue] = field(default_factory=dict)
    cache: CacheOptions = UNQUANTISED
    tools: tuple[Tool, ...] = ()
    stats: GenerationStats = field(default_factory=GenerationStats)
    turns: list[Message] = field(default_factory=list)
    stop_asked: bool = False
    busy: bool = False
    is_read: bool = False
    unread: int = 0

    @property
    def messages(self) -> tuple[Message, ...]:
        return tuple(self.turns)

    @property
    def tokens(self) -> tuple[int, ...]:
        return tuple(range(self.stats.generated_tokens))

    @property
    def nbytes(self) -> int:
        model, stats = self.engine.description, self.stats
        tokens = stats.prompt_tokens + stats.generated_tokens
        return model.state_bytes + tokens * model.cache_bytes_per_token if self.is_read else 0

    def forget(self) -> None:
        self.is_read = False

    @property
    def why_not_drafting(self) -> Reason | None:
        off = Reason("off", "Drafting is switched off for this chat.")
        return off if self.draft.source == "none" else self.engine.description.mtp

    @property
    def draft_output(self) -> DraftOutput | None:
        return self.draft.output if self.engine.description.mtp_heads else None

    def load_messages(self, messages: Sequence[Message]) -> None:
        self.turns, self.unread = list(messages), 0

    def drop_oldest(self) -> int:
        self.unread += 2
        return self.unread

    def stop(self) -> None:
        self.stop_asked = True

    def send(self, text: str, images: Sequence[Picture] = ()) -> Iterator[Event]:
        if not text.strip():
            raise BadPrompt("The message is empty: write something.")
        self.turns.append(Message("user", text, images=tuple(images)))
        yield from self._answer("")

    def regenerate(self) -> Iterator[Event]:
        if not self.turns:
            raise BadPrompt("There is no answer to make again: send a message first.")
        if self.turns[-1].role == "assistant":
            self.turns.pop()
        yield from self._answer("")

    def continue_answer(self) -> Iterator[Event]:
        if not self.turns or self.turns[-1].role != "assistant":
            raise BadPrompt("There is no answer to continue: send a message first.")
        yield from self._answer(self.turns.pop().text)

    def edit(self, index: int, text: str) -> Iterator[Event]:
        if not 0 <= index < len(self.turns) or self.turns[index].role != "user":
            raise BadPrompt(f"Message {index} is not one of yours: edit a message you sent.")
        self.turns[index:] = [Message("user", text)]
        yield from self._answer("")

    def _answer(self, before: str) -> Iterator[Event]:
        if self.busy:
            raise EngineMisuse("The session is answering: stop it first.")
        self.busy, self.stop_asked = True, False
        answer = self.engine.next_answer(self.turns)
        said: dict[str, str] = {"thinking": "", "answer": before}
        rounds: list[RoundStats] = []
        try:
            yield PromptProgress(0, answer.prompt_tokens)
            yield PromptProgress(answer.prompt_tokens, answer.prompt_tokens)
            for pieces, stats in self._rounds(answer):
                time.sleep(answer.pause_s)
                for piece in pieces:
                    said[piece.channel] += piece.text
                    yield piece
                rounds.append(stats)
                yield RoundFinished(stats)
                if self.stop_asked:
                    break
            if answer.error is not None:
                raise answer.error
        finally:
            self.busy = False
            self.turns.append(Message("assistant", said["answer"], said["thinking"]))
        self.stats = sum_up(rounds, answer.prompt_tokens, self.sampling.seed or 0)
        self.is_read = True
        reason: FinishReason = "stopped" if self.stop_asked else answer.reason
        yield GenerationFinished(reason, self.stats, said["answer"], said["thinking"])

    def _rounds(self, answer: Answer) -> Iterator[tuple[list[TextPiece], RoundStats]]:
        """The words of an answer in rounds: `accepted` drafted words, then one of the model's."""
        thought = (TextPiece(word, "thinking") for word in _words(answer.thinking))
        words = chain(thought, map(TextPiece, _words(answer.text)))
        depth = AUTOMATIC_DEPTH if self.draft.depth == "auto" else self.draft.depth
        why = answer.why or self.why_not_drafting
        if why is not None:
            depth = 0
        position = 0
        for wish in cycle(answer.accepted):
            row = list(islice(words, min(wish, depth) + 1))
            if not row:
                return
            accepted = len(row) - 1
            pieces = [replace(w, depth=d) for d, w in enumerate(row[:accepted], 1)] + row[accepted:]
            yield (
                pieces,
                RoundStats(
                    position=position,
                    depth=depth,
                    drafted=depth,
                    accepted=accepted,
                    emitted=len(row),
                    draft_ms=1.0 * depth,
                    verify_ms=ROUND_MS,
                    host_ms=0.5,
                    why=why,
                ),
            )
            position += len(row)


@dataclass(slots=True)
class ScriptedEngine:
    """Gives `answers` one after the other; when they are used up it repeats what it was told."""

    answers: list[Answer] = field(default_factory=list)
    description: ModelDescription = DESCRIPTION
    sessions: list[ScriptedSession] = field(default_factory=list)
    names: list[str | None] = field(default_factory=list)
    closed: bool = False
    answers_before_measuring: int | None = None
    is_awaited: Callable[[], bool] | None = None

    def give_way_to(self, is_awaited: Callable[[], bool]) -> None:
        self.is_awaited = is_awaited

    def warm_up(self, stop: Callable[[], bool], cache: CacheOptions = UNQUANTISED) -> bool:
        return True

    def measure_costs(self, stop: Callable[[], bool]) -> object:
        assert not stop()
        self.answers_before_measuring = len(self.sessions)
        return None

    def session(
        self,
        system: str | None = None,
        sampling: SamplingOptions | None = None,
        draft: DraftOptions | None = None,
        generation: GenerationOptions | None = None,
        thinking: bool | None = None,
        template_arguments: Mapping[str, TemplateValue] | None = None,
        cache: CacheOptions = UNQUANTISED,
        name: str | None = None,
        tools: Sequence[Tool] = (),
    ) -> ScriptedSession:
        assert not tools
        self.names.append(name)
        made = ScriptedSession(
            self,
            system,
            sampling or self.description.sampling,
            draft or DraftOptions(),
            generation or GenerationOptions(),
            thinking,
            template_arguments or {},
            cache,
        )
        self.sessions.append(made)
        return made

    def generate(
        self,
        prompt: str,
        max_tokens: int | None = None,
        sampling: SamplingOptions | None = None,
        draft: DraftOptions | None = None,
        stop: Sequence[str] = (),
        ignore_eos: bool = False,
        should_stop: Callable[[], bool] = lambda: False,
        cache: CacheOptions = UNQUANTISED,
        **bound: object,
    ) -> Generation:
        del should_stop, bound
        limits = GenerationOptions(max_tokens, tuple(stop), ignore_eos)
        session = self.session(None, sampling, draft, limits, cache=cache)
        *_, last = session.send(prompt)
        assert isinstance(last, GenerationFinished)
        return Generation(last.text, session.tokens, last.stats, last.reason)

    @property
    def conversations_nbytes(self) -> int:
        return sum(session.nbytes for session in self.sessions)

    def forget_conversations(self) -> None:
        for session in self.sessions:
            session.forget()

    def close(self) -> None:
        self.closed = True

    def next_answer(self, turns: list[Message]) -> Answer:
        if self.answers:
            return self.answers.pop(0)
        return Answer(f"You said: {turns[-1].text}")


def sum_up(rounds: list[RoundStats], prompt_tokens: int, seed: int) -> GenerationStats:
    """The sums an engine would report over these rounds."""
    emitted = sum(r.emitted for r in rounds)
    elapsed_ms = sum(r.draft_ms + r.verify_ms + r.host_ms for r in rounds)
    return GenerationStats(
        prompt_tokens=prompt_tokens,
        generated_tokens=emitted,
        drafted=sum(r.drafted for r in rounds),
        accepted=sum(r.accepted for r in rounds),
        drafted_by_depth=count_by_depth(r.drafted for r in rounds),
        accepted_by_depth=count_by_depth(r.accepted for r in rounds),
        passes=len(rounds),
        tokens_per_pass=emitted / len(rounds) if rounds else 0.0,
        tokens_per_second=1000 * emitted / elapsed_ms if rounds else 0.0,
        prompt_tokens_per_second=800.0,
        time_to_first_token_s=0.25,
        draft_ms=sum(r.draft_ms for r in rounds),
        verify_ms=sum(r.verify_ms for r in rounds),
        host_ms=sum(r.host_ms for r in rounds),
        peak_memory_bytes=19_000_000_000,
        seed=seed,
    )


def refuses(error: EngineError) -> ScriptedEngine:
    """An engine whose first answer fails half way."""
    return ScriptedEngine([Answer("Half an", error=error)])


def _words(text: str) -> Iterator[str]:
    """One by one: found in one go, those of a long text would keep Python from the window."""
    return (found[0] for found in re.finditer(r"\s*\S+\s*$|\s*\S+|\s+$", text))
