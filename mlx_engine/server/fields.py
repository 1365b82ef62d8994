"""Fields of request bodies that several endpoints share, and the options made of them."""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from mlx_engine.values.errors import BadOption
from mlx_engine.values.options import (
    DraftOptions,
    DraftRule,
    DraftSourceName,
    GenerationOptions,
    SamplingOptions,
)
from mlx_engine.values.stats import GenerationStats


class Body(BaseModel):
    """A request body: frozen, of strict types; fields that it does not name are ignored."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")


class DraftFields(Body):
    """Draft settings of one request; they change the speed, never the text."""

    source: DraftSourceName | None = None
    depth: int | Literal["auto"] | None = None
    min_probability: float | None = None
    rule: DraftRule | None = None

    def options(self, otherwise: DraftOptions) -> DraftOptions:
        """Replace draft options by those of the request. Raises BadOption."""
        return replace(otherwise, **{name: value for name, value in self if value is not None})


class SamplingFields(Body):
    """Sampling and draft settings of one request; what is absent is as the model recommends."""

    model: str = Field("", description="the name of the loaded model, or nothing")
    stream: bool = False
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: dict[str, float] | None = None
    seed: int | None = None
    regex: str | None = Field(None, description="a regular expression that binds the answer")
    grammar: str | None = Field(None, description="a Lark grammar that binds the answer")
    max_thinking: int | None = Field(None, description="tokens of the thought before the answer")
    draft: DraftFields = DraftFields()

    def sampling(self, recommended: SamplingOptions, choice: int = 0) -> SamplingOptions:
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


def _token_biases(given: Mapping[str, float]) -> dict[int, float]:
    """Convert the keys of a JSON object to token ids. Raises BadOption."""
    if not all(token.isdecimal() for token in given):
        raise BadOption("logit_bias: use token ids as names, such as {{“1234”: -100}}.")
    return {int(token): bias for token, bias in given.items()}


def limits(
    body: SamplingFields, max_tokens: int | None, stop: str | list[str] | None, form: object = None
) -> GenerationOptions:
    """Make the conditions that end an answer, and the grammar that binds it. Raises BadOption.

    form: "response_format" or its like in the interface that was asked.
    """
    texts = [stop] if isinstance(stop, str) else stop or []
    schema = _schema(form)
    return GenerationOptions(
        max_tokens,
        tuple(texts),
        schema=schema,
        regex=body.regex,
        grammar=body.grammar,
        max_thinking=body.max_thinking,
    )


def _schema(form: object) -> dict[str, Any] | None:
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


def refuse(body: BaseModel, reasons: Mapping[str, str]) -> None:
    """Raise BadOption for fields that have a value though the server cannot do what they ask."""
    for name, reason in reasons.items():
        if getattr(body, name):
            raise BadOption("{name}: {reason}", name=name, reason=reason)


def timings(stats: GenerationStats) -> dict[str, Any]:
    """Figures of an answer, in llama.cpp's names, and those that only this server has."""
    read, written = stats.prompt_tokens - stats.reused_tokens, stats.generated_tokens
    read_ms = _milliseconds(read, stats.prompt_tokens_per_second)
    written_ms = _milliseconds(written, stats.tokens_per_second)
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


def _milliseconds(tokens: int, per_second: float) -> float:
    return 1000 * tokens / per_second if per_second else 0.0
