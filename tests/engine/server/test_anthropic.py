"""Anthropic's endpoints through the official client."""

import json

import anthropic
import openai
import pytest
from live_server import live_server
from scripted_engine import Answer, ScriptedEngine

from mlx_engine.values.errors import OutOfMemory

ASKED = [{"role": "user", "content": "What does os.path.join do?"}]


def client_of(server):
    return anthropic.Anthropic(base_url=server.address, api_key="-", max_retries=0)


@pytest.fixture(scope="module")
def client(served):
    with client_of(served) as made:
        yield made


def test_a_message_and_its_stream_have_the_same_words(client):
    asked = {
        "model": "pocket_model",
        "messages": ASKED,
        "max_tokens": 40,
        "extra_body": {"temperature": 0.0},
    }
    whole = client.messages.create(**asked, system="Be brief.")
    blocks = [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]
    with client.messages.stream(**asked, system=blocks) as stream:
        text = "".join(stream.text_stream)
        last = stream.get_final_message()
    assert whole.content[0].text == text == last.content[0].text
    assert whole.stop_reason == last.stop_reason in ("end_turn", "max_tokens")
    assert whole.usage.output_tokens == last.usage.output_tokens


def test_the_stop_sequence_that_ended_a_message_is_named(client, served):
    asked = {
        "model": "pocket_model",
        "messages": ASKED,
        "max_tokens": 60,
        "extra_body": {"temperature": 0.0},
    }
    text = client.messages.create(**asked).content[0].text
    stop = text[10:14]
    whole = client.messages.create(**asked, stop_sequences=["never\n", stop])
    with client.messages.stream(**asked, stop_sequences=[stop]) as stream:
        last = stream.get_final_message()
    for message in (whole, last):
        assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", stop)
        assert message.content[0].text == text[: text.index(stop)]
    [choice] = (
        openai.OpenAI(base_url=f"{served.address}/v1", api_key="-")
        .chat.completions.create(model="", messages=ASKED, max_tokens=60, stop=stop, temperature=0)
        .choices
    )
    assert (choice.finish_reason, choice.stopping_word) == ("stop", stop)


def test_tokens_are_counted_as_they_are_read(client):
    asked = {"model": "pocket_model", "messages": ASKED, "system": "Be brief."}
    counted = client.messages.count_tokens(**asked).input_tokens
    usage = client.messages.create(**asked, max_tokens=1).usage
    assert counted == usage.input_tokens + usage.cache_read_input_tokens


def test_thoughts_are_blocks_of_their_own():
    engine = ScriptedEngine([Answer("Four.", thinking="Two and two.") for _ in range(2)])
    asked = {"model": "Scripted", "messages": ASKED, "max_tokens": 99}
    with live_server(lambda: engine) as server, client_of(server) as client:
        whole = client.messages.create(**asked, thinking={"type": "enabled", "budget_tokens": 1024})
        with client.messages.stream(**asked, thinking={"type": "disabled"}) as stream:
            kinds = [event.type for event in stream]
            last = stream.get_final_message()
    for message in (whole, last):
        assert [block.type for block in message.content] == ["thinking", "text"]
        assert message.content[0].thinking == "Two and two."
        assert message.content[1].text == "Four."
    assert kinds.count("content_block_start") == kinds.count("content_block_stop") == 2
    assert [s.template_arguments for s in engine.sessions] == [
        {"enable_thinking": True},
        {"enable_thinking": False},
    ]


def test_a_thought_of_an_earlier_answer_is_given_back_to_the_model():
    engine = ScriptedEngine()
    blocks = [{"type": "thinking", "thinking": "c", "signature": ""}, {"type": "text", "text": "b"}]
    messages = [*ASKED, {"role": "assistant", "content": blocks}, *ASKED]
    with live_server(lambda: engine) as server, client_of(server) as client:
        client.messages.create(model="Scripted", max_tokens=9, messages=messages)
    assert [m.thinking for m in engine.sessions[0].messages[:3]] == ["", "c", ""]


def test_an_error_in_mid_answer_ends_the_stream_with_its_words():
    error = OutOfMemory("Memory ran out: close other programs.")
    engine = ScriptedEngine([Answer("Half an", error=error)])
    with (
        live_server(lambda: engine) as server,
        client_of(server) as client,
        pytest.raises(anthropic.APIError, match="Memory ran out"),
        client.messages.stream(model="Scripted", messages=ASKED, max_tokens=9) as stream,
    ):
        stream.get_final_message()


def test_a_stream_begins_with_the_length_of_its_prompt(client):
    asked = {"model": "pocket_model", "messages": ASKED, "max_tokens": 2}
    counted = client.messages.count_tokens(model="pocket_model", messages=ASKED).input_tokens
    [start] = [e for e in client.messages.create(**asked, stream=True) if e.type == "message_start"]
    usage = start.message.usage
    assert usage.input_tokens + usage.cache_read_input_tokens == counted


def test_an_answer_is_bound_to_the_schema_of_its_output_format(client):
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    form = {"format": {"type": "json_schema", "schema": {**schema, "additionalProperties": False}}}
    asked = {"model": "pocket_model", "messages": ASKED, "max_tokens": 60}
    answer = client.messages.create(**asked, extra_body={"output_config": form, "temperature": 0.0})
    assert [*json.loads(answer.content[0].text)] == ["n"]


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        ({"model": "claude"}, "not_found_error", "'claude' is not loaded"),
        ({"model": "claude"}, "not_found_error", "load the other model in the window"),
        ({"max_tokens": 0}, "invalid_request_error", "max_tokens: Input should be greater"),
        ({"extra_body": {"container": "a"}}, "invalid_request_error", "container: this server"),
        ({"messages": []}, "invalid_request_error", "at least 1 item"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}]},
            "invalid_request_error",
            "fetches no pictures",
        ),
        (
            {"tools": [{"name": "a", "input_schema": {}}]},
            "invalid_request_error",
            "does not tell it of tools",
        ),
    ],
)
def test_errors_have_anthropics_shape(client, options, kind, words):
    asked = {"model": "pocket_model", "messages": ASKED, "max_tokens": 9}
    with pytest.raises(anthropic.APIStatusError) as refused:
        client.messages.create(**(asked | options))
    assert refused.value.body["type"] == "error"
    assert refused.value.body["error"]["type"] == kind
    assert words in refused.value.body["error"]["message"]


def test_a_budget_of_thought_reaches_the_engine():
    engine = ScriptedEngine()
    thinking = {"type": "enabled", "budget_tokens": 1024}
    with live_server(lambda: engine) as server, client_of(server) as client:
        client.messages.create(model="Scripted", max_tokens=9, messages=ASKED, thinking=thinking)
    assert engine.sessions[0].generation.max_thinking == 1024
