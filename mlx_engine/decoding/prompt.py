"""The prompt of an answer: made of a chat's messages or raw, and read by the model (prefill)."""

from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from operator import index
from typing import NamedTuple

import mlx.core as mx

from mlx_engine.decoding.config import ModelParts
from mlx_engine.decoding.pictures import PromptPictures, place_pictures
from mlx_engine.decoding.state import SequenceState, shared_prefix, text_only_ids
from mlx_engine.drafting.contract import ROWS_OF_A_PROMPT
from mlx_engine.text.chat_template import tokenize_chat
from mlx_engine.values.conversation import Message, PromptProgress, Settings
from mlx_engine.values.errors import BadChatTemplate, BadPrompt, PromptTooLong

MAX_LEAD_IN_TOKENS = 24
"""Tokens a template may put before an answer ("<|im_start|>assistant\\n<think>\\n")."""

MIN_SHARED_TOKENS = 64
"""Tokens of a system prompt, at least, for a checkpoint that other chats begin with."""

EMPTY_ANSWER = Message("assistant", "")

UNLIKE_ANY_QUESTION = Message("user", "\0")
"""A question that shares no beginning with another question."""


class Prompt(NamedTuple):
    """The tokens of an answer's prompt, and what is known about them.

    ids: tokens, one at least. stable: how many of them the next turn's prompt begins with, too.
    thinking_open: whether a thought is open at the end, None if the template does not tell.
    answered: first tokens of the answer, if it is continued. said: beginning of the answer, if only
    its text is known (it is then part of `ids`). shared: how many of `ids` the prompts of other
    chats probably begin with, too. pictures: those that stand in `ids`, None without any.
    """

    ids: tuple[int, ...]
    stable: int
    thinking_open: bool | None = None
    answered: tuple[int, ...] = ()
    said: Message = EMPTY_ANSWER
    shared: int = 0
    pictures: PromptPictures | None = None

    @property
    def tokens(self) -> tuple[int, ...]:
        """All tokens before the next one to generate: the prompt's, and a continued answer's."""
        return self.ids + self.answered

    @property
    def ids_with_placeholders(self) -> list[int]:
        """The ids of the vocabulary in the prompt: the template's placeholder for pictures."""
        return text_only_ids(self.ids, 0 if self.pictures is None else self.pictures.placeholder_id)


class RenderedChat(NamedTuple):
    """Messages as token ids, as `Prompt.ids`, with the pictures among them."""

    tokens: tuple[int, ...]
    thinking_open: bool | None
    pictures: PromptPictures | None = None


def stable_length(prompt: tuple[int, ...], special_ids: AbstractSet[int]) -> int:
    """Number of tokens of a chat prompt that the prompt of the next turn begins with, too.

    Tokens that a template puts before an answer ("<think>") may be left out of the history. They
    start at the last special token; without one near the end, all tokens but the last are stable.
    """
    end = len(prompt) - 1
    for start in range(end, max(0, end - MAX_LEAD_IN_TOKENS), -1):
        if prompt[start] in special_ids:
            return start
    return end


class ChatPrompts:
    """Makes the prompts of a chat with its settings and the model's chat template."""

    def __init__(self, parts: ModelParts, settings: Settings) -> None:
        self._parts = parts
        self._settings = settings
        self._beginning_tokens: tuple[int, ...] | None = None

    def forget_rendered(self) -> None:
        """Forget what was rendered with an earlier system prompt or earlier template arguments."""
        self._beginning_tokens = None

    def make_prompt(self, messages: Sequence[Message], partial_answer: Message) -> Prompt:
        """Make the prompt of a conversation. partial_answer: an answer to be continued."""
        continues = partial_answer is not EMPTY_ANSWER
        prompt = self.render(messages, continues=continues)
        if not prompt.tokens:
            raise BadChatTemplate(
                "{origin}: the chat template makes nothing of this "
                "conversation. Replace the template.",
                origin=self._parts.template.origin,
            )
        stable = stable_length(prompt.tokens, self._parts.tokenizer.special_ids)
        shared = (
            shared_prefix(prompt.tokens, self._system_prompt_tokens())
            if self._settings.system
            else 0
        )
        return Prompt(
            prompt.tokens,
            stable,
            prompt.thinking_open,
            said=partial_answer,
            shared=shared if shared >= MIN_SHARED_TOKENS else 0,
            pictures=prompt.pictures,
        )

    def render(self, messages: Sequence[Message], *, continues: bool) -> RenderedChat:
        """Tokenize the system prompt, the messages, and the beginning of an answer.

        Empty answers are left out. continues: the last message is an answer to be continued.
        """
        text = self._settings.system
        system = [Message("system", text)] if text else []
        *before, last = messages
        said = [m for m in before if m.role != "assistant" or m.text or m.thinking or m.calls]
        read = [*system, *said, last]
        pictures = [picture for message in read for picture in message.images]
        tower = self._parts.pictures.require_tower() if pictures else None
        chat = tokenize_chat(
            self._parts.template,
            self._parts.tokenizer,
            read,
            add_generation_prompt=not continues,
            arguments=self._settings.template_arguments,
            continue_last=continues,
            tools=self._settings.tools,
            replaced={} if tower is None else tower.prompt_texts,
        )
        if not pictures:
            return RenderedChat(chat.tokens, chat.thinking_open)
        encoder, origin = self._parts.pictures, self._parts.template.origin
        ids, placed = place_pictures(chat.tokens, pictures, encoder, origin)
        return RenderedChat(ids, chat.thinking_open, placed)

    def _system_prompt_tokens(self) -> tuple[int, ...]:
        """Return the tokens of a prompt that shares only the system prompt with other prompts."""
        if self._beginning_tokens is None:
            self._beginning_tokens = self.render([UNLIKE_ANY_QUESTION], continues=False).tokens
        return self._beginning_tokens


def check_token_ids(parts: ModelParts, tokens: Sequence[int]) -> list[int]:
    """Token ids as plain integers. Raises BadPrompt if the vocabulary lacks one."""
    vocabulary = parts.model.vocabulary
    if isinstance(tokens, bytes):  # whole numbers as well
        raise BadPrompt("A prompt is text or token ids: decode the bytes to text.")
    try:
        ids = [index(token) for token in tokens]
    except TypeError as error:
        raise BadPrompt("Token ids must be whole numbers ({error}).", error=str(error)) from error
    bad = next((token for token in ids if not 0 <= token < vocabulary), None)
    if bad is not None:
        raise BadPrompt(
            "Token {bad} is not in the vocabulary of {vocabulary}.", bad=bad, vocabulary=vocabulary
        )
    return ids


def check_prompt_fits(parts: ModelParts, tokens: Sequence[int]) -> list[int]:
    """Check that token ids are a prompt that leaves room for an answer.

    Raises BadPrompt, PromptTooLong.
    """
    ids, limit = check_token_ids(parts, tokens), parts.context_length
    if not ids:
        raise BadPrompt("The prompt is empty: give at least one token.")
    if len(ids) >= limit:
        raise PromptTooLong(
            "The prompt has {ids:,} tokens, the context holds {limit:,}: shorten it.",
            ids=len(ids),
            limit=limit,
        )
    return ids


def tokenize_raw_prompt(parts: ModelParts, prompt: str | Sequence[int]) -> list[int]:
    """Check token ids, or tokenise a text with the begin token (BOS) that the tokenizer adds.

    Raises BadPrompt, PromptTooLong.
    """
    tokens = parts.tokenizer.encode(prompt, True) if isinstance(prompt, str) else prompt
    return check_prompt_fits(parts, tokens)


def prefill(
    sequence: SequenceState, prompt: Prompt, chunk: int, stopped: Callable[[], bool]
) -> Iterator[PromptProgress]:
    """Read all tokens of the prompt but the last; end early when `stopped`.

    That is asked between chunks, and between the layers through which a picture is encoded.

    Tokens that an earlier turn or another conversation has read are reused; a new draft source that
    runs a model reads them first. Checkpoints are made after the shared tokens, after the stable
    tokens, and on a long way to them. MTP heads read at the first two of these, and only tokens
    near before them: hidden states of all other tokens are not computed. A picture that begins
    earlier is near as a whole. Chunks are the same with and without heads, and longer or shorter
    where they would cut a picture that is read whole.
    """
    tokens, pictures = prompt.tokens, prompt.pictures
    seen = 0 if pictures is None else pictures.end_index
    reused = min(sequence.reuse_prefix(tokens), sequence.drafter_length)
    last = len(tokens) - 1
    yield PromptProgress(reused, len(tokens), reused)
    while not stopped():
        start = len(sequence.tokens)
        sequence.shift_positions(None if pictures is None else pictures.position_shift(start))
        if sequence.drafter_length < start:
            sequence.catch_up(chunk)
            yield PromptProgress(sequence.drafter_length, len(tokens), reused)
            continue
        if start and start in (prompt.shared, prompt.stable):
            head_rows = sequence.add_checkpoint()
            if head_rows:
                yield PromptProgress(start, len(tokens), reused, head_rows)
        if start == last:
            return
        sequence.add_checkpoint_if_far()
        marks = [place for place in (prompt.shared, prompt.stable) if place > start]
        near = [place - ROWS_OF_A_PROMPT - 1 for place in marks]
        if pictures is not None:
            near = [pictures.start_of(place) for place in near]
        is_far = bool(near) and start < min(near)
        stops = [place for place in (*marks, *near, seen, last) if place > start]
        end = min(start + chunk, *stops)
        if pictures is not None:
            end = pictures.whole_chunk_end(start, end)
            for encoded in pictures.encode(start, end):
                yield PromptProgress(start, len(tokens), reused, 0, encoded.done, encoded.total)
                if stopped():
                    return
        part = tokens[start:end]
        rows = None if pictures is None else pictures.embeddings(start, end)
        read = mx.array([text_only_ids(part)])
        if rows is None:
            hidden = sequence.model.forward(read, sequence.caches)
        else:
            hidden = sequence.model.forward(read, sequence.caches, rows)
        sequence.append_prompt_rows(part, hidden, rows, is_far=is_far)
        sequence.evaluate()
        yield PromptProgress(len(sequence.tokens), len(tokens), reused)
