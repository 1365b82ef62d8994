"""POST /v1/chat/completions: answers to messages as OpenAI's interface has them."""

import json
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from time import time
from typing import Any, ClassVar, Literal, NamedTuple
from uuid import uuid4

from fastapi import APIRouter, Request
from pydantic import Field
from starlette.responses import JSONResponse, Response, StreamingResponse

from mlx_engine.server.desk import Desk, begun, unless_gone, words_on
from mlx_engine.server.fields import (
    Body,
    Refusal,
    SamplingFields,
    asking,
    documented,
    effort,
    forced_calls,
    limits,
    logprob_entries,
    picture_in,
    tell,
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
MODERATION = Refusal("this server judges no texts: leave it out.")
VERBOSITY = Refusal("no model here has such a setting: ask for it in the messages.", ("medium",))


class Part(Body):
    """A part of a message's content."""

    type: str = tell(enum=[*_TEXTS, *_PICTURES])
    text: str | None = None
    image_url: str | dict[str, Any] | None = None


class Function(Body):
    """A function that the model may call, or what it calls it with."""

    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    arguments: str = "{}"
    strict: bool | None = None


class FunctionTool(Body):
    """A tool, or a call of one."""

    type: Literal["function"] = "function"
    id: str = ""
    function: Function


class ChatMessage(Body):
    """A message of the conversation."""

    refused: ClassVar = {
        "function_call": Refusal("use tool_calls instead."),
        "audio": Refusal("this model reads text alone: leave it out."),
    }
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[Part] | None = None
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


def content_of(content: str | list[Part], *, can_show: bool) -> Content:
    """Join the parts of a message's content. can_show: pictures are allowed.

    Raises BadOption for other parts, BadPicture.
    """
    if isinstance(content, str):
        return Content(content, ())
    texts, images = [], []
    for part in content:
        if can_show and part.type in _PICTURES:
            given = part.image_url
            images.append(picture_in(given.get("url") if isinstance(given, dict) else given))
        else:
            if part.type not in _TEXTS or part.text is None:
                raise BadOption(
                    "messages: a part of the type {kind} cannot be read here, only text, and "
                    "pictures of the user.",
                    kind=repr(part.type[:60]),
                )
            texts.append(part.text)
    return Content("\n".join(texts), tuple(images))


class StreamOptions(Body):
    """What a stream holds beside the text."""

    include_usage: bool = False


class ChatBody(SamplingFields):
    """Body of a request for a chat completion."""

    refused: ClassVar = {
        "audio": Refusal("this server answers in text alone: leave it out."),
        "function_call": Refusal("use tools and tool_choice instead."),
        "functions": Refusal("use tools instead."),
        "modalities": Refusal("this server answers in text alone: leave it out.", (["text"],)),
        "moderation": MODERATION,
        "verbosity": VERBOSITY,
        "web_search_options": Refusal("this server does not search the web: leave it out."),
    }
    messages: list[ChatMessage] = asking("user", "tool")
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
        return joined_systems([message.message() for message in self.messages])

    def functions_to_call(self) -> tuple[Tool, ...]:
        """Return the tools that the model may ask for. Raises BadOption."""
        given = [] if self.tool_choice == "none" else self.tools or []
        return tuple(
            Tool(f.name, f.description or "", f.parameters or {}, strict=f.strict is True)
            for f in (tool.function for tool in given)
        )

    def arguments(self) -> dict[str, TemplateValue]:
        """Return the variables of the chat template that the request sets."""
        return {**effort(self.reasoning_effort), **self.chat_template_kwargs}


def joined_systems(messages: list[Message]) -> tuple[Message, ...]:
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


def stopping_word(answer: GenerationFinished) -> dict[str, str]:
    """Name the stop string that ended an answer, as llama.cpp does; nothing where none did."""
    return {"stopping_word": answer.stop_string} if answer.stop_string else {}


def sse(value: object) -> str:
    """Format a value as a server-sent event."""
    return f"data: {json.dumps(value, ensure_ascii=False)}\n\n"


def routes(desk: Desk) -> APIRouter:
    """Make the endpoint."""
    router = APIRouter()

    of_answers = documented("id", "object", "created", "model", "choices", "usage", "timings")

    @router.post("/v1/chat/completions", responses=of_answers)
    async def chat_completions(body: ChatBody, request: Request) -> Response:
        """Answer the last message."""
        desk.check_model(body.model)
        given = body.max_completion_tokens
        most = body.max_tokens if given is None else given
        top = body.top_logprobs if body.logprobs else None
        if body.top_logprobs and not body.logprobs:
            raise BadOption("top_logprobs: set logprobs to true as well.")
        ends = limits(body, most, body.stop, body.response_format, top)
        tools = body.functions_to_call()
        ends = replace(ends, must_call=forced_calls(body.tool_choice, tools))
        asked = (body, body.conversation(), ends, body.arguments())
        parallel = body.parallel_tool_calls and not isinstance(body.tool_choice, dict)
        begins = [desk.chat_answer(*asked, choice, tools, parallel) for choice in range(body.n)]
        head: dict[str, Any] = {
            "id": f"chatcmpl-{uuid4().hex}",
            "created": int(time()),
            "model": desk.description.name,
        }
        if body.stream:
            if body.n > 1:
                raise BadOption("n: a stream has one answer: set n to 1.")
            events = await begun(desk.events(begins[0]))
            has_usage = body.stream_options is not None and body.stream_options.include_usage
            head["object"] = "chat.completion.chunk"
            first = _delta({"role": "assistant", "content": ""})
            chunks = stream(head, first, _piece, _delta({}), _logprobs, events, has_usage)
            return StreamingResponse(chunks, media_type="text/event-stream")
        answers = await unless_gone(request, *map(desk.written, begins))
        return JSONResponse({**head, "object": "chat.completion", **_completion(answers)})

    return router


def _completion(answers: list[GenerationFinished]) -> dict[str, Any]:
    counted = [usage(answer.stats) for answer in answers]
    total = dict(counted[0])
    total["completion_tokens"] = sum(count["completion_tokens"] for count in counted)
    total["total_tokens"] = total["prompt_tokens"] + total["completion_tokens"]
    return {
        "choices": [
            {
                "index": index,
                "message": _message(answer),
                "logprobs": _logprobs(answer.logprobs),
                "finish_reason": "tool_calls" if answer.calls else STOPS[answer.reason],
                **stopping_word(answer),
            }
            for index, answer in enumerate(answers)
        ],
        "usage": total,
        "timings": timings(answers[0].stats),
    }


def _message(answer: GenerationFinished) -> dict[str, Any]:
    fields: dict[str, Any] = {"role": "assistant", "content": answer.text}
    if answer.thinking:
        fields["reasoning_content"] = answer.thinking
    if answer.calls:
        fields["content"] = answer.text.strip() or None
        fields["tool_calls"] = [_call(call) for call in answer.calls]
    return fields


def _call(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function}


def _logprobs(scores: Sequence[TokenLogprob]) -> dict[str, Any] | None:
    return {"content": logprob_entries(scores), "refusal": None} if scores else None


def _delta(fields: dict[str, Any]) -> dict[str, Any]:
    return {"index": 0, "delta": fields, "logprobs": None, "finish_reason": None}


def _piece(piece: TextPiece) -> dict[str, Any]:
    return _delta({"content" if piece.channel == "answer" else "reasoning_content": piece.text})


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
    yield sse({**head, "choices": [first]})
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
                    yield sse({**head, "choices": [scored]})
                case ToolCall():
                    call = _delta({"tool_calls": [{"index": calls, **_call(event)}]})
                    yield sse({**head, "choices": [call]})
                    calls += 1
                case GenerationFinished():
                    reason = "tool_calls" if calls else STOPS[event.reason]
                    end = {**last, "finish_reason": reason, **stopping_word(event)}
                    end["logprobs"] = logprobs(scores)
                    yield sse({**head, "choices": [end], "timings": timings(event.stats)})
                    if has_usage:
                        yield sse({**head, "choices": [], "usage": usage(event.stats)})
                case _:
                    pass
    except Exception as error:
        fields = {"type": "server_error", "code": type(error).__name__, "param": None}
        yield sse({"error": {"message": words_on(error), **fields}})
    yield "data: [DONE]\n\n"
