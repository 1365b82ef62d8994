"""Grammars of tool calls in the form that a chat template shows, walked token by token."""

import json
import random

import jsonschema
import numpy as np
import pytest

from mlx_engine.built_in_model import built_in_model
from mlx_engine.text.call_form import bound_calls
from mlx_engine.text.chat_template import ChatTemplate
from mlx_engine.text.grammar import GrammarTokens
from mlx_engine.text.tokenizer_folder import read_tokenizer
from mlx_engine.text.tool_calls import ToolMarkers, ToolReader, tool_markers_of
from mlx_engine.values.conversation import Message, TextPiece, Tool, ToolCall
from mlx_engine.values.errors import BadOption
from mlx_engine.values.options import GenerationOptions

WEATHER = Tool(
    "get_weather",
    "Weather.",
    {
        "type": "object",
        "properties": {
            "unit": {"enum": ["C", "F"]},
            "days": {"type": "integer", "minimum": 0, "maximum": 99},
            "hours": {"type": "array", "items": {"type": "integer"}, "maxItems": 3},
            "is_exact": {"anyOf": [{"type": "boolean"}, {"type": "null"}]},
        },
        "required": ["unit", "days"],
        "additionalProperties": False,
    },
)
CITY = {"city": {"type": "string"}, "days": {"type": "integer"}}
PLACE = Tool("find", "Find.", {"properties": CITY, "required": ["city"]})
JSON = '{"name": "NAME", "arguments": ARGS}'


def template_of(call, before="", between="", after="", tells=""):
    """A template whose calls look like this: NAME and ARGS are replaced."""
    call = call.replace("NAME", "{{ call.name }}").replace(
        " ARGS", " {{ call.arguments | tojson }}"
    )
    source = (
        "{{ tools }}{% if tools %}" + tells + "{% endif %}"
        "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}"
        "{% if message.tool_calls %}" + before + "{% for item in message.tool_calls %}"
        "{% set call = item.function %}{% if not loop.first %}" + between + "{% endif %}" + call
        + "{% endfor %}" + after + "{% endif %}<|im_end|>\n{% endfor %}"
    )  # fmt: skip
    return ChatTemplate(source, {}, "t")


def elements(opening, middle, closing):
    inner = "{{ key }}" + middle + "{{ value if value is string else value | tojson }}" + closing
    return "{% for key, value in call.arguments.items() %}" + opening + inner + "{% endfor %}"


CODER = "<tool_call>\n<function=NAME>\n" + elements("<parameter=", ">\n", "\n</parameter>\n")
GLM = "<tool_call>NAME\n" + elements("<arg_key>", "</arg_key>\n<arg_value>", "</arg_value>\n")
INVOKE = '<invoke name="NAME">\n' + elements('<parameter name="', '">', "</parameter>\n")
TEMPLATES = {
    "Hermes": template_of(f"<tool_call>\n{JSON}\n</tool_call>", between="{{ '\\n' }}"),
    "Qwen3-Coder": template_of(CODER + "</function>\n</tool_call>", between="{{ '\\n' }}"),
    "GLM": template_of(GLM + "</tool_call>", between="{{ '\\n' }}"),
    "MiniMax": template_of(
        INVOKE + "</invoke>\n", before="<minimax:tool_call>\n", after="</minimax:tool_call>"
    ),
    "Llama": template_of(
        '{"name": "NAME", "parameters": ARGS}',
        tells='{"name": function name, "parameters": dictionary}',
    ),
    "Mistral": template_of(
        JSON[:-1] + ', "id": "{{ item.id }}"}', "[TOOL_CALLS][", ", ", "]", "[TOOL_CALLS]"
    ),
    "Mistral 3": template_of("[TOOL_CALLS]NAME[ARGS]{{ call.arguments | tojson }}"),
    "DeepSeek": template_of(
        "<｜tool▁call▁begin｜>NAME<｜tool▁sep｜>{{ call.arguments | tojson }}<｜tool▁call▁end｜>",
        "<｜tool▁calls▁begin｜>", "", "<｜tool▁calls▁end｜>",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def tokenizer():
    return read_tokenizer(built_in_model())


@pytest.fixture(scope="module")
def tokens(tokenizer):
    return GrammarTokens(tokenizer, 3072)


class Bound:
    """The grammar of one answer to a template's tools."""

    def __init__(self, tokens, tokenizer, template, tools, markers=None, **options):
        self.tokenizer = tokenizer
        self.markers = markers or tool_markers_of(template.source, lambda text: False)
        self.tools = tools
        limits = GenerationOptions(**options)
        lark = bound_calls(template, self.markers, tokenizer, tools, limits)
        self.start = tokens.bind_grammar(limits, None, None, lark)

    def takes(self, text):
        """Whether the text is a whole answer."""
        ids = self.tokenizer.encode(text)
        rows = self.start.reset_copy().allowed_tokens(ids)
        return len(rows) == len(ids) + 1 and bool(rows[-1][next(iter(self.tokenizer.end_ids))])

    def walk(self, seed, most=600):
        """A random answer."""
        draw, grammar, ids = random.Random(seed), self.start.reset_copy(), []
        while len(ids) < most:
            row = np.flatnonzero(grammar.allowed_tokens(())[0])
            token = int(draw.choice(list(row)))
            if token in self.tokenizer.end_ids:
                return self.tokenizer.decode(ids, keep_special=True)
            grammar.commit([token])
            ids.append(token)
        return None

    def calls(self, text):
        reader = ToolReader(self.markers, self.tools)
        said = [*reader.read(TextPiece(text)), *reader.finish()]
        text = "".join(piece.text for piece in said if isinstance(piece, TextPiece))
        return text, [(call.name, json.loads(call.arguments)) for call in reader.calls]


def written(template, name, arguments):
    call = ToolCall(name, json.dumps(arguments), "a1b2c3d4e")
    asked = [Message("user", "-"), Message("assistant", "", calls=(call,))]
    text = template.render(asked, add_generation_prompt=False, tools=[WEATHER])
    return text.rpartition("assistant\n")[2].partition("<|im_end|>")[0]


@pytest.mark.parametrize("family", TEMPLATES)
def test_an_answer_that_must_call_is_a_call_that_fits(tokens, tokenizer, family):
    template = TEMPLATES[family]
    bound = Bound(tokens, tokenizer, template, [WEATHER, PLACE], must_call=("get_weather", "find"))
    fine = [
        ("get_weather", {"unit": "C", "days": 3}),
        ("get_weather", {"unit": "F", "days": 42, "hours": [7, 8], "is_exact": None}),
        ("find", {"city": "São\n\"Paulo\" 'x' \\ <b>"}),
        ("find", {"city": "03", "days": -1}),
    ]
    for name, arguments in fine:
        text = written(template, name, arguments)
        assert bound.takes(text), text
        assert bound.calls(text) == ("", [(name, arguments)])
        assert not bound.takes(text + "!")
        assert not bound.takes("Well. " + text)
    for name, arguments in (
        ("get_weather", {"unit": "K", "days": 3}),
        ("get_weather", {"days": 3}),
        ("get_weather", {"unit": "C", "days": 3.5}),
        ("get_weather", {"unit": "C", "days": 3, "more": 1}),
        ("other", {"city": "x"}),
    ):
        assert not bound.takes(written(template, name, arguments))
    assert not bound.takes("Hello.")


@pytest.mark.parametrize("family", TEMPLATES)
def test_random_answers_are_calls_that_fit(tokens, tokenizer, family):
    bound = Bound(tokens, tokenizer, TEMPLATES[family], [WEATHER], must_call=("get_weather",))
    ended = [text for seed in range(6) if (text := bound.walk(seed)) is not None]
    assert len(ended) >= 3
    for text in ended:
        rest, calls = bound.calls(text)
        assert calls
        assert not rest.strip()
        for name, arguments in calls:
            assert name == "get_weather"
            jsonschema.validate(arguments, dict(WEATHER.parameters))


@pytest.mark.parametrize("family", TEMPLATES)
def test_strict_tools_leave_text_free_and_bind_calls(tokens, tokenizer, family):
    template = TEMPLATES[family]
    bound = Bound(tokens, tokenizer, template, [WEATHER])
    good, bad = (written(template, "get_weather", {"unit": u, "days": 3}) for u in "CK")
    assert bound.takes("Hello <b> [x]: 3 < 4.")
    assert bound.takes(good)
    assert not bound.takes(bad)
    if family != "Llama":
        assert bound.takes("I look it up.\n" + good)
        assert not bound.takes("I look it up.\n" + bad)
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    if family == "Llama":
        with pytest.raises(BadOption, match="calls are JSON"):
            Bound(tokens, tokenizer, template, [WEATHER], schema=schema)
        return
    both = Bound(tokens, tokenizer, template, [WEATHER], schema=schema)
    assert both.takes('{"a": 1}')
    assert both.takes(good)
    assert not both.takes("Hello.")


def test_an_answer_may_have_several_calls(tokens, tokenizer):
    template = TEMPLATES["Hermes"]
    call = written(template, "get_weather", {"unit": "C", "days": 3})
    for options in ({"must_call": ("get_weather",)}, {}):
        bound = Bound(tokens, tokenizer, template, [WEATHER], **options)
        assert bound.takes(call)
        assert bound.takes(f"{call}\n{call}")
        assert len(bound.calls(f"{call}\n{call}")[1]) == 2


def test_markers_that_are_special_tokens_are_these_tokens(tokens, tokenizer):
    markers = (ToolMarkers("<|im_start|>tool", "<|endoftext|>"),)
    template = template_of(f"<|im_start|>tool{JSON}<|endoftext|>")
    for options in ({"must_call": ("find",)}, {}):
        bound = Bound(tokens, tokenizer, template, [PLACE], markers, **options)
        grammar = bound.start.reset_copy()
        text = '<|im_start|>tool{"name": "find", "arguments": {"city": "x"}}'
        ids = tokenizer.encode(text)
        assert len(grammar.allowed_tokens(ids)) == len(ids) + 1
        spelled = [token for c in text for token in tokenizer.encode(c)]
        assert len(grammar.allowed_tokens(spelled)) <= 1 or not options


@pytest.mark.parametrize(
    ("template", "tool", "words"),
    [
        (template_of("call:NAME{{ call.arguments.items() | list }}"), PLACE, "does not show"),
        (template_of("<tool_call>NAME ARGS</tool_call>"), PLACE, "does not show"),
        (
            TEMPLATES["Qwen3-Coder"],
            Tool("find", "", {"properties": {"at": {"type": "string", "pattern": "a+"}}}),
            "pattern of 'at' of 'find' cannot be kept",
        ),
        (TEMPLATES["Hermes"], Tool("find", "", {"type": "nonsense"}), "tools: no answer can be"),
        (TEMPLATES["Hermes"], WEATHER, "'find' is no tool of this chat"),
    ],
)
def test_what_cannot_be_bound_is_refused_in_words(tokens, tokenizer, template, tool, words):
    with pytest.raises(BadOption, match=words):
        Bound(tokens, tokenizer, template, [tool], must_call=("find",))
