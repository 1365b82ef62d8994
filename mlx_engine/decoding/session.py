"""One conversation: messages in, events out; owns the track and follows settings as they change."""

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from mlx_engine.decoding.answer import Answer
from mlx_engine.decoding.draft_control import DraftControl
from mlx_engine.decoding.stop_rules import StopRules
from mlx_engine.models.contract import Adapter
from mlx_engine.sampling.sampler import fresh_seed
from mlx_engine.text.chat_prompt import tokenize_chat
from mlx_engine.text.chat_template import ChatTemplate
from mlx_engine.text.streaming_text import StreamingText
from mlx_engine.text.tokenizer import Tokenizer
from mlx_engine.values.conversation import Message
from mlx_engine.values.errors import BadPrompt, EngineMisuse, PromptTooLong
from mlx_engine.values.events import Event, GenerationFinished
from mlx_engine.values.options import DraftOptions, GenerationOptions, SamplingOptions
from mlx_engine.values.reason import Reason
from mlx_engine.values.stats import GenerationStats


@dataclass(frozen=True, slots=True)
class Conversable:
    """What a conversation needs of a loaded model.

    stop: strings that end an answer in this template's format. heads: what loading found wrong with
    the MTP heads. chunk: prompt tokens read between two looks
    at the stop flag.
    """

    adapter: Adapter
    tokenizer: Tokenizer
    template: ChatTemplate
    stop: tuple[str, ...]
    context_length: int
    heads: Reason | None
    chunk: int


class Opening(NamedTuple):
    """What an answer starts from: all tokens before it, and whether it starts by thinking."""

    tokens: tuple[int, ...]
    thinking_open: bool


@dataclass(slots=True)
class SessionSettings:
    """Settings of one chat; changes apply at the next round (sampling, draft) or message."""

    system: str | None
    sampling: SamplingOptions
    generation: GenerationOptions
    thinking: bool | None = None


class Session:
    """A chat with memory. Every method that answers is an iterator of events; run it to the end,
    stop it, or walk away: the messages then hold what was answered so far.
    """

    def __init__(
        self,
        model: Conversable,
        settings: SessionSettings,
        control: DraftControl,
        check: Callable[[], None],
    ) -> None:
        self._model = model
        self._settings = settings
        self._drafting = control
        self._check = check
        self._messages: list[Message] = []
        self._stop = threading.Event()
        self._is_busy = False
        self._answer: Answer | None = None
        self._continues_at: Opening | None = None

    # settings, readable and changeable at any time

    @property
    def system(self) -> str | None:
        """The system prompt; a change re-reads the conversation at the next message."""
        return self._settings.system

    @system.setter
    def system(self, text: str | None) -> None:
        self._settings.system = text
        self._continues_at = None

    @property
    def sampling(self) -> SamplingOptions:
        """How tokens are picked."""
        return self._settings.sampling

    @sampling.setter
    def sampling(self, options: SamplingOptions) -> None:
        self._settings.sampling = options

    @property
    def draft(self) -> DraftOptions:
        """How tokens are drafted."""
        return self._drafting.options

    @draft.setter
    def draft(self, options: DraftOptions) -> None:
        self._drafting.options = options

    @property
    def generation(self) -> GenerationOptions:
        """When answers end."""
        return self._settings.generation

    @generation.setter
    def generation(self, options: GenerationOptions) -> None:
        self._settings.generation = options

    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation without its system prompt."""
        return tuple(self._messages)

    @property
    def stats(self) -> GenerationStats:
        """Figures of the newest answer, also while it runs."""
        return self._answer.tally.stats() if self._answer else GenerationStats()

    @property
    def tokens(self) -> tuple[int, ...]:
        """Tokens of the newest answer, without its end token."""
        return tuple(self._answer.tokens) if self._answer else ()

    @property
    def why_not_drafting(self) -> Reason | None:
        """Why nothing is drafted now, whatever the depth; None when drafting can run."""
        return self._drafting.why_not()

    def stop(self) -> None:
        """End the running answer before its next round or prompt chunk; from any thread."""
        self._stop.set()

    # answering

    def send(self, text: str) -> Iterator[Event]:
        """Ask. Raises PromptTooLong, BadPrompt or BadChatTemplate before anything changes."""
        yield from self._ask([*self._messages, Message("user", text)])

    def regenerate(self) -> Iterator[Event]:
        """Answer the last question again; another text unless the seed is set."""
        kept = self._messages[:-1] if self._last_role() == "assistant" else self._messages[:]
        if not kept or kept[-1].role != "user":
            raise EngineMisuse("There is no question to answer again: send one first.")
        yield from self._ask(kept)

    def edit(self, index: int, text: str) -> Iterator[Event]:
        """Replace message `index` (one of the user's), forget what came after, and answer."""
        if not 0 <= index < len(self._messages) or self._messages[index].role != "user":
            raise EngineMisuse(f"Message {index} is not a question of this conversation.")
        yield from self._ask([*self._messages[:index], Message("user", text)])

    def continue_answer(self) -> Iterator[Event]:
        """Go on where the last answer was cut."""
        if self._last_role() != "assistant":
            raise EngineMisuse("There is no answer to continue: send a question first.")
        self._begin()
        messages, before = self._messages[:-1], self._messages[-1]
        opening = self._continues_at or self._prompt(self._messages, continues=True)
        self._check_fits(len(opening.tokens))
        yield from self._run(messages, opening, before)

    def load_messages(self, messages: Sequence[Message]) -> None:
        """Replace the conversation, for chats that were saved."""
        self._require_idle()
        self._messages = [m for m in messages if m.role != "system"]
        self._continues_at = None

    def _ask(self, messages: list[Message]) -> Iterator[Event]:
        self._begin()
        if not messages[-1].text.strip():
            raise BadPrompt("The message is empty: type a question.")
        opening = self._prompt(messages, continues=False)
        self._messages = messages
        yield from self._run(messages, opening, Message("assistant", ""))

    def _run(self, messages: list[Message], opening: Opening, before: Message) -> Iterator[Event]:
        """Answer; `before` is what the answer already says."""
        track = self._drafting.track_for_answer()
        text = StreamingText(
            self._model.tokenizer,
            (*self._settings.generation.stop, *self._model.stop),
            thinking_open=opening.thinking_open,
        )
        seed = self._settings.sampling.seed
        answer = Answer(
            track,
            opening.tokens,
            self._rules(),
            text,
            _Live(self),
            fresh_seed() if seed is None else seed,
            self._model.chunk,
        )
        self._answer = answer
        self._is_busy = True
        try:
            for event in answer.events():
                yield _joined(before, event) if isinstance(event, GenerationFinished) else event
        except Exception:
            self._drafting.forget()
            raise
        finally:
            self._is_busy = False
            said = Message("assistant", before.text + text.text, before.thinking + text.thinking)
            is_thinking = bool(said.thinking) and not said.text
            everything = (*opening.tokens, *answer.tokens)
            self._continues_at = None if text.hit_stop else Opening(everything, is_thinking)
            self._messages = [*messages, said] if said.text or said.thinking else messages

    def _rules(self) -> StopRules:
        options, model = self._settings.generation, self._model
        return StopRules(
            end_ids=frozenset() if options.ignore_eos else model.tokenizer.end_ids,
            max_tokens=options.max_tokens,
            context_length=model.context_length,
        )

    def _prompt(self, messages: Sequence[Message], *, continues: bool) -> Opening:
        system = [Message("system", self.system)] if self.system else []
        prompt = tokenize_chat(
            self._model.template,
            self._model.tokenizer,
            [*system, *messages],
            add_generation_prompt=not continues,
            thinking=self._settings.thinking,
            continue_last=continues,
        )
        self._check_fits(len(prompt.tokens))
        return Opening(prompt.tokens, prompt.thinking_open)

    def _check_fits(self, count: int) -> None:
        limit = self._model.context_length
        if count >= limit:
            raise PromptTooLong(
                f"The conversation has {count} tokens, the context holds {limit}. "
                "Shorten the message, edit an earlier one, or start a new chat."
            )

    def _last_role(self) -> str | None:
        return self._messages[-1].role if self._messages else None

    def _begin(self) -> None:
        self._check()
        self._require_idle()
        self._stop.clear()

    def _require_idle(self) -> None:
        if self._is_busy:
            raise EngineMisuse("An answer is still running: stop it, or read it to its end.")

    # what a running answer asks (Control)

    def _is_stopped(self) -> bool:
        return self._stop.is_set()


class _Live:
    """The session's settings as a running answer sees them."""

    def __init__(self, session: Session) -> None:
        self.stopped = session._is_stopped
        self.sampling = lambda: session.sampling
        self.length = session._drafting.length


def _joined(before: Message, finished: GenerationFinished) -> GenerationFinished:
    """All of a continued answer."""
    return replace(
        finished, text=before.text + finished.text, thinking=before.thinking + finished.thinking
    )
