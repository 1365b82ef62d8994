"""Render chat messages with the model's Jinja template and tokenize the prompt."""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
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
from mlx_engine.values.conversation import Message, Tool, ToolCall
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
    """A Jinja chat template as Hugging Face defines them, run in a sandbox.

    special_tokens: variables of the template ("bos_token": "<s>", ...). origin: the file, for error
    messages. current_time: clock for `strftime_now`. Raises BadChatTemplate for an invalid
    template.
    """

    def __init__(
        self,
        source: str,
        special_tokens: Mapping[str, str],
        origin: str,
        current_time: Callable[[], datetime] = datetime.now,
    ) -> None:
        self.source = source
        self.origin = origin
        self._special_tokens = dict(special_tokens)
        self._now = current_time
        self._code = self._compile_template()

    @classmethod
    def from_folder(cls, folder: Path) -> "ChatTemplate | None":
        """Read the chat template of the model in `folder`; None when it has none."""
        file = TemplateFile.find_template(folder)
        return file and cls(file.source, named_special_tokens(folder), str(file.path))

    @property
    def can_switch_thinking(self) -> bool:
        """Whether the chat template reads the argument `enable_thinking`."""
        return "enable_thinking" in self.source

    @cached_property
    def arguments(self) -> tuple[str, ...]:
        """Names of the variables that the chat template reads ("preserve_thinking"), sorted."""
        try:
            asked = find_undeclared_variables(TemplateSandbox().parse(self.source))
        except Exception as error:
            raise self._rendering_error(error) from error
        return tuple(sorted(asked - self._reserved_names()))

    def check_arguments(self, arguments: Mapping[str, TemplateValue]) -> None:
        """Raise BadOption for reserved chat template arguments and for values of a wrong type.

        Names that this template does not read are allowed, because the arguments may be another
        model's.
        """
        for name, value in arguments.items():
            if name in self._reserved_names() or not name.isidentifier():
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

    def _reserved_names(self) -> set[str]:
        """Names of the chat template's variables that the engine itself sets."""
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
        tools: Sequence[Tool] = (),
    ) -> str:
        """Render `messages` as a prompt; retry with alternating roles if the template refuses them.

        arguments: further variables of the template. tools: functions that the model may ask for;
        a template that does not read them leaves them out. continue_last: end the prompt inside
        the last message, which must be the assistant's: after its text or, without text, after its
        thinking. Raises BadPrompt when there are no messages, BadChatTemplate when the template
        fails, refuses the messages or exceeds its limits.
        """
        if not messages:
            raise BadPrompt("There are no messages: write something first.")
        if continue_last and messages[-1].role != "assistant":
            raise BadPrompt("Only an answer can be continued: the last message is not one.")
        try:
            return self._render(messages, add_generation_prompt, arguments, continue_last, tools)
        except BadChatTemplate:
            turns = alternate_roles(messages)
            if turns == [*messages]:
                raise
            with suppress(BadChatTemplate):
                return self._render(turns, add_generation_prompt, arguments, continue_last, tools)
            raise

    def _render(
        self,
        messages: Sequence[Message],
        add_generation_prompt: bool,
        arguments: Mapping[str, TemplateValue],
        continue_last: bool,
        tools: Sequence[Tool],
    ) -> str:
        as_parts = self._needs_content_parts
        if not continue_last:
            return self._render_once(messages, add_generation_prompt, arguments, as_parts, tools)
        last, end = messages[-1], unused_character([self.source, *_message_texts(messages)])
        if last.text or not last.thinking:
            marked = replace(last, text=last.text + end)
        else:
            marked = replace(last, thinking=last.thinking + end)
        whole = self._render_once([*messages[:-1], marked], False, arguments, as_parts, tools)
        if end not in whole:
            raise BadChatTemplate(
                "{origin}: the chat template leaves out the answer that is to be continued:"
                " start a new answer instead.",
                origin=self.origin,
            )
        return whole[: whole.rindex(end)].replace(end, "")

    @cached_property
    def _needs_content_parts(self) -> bool:
        """Whether the template reads message content only as a list of parts (vision models)."""
        probe = unused_character([self.source])

        def renders_with(as_content_parts: bool) -> bool:
            try:
                asked = [Message("user", probe)]
                return probe in self._render_once(asked, False, NO_ARGUMENTS, as_content_parts)
            except BadChatTemplate:
                return False

        return "type" in self.source and not renders_with(False) and renders_with(True)

    @cached_property
    def describes_tools(self) -> bool:
        """Whether the chat template tells the model of tools."""
        return "tools" in self.source

    @cached_property
    def _needs_argument_texts(self) -> bool:
        """Whether the template reads a call's arguments only as JSON text, not as an object."""
        called = Message("assistant", "", calls=(ToolCall("f", '{"a": 1}', "123456789"),))
        messages = [Message("user", "a"), called]

        def renders_with(as_argument_texts: bool) -> bool:
            try:
                self._render_once(messages, False, NO_ARGUMENTS, False, (), as_argument_texts)
            except BadChatTemplate:
                return False
            return True

        return not renders_with(False) and renders_with(True)

    def _render_once(
        self,
        messages: Sequence[Message],
        add_generation_prompt: bool,
        arguments: Mapping[str, TemplateValue],
        as_content_parts: bool,
        tools: Sequence[Tool] = (),
        as_argument_texts: bool | None = None,
    ) -> str:
        if as_argument_texts is None:
            has_calls = any(message.calls for message in messages)
            as_argument_texts = has_calls and self._needs_argument_texts
        functions = [_function_fields(tool) for tool in tools]
        tools_size = len(json.dumps(functions)) if tools else 0
        size = len(self.source) + tools_size + sum(map(len, _message_texts(messages)))
        sandbox = TemplateSandbox(
            budget=3 * 2**22 + 64 * size + 16_000 * len(messages),
            seconds=1 + 0.002 * len(messages),  # leaves room for a garbage collection
        )
        sandbox.globals |= {"raise_exception": _raise_exception, "strftime_now": self._strftime_now}
        variables: dict[str, object] = {
            **arguments,
            **self._special_tokens,
            "messages": [
                _template_fields(message, as_content_parts, as_argument_texts)
                for message in messages
            ],
            "tools": functions or None,
            "documents": None,
            "add_generation_prompt": add_generation_prompt,
        }
        try:
            template = Template.from_code(sandbox, self._code, sandbox.globals)
            return "".join(template.generate(variables))
        except Exception as error:
            raise self._rendering_error(error) from error

    def _compile_template(self) -> CodeType:
        if len(self.source) > LONGEST_SOURCE:
            raise BadChatTemplate(
                "{origin}: the chat template has {source} characters, more than the"
                " {longest_source} that are read: use a shorter one.",
                origin=self.origin,
                source=len(self.source),
                longest_source=LONGEST_SOURCE,
            )
        try:
            return TemplateSandbox().compile_source(self.source)
        except Exception as error:
            raise BadChatTemplate(
                "{origin}: the chat template cannot be read ({error}). Get it again, or "
                "replace it.",
                origin=self.origin,
                error=_shorten_error(error),
            ) from error

    def _rendering_error(self, error: Exception) -> BadChatTemplate:
        return BadChatTemplate(
            "{origin}: the chat template fails ({error}). Change the"
            " conversation, or replace the template.",
            origin=self.origin,
            error=_shorten_error(error),
        )

    def _strftime_now(self, pattern: str) -> str:
        if len(pattern) > 100:
            raise TemplateError("a date of more than 100 characters")
        return self._now().strftime(pattern)


PLAIN_STOP = "\nUser:"
"""Stop string of the plain format, which keeps a base model from writing the next question."""


def fallback_template(opening_text: str = "") -> ChatTemplate:
    """Make the chat template for base models: "User: ...", a blank line, "Assistant: ...".

    Use it with the stop strings PLAIN_STOP. opening_text: text of the begin-of-text tokens.
    """
    return ChatTemplate(PLAIN_SOURCE, {"opening": opening_text}, "the built-in plain chat format")


def _shorten_error(error: Exception) -> str:
    """Shorten an error message, perhaps written by a template, to LONGEST_REFUSAL characters."""
    text = str(error)
    return text if len(text) <= LONGEST_REFUSAL else f"{text[:LONGEST_REFUSAL]}…"


def alternate_roles(messages: Sequence[Message]) -> list[Message]:
    """Make user and assistant messages alternate, as some templates demand.

    Consecutive messages of one role are joined; an answer without a question gets an empty one.
    """
    turns: list[Message] = []
    for message in messages:
        last = turns[-1] if turns else None
        if last is not None and last.role == message.role != "tool":
            pairs = ((last.text, message.text), (last.thinking, message.thinking))
            text, thinking = ("\n\n".join(filter(None, pair)) for pair in pairs)
            turns[-1] = replace(
                last,
                text=text,
                thinking=thinking,
                calls=last.calls + message.calls,
                images=last.images + message.images,
            )
        elif message.role == "assistant" and (last is None or last.role == "system"):
            turns += [Message("user", ""), message]
        else:
            turns.append(message)
    return turns


def unused_character(texts: Sequence[str]) -> str:
    """Find a private-use Unicode character that occurs in none of the texts. Raises BadPrompt."""
    used = set[str]().union(*texts)
    for character in map(chr, chain(range(0xE000, 0xF900), range(0xF0000, 0xFFFFE))):
        if character not in used:
            return character
    raise BadPrompt("The messages use every private-use character of Unicode: remove some.")


def _message_texts(messages: Sequence[Message]) -> list[str]:
    """Return all texts of messages."""
    return [
        text
        for message in messages
        for text in (message.text, message.thinking, *(call.arguments for call in message.calls))
    ]


def _function_fields(tool: Tool) -> dict[str, object]:
    """Convert a tool to the dict that transformers gives to a template."""
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


def _template_fields(
    message: Message, as_content_parts: bool, as_argument_texts: bool
) -> dict[str, object]:
    """Convert a message to a dict for the template, with keys in transformers' order.

    Thinking is `reasoning_content`, and `thinking` for gpt-oss. as_argument_texts: arguments of
    calls stay JSON texts.
    """
    content: object = message.text
    if as_content_parts or message.images:
        pictures = [{"type": "image"}] * len(message.images)
        content = [*pictures, {"type": "text", "text": message.text}]
    fields: dict[str, object] = {"role": message.role, "content": content}
    if message.calls:
        fields["tool_calls"] = [
            {
                "type": "function",
                "id": call.id,
                "function": {
                    "name": call.name,
                    "arguments": call.arguments
                    if as_argument_texts
                    else _parse_arguments(call.arguments),
                },
            }
            for call in message.calls
        ]
    if message.call_id:
        fields["tool_call_id"] = message.call_id
    if not message.thinking:
        return fields
    return {"thinking": message.thinking, **fields, "reasoning_content": message.thinking}


def _parse_arguments(arguments: str) -> object:
    """Parse a call's arguments; text that is no JSON stays text."""
    try:
        return json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments


def _raise_exception(message: str) -> None:
    raise TemplateError(message)


@dataclass(frozen=True, slots=True)
class ChatPrompt:
    """A rendered and tokenized conversation.

    thinking_open: True where the text ends inside a thinking block, False just after one, else
    None.
    """

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
    tools: Sequence[Tool] = (),
    replaced: Mapping[str, str] = MappingProxyType({}),
) -> ChatPrompt:
    """Render and encode `messages`; raises what `ChatTemplate.render` and `Tokenizer.encode` raise.

    A control token spelled in a message is split in the middle and encoded as two texts, so the
    model reads plain text. The template sees a private-use character at the split. replaced: texts
    with control tokens that the template writes -> what is encoded in their place.
    """
    controls = tokenizer.control_ids(template.source)
    mark = unused_character([template.source, *_message_texts(messages)])

    def split_controls(text: str) -> str:
        return mark.join(tokenizer.split_control_tokens(text, controls))

    marked = [
        replace(
            message,
            text=split_controls(message.text),
            thinking=split_controls(message.thinking),
            calls=tuple(
                replace(call, arguments=split_controls(call.arguments)) for call in message.calls
            ),
        )
        for message in messages
    ]
    rendered = template.render(
        marked,
        add_generation_prompt=add_generation_prompt,
        arguments=arguments,
        continue_last=continue_last,
        tools=tools,
    )
    for written, encoded in replaced.items():
        rendered = rendered.replace(written, encoded)
    parts = rendered.split(mark)
    text = "".join(parts)
    continues_thinking = continue_last and bool(messages[-1].thinking) and not messages[-1].text
    thinking_open = True if continues_thinking else opens_thinking(parts[-1])
    return ChatPrompt(text, tuple(tokenizer.encode_chat(parts)), thinking_open)
