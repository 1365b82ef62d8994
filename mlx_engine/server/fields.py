"""Fields of request bodies that several endpoints share, and the options made of them."""

from base64 import b64decode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from mlx_engine.values.conversation import TokenLogprob, Tool
from mlx_engine.values.errors import BadOption, BadPicture
from mlx_engine.values.options import (
    MAX_DEPTH,
    DraftOptions,
    DraftRule,
    DraftSourceName,
    GenerationOptions,
    SamplingOptions,
    TemplateValue,
)
from mlx_engine.values.picture import Picture, read_picture
from mlx_engine.values.stats import GenerationStats

TOOL_NAME = r"^[A-Za-z0-9_.\-]{1,64}$"
NOT_BLANK = "the last message of the user has text that is not blank"


class FieldRefusal(NamedTuple):
    """Why this server cannot do what a known field asks. but_for: values that ask for nothing."""

    why: str
    but_for: tuple[object, ...] = ()


def _allow_null(schema: dict[str, Any]) -> None:
    """Tell in a body's JSON schema that fields which may be absent may be null."""
    properties = schema.get("properties", {})
    for name in set(properties) - set(schema.get("required", ())):
        if {"type": "null"} not in properties[name].get("anyOf", ()):
            properties[name] = {"anyOf": [properties[name], {"type": "null"}]}


def describe_field(**schema: Any) -> Any:
    """Describe a required field in /openapi.json beyond its type; what is sent is checked later."""
    return Field(json_schema_extra=schema)


def describe_roles(*roles: str) -> Any:
    """Describe messages of which one has one of these roles."""
    one: dict[str, Any] = {"properties": {"role": {"enum": [*roles]}}, "required": ["role"]}
    return Field(min_length=1, description=NOT_BLANK, json_schema_extra={"contains": one})


class RequestBody(BaseModel):
    """A request body or a part of one: frozen, of strict types; null is as if absent.

    refused: known fields that would change the answer, which this server cannot obey. Other fields
    that are not declared are ignored.
    """

    model_config = ConfigDict(
        frozen=True, strict=True, extra="allow", json_schema_extra=_allow_null
    )
    refused: ClassVar[Mapping[str, FieldRefusal]] = {}

    @model_validator(mode="before")
    @classmethod
    def _without_null(cls, field_values: object) -> object:
        if not isinstance(field_values, dict):
            return field_values
        return {name: value for name, value in field_values.items() if value is not None}

    @model_validator(mode="after")
    def _refuse_unknown_fields(self) -> Self:
        for name, value in (self.model_extra or {}).items():
            refusal = self.refused.get(name)
            if refusal is not None and value and value not in refusal.but_for:
                raise BadOption("{name}: {why}", name=name, why=refusal.why)
        return self


class DraftFields(RequestBody):
    """Draft settings of one request; they change the speed, never the text."""

    source: DraftSourceName | None = None
    depth: Annotated[int, Field(ge=0, le=MAX_DEPTH)] | Literal["auto"] | None = None
    min_probability: float | None = Field(default=None, ge=0, le=1)
    rule: DraftRule | None = None

    def draft_options(self, default_options: DraftOptions) -> DraftOptions:
        """Replace draft options by those of the request. Raises BadOption."""
        given = {name: getattr(self, name) for name in type(self).model_fields}
        return replace(default_options, **{name: v for name, v in given.items() if v is not None})


class SamplingFields(RequestBody):
    """Sampling and draft settings of one request; what is absent is as the model recommends."""

    model: str = Field("", description="the name of the loaded model, or nothing")
    stream: bool = False
    temperature: float | None = Field(None, ge=0, le=10)
    top_p: float | None = Field(None, ge=0, le=1)
    top_k: int | None = Field(None, ge=0)
    min_p: float | None = Field(None, ge=0, le=1)
    repetition_penalty: float | None = Field(None, ge=0.01, le=10)
    presence_penalty: float | None = Field(None, ge=-10, le=10)
    frequency_penalty: float | None = Field(None, ge=-10, le=10)
    xtc_probability: float | None = Field(None, ge=0, le=1)
    xtc_threshold: float | None = Field(None, ge=0, le=1)
    dry_multiplier: float | None = Field(None, ge=0, le=100)
    dry_base: float | None = Field(None, ge=1, le=10)
    dry_allowed_length: int | None = Field(None, ge=1)
    dry_penalty_last_n: int | None = Field(None, ge=-1)
    dry_sequence_breakers: list[str] | None = None
    logit_bias: dict[str, float] | None = None
    seed: int | None = Field(None, ge=0, lt=2**64)
    regex: str | None = Field(None, description="a regular expression that binds the answer")
    grammar: str | None = Field(None, description="a Lark grammar that binds the answer")
    max_thinking: int | None = Field(
        None, ge=0, description="tokens of the thought before the answer"
    )
    draft: DraftFields = DraftFields()

    def sampling_options(self, recommended: SamplingOptions, choice: int = 0) -> SamplingOptions:
        """Replace the recommended options by those of the request. Raises BadOption.

        choice: number of the answer, of several to one prompt; each has a seed of its own.
        """
        names = {field.name for field in fields(SamplingOptions)} - {"logit_bias"}
        given = {name: value for name, value in self if name in names and value is not None}
        if self.logit_bias:
            given["logit_bias"] = _token_biases(self.logit_bias)
        if self.seed is not None:
            given["seed"] = self.seed + choice
        return replace(recommended, **given)


def _token_biases(biases_by_token: Mapping[str, float]) -> dict[int, float]:
    """Convert the keys of a JSON object to token ids. Raises BadOption."""
    if not all(token.isdecimal() for token in biases_by_token):
        raise BadOption("logit_bias: use token ids as names, such as {{“1234”: -100}}.")
    return {int(token): bias for token, bias in biases_by_token.items()}


def generation_options(
    body: SamplingFields,
    max_tokens: int | None,
    stop: str | list[str] | None,
    form: object = None,
    logprobs: int | None = None,
) -> GenerationOptions:
    """Make the conditions that end an answer, and the grammar that binds it. Raises BadOption.

    form: "response_format" or its like in the interface that was asked. logprobs: as in
    GenerationOptions.
    """
    texts = [stop] if isinstance(stop, str) else stop or []
    schema = _response_schema(form)
    return GenerationOptions(
        max_tokens,
        tuple(texts),
        schema=schema,
        regex=body.regex,
        grammar=body.grammar,
        max_thinking=body.max_thinking,
        logprobs=logprobs,
    )


def effort_arguments(requested_effort: str | None) -> dict[str, TemplateValue]:
    """Return the variables of the chat template that set how much the model thinks."""
    if requested_effort is None:
        return {}
    return {
        "reasoning_effort": requested_effort,
        **({"enable_thinking": False} if requested_effort == "none" else {}),
    }


def logprob_entries(scores: Iterable[TokenLogprob]) -> list[dict[str, Any]]:
    """Log-probabilities of the tokens outside thoughts, as OpenAI's interfaces have them."""
    return [
        {
            **_logprob_entry(score),
            "top_logprobs": [_logprob_entry(other) for other in score.likeliest],
        }
        for score in scores
        if score.channel == "answer"
    ]


def _logprob_entry(score: TokenLogprob) -> dict[str, Any]:
    text = score.text.decode(errors="replace")
    return {"token": text, "bytes": [*score.text], "logprob": score.logprob}


def _response_schema(form: object) -> dict[str, Any] | None:
    """Return the JSON schema of a response format; None for text. Raises BadOption."""
    fields = form if isinstance(form, dict) else {}
    kind = fields.get("type", "text")
    if kind == "text":
        return None
    if kind == "json_object":
        return {"type": "object"}
    named = fields.get("json_schema", fields)  # OpenAI's interfaces differ
    schema = named.get("schema") if isinstance(named, dict) else None
    if kind == "json_schema" and isinstance(schema, dict):
        return schema
    raise BadOption("response_format: use “text”, “json_object”, or “json_schema” with a schema.")


def required_calls(choice: str | dict[str, Any] | None, tools: Sequence[Tool]) -> tuple[str, ...]:
    """Return the names of the tools of which `tool_choice` demands a call. Raises BadOption."""
    names = tuple(tool.name for tool in tools)
    if choice in (None, "auto", "none"):
        return ()
    if choice == "required" and names:
        return names
    fields = choice if isinstance(choice, dict) and choice.get("type") == "function" else {}
    inner = fields.get("function", fields)
    name = inner.get("name") if isinstance(inner, dict) else None
    if name in names:
        return (name,)
    raise BadOption(
        "tool_choice: use “auto”, “none”, “required” where there are tools, or the type “function” "
        "with the name of one of them."
    )


def picture_from_url(url: object) -> Picture:
    """Read a picture from a data URL; nothing is fetched, and no file opened.

    Raises BadOption, BadPicture.
    """
    head, _, data = url.partition(",") if isinstance(url, str) else ("", "", "")
    if not (head.startswith("data:image/") and head.endswith(";base64")):
        raise BadOption(
            "image_url: this server fetches no pictures and opens no files. Send the picture "
            "itself, as “data:image/png;base64,...”."
        )
    return picture_from_base64(data)


def picture_from_base64(data: object) -> Picture:
    """Read a picture from the bytes of an image file in base64. Raises BadPicture."""
    try:
        return read_picture(b64decode(data if isinstance(data, str) else "", validate=True))
    except ValueError as error:
        raise BadPicture(
            "The picture is not in base64 ({error}): encode the bytes of the image file.",
            error=str(error),
        ) from error


def response_documentation(*fields: str) -> dict[int | str, dict[str, Any]]:
    """Describe a response for /openapi.json: an object with these fields, or a stream of events."""
    schema = {"type": "object", "required": [*fields]}
    content = {"application/json": {"schema": schema}, "text/event-stream": {}}
    return {200: {"description": "The answer, or its events", "content": content}}


def timings(stats: GenerationStats) -> dict[str, Any]:
    """Figures of an answer, in llama.cpp's names, and those that only this server has."""
    read, written = stats.prompt_tokens - stats.reused_tokens, stats.generated_tokens
    read_ms = _elapsed_ms(read, stats.prompt_tokens_per_second)
    written_ms = _elapsed_ms(written, stats.tokens_per_second)
    return {
        "prompt_n": read,
        "prompt_ms": read_ms,
        "prompt_per_second": stats.prompt_tokens_per_second,
        "predicted_n": written,
        "predicted_ms": written_ms,
        "predicted_per_second": stats.tokens_per_second,
        "draft_n": stats.drafted,
        "draft_n_accepted": stats.accepted,
        "draft_rounds": stats.passes,
        "accepted_by_depth": stats.accepted_by_depth,
        "cached_n": stats.reused_tokens,
        "seed": stats.seed,
    }


def _elapsed_ms(tokens: int, per_second: float) -> float:
    return 1000 * tokens / per_second if per_second else 0.0
