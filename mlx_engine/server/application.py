"""The server's application: routes, limits, keys, and errors in the shape of each interface."""

import asyncio
import hmac
import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mlx_engine import Engine
from mlx_engine.server import anthropic_messages, openai_chat, openai_responses, openai_text
from mlx_engine.server.desk import (
    ClientGone,
    EngineConnection,
    check_messages_given,
    message_for_client,
)
from mlx_engine.server.fields import RequestBody, describe_roles
from mlx_engine.server.openai_chat import ChatMessage, join_system_messages
from mlx_engine.service.engine_thread import TooManyAnswers
from mlx_engine.values.errors import (
    EngineError,
    EngineMisuse,
    ModelNotFound,
    NumericsError,
    OutOfMemory,
)

LARGEST_BODY = 32 * 2**20
BODY_S = 30.0
"""Seconds without a further byte after which a body that is not whole is given up."""
LONGEST_ERROR = 600
"""Characters of an error's words, which may hold what was sent."""
STATUS: Sequence[tuple[type[EngineError], int]] = (
    (TooManyAnswers, 429),
    (ModelNotFound, 404),
    (OutOfMemory, 503),
    (EngineMisuse, 503),
    (NumericsError, 500),
    (EngineError, 400),
)
TYPE_NAME = re.compile(r"str|int|float|bool|constrained-\w+|\w+\[.*\]")
"""How the validation names one of several types in the place of an error."""
OF_OBJECTS = ("model_type", "model_attributes_type", "dict_type")
STATUSES: Sequence[int | str] = (400, 401, 404, 408, 413, 415, 429, 500, 503, "4XX")
"""Statuses of errors, as /openapi.json tells them."""
PORT = re.compile(r":\d*$")
OPEN_TO_ALL = ("/health",)
"""Paths that need no key."""


def application(
    connection: EngineConnection,
    hosts: Sequence[str],
    key: str | None = None,
    origins: Sequence[str] = (),
    body_timeout_s: float = BODY_S,
) -> FastAPI:
    """Make the ASGI application.

    hosts: names that the server is asked by, others are refused, since a page of the web can let a
    name of its own point here. key: what requests must show; None for nothing. origins: web pages
    that may ask. body_timeout_s: seconds to wait for more of a body.
    """
    from mlx_engine import server

    about = server.__doc__ or ""  # the usual pages of documentation load scripts from the web
    app = FastAPI(
        title="Headstart",
        description=about,
        docs_url=None,
        redoc_url=None,
        responses={status: {"model": _OpenAIError} for status in STATUSES},
    )
    for room in (openai_chat, openai_responses, openai_text):
        app.include_router(room.routes(connection))
    errors: dict[int | str, Any] = {status: {"model": _AnthropicError} for status in STATUSES}
    app.include_router(anthropic_messages.routes(connection), responses=errors)
    _add_small_routes(app, connection)
    _add_errors(app)
    app.add_middleware(
        _RequestGuard,
        hosts=[host.lower() for host in hosts],
        key=key,
        body_timeout_s=body_timeout_s,
    )
    if origins:
        app.add_middleware(
            CORSMiddleware, allow_origins=origins, allow_methods=["*"], allow_headers=["*"]
        )
    return app


class _ErrorFields(BaseModel):
    type: str
    message: str


class _OpenAIErrorFields(_ErrorFields):
    code: str | None
    param: str | None


class _OpenAIError(BaseModel):
    error: _OpenAIErrorFields


class _AnthropicError(BaseModel):
    type: Literal["error"]
    error: _ErrorFields


class TokenizeBody(RequestBody):
    """Body of a request to tokenize."""

    content: str
    add_special: bool = False


class DetokenizeBody(RequestBody):
    """Body of a request to turn tokens into text."""

    tokens: list[Annotated[int, Field(json_schema_extra={"minimum": 0})]]


class TemplateBody(RequestBody):
    """Body of a request for the prompt that the chat template makes."""

    messages: list[ChatMessage] = describe_roles("user", "tool")


def _add_small_routes(app: FastAPI, connection: EngineConnection) -> None:
    @app.get("/health")
    async def health() -> dict[str, str]:
        """Say that the server runs."""
        return {"status": "ok"}

    @app.get("/v1/models")
    async def models() -> dict[str, object]:
        """List the loaded model."""
        told = connection.thread.description
        if told is None:
            return {"object": "list", "data": []}
        model = {
            "id": told.name,
            "object": "model",
            "created": connection.began,
            "owned_by": "headstart",
            "context_length": told.context_length,
            "mtp_heads": told.mtp_heads,
        }
        return {"object": "list", "data": [model]}

    @app.get("/metrics", response_class=PlainTextResponse)
    async def metrics() -> PlainTextResponse:
        """Count everything since the start, in the text format of Prometheus."""
        figures = {f"{name}_total": ("counter", n) for name, n in vars(connection.counts).items()}
        figures["answers_running"] = ("gauge", connection.thread.running_answers)
        figures["answers_waiting"] = ("gauge", connection.thread.waiting_answers)
        lines = [
            f"# TYPE headstart_{name} {kind}\nheadstart_{name} {figure}\n"
            for name, (kind, figure) in figures.items()
        ]
        return PlainTextResponse("".join(lines))

    @app.post("/tokenize")
    async def tokenize(body: TokenizeBody) -> dict[str, list[int]]:
        """Encode a text, special tokens included."""
        return {
            "tokens": await connection.call(lambda e: e.tokenize(body.content, body.add_special))
        }

    @app.post("/detokenize")
    async def detokenize(body: DetokenizeBody) -> dict[str, str]:
        """Decode tokens."""
        return {"content": await connection.call(lambda engine: engine.detokenize(body.tokens))}

    @app.post("/apply-template")
    async def apply_template(body: TemplateBody) -> dict[str, str]:
        """Make the prompt of a conversation."""
        said = await asyncio.to_thread(lambda: [message.message() for message in body.messages])
        messages = join_system_messages(said)
        check_messages_given(messages)

        def rendered_prompt(engine: Engine) -> str:
            session = engine.session()
            session.load_messages(messages)
            return engine.detokenize(session.prompt_tokens())

        return {"prompt": await connection.call(rendered_prompt)}


class _RequestGuard:
    """Middleware that lets in requests to known hosts that show the key, of LARGEST_BODY at most.

    Raises HTTPException 408 where nothing more of a body comes for body_s seconds. HEAD is answered
    as GET, whose body the web server leaves out.
    """

    def __init__(
        self, app: ASGIApp, hosts: Sequence[str], key: str | None, body_timeout_s: float
    ) -> None:
        self._app, self._hosts, self._key, self._body_s = app, hosts, key, body_timeout_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        read, told, is_whole = 0, int(request.headers.get("content-length", 0)), False

        async def limited() -> Message:
            nonlocal read, is_whole
            if told > LARGEST_BODY:
                raise HTTPException(413)
            try:
                message = await asyncio.wait_for(receive(), None if is_whole else self._body_s)
            except TimeoutError:
                raise HTTPException(408, headers={"Connection": "close"}) from None
            read += len(message.get("body", b""))
            is_whole = not message.get("more_body", False)
            if read > LARGEST_BODY:
                raise HTTPException(413)
            return message

        if refusal := self._refusal_response(request):
            await refusal(scope, receive, send)
        else:
            is_head = scope["method"] == "HEAD"
            await self._app({**scope, "method": "GET"} if is_head else scope, limited, send)

    def _refusal_response(self, request: Request) -> Response | None:
        """Make the response to a request that may not come in; None for others."""
        host = PORT.sub("", request.headers.get("host", "")).lower()
        if host not in self._hosts and "*" not in self._hosts:
            return _error_response(request, 400, f"This server is not called {host!r}: see --name.")
        _, _, bearer = request.headers.get("authorization", "").partition(" ")
        shown = (bearer, request.headers.get("x-api-key", ""))
        key = (self._key or "").encode()
        is_right = any(hmac.compare_digest(given.encode(), key) for given in shown)
        if self._key is None or is_right or request.url.path in OPEN_TO_ALL:
            return None
        words = "The key is missing or wrong: send it as “Authorization: Bearer KEY”."
        return _error_response(request, 401, words)


def _add_errors(app: FastAPI) -> None:
    @app.exception_handler(EngineError)
    async def engine_error(request: Request, error: EngineError) -> Response:
        status = next(status for kind, status in STATUS if isinstance(error, kind))
        return _error_response(request, status, str(error), type(error).__name__)

    @app.exception_handler(ClientGone)
    async def gone(_request: Request, _error: ClientGone) -> Response:
        return Response(status_code=499)  # nobody reads it

    @app.exception_handler(RequestValidationError)
    async def bad_body(request: Request, error: RequestValidationError) -> Response:
        place, words = _describe_validation_errors(error.errors())
        if not request.headers.get("content-type", "").partition(";")[0].endswith("json"):
            return _error_response(
                request, 415, "Send JSON, with “Content-Type: application/json”."
            )
        return _error_response(request, 400, f"{place}: {words}.", "bad_body", place)

    @app.exception_handler(HTTPException)
    async def refused(request: Request, error: HTTPException) -> Response:
        words = {
            400: "The body cannot be read: it is not UTF-8, or nested too deeply.",
            404: f"There is nothing at {request.url.path}: /openapi.json says what there is.",
            405: f"{request.method} is not possible at {request.url.path}.",
            408: "The rest of the body did not come: send it whole.",
            413: f"The body has more than {LARGEST_BODY // 2**20} MiB: send less.",
        }
        status, told = error.status_code, words.get(error.status_code, error.detail)
        if status == 400 and "content-encoding" in request.headers:
            status, told = 415, "The body is compressed: send it without Content-Encoding."
        response = _error_response(request, status, told)
        response.headers.update(error.headers or {})
        return response

    @app.exception_handler(Exception)
    async def bug(request: Request, error: Exception) -> Response:
        return _error_response(request, 500, message_for_client(error))


def _describe_validation_errors(errors: Sequence[Any]) -> tuple[str, str]:
    """Return the path of the field that failed validation, and a message about it.

    Where a field may have one of several types, the error with the longest path is reported: it
    lies inside the type that was sent.
    """
    if errors[0]["type"] == "json_invalid":
        return "body", f"it is not JSON ({errors[0]['ctx']['error']})"
    told: dict[tuple[str, ...], list[str]] = {}
    for error in errors:
        if error["loc"][:2] == errors[0]["loc"][:2]:
            place = tuple(str(p) for p in error["loc"][1:] if not TYPE_NAME.fullmatch(str(p)))
            words = "Input should be an object" if error["type"] in OF_OBJECTS else error["msg"]
            told.setdefault(place, []).append(words)
    place = max(told, key=len)
    first, *others = dict.fromkeys(told[place])
    words = " or ".join([first, *(text.removeprefix("Input should be ") for text in others)])
    return ".".join(place) or "body", words


def _error_response(
    request: Request,
    http_status: int,
    words: str,
    error_code: str | None = None,
    place: str | None = None,
) -> Response:
    """Make an error response in the shape of the interface that was asked."""
    words = words if len(words) <= LONGEST_ERROR else f"{words[:LONGEST_ERROR]}…"
    kind = "invalid_request_error" if http_status < 500 else "api_error"
    kinds = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}
    kind = kinds.get(http_status, kind)
    error: dict[str, str | None] = {"type": kind, "message": words}
    content: dict[str, object] = {"error": error}
    if request.url.path.startswith("/v1/messages"):
        content["type"] = "error"
    else:
        error |= {"code": error_code, "param": place}
    headers = {"Retry-After": "5"} if http_status == 429 else {}
    return JSONResponse(content, http_status, headers)
