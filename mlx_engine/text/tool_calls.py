"""Find tool calls in streamed answer text: markers by model family, and the forms between them."""

import ast
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple
from uuid import uuid4

from mlx_engine.values.conversation import Event, TextPiece, Tool, ToolCall

Arguments = dict[str, Any]
Schemas = Mapping[str, Mapping[str, Any]]
"""Name of a tool -> JSON schemas of its arguments by name."""


class ToolMarkers(NamedTuple):
    """Text around tool calls; a model without a closing marker ends its answer after the calls.

    sign: text of the chat template that tells of these markers, "" for the opening one itself.
    is_kept: the markers are part of the call's text. only_first: they count at the beginning of an
    answer alone.
    """

    opening: str
    closing: str = ""
    sign: str = ""
    is_kept: bool = False
    only_first: bool = False


MARKERS = (
    ToolMarkers("<tool_call>", "</tool_call>"),  # Qwen, Hermes, GLM, Step, ERNIE, ...
    ToolMarkers("<tool_calls>", "</tool_calls>"),  # Hunyuan
    ToolMarkers("<seed:tool_call>", "</seed:tool_call>"),
    ToolMarkers("<minimax:tool_call>", "</minimax:tool_call>"),
    ToolMarkers("]<]minimax[>[<tool_call>", "]<]minimax[>[</tool_call>", "]<]minimax[>["),  # M3
    ToolMarkers("<longcat_tool_call>", "</longcat_tool_call>"),
    ToolMarkers("<tool_calls:opensource>", "</tool_calls:opensource>", ":opensource"),  # Hy3
    ToolMarkers(
        "<｜DSML｜function_calls>", "</｜DSML｜function_calls>", "｜DSML｜"
    ),  # DeepSeek V3.2
    ToolMarkers("<｜DSML｜tool_calls>", "</｜DSML｜tool_calls>", "｜DSML｜"),  # DeepSeek V4
    ToolMarkers("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"),  # DeepSeek to V3.1
    ToolMarkers("<atem:function_calls>", "</atem:function_calls>"),  # Muse
    ToolMarkers("<|tool_call>", "<tool_call|>"),  # Gemma 4
    ToolMarkers("<start_function_call>", "<end_function_call>"),  # FunctionGemma
    ToolMarkers("<|tool_call_start|>", "<|tool_call_end|>"),  # LFM2
    ToolMarkers("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"),  # Kimi K2
    ToolMarkers("<|open|>tools<|sep|>", "<|close|>tools<|sep|>", "<|open|>"),  # Kimi K3
    ToolMarkers("<|START_ACTION|>", "<|END_ACTION|>"),  # Command R7B, Command A
    ToolMarkers("<|tools_prefix|>", "<|tools_suffix|>"),  # Apertus
    ToolMarkers("<TOOLCALL>", "</TOOLCALL>"),  # Nemotron
    ToolMarkers("<|tool_calls|>", "<|calls|>"),  # Solar Open
    ToolMarkers("<function=", "</function>", "<function=example", is_kept=True),  # Functionary
    ToolMarkers("<function name=", "</function>", is_kept=True),  # MiniCPM
    ToolMarkers("<|function_call|>"),  # GigaChat 3.1
    ToolMarkers("[TOOL_CALLS]"),  # Mistral
    ToolMarkers("<|tool_call|>"),  # Granite 3
    ToolMarkers("<|start|>functions.", "", "<|constrain|>", is_kept=True),  # gpt-oss
    ToolMarkers("<|python_tag|>"),  # Llama 3
    ToolMarkers(  # Llama 3 without its marker: the whole answer is one object
        '{"name"', "", '{"name": function name, "parameters"', is_kept=True, only_first=True
    ),
)
"""Markers of all families. A model uses those that its template or its vocabulary has.

Sources: the models' chat templates; https://github.com/vllm-project/vllm/tree/main/vllm/tool_parsers
and mlx_lm/tool_parsers.
"""

INNER_TOKENS = frozenset(
    (
        *("<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", "<｜tool▁sep｜>", "｜DSML｜"),
        *("<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>"),
        *("<|tool_call:begin|>", "<|tool_call:name|>", "<|tool_call:args|>", "<|tool_call:end|>"),
        *(
            "]<]minimax[>[",
            "[ARGS]",
            "[CALL_ID]",
            '<|"|>',
            "<escape>",
            "<|open|>",
            "<|close|>",
            "<|sep|>",
        ),
    )
)
"""Special tokens that stand between the markers."""


def tool_markers_of(template: str, has_token: Callable[[str], bool]) -> tuple[ToolMarkers, ...]:
    """Return the tool markers that a model uses; those of Hermes where it has none of its own."""
    own = [
        row for row in MARKERS if (row.sign or row.opening) in template or has_token(row.opening)
    ]
    return tuple(own or MARKERS[:1])


class ToolReader:
    """Separates tool calls from the text pieces of one answer.

    text: the answer so far without calls. calls: the calls so far. shown_tokens: special tokens
    whose text belongs to calls. A block that is no call, or a call that was cut, is given back as
    text.
    """

    def __init__(self, markers: Sequence[ToolMarkers], tools: Iterable[Tool]) -> None:
        self._markers = markers
        texts = {text for row in markers for text in (row.opening, row.closing)}
        self.shown_tokens = INNER_TOKENS | texts if markers else frozenset()
        self._schemas = {tool.name: tool.parameters.get("properties", {}) for tool in tools}
        self._held = ""
        self._block: ToolMarkers | None = None
        self.text = ""
        self.calls: list[ToolCall] = []

    def events(self, events: Iterable[Event]) -> Iterator[Event]:
        """Replace the tool calls in the text pieces of an answer's events by ToolCall events."""
        for event in events:
            if isinstance(event, TextPiece):
                yield from self.read(event)
            else:
                yield event
        yield from self.finish()

    def read(self, piece: TextPiece) -> Iterator[TextPiece | ToolCall]:
        """Yield the text and the calls that are certain with a further piece of the answer."""
        if piece.channel == "thinking":
            yield piece
            return
        self._held += piece.text
        while True:
            if self._block is None:
                yield from self._show_text(self._text_before_block(), piece)
                if self._block is None:
                    return
            if not self._block.closing or self._block.closing not in self._held:
                return
            body, _, self._held = self._held.partition(self._block.closing)
            yield from self._close_block(body, self._block.closing, piece)

    def finish(self) -> Iterator[TextPiece | ToolCall]:
        """Yield what is left when the answer has ended."""
        body, self._held = self._held, ""
        if self._block is None:
            yield from self._show_text(body, TextPiece(""))
        else:
            yield from self._close_block(body, "", TextPiece(""))

    def _text_before_block(self) -> str:
        """Remove the text before the next opening marker from the held text, and return it.

        Without a marker, an end of the text that may be the beginning of one stays held.
        """
        held = self._held
        places = [(held.find(row.opening), row) for row in self._markers]
        found = [(n, row) for n, row in places if n >= 0 and self._is_call_marker(row, held[:n])]
        if found:
            place, self._block = min(found, key=lambda item: item[0])
            begin = place if self._block.is_kept else place + len(self._block.opening)
            self._held = held[begin:]
            return held[:place]
        begins = ((_overlap_length(held, row.opening), row) for row in self._markers)
        keep = max(
            (n for n, row in begins if n and self._is_call_marker(row, held[: len(held) - n])),
            default=0,
        )
        self._held = held[len(held) - keep :]
        return held[: len(held) - keep]

    def _is_call_marker(self, row: ToolMarkers, before: str) -> bool:
        """Whether a marker counts behind this text, which is not shown yet."""
        return not row.only_first or not (self.calls or self.text.strip() or before.strip())

    def _close_block(
        self, body: str, closing: str, piece: TextPiece
    ) -> Iterator[TextPiece | ToolCall]:
        """End a block: its calls or, where it is none, its text."""
        block, self._block = self._block, None
        assert block is not None
        try:
            calls = parse_calls(body, self._schemas, FORMS if closing else SELF_ENDING)
        except ValueError:
            opening = "" if block.is_kept else block.opening
            yield from self._show_text(opening + body + closing, piece)
            return
        self.calls += calls
        yield from calls

    def _show_text(self, text: str, piece: TextPiece) -> Iterator[TextPiece]:
        if text:
            self.text += text
            yield replace(piece, text=text)


def _overlap_length(text: str, marker: str) -> int:
    """Return the length of the longest end of `text` that begins `marker`."""
    most = min(len(text), len(marker) - 1)
    return next((n for n in range(most, 0, -1) if text.endswith(marker[:n])), 0)


class _FoundCall(NamedTuple):
    """A call in the text. id: that the model gave it, "" for none."""

    name: object
    arguments: object
    id: object = ""


Form = Callable[[str, Schemas], list[_FoundCall]]


def parse_calls(body: str, schemas: Schemas, forms: Iterable[Form]) -> list[ToolCall]:
    """Parse the text between tool markers in the first form that fits.

    Raises ValueError where it is no call.
    """
    text = body.strip()
    found = next(filter(None, (form(text, schemas) for form in forms)), [])
    calls = []
    for name, arguments, call_id in found:
        if not (isinstance(name, str) and name and isinstance(arguments, dict)):
            raise ValueError("no tool call")
        own = call_id if isinstance(call_id, str) and call_id else uuid4().hex[:9]
        calls.append(ToolCall(name, json.dumps(arguments, ensure_ascii=False), own))
    if not calls:
        raise ValueError("no tool call")
    return calls


_DECODER = json.JSONDecoder(strict=False)
_NAME = r"[\w.\-]+"
_HEADER = re.compile(
    rf"(?P<id>functions\.(?P<kimi>{_NAME}):\d+)\s*<\|tool_call_argument_begin\|>\s*"
    rf"|(?P<plain>{_NAME})\s*<\|tool_call_argument_begin\|>\s*"
    rf"|(?:function)?<｜tool▁sep｜>(?P<deepseek>{_NAME})\s*```json\s*"
    rf"|(?P<deepseek_31>{_NAME})<｜tool▁sep｜>\s*"
    rf"|(?P<mistral>{_NAME})\s*(?:\[CALL_ID\]\s*(?P<mistral_id>\w+)\s*)?\[ARGS\]\s*"
    rf"|(?P<solar_id>\w*)<\|tool_call:name\|>(?P<solar>{_NAME})<\|tool_call:args\|>\s*"
    rf"|<\|start\|>functions\.(?P<gpt_oss>{_NAME})<\|message\|>\s*"
    rf"|<function=(?P<functionary>{_NAME})>\s*(?=\{{)"
)
"""Name and perhaps id of a call before a JSON object with its arguments."""


def _parse_json_calls(text: str, _: Schemas) -> list[_FoundCall]:
    """Parse calls written as JSON: {"name": ..., "arguments" or "parameters": {...}}, or a list."""
    found: list[_FoundCall] = []
    while text.startswith(("{", "[")):
        value, end = _decode_json(text)
        found += map(_parse_json_call, value if isinstance(value, list) else [value])
        text = text[end:].lstrip(" \n,;")
    return found


def _parse_json_call(call: object) -> _FoundCall:
    """Parse a call from one JSON object, also {name: arguments}. Raises ValueError."""
    if not isinstance(call, dict):
        raise ValueError("no tool call")
    inner = call.get("function")
    fields: Arguments = {**call, **inner} if isinstance(inner, dict) else call
    name = fields.get("name", fields.get("tool_name"))
    if name is None and len(fields) == 1:
        [(name, given)] = fields.items()
    else:
        given = fields.get("arguments", fields.get("parameters", {}))
    return _FoundCall(
        name, _decode_json(given)[0] if isinstance(given, str) else given, call.get("id")
    )


def _parse_named_json_calls(text: str, _: Schemas) -> list[_FoundCall]:
    """Parse calls written as a name in a family's own header, then JSON; Kimi K2, DeepSeek, ..."""
    found, place = [], 0
    while header := _HEADER.search(text, place):
        value, end = _decode_json(text[header.end() :])
        groups = header.groupdict()
        ids = [groups.pop(name) for name in ("id", "mistral_id", "solar_id")]
        found.append(
            _FoundCall(next(filter(None, groups.values())), value, next(filter(None, ids), ""))
        )
        place = header.end() + end
    return found


def _decode_json(text: str) -> tuple[Any, int]:
    """Decode a JSON value at the beginning of a text. Raises ValueError."""
    try:
        return _DECODER.raw_decode(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


class _TagPatterns(NamedTuple):
    """Patterns of a call with an element for each argument: groups name and body; key and value."""

    call: re.Pattern[str]
    argument: re.Pattern[str]


_TAGS = (
    _TagPatterns(  # Qwen3-Coder, Qwen3.5, Step, Seed-OSS
        re.compile(r"<function=(?P<name>[^>\s]+)>(?P<body>.*?)(?:</function>|\Z)", re.S),
        re.compile(
            r"<parameter=(?P<key>[^>\s]+)>\n?(?P<value>.*?)\n?"
            r"(?:</parameter>|(?=<parameter=)|(?=</function>)|\Z)",
            re.S,
        ),
    ),
    _TagPatterns(  # MiniMax M2, DeepSeek V3.2 and V4, Muse
        re.compile(
            r'<(?:\w+:|｜DSML｜)?invoke\b[^>]*?\bname="(?P<name>[^"]+)"[^>]*>'
            r"(?P<body>.*?)</(?:\w+:|｜DSML｜)?invoke>",
            re.S,
        ),
        re.compile(
            r'<(?:\w+:|｜DSML｜)?parameter\b[^>]*?\bname="(?P<key>[^"]+)"[^>]*>'
            r"(?P<value>.*?)</(?:\w+:|｜DSML｜)?parameter>",
            re.S,
        ),
    ),
    _TagPatterns(  # MiniCPM
        re.compile(r'<function\s+name="(?P<name>[^"]+)">(?P<body>.*?)(?:</function>|\Z)', re.S),
        re.compile(
            r'<param\s+name="(?P<key>[^"]+)">(?:<!\[CDATA\[)?(?P<value>.*?)(?:\]\]>)?</param>', re.S
        ),
    ),
    _TagPatterns(  # Kimi K3
        re.compile(
            r'<\|open\|>call\b[^<]*?tool="(?P<name>[^"]+)"[^<]*<\|sep\|>'
            r"(?P<body>.*?)<\|close\|>call<\|sep\|>",
            re.S,
        ),
        re.compile(
            r'<\|open\|>argument\b[^<]*?key="(?P<key>[^"]+)"[^<]*<\|sep\|>'
            r"(?P<value>.*?)<\|close\|>argument<\|sep\|>",
            re.S,
        ),
    ),
    _TagPatterns(  # GLM, LongCat, Laguna, Hy3
        re.compile(
            r"(?:\A|<tool_call:\w+>)\s*(?P<name>[\w.\-]+)\s*(?:<tool_sep:\w+>)?\s*"
            r"(?P<body>(?:<(?:\w+_)?arg_key\b.*?)?)(?:</tool_call:\w+>|\Z)",
            re.S,
        ),
        re.compile(
            r"<(?:\w+_)?arg_key(?::\w+)?>(?P<key>.*?)</(?:\w+_)?arg_key(?::\w+)?>\s*"
            r"<(?:\w+_)?arg_value(?::\w+)?>(?P<value>.*?)</(?:\w+_)?arg_value(?::\w+)?>",
            re.S,
        ),
    ),
)


def _parse_tagged_calls(text: str, schemas: Schemas) -> list[_FoundCall]:
    """Parse calls with an XML-like element for each argument, typed by the tool's schema."""
    for tags in _TAGS:
        found = []
        for call in tags.call.finditer(text):
            types = schemas.get(call["name"], {})
            values = {
                argument["key"].strip(): convert_to_schema_type(
                    argument["value"], types.get(argument["key"].strip())
                )
                for argument in tags.argument.finditer(call["body"])
            }
            if call["body"] or call["name"] in schemas:  # GLM's without arguments is a bare word
                found.append(_FoundCall(call["name"], values))
        if found:
            return found
    return []


_M3 = "]<]minimax[>["
_M3_CALL = re.compile(
    rf'{re.escape(_M3)}<invoke name="(?P<name>[^"]+)">(?P<body>.*?){re.escape(_M3)}</invoke>', re.S
)


def _parse_minimax_calls(text: str, schemas: Schemas) -> list[_FoundCall]:
    """Parse MiniMax M3's calls: an element for each argument, and inside for each entry or item."""
    found = []
    for call in _M3_CALL.finditer(text):
        schema = {"type": "object", "properties": schemas.get(call["name"], {})}
        tags = iter(call["body"].split(_M3)[1:])
        try:
            found.append(_FoundCall(call["name"], _parse_element("", tags, schema)))
        except RecursionError:
            raise ValueError("nested too deeply") from None
    return found


def _parse_element(text: str, tag_patterns: Iterator[str], schema: object) -> Any:
    """Parse one element, and those nested in it, to a dict, a list or a value of its schema's type.

    text: after the opening tag. tag_patterns: the rest of the call, taken up to the closing tag.
    """
    fields = schema if isinstance(schema, Mapping) else {}
    kinds, properties = schema_types(fields), fields.get("properties") or {}
    inside: list[tuple[str, Any]] = []
    for tag in tag_patterns:
        name, _, content = tag.removeprefix("<").partition(">")
        if name.startswith("/"):
            break
        is_item = name == "item" and name not in properties
        inner = fields.get("items") if is_item else properties.get(name)
        inside.append((name, _parse_element(content, tag_patterns, inner)))
    if "array" in kinds or (
        "object" not in kinds and inside and {n for n, _ in inside} == {"item"}
    ):
        return [value for _, value in inside]
    return dict(inside) if inside or kinds == {"object"} else convert_to_schema_type(text, schema)


def convert_to_schema_type(text: str, schema: object) -> Any:
    """Convert an argument's text to the type of its JSON schema: 3 for a number, "3" for a text."""
    kinds = schema_types(schema)
    if kinds and kinds <= {"string"}:
        return text
    try:
        value = _parse_literal(text.strip())
    except ValueError:
        return text
    return value if not kinds or _json_type_of(value) & kinds else text


def _parse_literal(text: str) -> Any:
    """Read a JSON value or, as some templates write them, a Python literal. Raises ValueError."""
    with suppress(ValueError):
        value, end = _decode_json(text)
        if end == len(text):
            return value
    try:
        return ast.literal_eval(text)
    except (SyntaxError, RecursionError, MemoryError, TypeError) as error:
        raise ValueError("no literal") from error


def schema_types(schema: object) -> set[str]:
    """Return the types that a JSON schema allows; empty where it tells none."""
    if not isinstance(schema, Mapping):
        return set()
    types = schema.get("type")
    kinds = {types} if isinstance(types, str) else set(types) if isinstance(types, list) else set()
    for key in ("anyOf", "oneOf"):
        for inner in schema.get(key) or ():
            kinds |= schema_types(inner)
    if not kinds and isinstance(schema.get("enum"), list):
        kinds = {kind for value in schema["enum"] for kind in _json_type_of(value)}
    return kinds


def _json_type_of(value: object) -> set[str]:
    if isinstance(value, bool):
        return {"boolean"}
    if isinstance(value, int):
        return {"integer", "number"}
    names: dict[type, str] = {float: "number", str: "string", list: "array", dict: "object"}
    return {names.get(type(value), "null")}


_AS_JSON = {"True": "true", "False": "false", "None": "null"}
_AS_PYTHON = {json_word: word for word, json_word in _AS_JSON.items()}
_GEMMA_CALL = re.compile(r"call:(?P<name>[\w.\-]+)(?=\{)")
_GEMMA_TOKEN = re.compile(
    r'<\|"\|>(?P<text>.*?)<\|"\|>|<escape>(?P<escaped>.*?)<escape>|(?P<key>[\w\-]+)(?=:)'
    r"|(?P<other>[{}\[\]:,]|[^{}\[\]:,<]+|<)",
    re.S,
)


def _parse_gemma_calls(text: str, _: Schemas) -> list[_FoundCall]:
    """Parse Gemma's calls: call:name{key:<|"|>text<|"|>,other:3}."""
    found = []
    for call in _GEMMA_CALL.finditer(text):
        parts = []
        for token in _GEMMA_TOKEN.finditer(text, call.end()):
            quoted = next(
                (token[name] for name in ("text", "escaped", "key") if token[name] is not None),
                None,
            )
            other = _AS_JSON.get(token["other"] or "", token["other"])
            parts.append(other if quoted is None else json.dumps(quoted))
        found.append(_FoundCall(call["name"], _decode_json("".join(parts))[0]))
    return found


def _parse_python_calls(text: str, _: Schemas) -> list[_FoundCall]:
    """Parse calls written in Python, [name(key="text", other=3), ...]; LFM2's and Llama 4's."""
    if not (text.startswith("[") and text.endswith(")]")):
        return []
    source = re.sub(r"\b(?:true|false|null)\b", lambda word: _AS_PYTHON[word[0]], text)
    try:
        tree = ast.parse(source.replace("\n", "\\n"), mode="eval").body
        calls = tree.elts if isinstance(tree, ast.List) else []
        return [
            _FoundCall(
                ast.unparse(call.func),
                {word.arg: ast.literal_eval(word.value) for word in call.keywords if word.arg},
            )
            for call in calls
            if isinstance(call, ast.Call)
        ]
    except (SyntaxError, RecursionError, MemoryError, TypeError) as error:
        raise ValueError("no tool call") from error


SELF_ENDING: Collection[Form] = (
    _parse_python_calls,
    _parse_json_calls,
    _parse_named_json_calls,
    _parse_gemma_calls,
)
"""Forms that tell themselves whether a call is whole, where the closing marker may be missing."""
FORMS: Collection[Form] = (*SELF_ENDING, _parse_minimax_calls, _parse_tagged_calls)
"""Forms of calls, each tried in turn."""
