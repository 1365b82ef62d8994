"""Describe a model from its file headers, without MLX and before any weight is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from mlx_engine.hub.weight_files import model_name
from mlx_engine.loading.find import HubAccess, locate_headers, locate_heads, locate_model
from mlx_engine.loading.folder import ModelFiles, draft_models_near, read_json_object
from mlx_engine.loading.headers import ModelHeaders, keep_gguf_blocks, read_headers
from mlx_engine.loading.heads import head_count
from mlx_engine.loading.stored_weights import (
    StoredWeight,
    join_storage_words,
    on_disk_groups,
    skipped_tensor_groups,
    sum_weight_sizes,
    unpack_small_model,
    vision_group,
    weights_by_group,
)
from mlx_engine.loading.vision import picture_sizes, vision_remarks
from mlx_engine.models.family import ModelSizes
from mlx_engine.values.errors import BadModelFile, BadOption, Reason
from mlx_engine.values.model_description import ModelDescription, TensorGroup
from mlx_engine.values.options import LoadOptions, SamplingOptions
from mlx_engine.values.words import Words, size_words

if TYPE_CHECKING:
    from mlx_engine.text.chat_template import ChatTemplate
    from mlx_engine.text.tokenizer import Tokenizer

_ORDER = (
    Words("embedding"),
    Words("linear attention"),
    Words("short convolutions"),
    Words("state spaces"),
    Words("attention"),
    Words("mlp"),
    Words("experts"),
    Words("norms"),
    Words("output head"),
    Words("other"),
    Words("MTP head"),
)


def describe(
    headers: ModelHeaders,
    options: LoadOptions,
    *,
    has_metal: bool = True,
    stays_packed: bool = True,
) -> ModelDescription:
    """Make a ModelDescription (sizes, quantisation, caches, ...) from a model's tensor headers.

    has_metal: computed on a GPU; without, 16-bit weights and caches take 32 bits. stays_packed: of
    quantised weights; False counts those of a small model as unpacked, as on a CPU without our
    kernels.
    """
    files, figures = headers.files, headers.family.compute_sizes()
    weights = weights_by_group(headers, is_wide=not has_metal)
    work, is_unpacked = figures.work, False
    if not stays_packed and figures.unpacks:
        packed_weights, weights = weights, unpack_small_model(weights)
        if weights != packed_weights:
            work, is_unpacked = replace(work, group_sums=_group_sums(weights)), True
    element = cached_element_bytes(headers.family.config, has_metal=has_metal)
    used = [
        weight
        for name, members in weights.items()
        for weight in members
        if name != "MTP head" or headers.heads.tensors
    ]
    recommended = (
        recommendation_from_folder(files.root)
        if headers.gguf is None
        else recommendation_from_gguf(headers.gguf.metadata, files.root)
    )
    heads = head_count(headers.heads.tensors)
    nbytes = sum(weight.nbytes for weight in used)
    on_disk = tuple(on_disk_groups(headers))
    vision = tuple(vision_group(headers.vision.tensors, is_wide=not has_metal))
    groups = (
        *(sum_weight_sizes(name, weights[name]) for name in _ORDER if weights.get(name)),
        *on_disk,
        *skipped_tensor_groups(headers.parts.skipped),
        *vision,
    )
    return ModelDescription(
        name=model_name(files.root),
        path=str(files.root),
        architecture=headers.architecture,
        parameters=sum(weight.parameters for weight in used)
        + sum(group.parameters for group in on_disk),
        quantisation=join_storage_words(weight for weight in used if weight.is_matrix),
        nbytes=nbytes,
        layers=figures.layers,
        hidden_size=figures.hidden_size,
        vocabulary=figures.vocabulary,
        context_length=min(filter(None, (figures.context_length, options.context_length))),
        mtp_heads=heads,
        mtp=headers.heads.why_not,
        heads_from=headers.heads.origin if heads and not headers.heads.inside else "",
        draft_models=tuple(map(str, draft_models_near(files))),
        groups=groups,
        vision=headers.vision.why_not,
        trunk_cache=figures.cache.to_cache_bytes(element),
        head_cache=figures.head_cache_size(heads).to_cache_bytes(element),
        sampling=recommended.sampling,
        numerics="fast" if options.numerics == "fast" else "exact",
        active_parameters=_active_parameters(weights, figures),
        packed_cache=figures.packed_cache,
        work=work,
        pictures=picture_sizes(
            headers.vision, sum(group.nbytes for group in vision), 2 if has_metal else 4
        ),
        declined=headers.unpacked_reasons
        + headers.heads.remarks
        + vision_remarks(headers.vision)
        + (() if recommended.ignored is None else (recommended.ignored,))
        + (_unpacking_reason(nbytes, groups) if is_unpacked else ()),
    )


def _unpacking_reason(nbytes: int, groups: Iterable[TensorGroup]) -> tuple[Reason, ...]:
    """Tell the user why weights take more memory than in the file; empty unless over 5 percent."""
    in_file = sum(group.file_nbytes or group.nbytes for group in groups)
    if 1.05 * in_file > nbytes:
        return ()
    words = Words(
        "This computer has no Metal, Apple's way to use the graphics processor, so the model runs "
        "on the main processor. The model itself takes {size} there.",
        size=size_words(nbytes),
    )
    return (Reason("unpacked-for-cpu", words),)


def _group_sums(weights: Mapping[str, list[StoredWeight]]) -> int:
    """Most partial sums over quantisation groups in a layer's matrix product on a CPU.

    Twice the largest matrix's, since two matrices may be multiplied at once."""
    layers = (group for name, group in weights.items() if name not in ("embedding", "output head"))
    return 2 * max((weight.group_sums for group in layers for weight in group), default=0)


def _active_parameters(
    weights: Mapping[str, list[StoredWeight]], figures: ModelSizes
) -> int | None:
    """Number of parameters, without MTP heads, that one token uses; None where it uses all."""
    if figures.active_expert_share == 1:
        return None
    trunk = [weight for name in weights if name != "MTP head" for weight in weights[name]]
    experts = sum(weight.parameters for weight in weights.get("experts", ()))
    resting = experts * (1 - figures.active_expert_share)
    return sum(weight.parameters for weight in trunk) - round(resting)


def cached_element_bytes(config: Mapping[str, object], *, has_metal: bool) -> int:
    """Bytes of one cached key or value element, by the config's dtype; 4 without Metal."""
    text = config.get("text_config", config)
    inner = text if isinstance(text, Mapping) else config
    named = (table.get(key) for table in (inner, config) for key in ("dtype", "torch_dtype"))
    stored = next((name for name in named if isinstance(name, str)), "bfloat16")
    return 2 if has_metal and stored in ("bfloat16", "float16") else 4


def inspect_model(
    path: str | Path | None,
    built_in: Path,
    heads: Path | None = None,
    hub: HubAccess | None = None,
    *,
    vision: Path | None = None,
    reads_text: bool = False,
) -> ModelDescription:
    """Make a ModelDescription, with and without Metal, of the model at `path` (None: `built_in`).

    heads, vision: as in LoadOptions. hub: as in `load_model`. reads_text: read tokenizer and
    template too for their errors. Raises EngineError.
    """
    files, options = locate_model(path, built_in, hub), LoadOptions(heads=heads, vision=vision)
    return _describe_files(files, options, locate_heads(heads, hub), reads_text=reads_text)


def inspect_remote(path: str, built_in: Path, hub: HubAccess | None = None) -> ModelDescription:
    """Describe a model by path or hub id; of a hub model only file headers are downloaded."""
    with locate_headers(path, built_in, hub) as files:
        return _describe_files(files, LoadOptions(), None, reads_text=False)


def _describe_files(
    files: ModelFiles, options: LoadOptions, heads: Path | None, *, reads_text: bool
) -> ModelDescription:
    headers = read_headers(files, heads, options.vision)
    with_metal = describe(keep_gguf_blocks(headers, lambda _kind, _shape: True), options)
    if reads_text:
        read_text_parts(headers).tokenizer.fit_to_vocabulary(with_metal.vocabulary)
    without = describe(headers, options, has_metal=False, stays_packed=False)
    return with_metal if with_metal == without else replace(with_metal, without_metal=without)


class TextParts(NamedTuple):
    """A model's tokenizer, and its chat template, which is None for models that cannot chat."""

    tokenizer: Tokenizer
    template: ChatTemplate | None


def read_text_parts(headers: ModelHeaders) -> TextParts:
    """Read a model's tokenizer and chat template from its folder or GGUF file.

    Raises BadTokenizer, BadChatTemplate, UnsupportedModel.
    """
    from mlx_engine.text.chat_template import ChatTemplate
    from mlx_engine.text.gguf_tokenizer import template_from_gguf, tokenizer_from_gguf
    from mlx_engine.text.tokenizer_folder import read_tokenizer

    root = headers.files.root
    if headers.gguf is None:
        return TextParts(read_tokenizer(root), ChatTemplate.from_folder(root))
    metadata, origin = headers.gguf.metadata, str(root)
    return TextParts(tokenizer_from_gguf(metadata, origin), template_from_gguf(metadata, origin))


_GGUF_PREFIX = "general.sampling."
_GGUF_KEYS = {
    "temperature": "temp",
    "top_k": "top_k",
    "top_p": "top_p",
    "min_p": "min_p",
    "repetition_penalty": "penalty_repeat",
}
"""Names of SamplingOptions -> names of llama.cpp."""


class Recommendation(NamedTuple):
    """Sampling options that the model's publisher recommends; ignored: why they were not used."""

    sampling: SamplingOptions
    ignored: Reason | None = None


def recommendation_from_folder(folder: Path) -> Recommendation:
    """Read recommended sampling options from generation_config.json."""
    path = folder / "generation_config.json"
    return _read_options(lambda: read_json_object(path) if path.exists() else {}, path.name)


def recommendation_from_gguf(metadata: Mapping[str, object], path: Path) -> Recommendation:
    """Read recommended sampling options from llama.cpp's metadata keys `general.sampling.*`."""
    given = {ours: metadata.get(f"{_GGUF_PREFIX}{theirs}") for ours, theirs in _GGUF_KEYS.items()}
    return _read_options(lambda: given, f"{path.name}: {_GGUF_PREFIX}*")


def _read_options(read_fields: Callable[[], Mapping[str, object]], origin: str) -> Recommendation:
    """Read a publisher's sampling options; invalid ones give the defaults and a reason."""
    try:
        return Recommendation(_sampling_options(read_fields()))
    except (BadModelFile, BadOption) as error:
        words = Words(
            "The recommended sampling was ignored: {origin}: {error}",
            origin=origin,
            error=str(error),
        )
        return Recommendation(SamplingOptions(), Reason("bad-generation-config", words))


def _sampling_options(config: Mapping[str, object]) -> SamplingOptions:
    """Make SamplingOptions from generation_config.json's keys; `do_sample: false` gives greedy."""
    given: dict[str, Any] = {key: config[key] for key in _GGUF_KEYS if config.get(key) is not None}
    top_k = given.get("top_k")
    if isinstance(top_k, int | float) and abs(top_k) < 1e9:  # some write 50.0, or -1 for off
        given["top_k"] = max(0, int(top_k))
    options = SamplingOptions(**given)
    return replace(options, temperature=0.0) if config.get("do_sample") is False else options
