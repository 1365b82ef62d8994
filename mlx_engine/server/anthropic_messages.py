"""POST /v1/messages and /v1/messages/count_tokens: answers as Anthropic's interface has them."""

import json
from collections.abc import AsyncIterator
from typing import Any, Literal
from uuid import uuid4

from fastapi import APIRouter, Request
from pydantic import Field
from starlette.responses import JSONResponse, Response, StreamingResponse

from mlx_engine import Engine
from mlx_engine.server.desk import Desk, Written, begun, unless_gone
from mlx_engine.server.fields import Body, SamplingFields, limits, refuse, timings
from mlx_engine.values.conversation import (
    Event,
    FinishReason,
    GenerationFinished,
    Message,
    TextPiece,
)
from mlx_engine.values.errors import BadOption, EngineError
from mlx_engine.values.options import TemplateValue
from mlx_engine.values.stats import GenerationStats

STOPS: dict[FinishReason, str] = {
    "end": "end_turn",
    "stop-string": "stop_sequence",
    "stopped": "end_turn",
    "max-tokens": "max_tokens",
    "context-full": "max_tokens",
    "memory-full": "max_tokens",
}
REFUSED = {"tools": "this server cannot call tools yet: leave it out."}


class Block(Body):
    """A block of a message's content."""

    type: str
    text: str | None = None
    thinking: str | None = None


class MessageFields(Body):
    """A message of the conversation."""

    role: Literal["user", "assistant"]
    content: str | list[Block]

    def message(self) -> Message:
        """Convert to a message of the engine. Raises BadOption for blocks that are not text."""
        if isinstance(self.content, str):
            return Message(self.role, self.content)
        thoughts = [block.thinking or "" for block in self.content if block.type == "thinking"]
        texts = [block for block in self.content if block.type != "thinking"]
        return Message(self.role, _texts(texts), "\n\n".join(thoughts))


def _texts(blocks: list[Block]) -> str:
    for block in blocks:
        if block.type != "text" or block.text is None:
            raise BadOption(
                "messages: a block of the type {kind} cannot be read, this model reads text alone.",
                kind=repr(block.type[:60]),
            )
    return "\n\n".join(block.text or "" for block in blocks)


class Thinking(Body):
    """Whether the model thinks first."""

    type: Literal["enabled", "disabled", "adaptive"]
    budget_tokens: int | None = None


class CountBody(SamplingFields):
    """Body of a request to count the tokens of a prompt."""

    messages: list[MessageFields] = Field(min_length=1)
    system: str | list[Block] | None = None
    thinking: Thinking | None = None
    tools: list[Any] | None = None

    def conversation(self) -> tuple[Message, ...]:
        """Return the messages of the prompt, the system prompt first."""
        system = self.system or ""
        text = system if isinstance(system, str) else _texts(system)
        first = (Message("system", text),) if text else ()
        return (*first, *(message.message() for message in self.messages))

    def arguments(self) -> dict[str, TemplateValue]:
        """Return the variables of the chat template that the request sets."""
        if self.thinking is None:
            return {}
        return {"enable_thinking": self.thinking.type != "disabled"}


class MessagesBody(CountBody):
    """Body of a request for a message."""

    max_tokens: int
    stop_sequences: list[str] | None = None


def _usage(stats: GenerationStats) -> dict[str, int]:
    return {
        "input_tokens": stats.prompt_tokens - stats.reused_tokens,
        "cache_read_input_tokens": stats.reused_tokens,
        "cache_creation_input_tokens": 0,
        "output_tokens": stats.generated_tokens,
    }


def routes(desk: Desk) -> APIRouter:
    """Make the endpoints."""
    router = APIRouter()

    @router.post("/v1/messages")
    async def messages(body: MessagesBody, request: Request) -> Response:
        """Answer the last message."""
        desk.check_model(body.model)
        refuse(body, REFUSED)
        ends = limits(body.max_tokens, body.stop_sequences)
        begin = desk.chat_answer(body, body.conversation(), ends, body.arguments())
        head: dict[str, Any] = {
            "id": f"msg_{uuid4().hex}",
            "type": "message",
            "role": "assistant",
            "model": desk.description.name,
        }
        if body.stream:
            events = await begun(desk.events(begin))
            return StreamingResponse(_stream(head, events), media_type="text/event-stream")
        [answer] = await unless_gone(request, desk.written(begin))
        return JSONResponse({**head, **_message(answer)})

    @router.post("/v1/messages/count_tokens")
    async def count_tokens(body: CountBody) -> dict[str, int]:
        """Count the tokens of the prompt."""
        desk.check_model(body.model)
        refuse(body, REFUSED)

        def count(engine: Engine) -> int:
            session = engine.session(template_arguments=body.arguments())
            session.load_messages(body.conversation())
            return len(session.prompt_tokens())

        return {"input_tokens": await desk.call(count)}

    return router


def _message(answer: Written) -> dict[str, Any]:
    blocks: list[dict[str, str]] = []
    if answer.thinking:
        blocks.append({"type": "thinking", "thinking": answer.thinking, "signature": ""})
    blocks.append({"type": "text", "text": answer.text})
    return {
        "content": blocks,
        "stop_reason": STOPS[answer.reason],
        "stop_sequence": None,
        "usage": _usage(answer.stats),
        "timings": timings(answer.stats),
    }


EMPTY_BLOCKS = {
    "thinking": {"type": "thinking", "thinking": "", "signature": ""},
    "text": {"type": "text", "text": ""},
}


def _event(name: str, **fields: object) -> str:
    return f"event: {name}\ndata: {json.dumps({'type': name, **fields}, ensure_ascii=False)}\n\n"


async def _stream(head: dict[str, Any], events: AsyncIterator[Event | None]) -> AsyncIterator[str]:
    empty: dict[str, object] = {"content": [], "stop_reason": None, "stop_sequence": None}
    yield _event("message_start", message={**head, **empty, "usage": _usage(GenerationStats())})
    index, kind = -1, ""
    try:
        async for event in events:
            match event:
                case None:
                    yield _event("ping")
                case TextPiece():
                    new = "thinking" if event.channel == "thinking" else "text"
                    if new != kind:
                        if kind:
                            yield _event("content_block_stop", index=index)
                        index, kind = index + 1, new
                        block = EMPTY_BLOCKS[kind]
                        yield _event("content_block_start", index=index, content_block=block)
                    delta = {"type": f"{kind}_delta", kind: event.text}
                    yield _event("content_block_delta", index=index, delta=delta)
                case GenerationFinished():
                    if kind:
                        yield _event("content_block_stop", index=index)
                    ends = {"stop_reason": STOPS[event.reason], "stop_sequence": None}
                    used, figures = _usage(event.stats), timings(event.stats)
                    yield _event("message_delta", delta=ends, usage=used, timings=figures)
                    yield _event("message_stop")
                case _:
                    pass
    except EngineError as error:
        yield _event("error", error={"type": "api_error", "message": str(error)})
