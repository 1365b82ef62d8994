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
from mlx_engine.server.desk import Desk, begun, unless_gone
from mlx_engine.server.fields import Refusal, SamplingFields, documented, limits, timings
from mlx_engine.server.openai_chat import (
    MOST_CHOICES,
    STOPS,
    StreamOptions,
    stopping_word,
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
        "suffix": Refusal("this server cannot fill in the middle: leave it out."),
        "best_of": Refusal("this server does not choose among answers: leave it out.", (1,)),
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


def routes(desk: Desk) -> APIRouter:
    """Make the endpoint."""
    router = APIRouter()

    of_answers = documented("id", "object", "created", "model", "choices", "usage", "timings")

    @router.post("/v1/completions", responses=of_answers)
    async def completions(body: CompletionBody, request: Request) -> Response:
        """Continue each prompt."""
        desk.check_model(body.model)
        asked = [(prompt, choice) for prompt in body.prompts() for choice in range(body.n)]
        head = {
            "id": f"cmpl-{uuid4().hex}",
            "object": "text_completion",
            "created": int(time()),
            "model": desk.description.name,
        }
        echoed = [await _echo(desk, prompt) if body.echo else "" for prompt, _ in asked]
        if body.max_tokens == 0 and not body.echo:
            raise BadOption("max_tokens: without echo nothing is asked for: use 1 or more.")
        if body.stream:
            if body.logprobs is not None or body.max_tokens == 0:
                raise BadOption("logprobs, max_tokens=0: not in a stream.")
            if len(asked) > 1:
                raise BadOption("prompt, n: a stream has one answer: ask for one.")
            events = await begun(desk.events(_continuation(desk, body, *asked[0])))
            has_usage = body.stream_options is not None and body.stream_options.include_usage
            first, last = _choice(echoed[0]), _choice("")
            chunks = stream(head, first, _piece, last, lambda _: None, events, has_usage)
            return StreamingResponse(chunks, media_type="text/event-stream")
        works = (_finish_continuation(desk, body, *prompt) for prompt in asked)
        written = await unless_gone(request, *works)
        scores = [
            await _logprobs(desk, body, prompt, answer)
            for (prompt, _), answer in zip(asked, written, strict=True)
        ]
        return JSONResponse({**head, **_completion(written, echoed, scores)})

    return router


async def _echo(desk: Desk, prompt: Prompt) -> str:
    if isinstance(prompt, str):
        return prompt
    return await desk.call(lambda engine: engine.detokenize(prompt))


async def _finish_continuation(
    desk: Desk, body: CompletionBody, prompt: Prompt, choice: int
) -> GenerationFinished:
    """Generate a whole continuation; an empty one for max_tokens 0."""
    if body.max_tokens != 0:
        return await desk.written(_continuation(desk, body, prompt, choice))
    tokens = await desk.call(partial(_tokens, prompt))
    return GenerationFinished("max-tokens", GenerationStats(prompt_tokens=len(tokens)), "")


def _tokens(prompt: Prompt, engine: Engine) -> list[int]:
    return engine.tokenize(prompt, add_special=True) if isinstance(prompt, str) else prompt


async def _logprobs(
    desk: Desk, body: CompletionBody, prompt: Prompt, answer: GenerationFinished
) -> dict[str, Any] | None:
    """Score the tokens of a continuation and, with echo, of its prompt; None where not asked."""
    if body.logprobs is None:
        return None
    top = body.logprobs

    def score(engine: Engine) -> dict[str, Any]:
        tokens: list[int] = []
        chosen: list[float | None] = []
        likely: list[dict[int, float] | None] = []
        if body.echo:
            tokens = _tokens(prompt, engine)
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

    return await desk.call(score)


def _keyed_by_text(likely: dict[int, float], engine: Engine) -> dict[str, float]:
    """Key the likeliest tokens' log-probabilities by text; the likeliest of equal texts stays."""
    return {engine.detokenize([token]): likely[token] for token in reversed(likely)}


def _continuation(
    desk: Desk, body: CompletionBody, prompt: Prompt, choice: int
) -> Callable[[Engine], Events]:
    ends = limits(body, body.max_tokens, body.stop, body.response_format, body.logprobs)

    def begin(engine: Engine) -> Events:
        desk.check_model(body.model)  # another one may have taken its place
        sampling = body.sampling(engine.description.sampling, choice)
        yield from engine.stream(prompt, sampling, body.draft.options(desk.draft), ends)

    return begin


def _completion(
    answers: list[GenerationFinished], echoed: list[str], scores: list[dict[str, Any] | None]
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
                **stopping_word(answer),
            }
            for index, (answer, echo, score) in enumerate(zip(answers, echoed, scores, strict=True))
        ],
        "usage": total,
        "timings": timings(answers[0].stats),
    }


def _choice(text: str) -> dict[str, Any]:
    return {"index": 0, "text": text, "logprobs": None, "finish_reason": None}


def _piece(piece: TextPiece) -> dict[str, Any]:
    return _choice(piece.text)
