"""Random Qwens with experts (qwen3_5_moe, qwen3_next) of some 100 kB, in the layouts of files."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray
from tiny_qwen3_5 import TinyValues, is_shifted_norm, tiny_config, tiny_values
from tiny_tokenizer import make_tiny_tokenizer

Kind = Literal["qwen3_5_moe", "qwen3_next"]
Experts = Literal["single", "joined", "stacked"]
Floats = NDArray[np.float32]
KINDS: tuple[Kind, ...] = ("qwen3_5_moe", "qwen3_next")
COUNT, CHOSEN, INNER = 6, 2, 32
KEY_HEADS, GROUP, HEAD = 2, 2, 16


def experts_config(kind: Kind, **changes: object) -> dict[str, object]:
    """config.json; untied, four layers of which the last attends."""
    plain = tiny_config(tied=False)
    text = plain["text_config"]
    assert isinstance(text, dict)
    text |= {
        "model_type": "qwen3_5_moe_text" if kind == "qwen3_5_moe" else "qwen3_next",
        "num_experts": COUNT,
        "num_experts_per_tok": CHOSEN,
        "moe_intermediate_size": INNER,
        "shared_expert_intermediate_size": INNER,
    }
    if kind == "qwen3_5_moe":
        del text["intermediate_size"]
        text |= changes
        return {"model_type": kind, "text_config": text, "tie_word_embeddings": False}
    del text["mtp_num_hidden_layers"]
    text |= text.pop("rope_parameters")
    del text["rope_type"]
    return (
        text | {"norm_topk_prob": True, "decoder_sparse_step": 1, "mlp_only_layers": []} | changes
    )


def experts_values(kind: Kind, seed: int = 0, **changes: object) -> TinyValues:
    """Canonical names and values, norms as w."""
    return tiny_values(experts_config(kind, **changes), seed)


def write_tiny_experts(
    folder: Path,
    kind: Kind,
    *,
    seed: int = 0,
    experts: Experts = "single",
    head_experts: Experts | None = None,
    heads: bool = True,
    bits: int | None = None,
    changes: Mapping[str, object] | None = None,
    without: str = "",
) -> Path:
    """Writes the folder and returns it; one seed gives one model, however it is stored.

    experts: one by one or gate and up joined, as Hugging Face stores them, or stacked as MLX does
    (then norms are 1 + w, convolutions [C, K, 1], and with `bits` matrices are packed).
    without: names that begin so are left out; changes: of the config, to which the layers follow
    where it names ordinary ones by list and by step.
    """
    folder.mkdir(parents=True, exist_ok=True)
    config = experts_config(kind) | {}
    inner = config.get("text_config", config)
    assert isinstance(inner, dict)
    changes = dict(changes or {})
    dense = {n: changes[n] for n in ("mlp_only_layers", "decoder_sparse_step") if n in changes}
    values = experts_values(kind, seed, **(dense if len(dense) == 2 else {}))
    mlx = experts == "stacked"
    trunk = _stored(values.trunk, kind, experts, bits)
    head = _stored(values.head, kind, head_experts or experts, bits)
    prefixes = {
        (True, "qwen3_5_moe"): ("language_model.model.", "language_model.mtp."),
        (False, "qwen3_5_moe"): ("model.language_model.", "mtp."),
    }.get((mlx, kind), ("model.", "mtp."))
    outside = "language_model.lm_head." if mlx and kind == "qwen3_5_moe" else "lm_head."
    arrays = {
        outside + n.removeprefix("lm_head.") if n.startswith("lm_head.") else prefixes[0] + n: a
        for n, a in trunk.items()
    }
    if heads:
        arrays |= {prefixes[1] + n: a for n, a in head.items()}
    arrays = {n: a for n, a in arrays.items() if not (without and n.startswith(without))}
    if bits is not None:
        config["quantization"] = {"group_size": 32, "bits": bits}
    inner |= changes
    mx.save_safetensors(str(folder / "model.safetensors"), arrays)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    make_tiny_tokenizer(folder)
    return folder


def joined_projections(values: Mapping[str, Floats]) -> dict[str, Floats]:
    """Qwen3-Next's in_proj_qkvz and in_proj_ba, key head by key head, from matrices apart."""
    made = dict(values)
    for name in values:
        if not name.endswith("in_proj_qkv.weight"):
            continue
        base = name.removesuffix("in_proj_qkv.weight")
        qkv, gate = made.pop(name), made.pop(f"{base}in_proj_z.weight")
        beta, decay = made.pop(f"{base}in_proj_b.weight"), made.pop(f"{base}in_proj_a.weight")
        width = KEY_HEADS * HEAD
        parts = [qkv[:width], qkv[width : 2 * width], qkv[2 * width :], gate]
        made[f"{base}in_proj_qkvz.weight"] = _by_head(parts)
        made[f"{base}in_proj_ba.weight"] = _by_head([beta, decay])
    return made


def _by_head(parts: list[Floats]) -> Floats:
    heads = [np.split(part, KEY_HEADS) for part in parts]
    return np.concatenate([part[head] for head in range(KEY_HEADS) for part in heads])


def _stored(
    values: Mapping[str, Floats], kind: Kind, experts: Experts, bits: int | None
) -> dict[str, mx.array]:
    named = joined_projections(values) if kind == "qwen3_next" else dict(values)
    arrays: dict[str, mx.array] = {}
    for name, value in named.items():
        array = mx.array(value)
        if is_shifted_norm(name) and experts == "stacked":
            array = array + 1
        if "conv1d" in name and experts != "stacked":
            array = mx.contiguous(array.swapaxes(1, 2))
        if ".switch_mlp." in name and experts != "stacked":
            arrays |= _unstacked(name, array, experts, named)
        elif bits is not None and "conv1d" not in name and array.ndim > 1:
            parts = mx.quantize(array, 32, bits)
            base = name.removesuffix(".weight")
            arrays |= dict(zip((name, f"{base}.scales", f"{base}.biases"), parts, strict=True))
        else:
            arrays[name] = array
    return arrays


def _unstacked(
    name: str, array: mx.array, experts: Experts, named: Mapping[str, Floats]
) -> dict[str, mx.array]:
    base, _, part = name.removesuffix(".weight").rpartition(".switch_mlp.")
    if experts == "single":
        return {f"{base}.experts.{e}.{part}.weight": array[e] + 0 for e in range(len(array))}
    if part == "down_proj":
        return {f"{base}.experts.down_proj": array}
    both = [named[f"{base}.switch_mlp.{one}_proj.weight"] for one in ("gate", "up")]
    return {f"{base}.experts.gate_up_proj": mx.array(np.concatenate(both, axis=1))}
