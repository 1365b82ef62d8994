"""POST /v1/messages and /v1/messages/count_tokens: answers as Anthropic's interface has them."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, ClassVar, Literal
from uuid import uuid4

from fastapi import APIRouter, Request
from pydantic import Field
from starlette.responses import JSONResponse, Response, StreamingResponse

from mlx_engine import Engine
from mlx_engine.server.desk import (
    EngineConnection,
    begun,
    cancel_if_gone,
    check_messages_given,
    message_for_client,
)
from mlx_engine.server.fields import (
    TOOL_NAME,
    FieldRefusal,
    RequestBody,
    SamplingFields,
    describe_field,
    describe_roles,
    effort_arguments,
    generation_options,
    picture_from_base64,
    required_calls,
    response_documentation,
    timings,
)
from mlx_engine.server.openai_responses import NO_CODE
from mlx_engine.values.conversation import (
    Event,
    FinishReason,
    GenerationFinished,
    Message,
    PromptProgress,
    TextPiece,
    Tool,
    ToolCall,
)
from mlx_engine.values.errors import BadOption
from mlx_engine.values.options import TemplateValue
from mlx_engine.values.picture import Picture
from mlx_engine.values.stats import GenerationStats

STOPS: dict[FinishReason, str] = {
    "end": "end_turn",
    "stop-string": "end_turn",
    "stopped": "end_turn",
    "max-tokens": "max_tokens",
    "context-full": "max_tokens",
    "memory-full": "max_tokens",
}


class ContentBlock(RequestBody):
    """A block of a message's content: text, image, thinking, tool_use or tool_result."""

    type: str = describe_field(enum=["text", "image", "thinking", "tool_use", "tool_result"])
    text: str | None = None
    source: dict[str, Any] = Field(default_factory=dict)
    thinking: str | None = None
    id: str = ""
    name: str = ""
    input: dict[str, Any] = Field(default_factory=dict)
    tool_use_id: str = ""
    content: "str | list[ContentBlock] | None" = None
    is_error: bool = False


class MessageFields(RequestBody):
    """A message of the conversation."""

    role: Literal["user", "assistant"]
    content: str | list[ContentBlock]

    def messages(self) -> list[Message]:
        """Convert to messages of the engine; each tool result is one, before the other text.

        Pictures of the user stand before the text. Raises BadOption for other blocks, BadPicture.
        """
        if isinstance(self.content, str):
            return [Message(self.role, self.content)]
        kinds: dict[str, list[ContentBlock]] = {"thinking": [], "tool_use": [], "tool_result": []}
        if self.role == "user":
            kinds["image"] = []
        others = [block for block in self.content if block.type not in kinds]
        for block in self.content:
            kinds.get(block.type, []).append(block)
        results = [
            Message("tool", _tool_result_text(block), call_id=block.tool_use_id)
            for block in kinds["tool_result"]
        ]
        thinking = "\n\n".join(block.thinking or "" for block in kinds["thinking"])
        calls = tuple(
            ToolCall(block.name, json.dumps(block.input, ensure_ascii=False), block.id)
            for block in kinds["tool_use"]
        )
        images = tuple(map(_picture, kinds.get("image", ())))
        said = Message(self.role, _block_texts(others), thinking, calls, images=images)
        is_said = said.text or said.thinking or said.calls or images or not results
        return [*results, said] if is_said else results


def _picture(block: ContentBlock) -> Picture:
    if block.source.get("type") != "base64":
        raise BadOption(
            "messages: this server fetches no pictures. Send the picture itself, as a source of "
            "the type “base64”."
        )
    return picture_from_base64(block.source.get("data"))


def _tool_result_text(block: ContentBlock) -> str:
    """Return the text of a tool_result block, marked if it is an error."""
    content = block.content or ""
    text = content if isinstance(content, str) else _block_texts(content)
    return f"Error: {text}" if block.is_error else text


def _block_texts(blocks: list[ContentBlock]) -> str:
    for block in blocks:
        if block.type != "text" or block.text is None:
            raise BadOption(
                "messages: a block of the type {kind} cannot be read here, only text, and pictures "
                "of the user.",
                kind=repr(block.type[:60]),
            )
    return "\n\n".join(block.text or "" for block in blocks)


class Thinking(RequestBody):
    """The field `thinking`: whether the model thinks before it answers, and its most tokens."""

    type: Literal["enabled", "disabled", "adaptive"]
    budget_tokens: int | None = None


class ToolFields(RequestBody):
    """An entry of the field `tools`: a function that the model may call."""

    refused: ClassVar = {"allowed_callers": NO_CODE}
    name: str = describe_field(pattern=TOOL_NAME)
    type: str = Field("custom", json_schema_extra={"enum": ["custom"]})
    description: str | None = None
    input_schema: dict[str, Any] = Field(default_factory=dict)
    strict: bool = False


class ChoiceFields(RequestBody):
    """The field `tool_choice`: whether the model may call tools, must, or must call this one."""

    type: Literal["auto", "none", "any", "tool"]
    name: str = ""
    disable_parallel_tool_use: bool = False

    def as_openai(self) -> str | dict[str, Any]:
        """Convert to the value of OpenAI's field `tool_choice`."""
        if self.type == "tool":
            return {"type": "function", "name": self.name}
        return "required" if self.type == "any" else self.type


class OutputConfig(RequestBody):
    """The field `output_config`: JSON schema of the answer (`format`), and thinking effort."""

    refused: ClassVar = {
        "task_budget": FieldRefusal("no model here knows of budgets: leave it out.")
    }
    format: dict[str, Any] | None = None
    effort: str | None = None


class ContextEdit(RequestBody):
    """An entry of `context_management.edits`: leave out earlier thinking, as chat templates do."""

    type: Literal["clear_thinking_20251015"]


class ContextManagement(RequestBody):
    """The field `context_management`: what to leave out of a long conversation."""

    edits: list[ContextEdit] = Field(default_factory=list)


class CountBody(SamplingFields):
    """Body of a request to count the tokens of a prompt."""

    refused: ClassVar = {
        "compaction": FieldRefusal("this server does not shorten conversations: leave it out."),
        "container": FieldRefusal("this server has no containers: leave it out."),
        "mcp_servers": FieldRefusal("this server calls no others: give their tools as tools."),
        "thread": FieldRefusal("this server stores no conversations: send all messages."),
    }
    messages: list[MessageFields] = describe_roles("user")
    system: str | list[ContentBlock] | None = None
    thinking: Thinking | None = None
    tools: list[ToolFields] | None = None
    tool_choice: ChoiceFields | None = None
    output_config: OutputConfig = OutputConfig()
    context_management: ContextManagement | None = None

    def conversation(self) -> tuple[Message, ...]:
        """Return the messages of the prompt, the system prompt first."""
        system = self.system or ""
        text = system if isinstance(system, str) else _block_texts(system)
        first = (Message("system", text),) if text else ()
        return (*first, *(part for message in self.messages for part in message.messages()))

    def functions_to_call(self) -> tuple[Tool, ...]:
        """Return the tools that the model may ask for. Raises BadOption."""
        is_off = self.tool_choice is not None and self.tool_choice.type == "none"
        given = [] if is_off else self.tools or []
        if unknown := next((tool.type for tool in given if tool.type != "custom"), None):
            raise BadOption(
                "tools: the type {kind} is a tool of Anthropic's own servers, leave it out.",
                kind=repr(unknown[:60]),
            )
        return tuple(
            Tool(tool.name, tool.description or "", tool.input_schema, tool.strict)
            for tool in given
        )

    def arguments(self) -> dict[str, TemplateValue]:
        """Return the variables of the chat template that the request sets."""
        given = effort_arguments(self.output_config.effort)
        if self.thinking is None:
            return given
        return {**given, "enable_thinking": self.thinking.type != "disabled"}


class MessagesBody(CountBody):
    """Body of a request for a message."""

    max_tokens: int = Field(ge=1)
    stop_sequences: list[str] | None = None


def _usage_fields(stats: GenerationStats) -> dict[str, int]:
    return {
        "input_tokens": stats.prompt_tokens - stats.reused_tokens,
        "cache_read_input_tokens": stats.reused_tokens,
        "cache_creation_input_tokens": 0,
        "output_tokens": stats.generated_tokens,
    }


def routes(connection: EngineConnection) -> APIRouter:
    """Make the endpoints."""
    router = APIRouter()

    of_answers = response_documentation(
        "id", "type", "role", "model", "content", "stop_reason", "usage"
    )

    @router.post("/v1/messages", responses=of_answers)
    async def messages(body: MessagesBody, request: Request) -> Response:
        """Answer the last message."""
        connection.check_model(body.model)
        ends = generation_options(
            body, body.max_tokens, body.stop_sequences, body.output_config.format
        )
        if body.thinking is not None and body.thinking.budget_tokens is not None:
            ends = replace(ends, max_thinking=body.thinking.budget_tokens)
        tools = body.functions_to_call()
        choice = body.tool_choice or ChoiceFields(type="auto")
        ends = replace(ends, must_call=required_calls(choice.as_openai(), tools))
        parallel = choice.type != "tool" and not choice.disable_parallel_tool_use
        said = await asyncio.to_thread(body.conversation)  # decodes pictures
        asked = (body, said, ends, body.arguments())
        begin = connection.chat_answer(*asked, 0, tools, parallel)
        head: dict[str, Any] = {
            "id": f"msg_{uuid4().hex}",
            "type": "message",
            "role": "assistant",
            "model": connection.description.name,
        }
        if body.stream:
            events = await begun(connection.events(begin))
            return StreamingResponse(_stream(head, events), media_type="text/event-stream")
        [answer] = await cancel_if_gone(request, connection.with_rows_written(begin))
        return JSONResponse({**head, **_message_fields(answer)})

    @router.post("/v1/messages/count_tokens")
    async def count_tokens(body: CountBody) -> dict[str, int]:
        """Count the tokens of the prompt."""
        connection.check_model(body.model)
        messages = await asyncio.to_thread(body.conversation)
        check_messages_given(messages)

        def count(engine: Engine) -> int:
            tools = body.functions_to_call()
            session = engine.session(template_arguments=body.arguments(), tools=tools)
            session.load_messages(messages)
            return len(session.prompt_tokens())

        return {"input_tokens": await connection.call(count)}

    return router


def _message_fields(answer: GenerationFinished) -> dict[str, Any]:
    blocks: list[dict[str, Any]] = []
    if answer.thinking:
        blocks.append({"type": "thinking", "thinking": answer.thinking, "signature": ""})
    if answer.text.strip() or not answer.calls:
        blocks.append({"type": "text", "text": answer.text})
    blocks += [{**_call_fields(call), "input": json.loads(call.arguments)} for call in answer.calls]
    return {
        "content": blocks,
        **_stop_fields(answer),
        "usage": _usage_fields(answer.stats),
        "timings": timings(answer.stats),
    }


def _stop_fields(answer: GenerationFinished) -> dict[str, str | None]:
    """Return why an answer ended, with the stop string of the request where that was the reason."""
    stop = answer.stop_string or None
    reason = "stop_sequence" if stop else STOPS[answer.reason]
    return {"stop_reason": "tool_use" if answer.calls else reason, "stop_sequence": stop}


def _call_fields(call: ToolCall) -> dict[str, Any]:
    return {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}


EMPTY_BLOCKS = {
    "thinking": {"type": "thinking", "thinking": "", "signature": ""},
    "text": {"type": "text", "text": ""},
}


def _event_text(name: str, **fields: object) -> str:
    return f"event: {name}\ndata: {json.dumps({'type': name, **fields}, ensure_ascii=False)}\n\n"


async def _stream(head: dict[str, Any], events: AsyncIterator[Event | None]) -> AsyncIterator[str]:
    empty: dict[str, object] = {"content": [], "stop_reason": None, "stop_sequence": None}
    first = await anext(events)  # the prompt's length, unless reading began late
    read = GenerationStats()
    if isinstance(first, PromptProgress):
        read = GenerationStats(prompt_tokens=first.total, reused_tokens=first.reused)
    yield _event_text("message_start", message={**head, **empty, "usage": _usage_fields(read)})
    index, kind = -1, ""
    try:
        async for event in events:
            match event:
                case None:
                    yield _event_text("ping")
                case TextPiece():
                    new = "thinking" if event.channel == "thinking" else "text"
                    if new != kind:
                        if kind:
                            yield _event_text("content_block_stop", index=index)
                        index, kind = index + 1, new
                        block = EMPTY_BLOCKS[kind]
                        yield _event_text("content_block_start", index=index, content_block=block)
                    delta = {"type": f"{kind}_delta", kind: event.text}
                    yield _event_text("content_block_delta", index=index, delta=delta)
                case ToolCall():
                    if kind:
                        yield _event_text("content_block_stop", index=index)
                    index, kind = index + 1, "tool_use"
                    yield _event_text(
                        "content_block_start", index=index, content_block=_call_fields(event)
                    )
                    delta = {"type": "input_json_delta", "partial_json": event.arguments}
                    yield _event_text("content_block_delta", index=index, delta=delta)
                case GenerationFinished():
                    if kind:
                        yield _event_text("content_block_stop", index=index)
                    ends = _stop_fields(event)
                    used, figures = _usage_fields(event.stats), timings(event.stats)
                    yield _event_text("message_delta", delta=ends, usage=used, timings=figures)
                    yield _event_text("message_stop")
                case _:
                    pass
    except Exception as error:
        yield _event_text(
            "error", error={"type": "api_error", "message": message_for_client(error)}
        )
