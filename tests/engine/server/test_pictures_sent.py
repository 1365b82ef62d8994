"""Pictures through the official clients of OpenAI and Anthropic, and what is refused."""

import io
from base64 import b64encode
from threading import current_thread

import anthropic
import openai
import pytest
from live_server import live_server
from sight_scenes import SIGHT, painted

import mlx_engine
from mlx_engine import GenerationOptions, SamplingOptions
from mlx_engine.values.picture import read_picture

TEXT = "What is in the pictures?"


def base64_of(seed: int) -> str:
    file = io.BytesIO()
    painted(seed).save(file, "PNG")
    return b64encode(file.getvalue()).decode()


@pytest.fixture(scope="module")
def seeing():
    with live_server(lambda: mlx_engine.load(SIGHT)) as server:
        yield server


def test_pictures_in_each_interface_give_the_words_of_the_engine(seeing, monkeypatch):
    threads = set()

    def decode(data):
        threads.add(current_thread().name.partition("_")[0])
        return read_picture(data)

    monkeypatch.setattr("mlx_engine.server.fields.read_picture", decode)

    def answer(engine):
        limits = GenerationOptions(40)
        sampling = SamplingOptions(temperature=0)
        session = engine.session(sampling=sampling, generation=limits)
        return list(session.send(TEXT, images=[painted(1), painted(2)]))[-1].text

    wanted = seeing.in_process(answer)
    assert wanted.startswith("The first picture shows ")
    sent = [base64_of(1), base64_of(2)]
    urls = [f"data:image/png;base64,{data}" for data in sent]
    with openai.OpenAI(base_url=f"{seeing.address}/v1", api_key="-", max_retries=0) as client:
        shown = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
        content = [*shown, {"type": "text", "text": TEXT}]
        chat = client.chat.completions.create(
            model="sight_model",
            messages=[{"role": "user", "content": content}],
            max_tokens=40,
            temperature=0,
        )
        assert chat.choices[0].message.content == wanted
        shown = [{"type": "input_image", "image_url": url, "detail": "auto"} for url in urls]
        content = [*shown, {"type": "input_text", "text": TEXT}]
        response = client.responses.create(
            model="sight_model",
            input=[{"role": "user", "content": content}],
            max_output_tokens=40,
            temperature=0,
        )
        assert response.output_text == wanted
        for url, words in (
            ("https://example.org/a.png", "fetches no pictures"),
            ("file:///etc/passwd", "opens no files"),
            ("data:image/png;base64,@", "base64"),
            ("data:image/png;base64,AAAA", "not a picture"),
        ):
            content = [{"type": "image_url", "image_url": {"url": url}}]
            with pytest.raises(openai.BadRequestError, match=words):
                client.chat.completions.create(
                    model="sight_model", messages=[{"role": "user", "content": content}]
                )
    with anthropic.Anthropic(base_url=seeing.address, api_key="-", max_retries=0) as client:
        sources = [{"type": "base64", "media_type": "image/png", "data": data} for data in sent]
        content = [{"type": "image", "source": source} for source in sources]
        message = client.messages.create(
            model="sight_model",
            max_tokens=40,
            extra_body={"temperature": 0},
            messages=[{"role": "user", "content": [*content, {"type": "text", "text": TEXT}]}],
        )
        assert message.content[0].text == wanted
        counted = client.messages.count_tokens(
            model="sight_model", messages=[{"role": "user", "content": [*content]}]
        )
        assert counted.input_tokens > 30
    assert threads == {"asyncio"}, "the event loop decodes none"


def test_a_model_that_sees_none_says_so(served):
    with openai.OpenAI(base_url=f"{served.address}/v1", api_key="-", max_retries=0) as client:
        url = {"url": f"data:image/png;base64,{base64_of(1)}"}
        content = [{"type": "image_url", "image_url": url}]
        with pytest.raises(openai.BadRequestError, match="text alone"):
            client.chat.completions.create(
                model="pocket_model", messages=[{"role": "user", "content": content}]
            )
