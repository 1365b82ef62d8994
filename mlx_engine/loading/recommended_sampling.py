"""The sampling a model's own generation_config.json, or its GGUF metadata, recommends."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mlx_engine.loading.json_file import read_json_object
from mlx_engine.values.errors import BadModelFile, BadOption, Reason
from mlx_engine.values.options import SamplingOptions

_GGUF_PREFIX = "general.sampling."
_GGUF_KEYS = {
    "temperature": "temp",
    "top_k": "top_k",
    "top_p": "top_p",
    "min_p": "min_p",
    "repetition_penalty": "penalty_repeat",
}


@dataclass(frozen=True, slots=True)
class Recommendation:
    """Options to start from; ignored: why the model's own are not among them, if so."""

    sampling: SamplingOptions
    ignored: Reason | None = None


def read_recommendation(folder: Path) -> Recommendation:
    """From generation_config.json; defaults when there is none, or with a Reason when it is bad.

    `do_sample: false` means temperature 0. Bad advice is no reason not to run a model.
    """
    path = folder / "generation_config.json"
    if not path.is_file():
        return Recommendation(SamplingOptions())
    try:
        return Recommendation(_options(read_json_object(path)))
    except (BadModelFile, BadOption) as error:
        words = f"The recommended sampling was ignored: {path.name}: {error}"
        return Recommendation(SamplingOptions(), Reason("bad-generation-config", words))


def recommendation_from_gguf(metadata: Mapping[str, object], path: Path) -> Recommendation:
    """From the keys `general.sampling.*` of llama.cpp, as read_recommendation else."""
    given = {ours: metadata.get(f"{_GGUF_PREFIX}{theirs}") for ours, theirs in _GGUF_KEYS.items()}
    try:
        return Recommendation(_options(given))
    except BadOption as error:
        words = f"The recommended sampling was ignored: {path.name}: {_GGUF_PREFIX}*: {error}"
        return Recommendation(SamplingOptions(), Reason("bad-generation-config", words))


def _options(config: Mapping[str, object]) -> SamplingOptions:
    usual = SamplingOptions()
    temperature = _number(config, "temperature", usual.temperature)
    return SamplingOptions(
        temperature=0.0 if config.get("do_sample") is False else temperature,
        top_k=max(0, int(_number(config, "top_k", usual.top_k))),
        top_p=_number(config, "top_p", usual.top_p),
        min_p=_number(config, "min_p", usual.min_p),
        repetition_penalty=_number(config, "repetition_penalty", usual.repetition_penalty),
    )


def _number(config: Mapping[str, object], key: str, default: float) -> float:
    value = config.get(key)
    if value is None:
        return default
    if not isinstance(value, int | float) or isinstance(value, bool) or not -1e9 < value < 1e9:
        raise BadOption(f"{key}={value!r} is not a number in reach.")
    return float(value)
