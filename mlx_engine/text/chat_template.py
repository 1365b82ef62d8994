"""Messages to the prompt a model was trained on: rendered by its template, then as tokens."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import chain
from pathlib import Path
from types import CodeType, MappingProxyType

from jinja2 import Template
from jinja2.exceptions import TemplateError
from jinja2.meta import find_undeclared_variables

from mlx_engine.text.channels import opens_thinking
from mlx_engine.text.template_sandbox import TemplateSandbox
from mlx_engine.text.tokenizer import Tokenizer
from mlx_engine.text.tokenizer_config import TemplateFile, named_special_tokens
from mlx_engine.values.conversation import Message
from mlx_engine.values.errors import BadChatTemplate, BadOption, BadPrompt
from mlx_engine.values.options import TemplateValue, require

LONGEST_SOURCE = 64 * 1024
LONGEST_REFUSAL = 500
NO_ARGUMENTS: Mapping[str, TemplateValue] = MappingProxyType({})
_SPECIAL_TOKENS = ("bos_token", "eos_token", "pad_token", "unk_token", "opening")
PLAIN_SOURCE = (
    "{{ opening }}"
    "{% for message in messages %}{{ message.role | capitalize }}: {{ message.content }}\n\n"
    "{% endfor %}{% if add_generation_prompt %}Assistant:{% endif %}"
)


class ChatTemplate:
    """A Jinja template as Hugging Face defines them, run in a sandbox with limits.

    `special_tokens` ("bos_token": "<s>", ...) are variables of the template. `origin` names the
    file in messages. `now` is what `strftime_now` formats. BadChatTemplate when the source is not a
    template.
    """

    def __init__(
        self,
        source: str,
        special_tokens: Mapping[str, str],
        origin: str,
        now: Callable[[], datetime] = datetime.now,
    ) -> None:
        self.source = source
        self.origin = origin
        self._special_tokens = dict(special_tokens)
        self._now = now
        self._code = self._compiled()

    @classmethod
    def from_folder(cls, folder: Path) -> "ChatTemplate | None":
        """The template of the model in `folder`; None when it has none."""
        file = TemplateFile.find(folder)
        return file and cls(file.source, named_special_tokens(folder), str(file.path))

    @property
    def can_switch_thinking(self) -> bool:
        """Whether the argument `enable_thinking` changes what `render` makes."""
        return "enable_thinking" in self.source

    @cached_property
    def arguments(self) -> tuple[str, ...]:
        """Names of the arguments that the template asks for, such as "preserve_thinking"."""
        try:
            asked = find_undeclared_variables(TemplateSandbox().parse(self.source))
        except Exception as error:
            raise self._failed(error) from error
        return tuple(sorted(asked - self._own_names()))

    def check_arguments(self, arguments: Mapping[str, TemplateValue]) -> None:
        """BadOption for names that are the engine's own, and for values no setting has.

        Names that the template does not ask for are no mistake: another model's may.
        """
        for name, value in arguments.items():
            if name in self._own_names() or not name.isidentifier():
                raise BadOption(
                    "template_arguments: {name} cannot be set. This model's template asks for"
                    " {arguments}.",
                    name=repr(name),
                    arguments=", ".join(self.arguments) or "no arguments",
                )
            if name == "enable_thinking":
                require(name, value, "True, False or None", (True, False, None).__contains__)
            if not isinstance(value, TemplateValue):
                raise BadOption(
                    "template_arguments: {name}={value} is not possible: use a text,"
                    " a number, True, False or None.",
                    name=name,
                    value=ascii(value)[:60],
                )

    def _own_names(self) -> set[str]:
        """What the engine fills in."""
        functions = {*TemplateSandbox().globals, "raise_exception", "strftime_now"}
        filled = {"messages", "tools", "documents", "add_generation_prompt"}
        return filled | functions | self._special_tokens.keys() | set(_SPECIAL_TOKENS)

    def render(
        self,
        messages: Sequence[Message],
        *,
        add_generation_prompt: bool,
        arguments: Mapping[str, TemplateValue] = NO_ARGUMENTS,
        continue_last: bool = False,
    ) -> str:
        """The prompt for `messages`, or for `in_turns` of them where the template refuses them.

        arguments: variables of the template, such as `enable_thinking`. continue_last: the prompt
        ends inside the last message, which must be the assistant's: after its text or, when it has
        none, after its thinking. BadPrompt when there is nothing to render, BadChatTemplate when
        the template fails, refuses the messages or passes its limits.
        """
        if not messages:
            raise BadPrompt("There are no messages: write something first.")
        if continue_last and messages[-1].role != "assistant":
            raise BadPrompt("Only an answer can be continued: the last message is not one.")
        try:
            return self._render(messages, add_generation_prompt, arguments, continue_last)
        except BadChatTemplate:
            turns = in_turns(messages)
            if turns == [*messages]:
                raise
            with suppress(BadChatTemplate):
                return self._render(turns, add_generation_prompt, arguments, continue_last)
            raise

    def _render(
        self,
        messages: Sequence[Message],
        add_generation_prompt: bool,
        arguments: Mapping[str, TemplateValue],
        continue_last: bool,
    ) -> str:
        if not continue_last:
            return self._run(messages, add_generation_prompt, arguments, self._reads_parts)
        last, end = messages[-1], unused_character([self.source, *_texts(messages)])
        if last.text or not last.thinking:
            marked = Message(last.role, last.text + end, last.thinking)
        else:
            marked = Message(last.role, last.text, last.thinking + end)
        whole = self._run([*messages[:-1], marked], False, arguments, self._reads_parts)
        if end not in whole:
            raise BadChatTemplate(
                "{origin}: the chat template leaves out the answer that is to be continued:"
                " start a new answer instead.",
                origin=self.origin,
            )
        return whole[: whole.rindex(end)].replace(end, "")

    @cached_property
    def _reads_parts(self) -> bool:
        """Whether a plain text is left out, as templates for pictures do that expect a list."""
        probe = unused_character([self.source])

        def is_read(in_parts: bool) -> bool:
            try:
                asked = [Message("user", probe)]
                return probe in self._run(asked, False, NO_ARGUMENTS, in_parts)
            except BadChatTemplate:
                return False

        return "type" in self.source and not is_read(False) and is_read(True)

    def _run(
        self,
        messages: Sequence[Message],
        add_generation_prompt: bool,
        arguments: Mapping[str, TemplateValue],
        in_parts: bool,
    ) -> str:
        size = len(self.source) + sum(map(len, _texts(messages)))
        sandbox = TemplateSandbox(
            steps=200_000 + 500 * len(messages),
            characters=2**23 + 64 * size,
            seconds=1 + 0.002 * len(messages),  # a garbage collection may fall into it
        )
        sandbox.globals |= {"raise_exception": _refuse, "strftime_now": self._strftime_now}
        variables: dict[str, object] = {
            **arguments,
            **self._special_tokens,
            "messages": [_fields(message, in_parts) for message in messages],
            "tools": None,
            "documents": None,
            "add_generation_prompt": add_generation_prompt,
        }
        try:
            template = Template.from_code(sandbox, self._code, sandbox.globals)
            return "".join(template.generate(variables))
        except Exception as error:
            raise self._failed(error) from error

    def _compiled(self) -> CodeType:
        if len(self.source) > LONGEST_SOURCE:
            raise BadChatTemplate(
                "{origin}: the chat template has {source} characters, more than the"
                " {longest_source} that are read: use a shorter one.",
                origin=self.origin,
                source=len(self.source),
                longest_source=LONGEST_SOURCE,
            )
        try:
            return TemplateSandbox().compiled(self.source)
        except Exception as error:
            raise BadChatTemplate(
                "{origin}: the chat template cannot be read ({kind}: {error}). Get it again, or "
                "replace it.",
                origin=self.origin,
                kind=type(error).__name__,
                error=_brief(error),
            ) from error

    def _failed(self, error: Exception) -> BadChatTemplate:
        return BadChatTemplate(
            "{origin}: the chat template fails ({kind}: {error}). Change the"
            " conversation, or replace the template.",
            origin=self.origin,
            kind=type(error).__name__,
            error=_brief(error),
        )

    def _strftime_now(self, pattern: str) -> str:
        if len(pattern) > 100:
            raise TemplateError("a date of more than 100 characters")
        return self._now().strftime(pattern)


PLAIN_STOP = "\nUser:"
"""Stop string of the plain format: keeps a base model from writing the next question itself."""


def fallback_template(opening: str = "") -> ChatTemplate:
    """For models without a template: "User: ...", a blank line, "Assistant: ...".

    Base models, which were never trained to chat, follow this best; use it with PLAIN_STOP.
    opening: the text of the tokens a prompt begins with.
    """
    return ChatTemplate(PLAIN_SOURCE, {"opening": opening}, "the built-in plain chat format")


def _brief(error: Exception) -> str:
    """What an error says, which a template may have written, to be shown in a sentence."""
    text = str(error)
    return text if len(text) <= LONGEST_REFUSAL else f"{text[:LONGEST_REFUSAL]}…"


def in_turns(messages: Sequence[Message]) -> list[Message]:
    """The same words with questions and answers by turns, as some templates demand it: neighbours
    of one role are one message, and an answer that nothing comes before answers an empty question.
    """
    turns: list[Message] = []
    for message in messages:
        last = turns[-1] if turns else None
        if last is not None and last.role == message.role:
            pairs = ((last.text, message.text), (last.thinking, message.thinking))
            turns[-1] = Message(last.role, *("\n\n".join(filter(None, pair)) for pair in pairs))
        elif message.role == "assistant" and (last is None or last.role == "system"):
            turns += [Message("user", ""), message]
        else:
            turns.append(message)
    return turns


def unused_character(texts: Sequence[str]) -> str:
    """A private-use character that is in none of the texts."""
    used = set[str]().union(*texts)
    for character in map(chr, chain(range(0xE000, 0xF900), range(0xF0000, 0xFFFFE))):
        if character not in used:
            return character
    raise BadPrompt("The messages use every private-use character of Unicode: remove some.")


def _texts(messages: Sequence[Message]) -> list[str]:
    return [text for message in messages for text in (message.text, message.thinking)]


def _fields(message: Message, in_parts: bool) -> dict[str, object]:
    """Templates read thinking as `reasoning_content`, that of gpt-oss as `thinking`.

    In the order of transformers, which matters to templates that go through all fields.
    """
    content = [{"type": "text", "text": message.text}] if in_parts else message.text
    fields: dict[str, object] = {"role": message.role, "content": content}
    if not message.thinking:
        return fields
    return {"thinking": message.thinking, **fields, "reasoning_content": message.thinking}


def _refuse(message: str) -> None:
    raise TemplateError(message)


@dataclass(frozen=True, slots=True)
class ChatPrompt:
    """A rendered conversation; thinking_open: as `opens_thinking` says of its end."""

    text: str
    tokens: tuple[int, ...]
    thinking_open: bool | None


def tokenize_chat(
    template: ChatTemplate,
    tokenizer: Tokenizer,
    messages: Sequence[Message],
    *,
    add_generation_prompt: bool = True,
    arguments: Mapping[str, TemplateValue] = NO_ARGUMENTS,
    continue_last: bool = False,
) -> ChatPrompt:
    """Renders and encodes `messages`; raises what `ChatTemplate.render` and `encode` raise.

    Where no message spells a control token, the tokens are those of the rendered text. Where one
    does, that word is cut in its middle: the halves are encoded apart, so the model reads the same
    characters as ordinary text. The price is that tokens do not merge across those cuts, and that
    the template sees the word with a private-use character inside.
    """
    controls = tokenizer.control_ids(template.source)
    cut = unused_character([template.source, *_texts(messages)])

    def guarded(text: str) -> str:
        return cut.join(tokenizer.plain_parts(text, controls))

    marked = [Message(m.role, guarded(m.text), guarded(m.thinking)) for m in messages]
    rendered = template.render(
        marked,
        add_generation_prompt=add_generation_prompt,
        arguments=arguments,
        continue_last=continue_last,
    )
    parts = rendered.split(cut)
    text = "".join(parts)
    goes_on_thinking = continue_last and bool(messages[-1].thinking) and not messages[-1].text
    thinking_open = True if goes_on_thinking else opens_thinking(parts[-1])
    return ChatPrompt(text, tuple(tokenizer.encode_chat(parts)), thinking_open)
