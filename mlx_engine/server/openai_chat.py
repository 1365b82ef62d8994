"""POST /v1/chat/completions: answers to messages as OpenAI's interface has them."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from time import time
from typing import Any, ClassVar, Literal, NamedTuple
from uuid import uuid4

from fastapi import APIRouter, Request
from pydantic import Field
from starlette.responses import JSONResponse, Response, StreamingResponse

from mlx_engine.server.desk import EngineConnection, begun, cancel_if_gone, message_for_client
from mlx_engine.server.fields import (
    FieldRefusal,
    RequestBody,
    SamplingFields,
    describe_field,
    describe_roles,
    effort_arguments,
    generation_options,
    logprob_entries,
    picture_from_url,
    required_calls,
    response_documentation,
    timings,
)
from mlx_engine.values.conversation import (
    Event,
    FinishReason,
    GenerationFinished,
    Message,
    Role,
    RoundFinished,
    TextPiece,
    TokenLogprob,
    Tool,
    ToolCall,
)
from mlx_engine.values.errors import BadOption
from mlx_engine.values.options import TemplateValue
from mlx_engine.values.picture import Picture
from mlx_engine.values.stats import GenerationStats

MOST_CHOICES = 8
STOPS: dict[FinishReason, str] = {
    "end": "stop",
    "stop-string": "stop",
    "stopped": "stop",
    "max-tokens": "length",
    "context-full": "length",
    "memory-full": "length",
}
_TEXTS = ("text", "input_text", "output_text", "reasoning_text")
_PICTURES = ("image_url", "input_image")
MODERATION = FieldRefusal("this server judges no texts: leave it out.")
VERBOSITY = FieldRefusal(
    "no model here has such a setting: ask for it in the messages.", ("medium",)
)


class ContentPart(RequestBody):
    """A part of a message's content."""

    type: str = describe_field(enum=[*_TEXTS, *_PICTURES])
    text: str | None = None
    image_url: str | dict[str, Any] | None = None


class Function(RequestBody):
    """A function that the model may call, or what it calls it with."""

    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    arguments: str = "{}"
    strict: bool | None = None


class FunctionTool(RequestBody):
    """A tool, or a call of one."""

    type: Literal["function"] = "function"
    id: str = ""
    function: Function


class ChatMessage(RequestBody):
    """A message of the conversation."""

    refused: ClassVar = {
        "function_call": FieldRefusal("use tool_calls instead."),
        "audio": FieldRefusal("this model reads text alone: leave it out."),
    }
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[ContentPart] | None = None
    reasoning_content: str | None = None
    tool_calls: list[FunctionTool] | None = None
    tool_call_id: str | None = None

    def message(self) -> Message:
        """Convert to a message of the engine. Raises BadOption for parts of other kinds."""
        text, images = content_of(self.content or "", can_show=self.role == "user")
        role: Role = "system" if self.role == "developer" else self.role
        calls = (
            ToolCall(call.function.name, call.function.arguments, call.id)
            for call in self.tool_calls or ()
        )
        thinking, call_id = self.reasoning_content or "", self.tool_call_id or ""
        return Message(role, text, thinking, tuple(calls), call_id, images)


class Content(NamedTuple):
    """What a message says and shows; pictures stand before the text, wherever they were sent."""

    text: str
    images: tuple[Picture, ...]


def content_of(content: str | list[ContentPart], *, can_show: bool) -> Content:
    """Join the parts of a message's content. can_show: pictures are allowed.

    Raises BadOption for other parts, BadPicture.
    """
    if isinstance(content, str):
        return Content(content, ())
    texts, images = [], []
    for part in content:
        if can_show and part.type in _PICTURES:
            given = part.image_url
            images.append(picture_from_url(given.get("url") if isinstance(given, dict) else given))
        else:
            if part.type not in _TEXTS or part.text is None:
                raise BadOption(
                    "messages: a part of the type {kind} cannot be read here, only text, and "
                    "pictures of the user.",
                    kind=repr(part.type[:60]),
                )
            texts.append(part.text)
    return Content("\n".join(texts), tuple(images))


class StreamOptions(RequestBody):
    """What a stream holds beside the text."""

    include_usage: bool = False


class ChatBody(SamplingFields):
    """Body of a request for a chat completion."""

    refused: ClassVar = {
        "audio": FieldRefusal("this server answers in text alone: leave it out."),
        "function_call": FieldRefusal("use tools and tool_choice instead."),
        "functions": FieldRefusal("use tools instead."),
        "modalities": FieldRefusal("this server answers in text alone: leave it out.", (["text"],)),
        "moderation": MODERATION,
        "verbosity": VERBOSITY,
        "web_search_options": FieldRefusal("this server does not search the web: leave it out."),
    }
    messages: list[ChatMessage] = describe_roles("user", "tool")
    stream_options: StreamOptions | None = None
    max_tokens: int | None = Field(None, ge=1)
    max_completion_tokens: int | None = Field(None, ge=1)
    stop: str | list[str] | None = None
    n: int = Field(1, ge=1, le=MOST_CHOICES)
    reasoning_effort: str | None = None
    chat_template_kwargs: dict[str, TemplateValue] = Field(default_factory=dict)
    response_format: dict[str, Any] | None = None
    tools: list[FunctionTool] | None = None
    tool_choice: Literal["auto", "none", "required"] | dict[str, Any] | None = None
    parallel_tool_calls: bool = True
    logprobs: bool = False
    top_logprobs: int = Field(0, ge=0, le=20, description="needs logprobs")

    def conversation(self) -> tuple[Message, ...]:
        """Return the messages; system messages at the beginning are joined."""
        return join_system_messages([message.message() for message in self.messages])

    def functions_to_call(self) -> tuple[Tool, ...]:
        """Return the tools that the model may ask for. Raises BadOption."""
        given = [] if self.tool_choice == "none" else self.tools or []
        return tuple(
            Tool(f.name, f.description or "", f.parameters or {}, strict=f.strict is True)
            for f in (tool.function for tool in given)
        )

    def arguments(self) -> dict[str, TemplateValue]:
        """Return the variables of the chat template that the request sets."""
        return {**effort_arguments(self.reasoning_effort), **self.chat_template_kwargs}


def join_system_messages(messages: list[Message]) -> tuple[Message, ...]:
    """Join the system messages at the beginning of a conversation into one."""
    count = next((n for n, m in enumerate(messages) if m.role != "system"), len(messages))
    texts = [message.text for message in messages[:count] if message.text]
    system = [Message("system", "\n\n".join(texts))] if texts else []
    return (*system, *messages[count:])


def usage(stats: GenerationStats) -> dict[str, Any]:
    """Count tokens as OpenAI does."""
    return {
        "prompt_tokens": stats.prompt_tokens,
        "completion_tokens": stats.generated_tokens,
        "total_tokens": stats.prompt_tokens + stats.generated_tokens,
        "prompt_tokens_details": {"cached_tokens": stats.reused_tokens},
    }


def stop_string_field(answer: GenerationFinished) -> dict[str, str]:
    """Name the stop string that ended an answer, as llama.cpp does; nothing where none did."""
    return {"stopping_word": answer.stop_string} if answer.stop_string else {}


def event_text(value: object) -> str:
    """Format a value as a server-sent event."""
    return f"data: {json.dumps(value, ensure_ascii=False)}\n\n"


def routes(connection: EngineConnection) -> APIRouter:
    """Make the endpoint."""
    router = APIRouter()

    of_answers = response_documentation(
        "id", "object", "created", "model", "choices", "usage", "timings"
    )

    @router.post("/v1/chat/completions", responses=of_answers)
    async def chat_completions(body: ChatBody, request: Request) -> Response:
        """Answer the last message."""
        connection.check_model(body.model)
        given = body.max_completion_tokens
        most = body.max_tokens if given is None else given
        top = body.top_logprobs if body.logprobs else None
        if body.top_logprobs and not body.logprobs:
            raise BadOption("top_logprobs: set logprobs to true as well.")
        ends = generation_options(body, most, body.stop, body.response_format, top)
        tools = body.functions_to_call()
        ends = replace(ends, must_call=required_calls(body.tool_choice, tools))
        messages = await asyncio.to_thread(body.conversation)  # decodes pictures
        asked = (body, messages, ends, body.arguments())
        parallel = body.parallel_tool_calls and not isinstance(body.tool_choice, dict)
        begins = [
            connection.chat_answer(*asked, choice, tools, parallel) for choice in range(body.n)
        ]
        head: dict[str, Any] = {
            "id": f"chatcmpl-{uuid4().hex}",
            "created": int(time()),
            "model": connection.description.name,
        }
        if body.stream:
            if body.n > 1:
                raise BadOption("n: a stream has one answer: set n to 1.")
            events = await begun(connection.events(begins[0]))
            has_usage = body.stream_options is not None and body.stream_options.include_usage
            head["object"] = "chat.completion.chunk"
            first = _delta_chunk({"role": "assistant", "content": ""})
            chunks = stream(
                head, first, _text_chunk, _delta_chunk({}), _logprobs, events, has_usage
            )
            return StreamingResponse(chunks, media_type="text/event-stream")
        answers = await cancel_if_gone(request, *map(connection.with_rows_written, begins))
        return JSONResponse({**head, "object": "chat.completion", **_completion_fields(answers)})

    return router


def _completion_fields(answers: list[GenerationFinished]) -> dict[str, Any]:
    counted = [usage(answer.stats) for answer in answers]
    total = dict(counted[0])
    total["completion_tokens"] = sum(count["completion_tokens"] for count in counted)
    total["total_tokens"] = total["prompt_tokens"] + total["completion_tokens"]
    return {
        "choices": [
            {
                "index": index,
                "message": _message_fields(answer),
                "logprobs": _logprobs(answer.logprobs),
                "finish_reason": "tool_calls" if answer.calls else STOPS[answer.reason],
                **stop_string_field(answer),
            }
            for index, answer in enumerate(answers)
        ],
        "usage": total,
        "timings": timings(answers[0].stats),
    }


def _message_fields(answer: GenerationFinished) -> dict[str, Any]:
    fields: dict[str, Any] = {"role": "assistant", "content": answer.text}
    if answer.thinking:
        fields["reasoning_content"] = answer.thinking
    if answer.calls:
        fields["content"] = answer.text.strip() or None
        fields["tool_calls"] = [_call_fields(call) for call in answer.calls]
    return fields


def _call_fields(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function}


def _logprobs(scores: Sequence[TokenLogprob]) -> dict[str, Any] | None:
    return {"content": logprob_entries(scores), "refusal": None} if scores else None


def _delta_chunk(fields: dict[str, Any]) -> dict[str, Any]:
    return {"index": 0, "delta": fields, "logprobs": None, "finish_reason": None}


def _text_chunk(piece: TextPiece) -> dict[str, Any]:
    return _delta_chunk(
        {"content" if piece.channel == "answer" else "reasoning_content": piece.text}
    )


async def stream(
    head: dict[str, Any],
    first: dict[str, Any],
    choice: Callable[[TextPiece], dict[str, Any]],
    last: dict[str, Any],
    logprobs: Callable[[Sequence[TokenLogprob]], dict[str, Any] | None],
    events: AsyncIterator[Event | None],
    has_usage: bool,
) -> AsyncIterator[str]:
    """Yield the server-sent events of an answer, as OpenAI's interfaces have them.

    head: fields of every event. first, last: choices of the first and the last event. choice: makes
    the choice of a piece of text. logprobs: makes the log-probabilities of the tokens since the
    piece before.
    """
    calls, scores = 0, list[TokenLogprob]()
    yield event_text({**head, "choices": [first]})
    try:
        async for event in events:
            match event:
                case None:
                    yield ": still reading\n\n"
                case RoundFinished():
                    scores += event.logprobs
                case TextPiece():
                    scored = choice(event) | {"logprobs": logprobs(scores)}
                    scores.clear()
                    yield event_text({**head, "choices": [scored]})
                case ToolCall():
                    call = _delta_chunk({"tool_calls": [{"index": calls, **_call_fields(event)}]})
                    yield event_text({**head, "choices": [call]})
                    calls += 1
                case GenerationFinished():
                    reason = "tool_calls" if calls else STOPS[event.reason]
                    end = {**last, "finish_reason": reason, **stop_string_field(event)}
                    end["logprobs"] = logprobs(scores)
                    yield event_text({**head, "choices": [end], "timings": timings(event.stats)})
                    if has_usage:
                        yield event_text({**head, "choices": [], "usage": usage(event.stats)})
                case _:
                    pass
    except Exception as error:
        fields = {"type": "server_error", "code": type(error).__name__, "param": None}
        yield event_text({"error": {"message": message_for_client(error), **fields}})
    yield "data: [DONE]\n\n"
