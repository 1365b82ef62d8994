"""Recognise files that are not a model: MTP heads, draft models, adapters, wrong downloads."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal

from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.values.errors import HeadsOnly, UnsupportedModel
from mlx_engine.values.words import Words

DrafterKind = Literal["eagle3", "gemma4-assistant", "dflash", "deepseek4-dspark"]
GGUF_DRAFTERS: tuple[DrafterKind, ...] = ("eagle3", "dflash", "gemma4-assistant")
"""Architectures of GGUF files of draft models that read their target's hidden states."""
_ASSISTANTS = ("gemma4_assistant", "gemma4_unified_assistant")

_STAND_INS = (
    (b"version https://git-lfs", Words("a git-lfs pointer, which only says where the file lies")),
    (b"<", Words("a web page")),
    (b"GGUF", Words("a GGUF by its content: let its name end in .gguf")),
    (b"PK\3\4", Words("a ZIP archive")),
    (bytes(8), Words("empty where it should begin, as a download that did not finish")),
    (b"lmgg", Words("a model in llama.cpp's format before GGUF")),
    (b"tjgg", Words("a model in llama.cpp's format before GGUF")),
)
"""First bytes of files often found under a model's name."""

_HEADS = re.compile(r"(.+\.)?(mtp(_layers|_block)?|eh_proj|pre_fc_norm_hidden)\..+")
_EMBEDDING = re.compile(r"(?!.*(layers|mtp))(.+\.)?((word_)?embed\w*|wte)\.weight")


def adapter_error(path: Path) -> UnsupportedModel:
    """Make the UnsupportedModel error for opening a LoRA adapter as a model."""
    return UnsupportedModel(
        "{path}: holds a LoRA adapter and no model. Take a model that it was merged into.",
        path=path,
    )


def draft_model_error(path: Path, kind: str) -> UnsupportedModel:
    """Make the UnsupportedModel error for opening a draft model of a kind as a model."""
    return UnsupportedModel(
        "{place}: a draft model ({kind}), which reads what the model it was made for computes. "
        "Open that model and give this as its draft model.",
        place=path,
        kind=kind,
    )


def describe_wrong_file(start: bytes) -> str | None:
    """Tell by a file's first bytes what it is instead of a model; None when they are unknown."""
    return next((words for sign, words in _STAND_INS if start.lstrip().startswith(sign)), None)


def heads_only_error(model_path: Path, config: Mapping[str, object] | None = None) -> HeadsOnly:
    """Make the error for a folder of MTP heads without a model.

    config: config.json of the model they were made for.
    """
    settings = config or {}
    text = settings.get("text_config", settings)
    width = text.get("hidden_size") if isinstance(text, Mapping) else None
    model = Words("the model they belong to")
    if isinstance(width, int):
        kind = str(settings.get("model_type")).removesuffix("_mtp")[:40]
        model = Words(
            "the {kind} model they belong to (hidden size {width})", kind=kind, width=width
        )
    return HeadsOnly(
        "{place}: holds drafting heads only. Open {model} and give them as its heads.",
        place=model_path,
        model=model,
    )


def are_mtp_heads(tensors: Iterable[str]) -> bool:
    """Whether tensor names include MTP heads but no model's token embedding."""
    names = list(tensors)
    return any(map(_HEADS.fullmatch, names)) and not any(map(_EMBEDDING.fullmatch, names))


def drafter_kind(config: Mapping[str, object], tensors: Iterable[str]) -> DrafterKind | None:
    """Kind of a draft model that reads its target's hidden states or cache; else None."""
    if config.get("model_type") in _ASSISTANTS:
        return "gemma4-assistant"
    if config.get("model_type") == "deepseek_v4_dspark":
        return "deepseek4-dspark"
    if "dflash_config" in config or "target_layer_ids" in config:
        return "dflash"
    if config.get("speculators_model_type") in ("dflash", "dspark"):
        return "dflash"
    names = {name.removeprefix("model.") for name in tensors}
    seconds = {"midlayer.hidden_norm.weight", "layers.0.hidden_norm.weight"}
    return "eagle3" if "fc.weight" in names and names & seconds else None


def has_dspark_stages(config: Mapping[str, object]) -> bool:
    """Return whether a model's folder holds a draft model, DSpark's stages under `mtp.`."""
    return ConfigFields(config, "config.json").has("dspark_target_layer_ids")


def refuse_partial_models(
    model_path: Path, config: Mapping[str, object], tensors: Iterable[str]
) -> None:
    """Raise HeadsOnly for MTP heads alone, UnsupportedModel for draft models and LoRA adapters."""
    names = list(tensors)
    if any(".lora_" in name.lower() for name in names):
        raise adapter_error(model_path)
    kind = drafter_kind(config, names)
    if kind is not None:
        raise draft_model_error(model_path, kind)
    if are_mtp_heads(names) or str(config.get("model_type")).endswith("_mtp"):
        raise heads_only_error(model_path, config)
