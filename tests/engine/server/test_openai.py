"""OpenAI's endpoints through the official client, against the engine in this process; tools."""

import json
from concurrent.futures import ThreadPoolExecutor

import anthropic
import jsonschema
import numpy as np
import openai
import pytest
from live_server import live_server
from tool_model import CALL_TOKEN, tool_folder

import mlx_engine
from mlx_engine.values.conversation import Message
from mlx_engine.values.options import DraftOptions, GenerationOptions, SamplingOptions

ASKED = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "What does os.path.join do?"},
]
HOT = {"temperature": 2.0, "top_p": 0.9, "seed": 5}


@pytest.fixture(scope="module")
def client(served):
    with openai.OpenAI(base_url=f"{served.address}/v1", api_key="-", max_retries=0) as made:
        yield made


def chat(client, **options):
    wanted = {"model": "pocket_model", "messages": ASKED, "max_tokens": 48, **HOT}
    return client.chat.completions.create(**(wanted | options))


@pytest.fixture(scope="module")
def expected(served):
    """Text of the same answer without drafting and without a server."""

    def answer(engine):
        session = engine.session(
            system="Be brief.",
            sampling=SamplingOptions(temperature=2.0, top_p=0.9, seed=5),
            draft=DraftOptions(source="none"),
            generation=GenerationOptions(48),
        )
        return list(session.send(ASKED[1]["content"]))[-1].text

    return served.in_process(answer)


@pytest.mark.parametrize("draft", [{"depth": 0}, {"depth": 3}, {"source": "prompt-lookup"}, {}])
def test_a_chat_has_the_words_of_the_engine(client, expected, draft):
    answer = chat(client, extra_body={"draft": draft})
    assert answer.choices[0].message.content == expected
    assert answer.choices[0].finish_reason in ("stop", "length")
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    if draft == {"depth": 3}:
        assert answer.timings["draft_n"] >= answer.timings["draft_n_accepted"] > 0
        assert answer.timings["draft_rounds"] < answer.usage.completion_tokens


def test_a_stream_has_the_same_words_and_ends_with_the_usage(client, expected):
    chunks = list(chat(client, stream=True, stream_options={"include_usage": True}))
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == expected
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] in ("stop", "length")
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-1].usage.completion_tokens > 0
    assert chunks[-2].timings["predicted_n"] == chunks[-1].usage.completion_tokens


def test_eight_clients_at_once_get_the_words_of_one(client):
    asked = [{"seed": seed, "temperature": 4.0, "max_tokens": 24} for seed in range(4)]
    alone = [chat(client, **options).choices[0].message.content for options in asked]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda options: chat(client, **options), asked * 2))
    assert [answer.choices[0].message.content for answer in together] == alone * 2
    assert len(set(alone)) > 1


SHAPE = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 12}, "n": {"type": "integer"}},
    "required": ["name", "n"],
    "additionalProperties": False,
}


RARE = {"xtc_probability": 0.5, "dry_multiplier": 0.8, "dry_sequence_breakers": [".", "\n"]}


@pytest.mark.parametrize(("schema", "rare"), [(None, RARE), (SHAPE, {})])
def test_words_are_the_same_drafted_or_not_streamed_or_not_alone_or_not(
    client, served, schema, rare
):
    """Sampled hot, eight clients at once: what the engine says alone without drafting."""

    def expected(engine, seed):
        session = engine.session(
            system="Be brief.",
            sampling=SamplingOptions(temperature=2.0, top_p=0.9, seed=seed, **rare),
            draft=DraftOptions(source="none"),
            generation=GenerationOptions(24, schema=schema),
        )
        return list(session.send(ASKED[1]["content"]))[-1].text

    form = {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}
    bound = {"response_format": form} if schema else {}

    def said(seed, depth, streams):
        more = {"draft": {"depth": depth}, **rare}
        options = {"seed": seed, "max_tokens": 24, "extra_body": more}
        reply = chat(client, **options, **bound, stream=streams)
        if not streams:
            return reply.choices[0].message.content
        return "".join(chunk.choices[0].delta.content or "" for chunk in reply if chunk.choices)

    ways = [
        (seed, depth, streams) for seed in (1, 2) for depth in (0, 3) for streams in (False, True)
    ]
    with ThreadPoolExecutor(8) as pool:
        texts = list(pool.map(lambda way: said(*way), ways))
    alone = [served.in_process(lambda engine, s=seed: expected(engine, s)) for seed in (1, 2)]
    assert texts == [alone[seed - 1] for seed, _, _ in ways]
    assert alone[0] != alone[1]


def test_a_growing_conversation_is_read_once(client):
    """What an agent's requests read in all: each new token, and what the template's end changes."""
    messages = [{"role": "system", "content": "You are an agent. " * 60}]
    read = total = 0
    for step in range(6):
        messages.append({"role": "user", "content": f"Step {step}: " + "look at this file. " * 20})
        answer = chat(client, messages=messages, max_tokens=8, seed=step)
        messages.append({"role": "assistant", "content": answer.choices[0].message.content})
        read += answer.timings["prompt_n"]
        total = answer.usage.prompt_tokens
        assert answer.usage.prompt_tokens_details.cached_tokens == answer.timings["cached_n"]
    assert read < 1.1 * total


def test_several_choices_differ_and_an_answer_is_continued(client):
    answer = chat(client, n=3, temperature=4.0)
    assert len({choice.message.content for choice in answer.choices}) > 1
    assert answer.usage.completion_tokens > max(
        len(choice.message.content.split()) for choice in answer.choices
    )
    begun = chat(client, messages=[*ASKED, {"role": "assistant", "content": "It joins"}])
    assert begun.choices[0].message.content
    assert not begun.choices[0].message.content.startswith("It joins")


def test_content_parts_developers_and_unknown_fields_are_read(client, expected):
    parts = [{"type": "text", "text": ASKED[1]["content"]}]
    messages = [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": parts}]
    answer = chat(client, messages=messages, extra_body={"store": True, "user": "a"})
    assert answer.choices[0].message.content == expected


def test_completions_are_those_of_the_engine(client, served):
    prompts = ["def join(", "class Path"]
    wanted = served.in_process(
        lambda e: [e.generate(p, 8, SamplingOptions(temperature=0)).text for p in prompts]
    )
    whole = client.completions.create(
        model="pocket_model", prompt=prompts, max_tokens=8, temperature=0, echo=True
    )
    assert [c.text for c in whole.choices] == [p + w for p, w in zip(prompts, wanted, strict=True)]
    tokens = served.in_process(lambda engine: engine.tokenize(prompts[0], add_special=True))
    streamed = client.completions.create(
        model="", prompt=tokens, max_tokens=8, temperature=0, stream=True
    )
    assert "".join(chunk.choices[0].text for chunk in streamed) == wanted[0]


@pytest.mark.parametrize("max_tokens", [0, 3])
def test_scores_are_those_of_the_engines_logits(client, served, max_tokens):
    """As an evaluation harness asks for them: the prompt's own tokens scored."""
    prompt = "def join(a, *p):"
    tokens = served.in_process(lambda engine: engine.tokenize(prompt))
    reply = client.completions.create(
        model="", prompt=prompt, max_tokens=max_tokens, echo=True, logprobs=3, temperature=0
    )
    [choice] = reply.choices
    scores = choice.logprobs
    assert len(scores.tokens) == len(tokens) + reply.usage.completion_tokens
    assert "".join(scores.tokens) == choice.text
    whole = served.in_process(lambda engine: engine.tokenize(choice.text))
    logits = served.in_process(lambda engine: engine.logits(whole)).astype(np.float64)
    expected = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    assert scores.token_logprobs[0] is None
    rows = np.arange(len(tokens) - 1)
    np.testing.assert_allclose(
        scores.token_logprobs[1 : len(tokens)], expected[rows, tokens[1:]], atol=1e-4
    )
    likeliest = sorted(scores.top_logprobs[1].values(), reverse=True)
    np.testing.assert_allclose(likeliest, np.sort(expected[0])[::-1][:3], atol=1e-4)
    assert scores.text_offset == [
        sum(map(len, scores.tokens[:n])) for n in range(len(scores.tokens))
    ]
    plain = client.completions.create(model="", prompt=tokens, max_tokens=3, logprobs=0)
    assert len(plain.choices[0].logprobs.token_logprobs) == plain.usage.completion_tokens


@pytest.mark.parametrize("max_tokens", [0, 1])
def test_an_evaluation_harness_gets_the_engines_scores(client, served, max_tokens):
    """Contexts with continuations as token ids, several in a request, read as lm-eval does."""
    pairs = [("def join(a, *p):", "\n    return"), ("import os", ".path"), ("x", " = 5")]
    encoded = served.in_process(
        lambda engine: [(engine.tokenize(a), engine.tokenize(b)) for a, b in pairs]
    )
    whole = [context + continuation for context, continuation in encoded]
    reply = client.completions.create(
        model="", prompt=whole, max_tokens=max_tokens, echo=True, logprobs=1, temperature=0
    )
    for choice, (context, continuation), tokens in zip(reply.choices, encoded, whole, strict=True):
        scores, rows = choice.logprobs, slice(len(context), len(tokens))
        logits = served.in_process(lambda engine, t=tokens: engine.logits(t)).astype(np.float64)
        expected = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        expected = expected[len(context) - 1 : -1]
        told = sum(scores.token_logprobs[rows])
        own = expected[np.arange(len(continuation)), continuation]
        np.testing.assert_allclose(told, own.sum(), atol=2e-4 * len(continuation))
        likeliest = [max(top, key=top.get) for top in scores.top_logprobs[rows]]
        is_greedy = likeliest == scores.tokens[rows]
        assert is_greedy == (expected.argmax(axis=1).tolist() == continuation)


@pytest.mark.parametrize(
    ("options", "status", "words"),
    [
        ({"model": "gpt-4"}, 404, "'pocket_model' is"),
        ({"messages": []}, 400, "messages: List should have at least 1 item"),
        ({"messages": ASKED[:1]}, 400, "nothing is asked"),
        ({"messages": [*ASKED, ASKED[0]]}, 400, "nothing is asked"),
        ({"messages": [{"role": "robot", "content": "a"}]}, 400, "messages.0.role"),
        ({"messages": [{"role": "user", "content": "  "}]}, 400, "The message is empty"),
        ({"messages": [{"role": "user", "content": "a " * 20_000}]}, 400, "16,384"),
        (
            {
                "messages": [
                    {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}
                ]
            },
            400,
            "fetches no pictures",
        ),
        ({"temperature": 11}, 400, "temperature: Input should be less than or equal to 10"),
        ({"temperature": "hot"}, 400, "temperature: Input should be a valid number"),
        ({"max_tokens": 0}, 400, "max_tokens: Input should be greater than or equal to 1"),
        ({"seed": -1}, 400, "seed: Input should be greater than or equal to 0"),
        ({"n": 99}, 400, "n: Input should be less than or equal to 8"),
        ({"n": 2, "stream": True}, 400, "set n to 1"),
        ({"top_logprobs": 2}, 400, "top_logprobs: set logprobs to true"),
        ({"logprobs": True, "top_logprobs": 21}, 400, "top_logprobs: Input should be less"),
        ({"function_call": "auto"}, 400, "function_call: use tools"),
        ({"verbosity": "low"}, 400, "verbosity: no model here"),
        ({"extra_body": {"web_search_options": {"a": 1}}}, 400, "web_search_options: this server"),
        ({"logit_bias": {"x": 1}}, 400, "logit_bias: use token ids"),
        ({"response_format": {"type": "xml"}}, 400, "response_format"),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "no"}}}},
            400,
            "no answer can be bound",
        ),
        ({"extra_body": {"regex": "a", "grammar": "b"}}, 400, "one of them only"),
        (
            {"extra_body": {"draft": {"depth": 99}}},
            400,
            "draft.depth: Input should be less than or equal to",
        ),
        ({"extra_body": {"chat_template_kwargs": {"messages": 1}}}, 400, "template_arguments"),
    ],
)
def test_what_cannot_be_done_is_refused_in_words(client, options, status, words):
    with pytest.raises(openai.APIStatusError) as refused:
        chat(client, **options)
    assert refused.value.status_code == status
    assert words in refused.value.body["message"]
    assert refused.value.body["type"]


def test_answers_are_bound_to_schemas_and_grammars(client):
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer"}, "ok": {"type": "boolean"}},
        "required": ["n", "ok"],
        "additionalProperties": False,
    }
    form = {"type": "json_schema", "json_schema": {"name": "a", "schema": schema, "strict": True}}
    whole = chat(client, response_format=form, seed=2)
    assert [*json.loads(whole.choices[0].message.content)] == ["n", "ok"]
    chunks = chat(
        client, response_format=form, seed=2, stream=True, extra_body={"draft": {"depth": 3}}
    )
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert text == whole.choices[0].message.content
    flat = {"format": {"type": "json_schema", "name": "a", "schema": schema}}
    response = client.responses.create(model="", input="a", text=flat, temperature=0)
    assert [*json.loads(response.output_text)] == ["n", "ok"]
    some = chat(client, response_format={"type": "json_object"}, max_tokens=200, temperature=0)
    assert some.choices[0].message.content.lstrip().startswith("{")
    picked = chat(client, extra_body={"regex": "(yes|no)"})
    assert picked.choices[0].message.content in ("yes", "no")
    raw = client.completions.create(
        model="", prompt="import", max_tokens=9, extra_body={"grammar": 'start: "a" "b"'}
    )
    assert raw.choices[0].text == "ab"


@pytest.mark.parametrize("draft", [{"depth": 0}, {"depth": 3}])
def test_a_chat_tells_the_log_probabilities_of_its_tokens(client, served, expected, draft):
    asked = {"logprobs": True, "top_logprobs": 3, "extra_body": {"draft": draft}}
    [whole] = chat(client, **asked).choices
    chunks = [c.choices[0] for c in chat(client, stream=True, **asked) if c.choices]
    scores = whole.logprobs.content
    streamed = [s for c in chunks if c.logprobs for s in c.logprobs.content]
    assert streamed == scores
    for chunk in chunks:
        told = bytes(b for s in (chunk.logprobs.content if chunk.logprobs else ()) for b in s.bytes)
        assert told.decode() == (chunk.delta.content or "")
    assert bytes(byte for score in scores for byte in score.bytes).decode() == expected

    def logprobs(engine):
        session = engine.session(system="Be brief.")
        session.load_messages([Message("user", ASKED[1]["content"])])
        prompt = session.prompt_tokens()
        tokens = engine.tokenize(whole.message.content)
        return engine.logprobs([*prompt, *tokens], 3).chosen[len(prompt) - 1 :]

    reference = served.in_process(logprobs)
    np.testing.assert_allclose([s.logprob for s in scores], reference, atol=2e-3)
    assert all(len(score.top_logprobs) == 3 for score in scores)


def test_models_names_the_loaded_one(client):
    [model] = client.models.list().data
    assert (model.id, model.mtp_heads) == ("pocket_model", 1)


def test_a_conversation_reads_its_thoughts(served):
    """As message of the engine: reasoning beside the text."""
    from mlx_engine.server.openai_chat import ChatBody

    messages = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b", "reasoning_content": "c"},
    ]
    body = ChatBody(messages=messages)
    assert body.conversation() == (Message("user", "a"), Message("assistant", "b", "c"))


@pytest.fixture(scope="module")
def tool_client(tmp_path_factory):
    folder = tool_folder(tmp_path_factory.mktemp("tools") / "m")
    with (
        live_server(lambda: mlx_engine.load(folder)) as server,
        openai.OpenAI(base_url=f"{server.address}/v1", api_key="-", max_retries=0) as made,
    ):
        yield made


def test_tools_are_called_and_their_results_answered(tool_client):
    parameters = {"type": "object", "properties": {"city": {"type": "string"}}}
    weather = {"name": "get_weather", "description": "Weather.", "parameters": parameters}
    asked = {
        "model": "m",
        "messages": [{"role": "user", "content": "How is the weather?"}],
        "tools": [{"type": "function", "function": weather}],
        "max_tokens": 2,
        "temperature": 0,
    }
    calling = {"logit_bias": {str(CALL_TOKEN): 1000}}
    whole = tool_client.chat.completions.create(**asked, **calling).choices[0]
    assert whole.finish_reason == "tool_calls"
    assert whole.message.content is None
    assert [json.loads(call.function.arguments) for call in whole.message.tool_calls] == [
        {"city": "Bonn", "days": 3}
    ] * 2
    chunks = list(tool_client.chat.completions.create(**asked, **calling, stream=True))
    deltas = [d for c in chunks for d in c.choices[0].delta.tool_calls or []]
    assert [(d.index, d.function.name) for d in deltas] == [(0, "get_weather"), (1, "get_weather")]
    assert chunks[-1].choices[0].finish_reason == "tool_calls"

    results = [
        {"role": "tool", "tool_call_id": call.id, "content": "warm"}
        for call in whole.message.tool_calls
    ]
    said = whole.message.model_dump(exclude_none=True)
    messages = [*asked["messages"], said, *results]
    answer = tool_client.chat.completions.create(**(asked | {"messages": messages}))
    assert answer.choices[0].finish_reason == "length"
    assert answer.choices[0].message.content

    alone = {**asked, **calling, "max_tokens": 9, "parallel_tool_calls": False}
    alone["extra_body"] = {"draft": {"depth": 0}}
    one = tool_client.chat.completions.create(**alone)
    assert len(one.choices[0].message.tool_calls) == 1
    assert one.choices[0].finish_reason == "tool_calls"
    assert one.usage.completion_tokens == 1
    chunks = tool_client.chat.completions.create(**alone, stream=True)
    assert len([d for c in chunks for d in c.choices[0].delta.tool_calls or []]) == 1

    none = tool_client.chat.completions.create(**asked, **calling, tool_choice="none")
    assert "get_weather" in none.choices[0].message.content


PLACE = {
    "type": "object",
    "properties": {"unit": {"enum": ["C", "F"]}, "days": {"type": "integer", "maximum": 99}},
    "required": ["unit", "days"],
    "additionalProperties": False,
}


def test_a_call_can_be_demanded_and_fits_its_schema(tool_client):
    tools = [
        {"type": "function", "function": {"name": name, "parameters": PLACE, "strict": True}}
        for name in ("get_weather", "get_tide")
    ]
    named = {"type": "function", "function": {"name": "get_tide"}}
    asked = {
        "model": "m",
        "messages": [{"role": "user", "content": "Join the paths."}],
        "max_tokens": 300,
        "temperature": 2.0,
        "seed": 4,
    }
    for choice, drafts in (("required", ({"depth": 0}, {"depth": 3})), (named, ({"depth": 3},))):
        words = set()
        for draft in drafts:
            [made] = tool_client.chat.completions.create(
                **asked, tools=tools, tool_choice=choice, extra_body={"draft": draft}
            ).choices
            assert made.finish_reason == "tool_calls"
            assert not made.message.content
            for call in made.message.tool_calls:
                jsonschema.validate(json.loads(call.function.arguments), PLACE)
            names = [call.function.name for call in made.message.tool_calls]
            assert (
                names == ["get_tide"]
                if choice is named
                else {*names} <= {*("get_weather", "get_tide")}
            )
            words.add(
                str([(c.function.name, c.function.arguments) for c in made.message.tool_calls])
            )
        assert len(words) == 1
    asked_of_responses = {
        "model": "m",
        "input": "Join the paths.",
        "tools": [{"type": "function", **tools[0]["function"]}],
        "max_output_tokens": 300,
    }
    for choice in ("required", {"type": "function", "name": "get_weather"}):
        made = tool_client.responses.create(**asked_of_responses, tool_choice=choice)
        calls = [item for item in made.output if item.type == "function_call"]
        assert calls == made.output
        jsonschema.validate(json.loads(calls[0].arguments), PLACE)
    address = str(tool_client.base_url).removesuffix("/v1/")
    with anthropic.Anthropic(base_url=address, api_key="-", max_retries=0) as client:
        for choice in ({"type": "any"}, {"type": "tool", "name": "get_weather"}):
            made = client.messages.create(
                model="m",
                messages=asked["messages"],
                tools=[{"name": "get_weather", "input_schema": PLACE}],
                tool_choice=choice,
                max_tokens=300,
            )
            assert made.stop_reason == "tool_use"
            jsonschema.validate(made.content[0].input, PLACE)
    for choice in ("required", {"type": "function", "function": {"name": "other"}}):
        with pytest.raises(openai.BadRequestError, match="tool_choice: use"):
            given = [] if choice == "required" else tools
            tool_client.chat.completions.create(**asked, tools=given, tool_choice=choice)


def test_anthropics_interface_has_the_same_tools(tool_client):
    address = str(tool_client.base_url).removesuffix("/v1/")
    with anthropic.Anthropic(base_url=address, api_key="-", max_retries=0) as client:
        asked = {
            "model": "m",
            "messages": [{"role": "user", "content": "How is the weather?"}],
            "tools": [{"name": "get_weather", "input_schema": {"type": "object"}}],
            "max_tokens": 1,
        }
        calling = {"logit_bias": {str(CALL_TOKEN): 1000}}
        whole = client.messages.create(**asked, extra_body=calling)
        assert (whole.stop_reason, [b.type for b in whole.content]) == ("tool_use", ["tool_use"])
        assert whole.content[0].input == {"city": "Bonn", "days": 3}
        with client.messages.stream(**asked, extra_body=calling) as stream:
            last = stream.get_final_message()
        assert last.content[0].input == whole.content[0].input
        assert last.stop_reason == "tool_use"
        several = {**asked, "max_tokens": 3, "extra_body": {**calling, "draft": {"depth": 0}}}
        assert len(client.messages.create(**several).content) == 3
        one = {**several, "tool_choice": {"type": "auto", "disable_parallel_tool_use": True}}
        alone = client.messages.create(**one)
        assert (len(alone.content), alone.usage.output_tokens) == (1, 1)
        with client.messages.stream(**one) as stream:
            last = stream.get_final_message()
        assert (len(last.content), last.stop_reason) == (1, "tool_use")
        result = {"type": "tool_result", "tool_use_id": whole.content[0].id, "content": "warm"}
        turn = [
            {"role": "assistant", "content": whole.content},
            {"role": "user", "content": [result, {"type": "text", "text": "So?"}]},
        ]
        more = asked | {"messages": [*asked["messages"], *turn]}
        assert client.messages.create(**more).stop_reason in ("max_tokens", "end_turn")
        counted = client.messages.count_tokens(
            **{name: more[name] for name in ("model", "messages", "tools")}
        )
        assert counted.input_tokens > 60
        web = [{"type": "web_search_20250305", "name": "web_search"}]
        with pytest.raises(anthropic.BadRequestError, match="Anthropic's own servers"):
            client.messages.create(**(asked | {"tools": web}))
