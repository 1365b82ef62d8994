"""Tool calls in streamed text: the form of every family, cut anywhere, and what is no call."""

import json
import re
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlx_engine.text.tool_calls import FORMS as ALL_FORMS
from mlx_engine.text.tool_calls import (
    MARKERS,
    ToolReader,
    convert_to_schema_type,
    parse_calls,
    tool_markers_of,
)
from mlx_engine.values.conversation import TextPiece, Tool, ToolCall

WEATHER = Tool(
    "get_weather",
    "Weather of a place.",
    {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "days": {"type": "integer"},
            "units": {"enum": ["C", "F"]},
            "near": {"type": "array", "items": {"type": "string"}},
        },
    },
)
CALL = {"city": "São Paulo", "days": 3}
JSON = json.dumps({"name": "get_weather", "arguments": CALL}, ensure_ascii=False)
ARGUMENTS = json.dumps(CALL, ensure_ascii=False)

FORMS = {
    "Hermes, Qwen 2.5 and 3": f"<tool_call>\n{JSON}\n</tool_call>",
    "Qwen3-Coder, Qwen3.5, Step": "<tool_call>\n<function=get_weather>\n<parameter=city>\n"
    "São Paulo\n</parameter>\n<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>",
    "Seed-OSS": "<seed:tool_call>\n<function=get_weather>\n<parameter=city>São Paulo</parameter>\n"
    "<parameter=days>3</parameter>\n</function>\n</seed:tool_call>",
    "GLM": "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>São Paulo</arg_value>\n"
    "<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n</tool_call>",
    "LongCat": "<longcat_tool_call>get_weather\n<longcat_arg_key>city</longcat_arg_key>\n"
    "<longcat_arg_value>São Paulo</longcat_arg_value>\n<longcat_arg_key>days</longcat_arg_key>\n"
    "<longcat_arg_value>3</longcat_arg_value>\n</longcat_tool_call>",
    "MiniMax": '<minimax:tool_call>\n<invoke name="get_weather">\n<parameter name="city">São Paulo'
    '</parameter>\n<parameter name="days">3</parameter>\n</invoke>\n</minimax:tool_call>',
    "MiniMax M3": ']<]minimax[>[<tool_call>\n]<]minimax[>[<invoke name="get_weather">'
    "]<]minimax[>[<city>São Paulo]<]minimax[>[</city>]<]minimax[>[<days>3]<]minimax[>[</days>"
    "]<]minimax[>[</invoke>\n]<]minimax[>[</tool_call>",
    "Kimi K2": "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0"
    f"<|tool_call_argument_begin|>{ARGUMENTS}<|tool_call_end|><|tool_calls_section_end|>",
    "Kimi K3": '<|open|>tools<|sep|><|open|>call tool="get_weather" index="1"<|sep|>'
    '<|open|>argument key="city" type="string"<|sep|>São Paulo<|close|>argument<|sep|>'
    '<|open|>argument key="days" type="number"<|sep|>3<|close|>argument<|sep|>'
    "<|close|>call<|sep|><|close|>tools<|sep|>",
    "DeepSeek V3, R1": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>"
    f"get_weather\n```json\n{ARGUMENTS}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    "DeepSeek V3.1": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>"
    f"{ARGUMENTS}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    "Mistral": f'[TOOL_CALLS][{{"name": "get_weather", "arguments": {ARGUMENTS}, "id": "a1b2c3"}}]',
    "Mistral 3, Magistral": f"[TOOL_CALLS]get_weather[ARGS]{ARGUMENTS}",
    "Mistral, with ids": f"[TOOL_CALLS]get_weather[CALL_ID]a1b2c3d4e[ARGS]{ARGUMENTS}",
    "Gemma 4": '<|tool_call>call:get_weather{city:<|"|>São Paulo<|"|>,days:3}<tool_call|>',
    "FunctionGemma": "<start_function_call>call:get_weather{city:<escape>São Paulo<escape>,days:3}"
    "<end_function_call>",
    "LFM2": '<|tool_call_start|>[get_weather(city="São Paulo", days=3)]<|tool_call_end|>',
    "Granite": f"<|tool_call|>[{JSON}]",
    "Hunyuan": f"<tool_calls>[{JSON}]</tool_calls>",
    "Command A": '<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "get_weather", '
    f'"parameters": {ARGUMENTS}}}]<|END_ACTION|>',
    "DeepSeek V3.2": '<｜DSML｜function_calls>\n<｜DSML｜invoke name="get_weather">\n'
    '<｜DSML｜parameter name="city" string="true">São Paulo</｜DSML｜parameter>\n'
    '<｜DSML｜parameter name="days" string="false">3</｜DSML｜parameter>\n'
    "</｜DSML｜invoke>\n</｜DSML｜function_calls>",
    "Hy3": "<tool_calls:opensource>\n<tool_call:opensource>get_weather<tool_sep:opensource>\n"
    "<arg_key:opensource>city</arg_key:opensource>\n<arg_value:opensource>São Paulo"
    "</arg_value:opensource>\n<arg_key:opensource>days</arg_key:opensource>\n"
    "<arg_value:opensource>3</arg_value:opensource>\n</tool_call:opensource>\n"
    "</tool_calls:opensource>",
    "Muse": '<atem:function_calls>\n<atem:invoke name="get_weather">\n<atem:parameter name="city">'
    'São Paulo</atem:parameter>\n<atem:parameter name="days">3</atem:parameter>\n</atem:invoke>\n'
    "</atem:function_calls>",
    "Apertus": f'<|tools_prefix|>[{{"get_weather": {ARGUMENTS}}}]<|tools_suffix|>',
    "Nemotron": f"<TOOLCALL>[{JSON}]</TOOLCALL>",
    "Solar Open": "<|tool_calls|><|tool_call:begin|>a1<|tool_call:name|>get_weather"
    f"<|tool_call:args|>{ARGUMENTS}<|tool_call:end|><|calls|>",
    "Functionary": f"<function=get_weather>{ARGUMENTS}</function>",
    "MiniCPM": '<function name="get_weather"><param name="city"><![CDATA[São Paulo]]></param>'
    '<param name="days">3</param></function>',
    "gpt-oss": f"<|start|>functions.get_weather<|message|>{ARGUMENTS}",
    "GigaChat": f"<|function_call|>{JSON}",
    "Llama 3": f'<|python_tag|>{{"name": "get_weather", "parameters": {ARGUMENTS}}}',
    "Llama 3, bare": f'{{"name": "get_weather", "parameters": {ARGUMENTS}}}',
}


def reader_for(text):
    """Of a model whose template spells the markers in the text."""
    rows = [row for row in MARKERS if text.startswith(row.opening)]
    return ToolReader(
        tool_markers_of(" ".join(r.sign or r.opening for r in rows), no_token), [WEATHER]
    )


def no_token(text):
    """Of a vocabulary without markers."""
    return False


def read(reader, pieces):
    events = [event for piece in pieces for event in reader.read(TextPiece(piece))]
    events += reader.finish()
    text = "".join(event.text for event in events if isinstance(event, TextPiece))
    return text, [event for event in events if isinstance(event, ToolCall)]


@pytest.mark.parametrize("form", FORMS)
def test_each_form_is_read_wherever_the_stream_is_cut(form):
    whole = FORMS[form]
    has_end = any(row.closing and whole.endswith(row.closing) for row in MARKERS)
    before = "" if whole.startswith("{") else "I look. "
    whole = before + whole + (" Done." if has_end else "")
    for cut in range(len(whole) + 1):
        text, [call] = read(reader_for(FORMS[form]), [whole[:cut], whole[cut:]])
        assert (call.name, json.loads(call.arguments)) == ("get_weather", CALL)
        assert text == before + (" Done." if has_end else "")
        assert call.id
    text, calls = read(reader_for(FORMS[form]), list(whole))
    assert [json.loads(call.arguments) for call in calls] == [CALL]


@pytest.mark.parametrize("form", FORMS)
def test_a_call_that_was_cut_is_none_and_stays_text(form):
    """A limit of tokens may end an answer inside an argument."""
    whole = FORMS[form]
    for cut in range(len(whole)):
        text, calls = read(reader_for(whole), [whole[:cut]])
        assert [json.loads(call.arguments) for call in calls] in ([], [CALL]), whole[:cut]
        assert calls or text == whole[:cut]


def test_entries_and_items_are_elements_inside_an_argument_of_minimax():
    deep = {"k": {"z": True, "item": "a"}, "of": [[1, 2], []]}
    schema = {
        "near": {"type": "array", "items": {"type": "string"}},
        "deep": {"type": "object"},
        "none": {"type": "array"},
        "zip": {"type": "string"},
    }
    body = (
        '<invoke name="f"><near><item>1</item><item>b, <c></item></near><deep><k><z>true</z>'
        "<item>a</item></k><of><item><item>1</item><item>2</item></item><item></item></of></deep>"
        "<none></none><zip>01234</zip></invoke>"
    )
    spaced = re.sub(r"<(?=/?(?:invoke|near|item|deep|k|z|of|none|zip)\b)", "]<]minimax[>[<", body)
    [call] = parse_calls(spaced, {"f": schema}, ALL_FORMS)
    found = json.loads(call.arguments)
    deep["of"][1] = ""  # of nothing known, and empty
    with pytest.raises(ValueError, match="too deeply"):
        parse_calls(spaced.replace("]<]minimax[>[<zip>", "]<]minimax[>[<a>" * 9999), {}, ALL_FORMS)
    assert found == {"near": ["1", "b, <c>"], "deep": deep, "none": [], "zip": "01234"}


@pytest.mark.parametrize("form", [name for name in FORMS if "bare" not in name])
def test_several_calls_are_all_read(form):
    block = FORMS[form]
    _, calls = read(reader_for(block), [block, "" if "[TOOL_CALLS][" in block else block])
    row = next(row for row in MARKERS if block.startswith(row.opening))
    assert len(calls) == (2 if row.closing else len(calls))
    assert {call.name for call in calls} == {"get_weather"}


@pytest.mark.parametrize(
    "text",
    [
        "<tool_call>",
        "<tool_call>\nnot a call\nat all</tool_call>",
        "<tool_call>word</tool_call>",
        '<tool_call>{"name": "a", "arguments": {"b": </tool_call> and on',
        '<tool_call>{"name": 3, "arguments": {}}</tool_call>',
        '<tool_call>{"name": "a", "arguments": [1]}</tool_call>',
        "<tool_call>" + "[" * 50_000 + "</tool_call>",
        "a < b, <tool, <tool_cal",
        "no call",
    ],
)
def test_what_is_no_call_stays_text(text):
    for pieces in ([text], [*text[:200], text[200:]]):
        assert read(ToolReader(MARKERS[:1], [WEATHER]), pieces) == (text, [])


def test_a_call_without_arguments_is_one_of_a_known_tool():
    text, [call] = read(ToolReader(MARKERS[:1], [WEATHER]), ["<tool_call>get_weather</tool_call>"])
    assert (text, call.name, call.arguments) == ("", "get_weather", "{}")


def test_a_call_keeps_the_id_that_the_model_gave_it():
    ids = {form: read(reader_for(text), [text])[1][0].id for form, text in FORMS.items()}
    assert ids["Kimi K2"] == "functions.get_weather:0"
    assert (ids["Mistral"], ids["Mistral, with ids"], ids["Solar Open"]) == (
        "a1b2c3",
        "a1b2c3d4e",
        "a1",
    )
    assert len(ids["GLM"]) == 9 and ids["GLM"].isalnum()  # as Mistral's templates want them


def test_an_object_of_another_kind_is_an_answer_of_llama():
    text = '{"name_of": "x"} is JSON'
    assert read(reader_for('{"name"'), [text]) == (text, [])
    assert read(reader_for('{"name"'), ['See {"name": "a"}']) == ('See {"name": "a"}', [])


def test_thinking_is_left_alone():
    piece = TextPiece(FORMS["GLM"], "thinking")
    assert list(ToolReader(MARKERS[:1], [WEATHER]).read(piece)) == [piece]


@pytest.mark.parametrize(
    ("text", "schema", "value"),
    [
        ("3", {"type": "string"}, "3"),
        ("3", {"type": "integer"}, 3),
        ("3", {"type": "number"}, 3),
        ("3.5", {"type": "integer"}, "3.5"),
        (" true", {"type": "boolean"}, True),
        ("True", {"type": "boolean"}, True),
        ("null", {"type": ["string", "null"]}, None),
        ("None", {"anyOf": [{"type": "integer"}, {"type": "null"}]}, None),
        ("C", {"enum": ["C", "F"]}, "C"),
        ("2", {"enum": [1, 2]}, 2),
        ('["a"]', {"type": "array"}, ["a"]),
        ("['a', None]", {"type": "array"}, ["a", None]),
        ("[a", {"type": "array"}, "[a"),
        ("two\nlines ", {"type": "string"}, "two\nlines "),
        ("12", None, 12),
        ("12 apples", None, "12 apples"),
    ],
)
def test_the_schema_decides_an_arguments_type(text, schema, value):
    assert convert_to_schema_type(text, schema) == value
    assert type(convert_to_schema_type(text, schema)) is type(value)


def test_a_model_without_markers_has_those_of_hermes():
    assert tool_markers_of("", no_token) == MARKERS[:1]
    assert tool_markers_of("", lambda token: token == "[TOOL_CALLS]")[0].opening == "[TOOL_CALLS]"


MARKS = ("<tool_call>", "</tool_call>", "<function=a>", "[ARGS]", '{"name": "a"')


@given(
    st.text(alphabet="<>|/_=: \n\"'{}[],aetol\\", max_size=40),
    st.lists(st.sampled_from(MARKS), max_size=4),
)
def test_no_text_is_lost_or_breaks_the_reader(text, marks):
    """Whatever is written: either calls are found, or every character comes back."""
    whole = text.join(["", *marks, ""])
    said, calls = read(ToolReader(MARKERS, [WEATHER]), list(whole))
    assert calls or said == whole
    with suppress(ValueError):
        parse_calls(whole, {}, ALL_FORMS)
