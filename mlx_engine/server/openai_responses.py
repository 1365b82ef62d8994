"""POST /v1/responses: answers as OpenAI's Responses interface has them, remembered in memory."""

import asyncio
import json
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from time import time
from typing import Annotated, Any, ClassVar, Literal
from uuid import uuid4

from fastapi import APIRouter, Request
from pydantic import Field
from starlette.responses import JSONResponse, Response, StreamingResponse

from mlx_engine.server.desk import EngineConnection, begun, cancel_if_gone, message_for_client
from mlx_engine.server.fields import (
    TOOL_NAME,
    FieldRefusal,
    RequestBody,
    SamplingFields,
    describe_field,
    effort_arguments,
    generation_options,
    logprob_entries,
    required_calls,
    response_documentation,
    timings,
)
from mlx_engine.server.openai_chat import (
    MODERATION,
    VERBOSITY,
    ContentPart,
    content_of,
    join_system_messages,
)
from mlx_engine.values.conversation import (
    Event,
    GenerationFinished,
    Message,
    Role,
    RoundFinished,
    TextPiece,
    Tool,
    ToolCall,
)
from mlx_engine.values.errors import BadOption
from mlx_engine.values.options import TemplateValue
from mlx_engine.values.stats import GenerationStats

MOST_REMEMBERED = 256
"""Responses whose conversation a later request can continue; the oldest are forgotten."""

NO_CODE = FieldRefusal("this server runs no code that calls tools: leave it out.", (["direct"],))

Item = dict[str, Any]


class InputItem(RequestBody):
    """An item of the input: a message, reasoning, a call or the result of one."""

    type: str = "message"
    role: Literal["system", "developer", "user", "assistant"] | None = None
    content: str | list[ContentPart] | None = None
    call_id: str = ""
    name: str = ""
    arguments: str = "{}"
    output: str | list[ContentPart] = ""


class FunctionFields(RequestBody):
    """A tool of the model."""

    refused: ClassVar = {
        "allowed_callers": NO_CODE,
        "async": FieldRefusal("this server waits for the results of calls: leave it out."),
    }
    type: str = describe_field(enum=["function"])
    name: str = Field("", json_schema_extra={"pattern": TOOL_NAME})
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class Reasoning(RequestBody):
    """How much the model thinks."""

    refused: ClassVar = {
        "context": FieldRefusal(
            "the chat template decides which thoughts are read again.", ("auto",)
        ),
        "mode": FieldRefusal("this server has one mode: leave it out.", ("standard",)),
    }
    effort: str | None = None


class TextFormat(RequestBody):
    """Form of the answer."""

    refused: ClassVar = {"verbosity": VERBOSITY}
    format: dict[str, Any] = Field(default_factory=lambda: {"type": "text"})


class ResponseBody(SamplingFields):
    """Body of a request for a response."""

    refused: ClassVar = {
        "access_programs": FieldRefusal("this server has no such programs: leave it out."),
        "background": FieldRefusal("this server answers at once: leave it out."),
        "context_management": FieldRefusal(
            "this server does not shorten conversations: leave it out."
        ),
        "conversation": FieldRefusal("this server stores none: use previous_response_id."),
        "image": FieldRefusal("this server makes no images: leave it out."),
        "moderation": MODERATION,
        "prompt": FieldRefusal("this server stores no prompts: send instructions and input."),
        "truncation": FieldRefusal("this server drops nothing: use “disabled”.", ("disabled",)),
    }
    input: (
        Annotated[str, describe_field(pattern=r"\S")]
        | Annotated[list[InputItem], describe_field(minItems=1)]
    )
    instructions: str | None = None
    previous_response_id: str | None = None
    max_output_tokens: int | None = Field(None, ge=1)
    reasoning: Reasoning | None = None
    tools: list[FunctionFields] | None = None
    tool_choice: str | dict[str, Any] = "auto"
    text: TextFormat = TextFormat()
    parallel_tool_calls: bool = True
    include: list[str] = Field(default_factory=list)
    metadata: dict[str, str] = Field(default_factory=dict)
    top_logprobs: int = Field(0, ge=0, le=20)

    @property
    def logprobs(self) -> int | None:
        """How many likely tokens to tell beside each of the answer; None to tell of none."""
        is_asked = self.top_logprobs or "message.output_text.logprobs" in self.include
        return self.top_logprobs if is_asked else None

    def messages(self) -> list[Message]:
        """Return the input as messages. Raises BadOption for items that cannot be read."""
        if isinstance(self.input, str):
            return [Message("user", self.input)]
        return _joined_answers(_message_fields(item) for item in self.input)

    def functions_to_call(self) -> tuple[Tool, ...]:
        """Return the tools that the model may ask for. Raises BadOption."""
        given = [] if self.tool_choice == "none" else self.tools or []
        if unknown := next((tool.type for tool in given if tool.type != "function"), None):
            raise BadOption(
                "tools: the type {kind} is a tool of OpenAI's own servers, leave it out.",
                kind=repr(unknown[:60]),
            )
        return tuple(
            Tool(t.name, t.description or "", t.parameters or {}, strict=t.strict is True)
            for t in given
        )

    def arguments(self) -> dict[str, TemplateValue]:
        """Return the variables of the chat template that the request sets."""
        return effort_arguments(None if self.reasoning is None else self.reasoning.effort)


def _message_fields(item: InputItem) -> Message:
    """Convert an item of the input. Raises BadOption."""
    match item.type:
        case "message":
            given = item.role or "user"
            role: Role = "system" if given == "developer" else given
            text, images = content_of(item.content or "", can_show=role == "user")
            return Message(role, text, images=images)
        case "reasoning":
            return Message("assistant", "", _text(item.content or ""))
        case "function_call":
            call = ToolCall(item.name, item.arguments, item.call_id)
            return Message("assistant", "", calls=(call,))
        case "function_call_output":
            return Message("tool", _text(item.output), call_id=item.call_id)
    raise BadOption("input: an item of the type {kind} cannot be read.", kind=repr(item.type[:60]))


def _text(content: str | list[ContentPart]) -> str:
    return content_of(content, can_show=False).text


def _joined_answers(messages: Iterator[Message]) -> list[Message]:
    """Join neighbouring parts of an answer: reasoning, text, calls."""
    joined: list[Message] = []
    for message in messages:
        last = joined[-1] if joined else None
        if last is not None and last.role == message.role == "assistant":
            text, thinking = last.text + message.text, last.thinking + message.thinking
            joined[-1] = Message("assistant", text, thinking, last.calls + message.calls)
        else:
            joined.append(message)
    return joined


def _usage_fields(stats: GenerationStats) -> dict[str, Any]:
    return {
        "input_tokens": stats.prompt_tokens,
        "input_tokens_details": {"cached_tokens": stats.reused_tokens},
        "output_tokens": stats.generated_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": stats.prompt_tokens + stats.generated_tokens,
    }


@dataclass
class _ResponseOutput:
    """A response while it is generated: items so far, and their events."""

    fields: dict[str, Any]
    items: list[Item] = field(default_factory=list)
    _kind: str = ""
    _scores: list[dict[str, Any]] = field(default_factory=list)
    _number: int = -1

    def response(self, response_status: str = "in_progress", **fields: object) -> dict[str, Any]:
        """Return the response object."""
        return {**self.fields, "status": response_status, "output": self.items, **fields}

    def next_event(self, name: str, **fields: object) -> dict[str, Any]:
        """Make an event of the stream."""
        self._number += 1
        return {"type": name, "sequence_number": self._number, **fields}

    def begin(self) -> Iterator[dict[str, Any]]:
        """Yield the events before the first item."""
        for name in ("response.created", "response.in_progress"):
            yield self.next_event(name, response=self.response())

    def add(self, event: Event) -> Iterator[dict[str, Any]]:
        """Convert an event of the engine to events of the stream."""
        match event:
            case RoundFinished():
                self._scores += logprob_entries(event.logprobs)
            case TextPiece():
                kind = "message" if event.channel == "answer" else "reasoning"
                if kind == "message" and self._kind != kind and event.text.isspace():
                    return
                if kind != self._kind:
                    yield from self._end_item()
                    yield from self._begin_text_item(kind)
                part = self.items[-1]["content"][0]
                part["text"] += event.text
                scores, self._scores = self._scores, []
                if kind == "message":
                    part["logprobs"] += scores
                yield self._text_event("delta", scores, delta=event.text)
            case ToolCall():
                yield from self._end_item()
                item = {"id": f"fc_{uuid4().hex}", "type": "function_call", "status": "completed"}
                item |= {"call_id": event.id, "name": event.name, "arguments": event.arguments}
                self.items.append(item)
                yield self._item_event("added", item | {"arguments": "", "status": "in_progress"})
                place = {"item_id": item["id"], "output_index": len(self.items) - 1}
                for end, name in (("delta", "delta"), ("done", "arguments")):
                    fields = {**place, name: event.arguments}
                    yield self.next_event(f"response.function_call_arguments.{end}", **fields)
                yield self._item_event("done", item)
            case GenerationFinished():
                yield from self._end_item()
                is_whole = event.reason in ("end", "stop-string", "stopped")
                status = "completed" if is_whole else "incomplete"
                why = None if is_whole else {"reason": "max_output_tokens"}
                response = self.response(
                    status,
                    incomplete_details=why,
                    usage=_usage_fields(event.stats),
                    timings=timings(event.stats),
                )
                yield self.next_event(f"response.{status}", response=response)
            case _:
                pass

    def _begin_text_item(self, kind: str) -> Iterator[dict[str, Any]]:
        self._kind = kind
        part: dict[str, Any] = {"type": "reasoning_text", "text": ""}
        item: Item = {"id": f"rs_{uuid4().hex}", "type": kind, "summary": []}
        if kind == "message":
            part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
            item = {"id": f"msg_{uuid4().hex}", "type": kind, "role": "assistant"}
        item |= {"status": "in_progress", "content": [part]}
        self.items.append(item)
        yield self._item_event("added", item | {"content": []})
        yield self.next_event(
            "response.content_part.added", part=dict(part), **self._item_position()
        )

    def _end_item(self) -> Iterator[dict[str, Any]]:
        if self._kind:
            item = self.items[-1]
            item["status"] = "completed"
            [part] = item["content"]
            yield self._text_event("done", part.get("logprobs"), text=part["text"])
            yield self.next_event("response.content_part.done", part=part, **self._item_position())
            yield self._item_event("done", item)
            self._kind = ""

    def _text_event(self, end: str, scores: object, **fields: object) -> dict[str, Any]:
        name = "output_text" if self._kind == "message" else "reasoning_text"
        more = {"logprobs": scores} if name == "output_text" else {}
        return self.next_event(f"response.{name}.{end}", **self._item_position(), **fields, **more)

    def _item_position(self) -> dict[str, Any]:
        at = {"item_id": self.items[-1]["id"], "output_index": len(self.items) - 1}
        return {**at, "content_index": 0}

    def _item_event(self, end: str, item: Item) -> dict[str, Any]:
        index = len(self.items) - 1
        return self.next_event(f"response.output_item.{end}", output_index=index, item=dict(item))


def routes(connection: EngineConnection) -> APIRouter:
    """Make the endpoint."""
    router = APIRouter()
    remembered = OrderedDict[str, tuple[Message, ...]]()

    def remember_response(
        name: str, request_messages: tuple[Message, ...], last: GenerationFinished
    ) -> None:
        remembered[name] = (
            *request_messages,
            Message("assistant", last.text, last.thinking, last.calls),
        )
        while len(remembered) > MOST_REMEMBERED:
            remembered.popitem(last=False)

    @router.post(
        "/v1/responses", responses=response_documentation("id", "object", "output", "usage")
    )
    async def responses(body: ResponseBody, request: Request) -> Response:
        """Answer the input."""
        connection.check_model(body.model)
        earlier: tuple[Message, ...] = ()
        if body.previous_response_id is not None:
            if body.previous_response_id not in remembered:
                raise BadOption(
                    "previous_response_id: this response is not remembered (the last {count} are, "
                    "until the server ends). Send the whole conversation.",
                    count=MOST_REMEMBERED,
                )
            earlier = remembered[body.previous_response_id]
        system = [Message("system", body.instructions)] if body.instructions else []
        said = await asyncio.to_thread(lambda: list(body.messages()))  # decodes pictures
        asked = tuple(_joined_answers(iter([*earlier, *said])))
        prompt = join_system_messages([*system, *asked])
        ends = generation_options(
            body, body.max_output_tokens, None, body.text.format, body.logprobs
        )
        tools = body.functions_to_call()
        ends = replace(ends, must_call=required_calls(body.tool_choice, tools))
        parallel = body.parallel_tool_calls and not isinstance(body.tool_choice, dict)
        begin = connection.chat_answer(body, prompt, ends, body.arguments(), 0, tools, parallel)
        output = _ResponseOutput(_fixed_response_fields(body, connection.description.name))

        async def told(
            events: AsyncIterator[Event | None],
        ) -> AsyncIterator[dict[str, Any] | None]:
            async for event in events:
                if isinstance(event, GenerationFinished):
                    remember_response(output.fields["id"], asked, event)
                if event is None:
                    yield None
                else:
                    for item in output.add(event):
                        yield item

        async def whole() -> dict[str, Any]:
            last: dict[str, Any] = {}
            async with aclosing(connection.events(begin)) as events:
                async for item in told(events):
                    last = item or last
            response: dict[str, Any] = last["response"]
            return response

        if not body.stream:
            [response] = await cancel_if_gone(request, whole())
            return JSONResponse(response)
        stream = _stream(output, told(await begun(connection.events(begin))))
        return StreamingResponse(stream, media_type="text/event-stream")

    return router


def _fixed_response_fields(body: ResponseBody, model: str) -> dict[str, Any]:
    """Return the fields of a response that stay as they are."""
    return {
        "id": f"resp_{uuid4().hex}",
        "object": "response",
        "created_at": int(time()),
        "model": model,
        "error": None,
        "incomplete_details": None,
        "instructions": body.instructions,
        "max_output_tokens": body.max_output_tokens,
        "metadata": body.metadata,
        "parallel_tool_calls": body.parallel_tool_calls,
        "previous_response_id": body.previous_response_id,
        "temperature": body.temperature,
        "text": {"format": body.text.format},
        "tool_choice": body.tool_choice,
        "tools": [tool.model_dump() for tool in body.tools or ()],
        "top_logprobs": body.top_logprobs,
        "top_p": body.top_p,
        "usage": None,
    }


async def _stream(
    output: _ResponseOutput, events: AsyncIterator[dict[str, Any] | None]
) -> AsyncIterator[str]:
    for event in output.begin():
        yield _event_text(event)
    try:
        async for item in events:
            yield ": still reading\n\n" if item is None else _event_text(item)
    except Exception as error:
        told = {"code": "server_error", "message": message_for_client(error)}
        yield _event_text(
            output.next_event("response.failed", response=output.response("failed", error=told))
        )


def _event_text(event: dict[str, Any]) -> str:
    return f"event: {event['type']}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n"
