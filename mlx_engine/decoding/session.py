"""A chat session: messages in, events out; settings may change while an answer runs."""

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from mlx_engine.decoding.answer import open_answer
from mlx_engine.decoding.config import ModelParts
from mlx_engine.decoding.prompt import EMPTY_ANSWER, UNLIKE_ANY_QUESTION, ChatPrompts, Prompt
from mlx_engine.decoding.state import shared_prefix
from mlx_engine.drafting.depth import DepthPolicy
from mlx_engine.drafting.sources import Drafting
from mlx_engine.text.call_form import bound_calls
from mlx_engine.text.streaming_text import StreamingText
from mlx_engine.text.tokenizer import check_unicode
from mlx_engine.text.tool_calls import ToolMarkers, ToolReader, tool_markers_of
from mlx_engine.values.conversation import Event, Message, Settings, Tool, check_messages
from mlx_engine.values.errors import (
    BadOption,
    BadPicture,
    BadPrompt,
    EngineMisuse,
    PromptTooLong,
    Reason,
)
from mlx_engine.values.options import (
    CacheOptions,
    DraftOptions,
    DraftOutput,
    GenerationOptions,
    SamplingOptions,
    TemplateValue,
)
from mlx_engine.values.picture import Picture, PictureSource, read_picture
from mlx_engine.values.stats import AnswerTally, GenerationStats


class EngineOwner:
    """The thread that made an engine, which alone may use it, until the engine is closed."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self.is_closed = False

    def check_usable(self) -> None:
        """Raise EngineMisuse if the engine is closed, or this is another thread."""
        if self.is_closed:
            raise EngineMisuse("The engine is closed: load the model again.")
        if threading.get_ident() != self._thread:
            raise EngineMisuse(
                "An engine belongs to the thread that loaded it: call it from there "
                "(Session.stop alone may be called from anywhere)."
            )


class _QuestionAndPrompt(NamedTuple):
    """Messages of which the last is to be answered, and their prompt."""

    messages: list[Message]
    prompt: Prompt


class Session:
    """A chat: keeps its messages and what the model has read of them, and answers.

    Every method that answers returns an iterator of events. Read it to the end, stop it, or drop
    it: `messages` then hold the answer so far. They are up to date, and the session is free for the
    next question, when GenerationFinished arrives. Iterators of several sessions of one engine may
    be read by turns: their rounds then share passes of the weights.
    """

    def __init__(
        self,
        parts: ModelParts,
        settings: Settings,
        depth_policy: DepthPolicy,
        owner: EngineOwner,
        name: str | None = None,
    ) -> None:
        """Begin an empty chat. name: id of the chat in saved prompts, None to save none."""
        self._parts = parts
        self._name = name
        self._settings = settings
        self._depth_policy = depth_policy
        self._make_caches()
        self._check = owner.check_usable
        self._after_answer = parts.after_answer
        self._messages: list[Message] = []
        self._stop = threading.Event()
        self._is_busy = False
        self._tally = AnswerTally(seed=0)
        self._tokens: list[int] = []
        self._continues_at: Prompt | None = None
        self._prompts = ChatPrompts(parts, settings)
        self._unread = 0

    def _make_caches(self) -> None:
        """Drop all caches of the chat, and make new ones in the formats of the settings."""
        self._sequence = self._parts.prompts.new_sequence(self, self._settings.cache, self._name)
        self._drafting = Drafting(self._parts.drafting, self._depth_policy)

    # settings

    @property
    def system(self) -> str | None:
        """The system prompt; after a change the next message reads the conversation again."""
        return self._settings.system

    @system.setter
    def system(self, text: str | None) -> None:
        self._settings.system = text
        self._continues_at = None
        self._prompts.forget_rendered()

    @property
    def sampling(self) -> SamplingOptions:
        """Options of this chat for picking tokens; a change applies at the next round."""
        return self._settings.sampling

    @sampling.setter
    def sampling(self, options: SamplingOptions) -> None:
        self._settings.sampling = options

    @property
    def draft(self) -> DraftOptions:
        """Options of this chat for drafting tokens; a change applies at the next round."""
        return self._settings.draft

    @draft.setter
    def draft(self, options: DraftOptions) -> None:
        self._settings.draft = options

    @property
    def generation(self) -> GenerationOptions:
        """Conditions that end an answer of this chat."""
        return self._settings.generation

    @generation.setter
    def generation(self, options: GenerationOptions) -> None:
        self._settings.generation = options

    @property
    def template_arguments(self) -> Mapping[str, TemplateValue]:
        """Variables of the chat template by name.

        After a change the next message reads the conversation again. Raises BadOption for names and
        values that are not allowed.
        """
        return self._settings.template_arguments

    @template_arguments.setter
    def template_arguments(self, arguments: Mapping[str, TemplateValue]) -> None:
        self._check()
        self._parts.template.check_arguments(arguments)
        self._settings.template_arguments = dict(arguments)
        self._continues_at = None
        self._prompts.forget_rendered()

    @property
    def tools(self) -> tuple[Tool, ...]:
        """Functions that the model may ask for.

        After a change the next message reads the conversation again. Raises BadOption if the chat
        template does not tell the model of tools.
        """
        return self._settings.tools

    @tools.setter
    def tools(self, tools: Sequence[Tool]) -> None:
        if tools and not self._parts.template.describes_tools:
            raise BadOption(
                "This model can't use tools: its chat template does not tell it of tools. "
                "Turn them off, or use another model."
            )
        self._settings.tools = tuple(tools)
        self._continues_at = None
        self._prompts.forget_rendered()

    @property
    def cache(self) -> CacheOptions:
        """Bits of keys and values of this chat.

        After a change the next message reads the conversation again. Raises BadOption for formats
        that this model cannot have.
        """
        return self._settings.cache

    @cache.setter
    def cache(self, options: CacheOptions) -> None:
        self._check()
        self._parts.check_cache(options)
        self._settings.cache = options

    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation without its system prompt."""
        return tuple(self._messages)

    @property
    def unread(self) -> int:
        """How many of the oldest messages the model no longer reads; they stay in `messages`."""
        return self._unread

    @property
    def stats(self) -> GenerationStats:
        """Statistics of the newest answer, also while it runs."""
        return self._tally.stats()

    @property
    def tokens(self) -> tuple[int, ...]:
        """Tokens of the newest answer without its end token, including what was continued."""
        return tuple(self._tokens)

    @property
    def why_not_drafting(self) -> Reason | None:
        """Why nothing can be drafted now, whatever the depth; None where drafting can run."""
        self._check()
        return self._drafting.why_not(self._settings.draft)

    @property
    def draft_output(self) -> DraftOutput | None:
        """The output matrix that MTP heads draft with; None without MTP heads."""
        self._check()
        return self._sequence.drafter.output_head

    @property
    def nbytes(self) -> int:
        """Bytes of this conversation: caches, checkpoints and the drafter."""
        self._check()
        return self._sequence.nbytes

    def stop(self) -> None:
        """End the running answer before its next round or prompt chunk; from any thread."""
        self._stop.set()

    def forget(self) -> None:
        """Free the memory of this conversation; during an answer it is freed with the session.

        The messages stay; the next answer reads them again.
        """
        self._check()
        self._parts.prompts.drop_sequence(self._sequence)

    def prompt_tokens(self) -> tuple[int, ...]:
        """Return the tokens of the prompt that `regenerate` or `continue_answer` would read.

        Raises BadPrompt, BadChatTemplate.
        """
        self._check()
        messages = self._messages
        said = messages[-1] if messages and messages[-1].role == "assistant" else EMPTY_ANSWER
        return tuple(self._make_prompt(messages, said).ids_with_placeholders)

    def drop_model(self) -> None:
        """Drop the model when the engine closes; messages, settings and statistics stay."""
        del self._parts, self._prompts
        del self._sequence
        del self._drafting
        del self._depth_policy
        self._after_answer = lambda: None

    # answering

    def send(self, text: str, images: Sequence[PictureSource] = ()) -> Iterator[Event]:
        """Ask a question; return the events of its answer.

        images: pictures, each a path, the bytes of an image file, or a Pillow image. Raises
        PromptTooLong, BadPrompt, BadPicture, BadChatTemplate before any change.
        """
        return self._begin_answer(
            lambda: self._make_question(self._messages, text, self._read_pictures(images))
        )

    def _read_pictures(self, images: Sequence[PictureSource]) -> tuple[Picture, ...]:
        """Read and check pictures. Raises BadPicture, also if the model sees none."""
        if images:
            self._parts.pictures.require_tower()
        if isinstance(images, str | bytes):
            raise BadPicture("Pictures are wanted as a list: images=[path].")
        return tuple(
            read_picture(image, "" if isinstance(image, str | Path) else f"images[{number}]")
            for number, image in enumerate(images)
        )

    def regenerate(self) -> Iterator[Event]:
        """Answer the last question again; the text differs unless the seed is set."""
        return self._begin_answer(self._last_question)

    def _last_question(self) -> _QuestionAndPrompt:
        asked = self._up_to_last_question()
        if not asked or asked[-1].role not in ("user", "tool"):
            raise EngineMisuse("There is no question to answer again: send one first.")
        if asked[-1].role == "tool":
            return _QuestionAndPrompt(asked, self._make_prompt(asked))
        return self._make_question(asked[:-1], asked[-1].text, asked[-1].images)

    def edit(self, index: int, text: str) -> Iterator[Event]:
        """Replace message `index`, which is the user's, drop all later messages, and answer.

        The message's pictures stay.
        """
        return self._begin_answer(lambda: self._replace_question(index, text))

    def _replace_question(self, index: int, text: str) -> _QuestionAndPrompt:
        if index not in range(len(self._messages)) or self._messages[index].role != "user":
            raise EngineMisuse(
                "Message {index} is not a question of this conversation.", index=repr(index)
            )
        return self._make_question(self._messages[:index], text, self._messages[index].images)

    def _make_question(
        self, before: Sequence[Message], text: str, images: tuple[Picture, ...] = ()
    ) -> _QuestionAndPrompt:
        check_unicode(text)
        if not text.strip() and not images:
            raise BadPrompt("The message is empty: type a question.")
        messages = [*before, Message("user", text, images=images)]
        return _QuestionAndPrompt(messages, self._make_prompt(messages))

    def continue_answer(self) -> Iterator[Event]:
        """Continue the last answer where it was cut, be it before its first word.

        The first piece may repeat part of a character or stop string that was shown before the cut;
        the text of GenerationFinished is the whole answer.
        """
        return self._begin_answer(self._cut_answer)

    def _cut_answer(self) -> _QuestionAndPrompt:
        asked = self._up_to_last_question()
        if not asked:
            raise EngineMisuse("There is no answer to continue: send a question first.")
        last = self._messages[-1]
        said = last if len(asked) < len(self._messages) and last != EMPTY_ANSWER else EMPTY_ANSWER
        messages = asked if said is EMPTY_ANSWER else self._messages
        return _QuestionAndPrompt(asked, self._continues_at or self._make_prompt(messages, said))

    def load_messages(self, messages: Sequence[Message]) -> None:
        """Replace the messages by those of a saved chat.

        A system message at the beginning becomes the system prompt. Raises BadOption, also for
        system messages further on.
        """
        self._check()
        self._require_idle()
        loaded = list(check_messages(messages))
        if any(message.role == "system" for message in loaded[1:]):
            raise BadOption(
                "A system message stands in the middle of the conversation. Only the first message "
                "can be one: leave it out, or set Session.system."
            )
        if loaded and loaded[0].role == "system":
            self.system = loaded.pop(0).text
        self._messages = loaded
        self._continues_at, self._unread = None, 0

    def drop_oldest(self) -> int:
        """Make room in a full context: stop reading the oldest turns. Returns `unread`.

        As few turns as leave half of the context free, at least one. `continue_answer` then goes on
        with an answer that was cut. After an edit of an unread message all messages are read again.
        Raises EngineMisuse if only the last question is left.
        """
        self._check_idle()
        messages, half = self._messages, self._parts.context_length // 2
        asked = [n for n, m in enumerate(messages) if m.role == "user" and n > self._unread]
        if not asked:
            raise EngineMisuse("There is no older turn to drop: shorten the last message.")

        def room_left(first: int) -> int:
            return half - len(self._prompts.render(messages[first:], continues=False).tokens)

        place = bisect_left(asked, 0, key=room_left)
        self._unread = asked[min(place, len(asked) - 1)]
        self._continues_at = None
        return self._unread

    def _begin_answer(self, make_question: Callable[[], _QuestionAndPrompt]) -> Iterator[Event]:
        """Begin an answer that `stop` can end from now on; return its events."""
        if not self._is_busy:
            self._stop.clear()
        return self._answer_events(make_question)

    def _answer_events(self, make_question: Callable[[], _QuestionAndPrompt]) -> Iterator[Event]:
        """Yield the events of an answer; its prompt is made when the first event is wanted."""
        self._check_idle()
        messages, prompt = make_question()
        self._check_prompt_fits(len(prompt.tokens))
        if self._sequence.cache != self._settings.cache:
            self._make_caches()
        said = prompt.said
        reader = self._tool_reader()
        text = StreamingText(
            self._parts.tokenizer,
            (*self._settings.generation.stop, *self._parts.stop),
            thinking_open=prompt.thinking_open,
            template=self._parts.template.source,
            continued_from=prompt.ids[-1] if said.text or said.thinking else None,
            shown_tokens=reader.shown_tokens,
        )
        sequence, drafting = self._sequence, self._drafting
        answer = open_answer(
            self._parts,
            self._settings,
            sequence,
            drafting,
            prompt,
            text,
            self._stop.is_set,
            self._call_grammar(),
        )
        self._messages = messages
        self._unread = self._unread if self._unread < len(messages) else 0
        self._tally, self._tokens = answer.tally, answer.tokens
        self._is_busy = True
        try:
            events = answer.events()
            for event in reader.events(events) if self._settings.tools else events:
                yield event
                self._check()
        except GeneratorExit:
            raise
        except BaseException:
            sequence.reset_state()
            drafting.forget_drafter()
            raise
        finally:
            words = reader.text if reader.calls else text.text
            said = Message(
                "assistant", said.text + words, said.thinking + text.thinking, tuple(reader.calls)
            )
            is_said = said.text or said.thinking or said.calls
            self._messages = [*messages, said] if is_said else messages
            goes_on = prompt._replace(answered=tuple(answer.tokens))
            self._continues_at = None if text.ended_by_stop else goes_on
            self._is_busy = False
            self._stop.clear()
        self._note_next_prompt()
        last = answer.finished()
        yield replace(last, text=said.text, thinking=said.thinking, calls=said.calls)
        if not self._is_busy:
            self._after_answer()

    def _tool_reader(self) -> ToolReader:
        """Make the reader of tool calls in an answer; without tools it finds none."""
        tools = self._settings.tools
        return ToolReader(self._tool_markers if tools else (), tools)

    @property
    def _tool_markers(self) -> tuple[ToolMarkers, ...]:
        return tool_markers_of(self._parts.template.source, self._parts.tokenizer.has_token)

    def _call_grammar(self) -> str | None:
        """Make the grammar of calls that the options or strict tools ask for. Raises BadOption."""
        tools, options = self._settings.tools, self._settings.generation
        if not options.must_call and not any(tool.strict for tool in tools):
            return None
        markers, tokenizer = self._tool_markers, self._parts.tokenizer
        return bound_calls(self._parts.template, markers, tokenizer, tools, options)

    def _note_next_prompt(self) -> None:
        """Tell the prompt cache how many tokens the next prompt shares with this conversation.

        They are fewer than all: templates drop thoughts, and the text of an answer may be tokenised
        differently.
        """
        prompts, sequence = self._parts.prompts, self._sequence
        if prompts.files is not None:
            read = self._messages[self._unread :]
            begins = self._prompts.render([*read, UNLIKE_ANY_QUESTION], continues=False).tokens
            prompts.note_shared_prefix(sequence, shared_prefix(begins, sequence.tokens))

    def _make_prompt(
        self, messages: Sequence[Message], partial_answer: Message = EMPTY_ANSWER
    ) -> Prompt:
        """Make the prompt of the messages that are read, and of an answer to be continued."""
        return self._prompts.make_prompt(messages[self._unread :] or messages, partial_answer)

    def _check_prompt_fits(self, count: int) -> None:
        limit = self._parts.context_length
        if count >= limit:
            raise PromptTooLong(
                "The conversation has {count:,} tokens, the context holds {limit:,}. Shorten the "
                "message, let the oldest turns go, or start a new chat.",
                count=count,
                limit=limit,
            )

    def _up_to_last_question(self) -> list[Message]:
        """Return the messages up to the last question, without the answer to it."""
        answered = bool(self._messages) and self._messages[-1].role == "assistant"
        return self._messages[:-1] if answered else self._messages[:]

    def _check_idle(self) -> None:
        self._check()
        self._require_idle()

    def _require_idle(self) -> None:
        if self._is_busy:
            raise EngineMisuse("An answer is still running: stop it, or read it to its end.")
