"""Grammars for tool calls in the model's own format, which is read off its chat template.

The template renders a conversation with known calls, in the format that the model was trained on.
The text around names and arguments becomes a Lark grammar. Arguments are one JSON object of the
tool's schema, or an XML-like element each, in which strings are not quoted.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from mlx_engine.text.chat_template import ChatTemplate
from mlx_engine.text.tokenizer import Tokenizer
from mlx_engine.text.tool_calls import ToolMarkers, ToolReader, schema_types
from mlx_engine.values.conversation import Message, TextPiece, Tool, ToolCall
from mlx_engine.values.errors import BadChatTemplate, BadOption
from mlx_engine.values.options import GenerationOptions

WHITESPACE = r"[ ]?|\n{1,2}[ ]{0,20}"
"""White space between two JSON tokens; without a limit a model may generate it endlessly."""

MOST_CALLS = 16
"""Most calls of an answer with a grammar."""

NAMES = ("probe_a_thing", "probe_another")
TEXT, NUMBER, OBJECT = "a plain text", 73519, {"inner": [5, "x"]}
ARGUMENTS = {"key_of_text": TEXT, "key_of_number": NUMBER, "key_of_object": OBJECT}
_KINDS = zip(ARGUMENTS, ("string", "integer", "object"), strict=True)
_PROPERTIES = {name: {"type": kind, "description": "-"} for name, kind in _KINDS}
_PARAMETERS = {"type": "object", "properties": _PROPERTIES, "required": [*_PROPERTIES]}
TOOLS = tuple(Tool(name, "-", _PARAMETERS) for name in NAMES)
"""Tools that the template is given; it renders calls of them with ARGUMENTS."""

CALL_ID = re.compile(r"call0000\d|(?<=:)\d(?=<\|tool_call_argument_begin)")
"""Ids of the rendered calls; a model generates others: letters, or in Kimi's format a number."""


class ArgumentForm(NamedTuple):
    """Text around an argument that is an element: opening, key, before_..., value, closing.

    before_text: between key and an unquoted string; before_json: between key and another value, as
    JSON.
    """

    opening: str
    before_text: str
    before_json: str
    closing: str


class CallForm(NamedTuple):
    """Text around the calls of an answer: before, name, after_name, arguments, after.

    marker: markers around the calls. argument: None if all arguments are one JSON object. join:
    text from the end of a call's arguments to the next call's name, None if an answer has one call.
    """

    marker: ToolMarkers
    before: str
    after_name: str
    argument: ArgumentForm | None
    after: str
    join: str | None


def call_form(
    template: ChatTemplate, markers: Sequence[ToolMarkers], end_texts: Iterable[str]
) -> CallForm | None:
    """Read the format of calls off the chat template; None if it cannot be determined.

    end_texts: texts of the tokens that end an answer.
    """
    end_texts = [text for text in end_texts if text]
    rendered = _render_calls(template, markers, end_texts, NAMES[:1])
    if rendered is None:
        return None
    before, _, rest = rendered.text.partition(NAMES[0])
    last_value = next((text for text in _as_json(ARGUMENTS) if text in rest), "")
    if last_value:
        after_name, _, after = rest.partition(last_value)
        form = CallForm(rendered.marker, before, after_name, None, after, None)
    else:
        found = _argument_form(rest)
        if found is None:
            return None
        after_name, argument, last_value, after = found
        form = CallForm(rendered.marker, before, after_name, argument, after, None)
    both = _render_calls(template, markers, end_texts, NAMES)
    if both is not None and both.text.startswith(before):
        first, _, _ = both.text.rpartition(NAMES[1])
        form = form._replace(join=first.rpartition(last_value)[2])
    closing = next((text for text in end_texts if form.after.endswith(text)), "")
    return form._replace(after=form.after.removesuffix(closing))


class _ArgumentElements(NamedTuple):
    """Text after the name of a call that has an element for each argument, in its parts.

    last_value: the last argument's value and closing.
    """

    after_name: str
    argument: ArgumentForm
    last_value: str
    after: str


def _argument_form(text: str) -> _ArgumentElements | None:
    """Read the format of arguments off the text after a call's name; None if it is irregular."""
    last_value = next((value for value in _as_json(OBJECT) if value in text), "")
    keys = [*ARGUMENTS]
    parts = last_value and _split_at_separators(
        text, keys[0], TEXT, keys[1], str(NUMBER), keys[2], last_value
    )
    if not parts:
        return None
    first, before_text, between, before_json, again, last_middle, after = parts
    tag = re.search(r"\s*<[^<]*$", between)
    opening = tag[0] if tag else ""
    closing = between.removesuffix(opening)
    is_regular = (between, before_json) == (again, last_middle) and after.startswith(closing)
    is_regular = is_regular and first.endswith(opening)
    if not opening or not is_regular or not closing.lstrip().startswith("<"):
        return None
    argument = ArgumentForm(opening, before_text, before_json, closing)
    after = after.removeprefix(closing)
    return _ArgumentElements(first.removesuffix(opening), argument, last_value + closing, after)


def _as_json(value: object) -> tuple[str, str]:
    return json.dumps(value), json.dumps(value, separators=(",", ":"))


def _split_at_separators(text: str, *separators: str) -> list[str] | None:
    """Split a text at each separator in turn; None if one is missing."""
    parts = []
    for separator in separators:
        before, found, text = text.partition(separator)
        if not found:
            return None
        parts.append(before)
    return [*parts, text]


class _RenderedCalls(NamedTuple):
    """Text of calls as the chat template renders them, and the markers around them."""

    marker: ToolMarkers
    text: str


def _render_calls(
    template: ChatTemplate,
    markers: Sequence[ToolMarkers],
    end_texts: Sequence[str],
    names: Sequence[str],
) -> _RenderedCalls | None:
    """Render calls of these tools by the chat template; None if ToolReader cannot parse them."""
    for call_id in (
        "call0000{}",
        f"functions.{names[0]}:{{}}",
    ):  # Kimi writes no name but in the id
        given = json.dumps(ARGUMENTS)
        calls = tuple(ToolCall(name, given, call_id.format(n)) for n, name in enumerate(names))
        asked = [Message("user", "-"), Message("assistant", "", calls=calls)]
        try:
            text = template.render(asked, add_generation_prompt=False, tools=TOOLS)
        except BadChatTemplate:
            return None
        for marker in markers:
            place = text.rfind(marker.opening, 0, text.rfind(names[0]) + 1)
            if place < 0:
                continue
            said = text[place:]
            if marker.closing:
                said = said[: said.rfind(marker.closing) + len(marker.closing)]
            else:
                cuts = (said.find(end) for end in end_texts)
                said = said[: min((n for n in cuts if n > 0), default=len(said))].rstrip()
            reader = ToolReader(markers, TOOLS)
            pieces = [*reader.read(TextPiece(said)), *reader.finish()]
            read = [(call.name, json.loads(call.arguments)) for call in reader.calls]
            is_text = any(isinstance(p, TextPiece) and not p.text.isspace() for p in pieces)
            if read == [(name, ARGUMENTS) for name in names] and not is_text:
                return _RenderedCalls(marker, said)
    return None


# grammars

ToLark = Callable[[str], str]
"""Text -> Lark that matches it: special tokens by their ids, other text as strings."""


def bound_calls(
    template: ChatTemplate,
    markers: Sequence[ToolMarkers],
    tokenizer: Tokenizer,
    tools: Sequence[Tool],
    options: GenerationOptions,
) -> str:
    """Make the Lark grammar of an answer that may call a chat's tools; with `must_call`, it must.

    Raises BadOption if the model's format of calls is unknown or cannot express a tool.
    """
    names = {tool.name for tool in tools}
    if missing := next((name for name in options.must_call if name not in names), None):
        raise BadOption("must_call: {name} is no tool of this chat.", name=repr(missing))
    form = call_form(template, markers, map(tokenizer.token_text, tokenizer.end_ids))
    if form is None:
        raise BadOption(
            "tools: calls of this model cannot be forced or strict, because its chat template "
            "does not show how it writes them. Let it choose, without strict."
        )
    answer: str | None = ""
    if options.must_call:
        tools, answer = [tool for tool in tools if tool.name in options.must_call], None
    elif options.regex is not None or options.grammar is not None:
        raise BadOption("tools: strict ones and regex or grammar cannot bind the same answer.")
    elif options.schema is not None:
        if form.marker.only_first:
            raise BadOption("tools: this model's calls are JSON: use strict tools or a schema.")
        answer = _json_grammar(options.schema)
    to_lark = _lark_writer(tokenizer)
    return call_grammar(form, tools, to_lark, answer)


def _lark_writer(tokenizer: Tokenizer) -> ToLark:
    """Make a function: a text as a Lark expression, special tokens as token references."""
    texts = {tokenizer.token_text(token): token for token in tokenizer.special_ids}
    longest_first = sorted(filter(None, texts), key=len, reverse=True)
    special = re.compile(f"({'|'.join(map(re.escape, longest_first)) or '(?!)'})")

    def to_lark(text: str) -> str:
        return " ".join(
            f"<[{texts[part]}]>" if part in texts else json.dumps(part, ensure_ascii=False)
            for part in special.split(text)
            if part
        )

    return to_lark


def call_grammar(form: CallForm, tools: Sequence[Tool], to_lark: ToLark, answer: str | None) -> str:
    """Make the Lark grammar of an answer that is calls of these tools, or an answer in text.

    answer: Lark of an answer without calls, "" for any text, before calls too; None where a call
    has to come. Raises BadOption.
    """
    rules = [f"one: {' | '.join(f'call_{n}' for n in range(len(tools)))}"]
    for number, tool in enumerate(tools):
        rules += _call_rules(form, tool, f"call_{number}", to_lark)
    # no text of the grammar may begin another that could stand in the same place
    shared = _common_prefix(form.join, form.after) if form.join else form.after
    after = _lark_literal(form.after.removeprefix(shared), to_lark)
    body = f"one {_lark_literal(shared, to_lark)}"
    if form.join:
        rules.append(f"more: {_lark_literal(form.join.removeprefix(shared), to_lark)} {body}")
        body += f" more{{0,{MOST_CALLS - 1}}}"
    opening = form.marker.opening
    if answer != "" or form.marker.only_first:
        start = "calls" if answer is None else f"calls | {answer or NO_CALL}"
        rules.append(f"calls: GAP {_lark_literal(form.before, to_lark)} {body} {after}")
        rules.append(r"GAP: /\n{0,2}/")
    else:
        first, rest = to_lark(opening), _lark_literal(form.before.removeprefix(opening), to_lark)
        is_token = first.startswith("<[")
        start = f"block{{0,{MOST_CALLS}}} TEXT"
        rules.append(f"block: {f'TEXT {first}' if is_token else 'head'} {rest} {body} {after}")
        rules.append(r"TEXT: /(.|\n)*/")
        rules += [] if is_token else [f"head[lazy]: TEXT {first}"]
    return "\n".join([f"start: {start}", *rules])


NO_CALL = r"/([^{\s](.|\n)*)?/"
"""Lark of an answer that does not begin with a JSON object."""


def _common_prefix(left: str, right: str) -> str:
    sizes = range(min(len(left), len(right)), 0, -1)
    return next((left[:size] for size in sizes if left[:size] == right[:size]), "")


def _lark_literal(text: str, to_lark: ToLark) -> str:
    """Write a text as Lark; ids of calls in it become patterns of ids."""
    parts = re.split(f"({CALL_ID.pattern})", text)
    parts[1::2] = ["/[0-9]{1,2}/" if len(part) == 1 else "/[a-zA-Z0-9]{9}/" for part in parts[1::2]]
    parts[::2] = [to_lark(part) for part in parts[::2]]
    return " ".join(filter(None, parts))


def _call_rules(form: CallForm, tool: Tool, rule: str, to_lark: ToLark) -> Iterator[str]:
    """Yield the rules of one call from its name to its arguments. Raises BadOption."""
    schema = {"type": "object", **tool.parameters}
    name = _lark_literal(tool.name + form.after_name.replace(NAMES[0], tool.name), to_lark)
    if form.argument is None:
        yield f"{rule}: {name} {_json_grammar(schema)}"
        return
    properties, required = schema.get("properties") or {}, schema.get("required") or ()
    names = {key: f"{rule}_{number}" for number, key in enumerate(properties)}
    parts = [names[key] + ("" if key in required else "?") for key in properties]
    yield f"{rule}: {' '.join([name, *parts])}"
    for key, argument in properties.items():
        yield from _argument_rules(form, tool, schema, key, argument, names[key], to_lark)


def _argument_rules(
    form: CallForm,
    tool: Tool,
    schema: Mapping[str, Any],
    key: str,
    argument: Any,
    rule: str,
    to_lark: ToLark,
) -> Iterator[str]:
    """Yield the rules of an argument in an element: an unquoted string, or JSON."""
    assert form.argument is not None
    opening, before_text, before_json, closing = form.argument
    fields = argument if isinstance(argument, Mapping) else {}
    kinds = schema_types(fields)
    given = fields.get("enum", [fields["const"]] if "const" in fields else ())
    is_text = kinds == {"string"} or not (kinds or given or fields.keys() & REFERRING)
    if not is_text:
        shared = {name: schema[name] for name in ("$defs", "definitions") if name in schema}
        head = _lark_literal(opening + key + before_json, to_lark)
        end = _lark_literal(closing, to_lark)
        yield f"{rule}: {head} {_json_grammar({**fields, **shared})} {end}"
        return
    if bounds := sorted(fields.keys() & {"pattern", "minLength", "maxLength"}):
        raise BadOption(
            "tools: {bounds} of {key} of {tool} cannot be kept in the form of calls that this "
            "model has. Leave it out.",
            bounds=bounds[0],
            key=repr(key),
            tool=repr(tool.name),
        )
    head = _lark_literal(opening + key + before_text, to_lark)
    if given:
        texts = " | ".join(to_lark(str(text)) for text in given)
        yield f"{rule}: {head} ({texts}) {_lark_literal(closing, to_lark)}"
        return
    ends = sorted(set(re.findall(r"<[^<>\s=]+[>=]", opening + closing + form.after)))
    inside = "|".join(re.escape(end).replace("/", r"\/") for end in ends)
    yield f"{rule.upper()}: /(.|\\n)*/ & ~/(.|\\n)*({inside})(.|\\n)*/"
    first = to_lark(closing)
    if first.startswith("<["):
        yield f"{rule}: {head} {rule.upper()} {first}"
        return
    suffix, _, rest = first.partition(" <[")
    yield f"{rule}_value[suffix={suffix}]: {rule.upper()}"
    yield f"{rule}: {head} {rule}_value {f'<[{rest}' if rest else ''}"


REFERRING = {"$ref", "allOf", "anyOf", "oneOf", "not", "if"}
"""Keywords of a JSON schema that may allow any type."""


def _json_grammar(schema: Mapping[str, Any]) -> str:
    guided = {**schema, "x-guidance": {"whitespace_pattern": WHITESPACE}}
    return f"%json {json.dumps(guided, ensure_ascii=False)}"
