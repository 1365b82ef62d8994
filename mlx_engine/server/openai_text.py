"""POST /v1/completions: continuations of raw prompts as OpenAI's interface has them."""

from collections.abc import Callable
from functools import partial
from itertools import accumulate
from time import time
from typing import Any, ClassVar
from uuid import uuid4

from fastapi import APIRouter, Request
from pydantic import Field
from starlette.responses import JSONResponse, Response, StreamingResponse

from mlx_engine import Engine
from mlx_engine.server.desk import EngineConnection, begun, cancel_if_gone
from mlx_engine.server.fields import (
    FieldRefusal,
    SamplingFields,
    generation_options,
    response_documentation,
    timings,
)
from mlx_engine.server.openai_chat import (
    MOST_CHOICES,
    STOPS,
    StreamOptions,
    stop_string_field,
    stream,
    usage,
)
from mlx_engine.service.engine_thread import Events
from mlx_engine.values.conversation import GenerationFinished, TextPiece
from mlx_engine.values.errors import BadOption
from mlx_engine.values.stats import GenerationStats

DEFAULT_MAX_TOKENS = 16
"""Length of a continuation whose request sets none, as in OpenAI's interface."""

Prompt = str | list[int]


class CompletionBody(SamplingFields):
    """Body of a request for continuations."""

    refused: ClassVar = {
        "suffix": FieldRefusal("this server cannot fill in the middle: leave it out."),
        "best_of": FieldRefusal("this server does not choose among answers: leave it out.", (1,)),
    }
    prompt: str | list[int] | list[str] | list[list[int]] = Field(union_mode="left_to_right")
    stream_options: StreamOptions | None = None
    max_tokens: int = Field(DEFAULT_MAX_TOKENS, ge=0, description="0 needs echo")
    stop: str | list[str] | None = None
    n: int = Field(1, ge=1, le=MOST_CHOICES)
    echo: bool = False
    logprobs: int | None = Field(None, ge=0, le=20)
    response_format: dict[str, Any] | None = None

    def prompts(self) -> list[Prompt]:
        """Return the prompts, one or several. Raises BadOption for more than 64."""
        given = self.prompt
        if isinstance(given, str) or (given and isinstance(given[0], int)):
            return [given]
        if not 1 <= len(given) * self.n <= 64:
            raise BadOption("prompt: use 1 to 64 prompts in a request, n times each.")
        return list(given)  # type: ignore[arg-type]


def routes(connection: EngineConnection) -> APIRouter:
    """Make the endpoint."""
    router = APIRouter()

    of_answers = response_documentation(
        "id", "object", "created", "model", "choices", "usage", "timings"
    )

    @router.post("/v1/completions", responses=of_answers)
    async def completions(body: CompletionBody, request: Request) -> Response:
        """Continue each prompt."""
        connection.check_model(body.model)
        asked = [(prompt, choice) for prompt in body.prompts() for choice in range(body.n)]
        head = {
            "id": f"cmpl-{uuid4().hex}",
            "object": "text_completion",
            "created": int(time()),
            "model": connection.description.name,
        }
        echoed = [await _echo(connection, prompt) if body.echo else "" for prompt, _ in asked]
        if body.max_tokens == 0 and not body.echo:
            raise BadOption("max_tokens: without echo nothing is asked for: use 1 or more.")
        if body.stream:
            if body.logprobs is not None or body.max_tokens == 0:
                raise BadOption("logprobs, max_tokens=0: not in a stream.")
            if len(asked) > 1:
                raise BadOption("prompt, n: a stream has one answer: ask for one.")
            events = await begun(connection.events(_answer_function(connection, body, *asked[0])))
            has_usage = body.stream_options is not None and body.stream_options.include_usage
            first, last = _choice_fields(echoed[0]), _choice_fields("")
            chunks = stream(head, first, _text_chunk, last, lambda _: None, events, has_usage)
            return StreamingResponse(chunks, media_type="text/event-stream")
        works = (_finish_continuation(connection, body, *prompt) for prompt in asked)
        written = await cancel_if_gone(request, *works)
        scores = [
            await _logprobs(connection, body, prompt, answer)
            for (prompt, _), answer in zip(asked, written, strict=True)
        ]
        return JSONResponse({**head, **_completion_fields(written, echoed, scores)})

    return router


async def _echo(connection: EngineConnection, prompt: Prompt) -> str:
    if isinstance(prompt, str):
        return prompt
    return await connection.call(lambda engine: engine.detokenize(prompt))


async def _finish_continuation(
    connection: EngineConnection, body: CompletionBody, prompt: Prompt, choice: int
) -> GenerationFinished:
    """Generate a whole continuation; an empty one for max_tokens 0."""
    if body.max_tokens != 0:
        return await connection.with_rows_written(
            _answer_function(connection, body, prompt, choice)
        )
    tokens = await connection.call(partial(_prompt_token_ids, prompt))
    return GenerationFinished("max-tokens", GenerationStats(prompt_tokens=len(tokens)), "")


def _prompt_token_ids(prompt: Prompt, engine: Engine) -> list[int]:
    return engine.tokenize(prompt, add_special=True) if isinstance(prompt, str) else prompt


async def _logprobs(
    connection: EngineConnection, body: CompletionBody, prompt: Prompt, answer: GenerationFinished
) -> dict[str, Any] | None:
    """Score the tokens of a continuation and, with echo, of its prompt; None where not asked."""
    if body.logprobs is None:
        return None
    top = body.logprobs

    def score_prompt(engine: Engine) -> dict[str, Any]:
        tokens: list[int] = []
        chosen: list[float | None] = []
        likely: list[dict[int, float] | None] = []
        if body.echo:
            tokens = _prompt_token_ids(prompt, engine)
            scores = engine.logprobs(tokens, top)
            chosen = [None, *scores.chosen.tolist()]
            rows = zip(scores.top_ids.tolist(), scores.top.tolist(), strict=True)
            likely = [None, *(dict(zip(ids, values, strict=True)) for ids, values in rows)]
        for scored in answer.logprobs:
            tokens = [*tokens, scored.token]
            chosen.append(scored.logprob)
            likely.append({other.token: other.logprob for other in scored.likeliest})
        texts = [engine.detokenize([token]) for token in tokens]
        starts = accumulate(map(len, texts), initial=0)
        return {
            "tokens": texts,
            "token_logprobs": chosen,
            "top_logprobs": [row and _keyed_by_text(row, engine) for row in likely]
            if top
            else None,
            "text_offset": [*starts][:-1],
        }

    return await connection.call(score_prompt)


def _keyed_by_text(logprob_by_token: dict[int, float], engine: Engine) -> dict[str, float]:
    """Key the likeliest tokens' log-probabilities by text; the likeliest of equal texts stays."""
    return {
        engine.detokenize([token]): logprob_by_token[token] for token in reversed(logprob_by_token)
    }


def _answer_function(
    connection: EngineConnection, body: CompletionBody, prompt: Prompt, choice: int
) -> Callable[[Engine], Events]:
    ends = generation_options(body, body.max_tokens, body.stop, body.response_format, body.logprobs)

    def begin(engine: Engine) -> Events:
        connection.check_model(body.model)  # another one may have taken its place
        sampling = body.sampling_options(engine.description.sampling, choice)
        yield from engine.stream(prompt, sampling, body.draft.draft_options(connection.draft), ends)

    return begin


def _completion_fields(
    answers: list[GenerationFinished],
    echoed_prompts: list[str],
    scores: list[dict[str, Any] | None],
) -> dict[str, Any]:
    total = usage(answers[0].stats)
    for name in ("prompt_tokens", "completion_tokens", "total_tokens"):
        total[name] = sum(usage(answer.stats)[name] for answer in answers)
    return {
        "choices": [
            {
                "index": index,
                "text": echo + answer.text,
                "logprobs": score,
                "finish_reason": STOPS[answer.reason],
                **stop_string_field(answer),
            }
            for index, (answer, echo, score) in enumerate(
                zip(answers, echoed_prompts, scores, strict=True)
            )
        ],
        "usage": total,
        "timings": timings(answers[0].stats),
    }


def _choice_fields(text: str) -> dict[str, Any]:
    return {"index": 0, "text": text, "logprobs": None, "finish_reason": None}


def _text_chunk(piece: TextPiece) -> dict[str, Any]:
    return _choice_fields(piece.text)
