"""OpenAI's Responses interface through the official client."""

import json

import openai
import pytest
from live_server import live_server
from scripted_engine import Answer, ScriptedEngine
from tool_model import CALL_TOKEN, tool_folder

import mlx_engine
from mlx_engine.values.conversation import Message
from mlx_engine.values.errors import OutOfMemory

WEATHER = {
    "type": "function",
    "name": "get_weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}


def client_of(server):
    return openai.OpenAI(base_url=f"{server.address}/v1", api_key="-", max_retries=0)


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    folder = tool_folder(tmp_path_factory.mktemp("tools") / "m")
    with live_server(lambda: mlx_engine.load(folder)) as server, client_of(server) as made:
        yield made


def test_a_response_and_its_stream_have_the_words_of_a_chat(client):
    asked = {"model": "m", "temperature": 0, "max_output_tokens": 30}
    question = "What does os.path.join do?"
    whole = client.responses.create(**asked, input=question, instructions="Be brief.")
    items = [
        {"role": "developer", "content": [{"type": "input_text", "text": "Be brief."}]},
        {"type": "message", "role": "user", "content": question},
    ]
    events = list(client.responses.create(**asked, input=items, stream=True))
    chat = client.chat.completions.create(
        model="m",
        temperature=0,
        max_tokens=30,
        messages=[
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": question},
        ],
    )
    text = "".join(e.delta for e in events if e.type == "response.output_text.delta")
    assert whole.output_text == text == chat.choices[0].message.content
    assert events[0].type == "response.created"
    assert events[-1].type == f"response.{whole.status}"
    assert events[-1].response.output_text == text
    assert [e.sequence_number for e in events] == list(range(len(events)))
    assert whole.usage.output_tokens == chat.usage.completion_tokens


def test_a_response_tells_the_log_probabilities_of_its_tokens(client):
    asked = {"model": "m", "temperature": 0, "max_output_tokens": 9, "input": "a"}
    asked |= {"include": ["message.output_text.logprobs"], "top_logprobs": 2}
    part = client.responses.create(**asked).output[-1].content[0]
    events = list(client.responses.create(**asked, stream=True))
    streamed = [s for e in events if e.type == "response.output_text.delta" for s in e.logprobs]
    assert [s.logprob for s in streamed] == [s.logprob for s in part.logprobs]
    assert "".join(score.token for score in part.logprobs) == part.text
    assert [len(score.top_logprobs) for score in part.logprobs] == [2] * 9
    assert events[-1].response.output[-1].content[0].logprobs == part.logprobs
    assert client.responses.create(model="m", input="a").output[-1].content[0].logprobs == []


def test_an_answer_that_is_cut_is_incomplete(client):
    cut = client.responses.create(model="", input="a", max_output_tokens=2)
    assert (cut.status, cut.incomplete_details.reason) == ("incomplete", "max_output_tokens")


def test_calls_are_items_and_a_conversation_goes_on_by_its_id(client):
    calling = {"logit_bias": {str(CALL_TOKEN): 1000}}
    asked = {"model": "m", "tools": [WEATHER], "max_output_tokens": 1}
    first = client.responses.create(**asked, input="Weather?", extra_body=calling)
    [call] = first.output
    assert (call.type, json.loads(call.arguments)) == ("function_call", {"city": "Bonn", "days": 3})
    streamed = list(
        client.responses.create(**asked, input="Weather?", extra_body=calling, stream=True)
    )
    assert {e.type for e in streamed} >= {
        "response.function_call_arguments.done",
        "response.output_item.done",
    }
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "warm"}
    by_id = client.responses.create(
        **asked, input=[result], previous_response_id=first.id, temperature=0
    )
    by_items = client.responses.create(
        **asked,
        input=[{"role": "user", "content": "Weather?"}, call.model_dump(), result],
        temperature=0,
    )
    assert by_id.output_text == by_items.output_text
    assert by_id.usage.input_tokens == by_items.usage.input_tokens > first.usage.input_tokens
    with pytest.raises(openai.BadRequestError, match="not remembered"):
        client.responses.create(model="m", input="a", previous_response_id="resp_x")


def test_thoughts_are_items_and_come_back():
    engine = ScriptedEngine([Answer("Four.", thinking="Two and two.")])
    with live_server(lambda: engine) as server, client_of(server) as client:
        first = client.responses.create(model="Scripted", input="2 + 2?")
        assert [item.type for item in first.output] == ["reasoning", "message"]
        assert first.output[0].content[0].text == "Two and two."
        items = [item.model_dump(exclude_none=True) for item in first.output]
        question = {"role": "user", "content": "Sure?"}
        client.responses.create(
            model="Scripted", input=[{"role": "user", "content": "2 + 2?"}, *items, question]
        )
    assert engine.sessions[1].messages[1] == Message("assistant", "Four.", "Two and two.")


def test_errors_are_told(client):
    for fields, words in (
        ({"tools": [{"type": "web_search"}]}, "OpenAI's own servers"),
        ({"tool_choice": "required"}, "tool_choice: use"),
        ({"input": [{"type": "computer_call"}]}, "'computer_call' cannot be read"),
        ({"text": {"format": {"type": "xml"}}}, "response_format: use"),
        ({"input": []}, "nothing is asked"),
        ({"background": True}, "background: this server"),
        ({"conversation": "conv_a"}, "conversation: this server"),
        ({"truncation": "auto"}, "truncation: this server"),
    ):
        with pytest.raises(openai.BadRequestError, match=words):
            client.responses.create(**({"model": "m", "input": "a"} | fields))
    error = OutOfMemory("Memory ran out: close other programs.")
    engine = ScriptedEngine([Answer("Half an", error=error)])
    with live_server(lambda: engine) as server, client_of(server) as other:
        *_, last = other.responses.create(model="Scripted", input="a", stream=True)
        assert (last.type, last.response.error.message) == ("response.failed", str(error))
