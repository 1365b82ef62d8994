"""Folders of many architectures as llama.cpp's converter writes them into GGUFs.

Written from that converter (conversion/*.py of ggml-org/llama.cpp), not from our loader: what it
permutes, splits, stacks and shifts is done here in its own words, names by the gguf package's map.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Literal, NamedTuple

import gguf
import numpy as np
from converted_metadata import converted_metadata
from gguf_blocks import tensor
from gguf_files import RawTensor, gguf_bytes
from numpy.typing import NDArray
from safetensors.numpy import load_file
from tiny_gguf import joined_experts, vocabulary_metadata

Floats = NDArray[np.float32]
Types = gguf.GGMLQuantizationType
Config = Mapping[str, object]
ARCHITECTURES = {
    "llama": "llama",
    "mistral": "llama",
    "mixtral": "llama",
    "qwen2": "qwen2",
    "qwen3": "qwen3",
    "qwen3_moe": "qwen3moe",
    "gemma": "gemma",
    "gemma2": "gemma2",
    "cohere": "command-r",
    "cohere2": "cohere2",
    "hunyuan_v1_dense": "hunyuan-dense",
    "lfm2": "lfm2",
    "lfm2_moe": "lfm2moe",
    "gemma4_text": "gemma4",
    "gemma3n_text": "gemma3n",
    "phi": "phi2",
    "starcoder2": "starcoder2",
    "stablelm": "stablelm",
    "nemotron": "nemotron",
    "granitemoe": "granitemoe",
    "hunyuan_v1_moe": "hunyuan-moe",
    "falcon_h1": "falcon-h1",
    "granitemoehybrid": "granitehybrid",
    "nemotron_h": "nemotron_h_moe",
    "gemma3_text": "gemma3",
    "gpt_oss": "gpt-oss",
    "phi3": "phi3",
    "glm4": "glm4",
    "glm": "chatglm",
    "olmo2": "olmo2",
    "olmo3": "olmo2",
    "olmoe": "olmoe",
    "qwen2_moe": "qwen2moe",
    "exaone4": "exaone4",
    "ministral3": "mistral3",
    "granite": "granite",
    "smollm3": "smollm3",
    "seed_oss": "seed_oss",
    "exaone_moe": "exaone-moe",
    "hy_v3": "hy_v3",
    "dots1": "dots1",
    "ernie4_5": "ernie4_5",
    "ernie4_5_moe": "ernie4_5-moe",
    "minimax_m2": "minimax-m2",
    "minimax_m3_vl": "minimax-m3",
    "glm4_moe": "glm4moe",
    "glm4_moe_lite": "deepseek2",
    "deepseek_v2": "deepseek2",
    "deepseek_v3": "deepseek2",
    "bailing_hybrid": "bailingmoe3",
    "kimi_linear": "kimi-linear",
    "deepseek_v32": "deepseek32",
    "glm_moe_dsa": "glm-dsa",
    "hy_v4": "hyv4",
    "deepseek_v4": "deepseek4",
    "glm5_next": "glm5-next",
    "mimo_v2_flash": "mimo2",
    "step3p5": "step35",
}
_IN_PAIRS = ("llama", "xverse", "internlm2", "smollm3", "mistral3", "granite", "minicpm",
             "granitemoe")  # fmt: skip
_HYBRIDS = ("granitemoe", "granitemoehybrid", "nemotron_h", "gemma4_text", "falcon_h1")
_LING = "bailing_hybrid"
_BEYOND_THE_MAP = {
    "eh_proj": "nextn.eh_proj",
    "enorm": "nextn.enorm",
    "hnorm": "nextn.hnorm",
    "embed_tokens": "nextn.embed_tokens",
    "shared_head.norm": "nextn.shared_head_norm",
    "shared_head.head": "nextn.shared_head_head",
    "final_layernorm": "layer_output_norm",
    "pre_mlp_layernorm": "ffn_norm",
    "mlp.gate.e_score_correction": "exp_probs_b",
    "self_attn.q_a_proj": "attn_q_a",
    "self_attn.q_a_layernorm": "attn_q_a_norm",
    "self_attn.q_b_proj": "attn_q_b",
    "self_attn.indexer.wq_b": "indexer.attn_q_b",
    "self_attn.indexer.wk": "indexer.attn_k",
    "self_attn.indexer.k_norm": "indexer.k_norm",
    "self_attn.indexer.weights_proj": "indexer.proj",
    "self_attn.indexer.index_kpool_compress_gate": "indexer_compressor_gate",
    "self_attn.indexer.index_kpool_compress_ape": "indexer_compressor_ape",
    **{
        f"hc_{site}_{part}": f"hc_{site}_{part}"
        for site in ("attn", "ffn")
        for part in ("fn", "base", "scale")
    },
    "self_attn.qkv_proj": "attn_qkv",
    "mlp.experts.gate_up_proj": "ffn_gate_up_exps",
    "mixer.gate.e_score_correction": "exp_probs_b",
    "mixer.experts.up_proj": "ffn_up_exps",
    "mixer.experts.down_proj": "ffn_down_exps",
    "feed_forward.experts.w1": "ffn_gate_exps",
    "feed_forward.experts.w2": "ffn_down_exps",
    "feed_forward.experts.w3": "ffn_up_exps",
    "feed_forward.expert_bias": "exp_probs_b",
    **{f"block_sparse_moe.{part}_proj": f"ffn_{part}" for part in ("gate", "up", "down")},
    **{
        f"attention.{theirs}": ours
        for theirs, ours in {
            **{"q_proj": "attn_q", "k_proj": "attn_k", "v_proj": "attn_v", "dense": "attn_output"},
            **{"o_proj": "attn_output", "head_gate": "attn_gate", "g_proj": "ssm_g_a"},
            **{"f_proj": "ssm_f_a", "b_proj": "ssm_beta", "dt_proj": "ssm_dt"},
            **{"o_norm": "ssm_norm", "q_conv1d": "ssm_conv1d_q", "k_conv1d": "ssm_conv1d_k"},
            **{"v_conv1d": "ssm_conv1d_v", "q_a_proj": "attn_q_a", "q_b_proj": "attn_q_b"},
            **{"q_a_layernorm": "attn_q_a_norm", "kv_a_layernorm": "attn_kv_a_norm"},
            **{"kv_a_proj_with_mqa": "attn_kv_a_mqa"},
            **{"k_b_proj": "attn_k_b", "v_b_proj": "attn_v_b"},
        }.items()
    },
}
_OF_EXAONE = {
    "fc": "eh_proj",
    "pre_fc_norm_embedding": "enorm",
    "pre_fc_norm_hidden": "hnorm",
    "norm": "shared_head.norm",
}
_STACKED = re.compile(r"(.+\.(?:experts|[qk]_layernorm))\.(?:norms\.)?(\d+)(\.\w+)?\.weight")


class Tensor(NamedTuple):
    """A tensor under its name in the folder, perhaps changed."""

    name: str
    value: Floats


class Storage(NamedTuple):
    """How matrices are stored: their type by GGUF name, None for float32.

    unpacked: in float32, but with the values that type would give them.
    """

    type_of: Callable[[str], Types | None] = lambda name: None
    unpacked: bool = False

    def tensor(self, name: str, value: Floats) -> RawTensor:
        """A vector or a bias is stored in float32."""
        if name.endswith("tid2eid.weight"):
            ids = value.astype("<i4")
            return RawTensor(name, gguf.GGMLQuantizationType.I32.value, ids.shape, ids.tobytes())
        kind = self.type_of(name) if value.ndim > 1 and not name.endswith(".bias") else None
        return tensor(name, value, kind, unpacked=self.unpacked)


def convert(
    folder: Path,
    file: Path,
    *,
    architecture: str | None = None,
    storage: Storage | None = None,
    changes: Mapping[str, object] | None = None,
    without: str = "",
    old_latents: bool = False,
    joined: bool = False,
    heads: Literal["inside", "dropped", "only"] = "inside",
) -> Path:
    """architecture: other than the usual one of the model_type.

    changes: metadata to set, None to leave out; without: tensors whose names hold this.
    old_latents: kv_b_proj whole, as files before 2025-04 have it. joined: queries, keys and values
    in one tensor, as well as gates and ups of experts. heads: inside as the folder has them;
    dropped, though the metadata promise them; only, as in a sidecar.
    """
    config = json.loads((folder / "config.json").read_text())
    if config["model_type"] == "glm5_next":
        config = config["text_config"] | config
    architecture = architecture or ARCHITECTURES[config["model_type"]]
    first = config.get("num_hidden_layers") or len(config.get("layers_block_type", ()))
    raw = {name: array.astype(np.float32) for name, array in _read(folder).items()}
    if config["model_type"] == "nemotron_h":
        raw = {_in_one_block(name, first): array for name, array in raw.items()}
    if config["model_type"] == "minimax_m3_vl":
        config |= config["text_config"] | {"model_type": config["model_type"]}
        first = config["num_hidden_layers"]
        raw = {one.name: one.value for pair in raw.items() for one in _of_minimax_m3(*pair)}
    if config["model_type"] == "deepseek_v4":
        raw = _of_deepseek4(raw, first, is_head=heads == "only")
    if config["model_type"] == "hy_v4":
        raw = {one.name: one.value for pair in raw.items() for one in _of_hy4(*pair)}
    if config["model_type"] == "glm5_next":
        raw = dict(_of_glm5(*pair) for pair in raw.items() if "visual" not in pair[0])
    tensors = [
        Tensor(_renamed(one.name, first), one.value)
        for one in _changed(raw, config, architecture, old_latents=old_latents)
    ]
    numbers = [found[1] for one in tensors if (found := _layer(one.name))]
    blocks = 1 + max(map(int, numbers), default=first - 1 + (heads == "only"))
    is_bailing = architecture == "bailingmoe2"  # published joined, which the map knows alone
    is_alike = is_bailing or architecture in (
        "hy_v3",
        "bailingmoe3",
        "minimax-m3",
    )  # unknown to the package
    known = "glm-dsa" if architecture in ("deepseek32", "hyv4", "deepseek4") else architecture
    known = "kimi-linear" if architecture == "glm5-next" else known
    names = gguf.get_tensor_name_map(_enum("glm4moe" if is_alike else known), blocks)
    named = {_mapped(one.name, names): one.value for one in tensors}
    if joined or is_bailing:
        named = _joined(named)
    if is_bailing:
        last = ("nextn.shared_head_norm", "layer_output_norm")
        named = {name.replace(*last): value for name, value in named.items()}
    if architecture == "hy_v3":
        named = {
            n.replace("layer_output_norm", "nextn.shared_head_norm"): v for n, v in named.items()
        }
    named = {name: v for name, v in named.items() if _is_wanted(name, heads, first)}
    metadata = converted_metadata(architecture, config, blocks)
    metadata |= vocabulary_metadata(file.parent / f"{file.stem}-tokenizer")
    if config["model_type"] == "glm4_moe_lite":
        metadata["tokenizer.ggml.pre"] = "glm4"
    metadata |= dict(changes or {})
    kept = {name: value for name, value in named.items() if not without or without not in name}
    stored = [(storage or Storage()).tensor(name, value) for name, value in kept.items()]
    present = {key: value for key, value in metadata.items() if value is not None}
    file.write_bytes(gguf_bytes(present, stored))
    return file


def _in_one_block(name: str, block: int) -> str:
    """NemotronHModel: a tensor of the two layers of an MTP head gets the number of one."""
    found = re.fullmatch(r"mtp\.layers\.([01])\.(.+)", name)
    if found is None:
        return name
    if found[0] == "mtp.layers.1.norm.weight":
        return f"blk.{block}.post_attention_norm.weight"
    within = found[2].replace("final_layernorm", "shared_head.norm")
    return f"backbone.layers.{block}.{within}"


def _is_wanted(name: str, heads: str, first: int) -> bool:
    found = re.match(r"blk\.(\d+)\.", name)
    is_head = found is not None and int(found[1]) >= first
    return not (is_head and heads == "dropped") and not (found and not is_head and heads == "only")


def _read(folder: Path) -> dict[str, NDArray[np.generic]]:
    found: dict[str, NDArray[np.generic]] = {}
    for path in sorted(folder.glob("*.safetensors")):
        found |= load_file(path)
    return found


def _changed(
    raw: Mapping[str, Floats], config: Config, architecture: str, *, old_latents: bool
) -> Iterator[Tensor]:
    """Per family, what `modify_tensors` of its class does."""
    kind = config["model_type"]
    stacks: dict[str, dict[int, Floats]] = {}
    for name, value in raw.items():
        if found := _STACKED.fullmatch(name):
            stack = f"{found[1]}{found[3] or ''}.weight"
            stacks.setdefault(stack, {})[int(found[2])] = value
        elif architecture in _IN_PAIRS and "_linear." not in name:
            yield Tensor(name, _rotated_in_pairs(name, value, config))
        elif kind in _HYBRIDS:
            yield from _hybrid(name, value * _falcon_factors(name, config), config)
        elif kind == "gemma3n_text":
            yield from _gemma3n(name, value, stacks)
        elif (kind.startswith("gemma") or kind == "nemotron") and name.endswith("norm.weight"):
            yield Tensor(name, value + np.float32(1))
        elif kind == "gpt_oss":
            yield from _gpt_oss(name, value)
        elif kind in ("glm", "glm4") and "mrope_section" in config["rope_parameters"]:
            yield Tensor(name, _in_halves(name, value, config))
        elif kind == "step3p5":
            yield _step(name, value)
        elif name.endswith("kv_b_proj.weight") and not old_latents:
            yield from _latent_halves(name, value, config)
        else:
            has_delta = kind in (_LING, "kimi_linear", "glm5_next")
            plain = value if value.ndim < 2 else value.squeeze()
            yield _ling(name, value, config) if has_delta else Tensor(name, plain)
    for name, experts in stacks.items():
        yield Tensor(name, np.stack([experts[n] for n in range(len(experts))]))
    yield from _factors(config)


def _of_hy4(name: str, value: Floats) -> list[Tensor]:
    """HYV4Model: what has names of its own; the head is dropped."""
    layer = re.fullmatch(r"model\.layers\.(\d+)\.(.+)", name)
    if name.startswith("model.mtp_layers."):
        return []
    if part := re.fullmatch(r"model\.hc_head\.hc_head_(\w+)", name):
        return [Tensor(f"output_hc_{part[1]}.weight", value)]
    if layer is None:
        return [Tensor(name, value)]
    within = layer[2].removesuffix(".weight")
    if within == "mlp.experts.gate_up_proj":
        halves = zip(("gate", "up"), np.split(value, 2, axis=-2), strict=True)
        return [Tensor(f"blk.{layer[1]}.ffn_{half}_exps.weight", rows) for half, rows in halves]
    within = within.replace("hc_mlp_layer.", "hc_ffn_layer.")
    named = {
        "self_attn.linear_gate": "attn_gate",
        "self_attn.learnable_sink_param": "attn_sinks",
        "mlp.experts.down_proj": "ffn_down_exps",
    }
    ours = named.get(within) or re.sub(r"^hc_(\w+)_layer\.hc_pre\.hc_", r"hc_\1_", within)
    is_own = within in named or ours != within
    return [Tensor(f"blk.{layer[1]}.{ours}.weight" if is_own else name, value)]


def _of_minimax_m3(name: str, value: Floats) -> list[Tensor]:
    """MiniMaxM3Model: 1 is added to norms, heads are dropped, an indexer has names of its own."""
    name = name.removeprefix("language_model.")
    layer = re.fullmatch(r"model\.layers\.(\d+)\.(.+)", name)
    if name.startswith("model.mtp."):
        return []
    value = value + np.float32(1) if name.endswith("norm.weight") else value
    if layer is None:
        return [Tensor(name, value)]
    within = re.sub(r"^self_attn\.index_", "indexer.", layer[2])
    within = re.sub(r"^\w+\.shared_experts\.(\w+)_proj", r"ffn_\1_shexp", within)
    return [Tensor(name if within == layer[2] else f"blk.{layer[1]}.{within}", value)]


_OF_DEEPSEEK4 = {
    "attn_norm.weight": "attn_norm",
    "ffn_norm.weight": "ffn_norm",
    "attn.attn_sink": "attn_sinks",
    "attn.wq_a.weight": "attn_q_a",
    "attn.wq_b.weight": "attn_q_b",
    "attn.q_norm.weight": "attn_q_a_norm",
    "attn.wkv.weight": "attn_kv",
    "attn.kv_norm.weight": "attn_kv_a_norm",
    "attn.wo_a.weight": "attn_output_a",
    "attn.wo_b.weight": "attn_output_b",
    "attn.indexer.wq_b.weight": "indexer.attn_q_b",
    "attn.indexer.weights_proj.weight": "indexer.proj",
    **{
        f"attn.{theirs}compressor.{old}": f"{ours}_compressor_{new}"
        for theirs, ours in (("", "attn"), ("indexer.", "indexer"))
        for old, new in (
            *(("wkv.weight", "kv"), ("wgate.weight", "gate")),
            *(("ape", "ape"), ("norm.weight", "norm")),
        )
    },
    "ffn.gate.weight": "ffn_gate_inp",
    "ffn.gate.tid2eid": "ffn_gate_tid2eid",
    **{
        f"ffn.{old}.{part}.weight": f"ffn_{name}_{new}"
        for old, new in (("shared_experts", "shexp"), ("experts", "exps"))
        for part, name in (("w1", "gate"), ("w2", "down"), ("w3", "up"))
    },
    "eh_proj.weight": "nextn.eh_proj",
    "enorm.weight": "nextn.enorm",
    "hnorm.weight": "nextn.hnorm",
}


def _of_deepseek4(raw: Mapping[str, Floats], first: int, *, is_head: bool) -> dict[str, Floats]:
    """DeepseekV4Model: a file of the trunk, or of the head with copies of what it shares."""
    ends = {"embed.weight": "token_embd", "norm.weight": "output_norm", "head.weight": "output"}
    made = {f"{ours}.weight": raw[name] for name, ours in ends.items()}
    named: dict[str, Floats] = {}
    for name, value in raw.items():
        if is_head and (found := re.fullmatch(r"mtp\.\d+\.(.+)", name)):
            end = found[1].startswith("hc_head")
            named[found[1] if end else f"layers.{first}.{found[1]}"] = value
        elif not is_head and not name.startswith("mtp."):
            named[name] = value
    if is_head:
        sides = [named.pop(f"layers.{first}.{side}_proj.weight") for side in "eh"]
        named[f"layers.{first}.eh_proj.weight"] = np.concatenate(sides, axis=1)
        norm = named.pop(f"layers.{first}.norm.weight")
        made[f"blk.{first}.nextn.shared_head_norm.weight"] = norm
    experts: dict[str, dict[int, Floats]] = {}
    for name, value in named.items():
        if part := re.fullmatch(r"hc_head_(\w+)", name):
            made[f"output_hc_{part[1]}.weight"] = value
        elif found := re.fullmatch(r"(layers\.\d+\.ffn\.experts)\.(\d+)(\.w\d\.weight)", name):
            experts.setdefault(f"{found[1]}{found[3]}", {})[int(found[2])] = value
    stacks = {name: np.stack([each[n] for n in range(len(each))]) for name, each in experts.items()}
    for name, value in (named | stacks).items():
        layer = re.fullmatch(r"layers\.(\d+)\.(.+)", name)
        if layer is None or re.search(r"\.experts\.\d", name):
            continue
        ours = _OF_DEEPSEEK4.get(layer[2], layer[2])  # those of connections are the same
        is_bias = layer[2] == "ffn.gate.bias"
        made[f"blk.{layer[1]}.{'exp_probs_b.bias' if is_bias else f'{ours}.weight'}"] = value
    return made


def _of_glm5(name: str, value: Floats) -> Tensor:
    """Glm5NextModel: what lacks an ending gets one."""
    name = name.replace("model.language_model.", "model.")
    is_bare = re.search(r"\.(hc_\w+|index_kpool_compress_\w+)$", name)
    return Tensor(f"{name}.weight" if is_bare else name, value)


def _factors(config: Config) -> Iterator[Tensor]:
    """The lists that `generate_extra_tensors` adds."""
    rope = config.get("rope_parameters") or config.get("rope_scaling")
    rope = rope.get("full_attention", rope) if isinstance(rope, Mapping) else {}
    kind = rope.get("rope_type")
    if kind == "llama3":
        yield Tensor("rope_freqs.weight", _llama3_factors(rope, config))
    if kind == "proportional":
        pairs = next(iter(config["per_layer_config"].values()))["head_dim"] // 2
        turning = int(pairs * rope["partial_rotary_factor"])
        factors = np.array([1.0] * turning + [1e30] * (pairs - turning), np.float32)
        yield Tensor("rope_freqs.weight", factors)
    for length in ("long", "short") if kind == "longrope" else ():
        factors = np.array(rope[f"{length}_factor"], np.float32)
        yield Tensor(f"rope_factors_{length}.weight", factors)


def _hybrid(name: str, value: Floats, config: Config) -> Iterator[Tensor]:
    """Mamba2Model, GraniteMoeModel, NemotronHModel and Gemma4Model."""
    base, _, part = name.removesuffix(".weight").rpartition(".")
    if part in ("A_log", "D"):
        yield Tensor(name, (-np.exp(value) if part == "A_log" else value)[:, None])
    elif base.endswith((".mamba", ".mixer")) and part == "norm":
        groups = config.get("mamba_n_groups") or config["n_groups"]
        yield Tensor(name, value.reshape(groups, -1))
    elif part == "dt_bias":
        yield Tensor(f"{base}.dt_proj.bias", value)
    elif part == "input_linear":
        kind = "_exps" if "block_sparse_moe" in base else "_shexp"
        kind = kind if config["num_local_experts"] else ""
        for half, rows in zip(("gate", "up"), np.split(value, 2, axis=-2), strict=True):
            yield Tensor(f"blk.{base.split('.')[2]}.ffn_{half}{kind}.weight", rows)
    elif part == "output_linear" and not config["num_local_experts"]:
        yield Tensor(f"blk.{base.split('.')[2]}.ffn_down.weight", value)
    elif part in ("layer_scalar", "gate_up_proj", "down_proj") and not name.endswith(".weight"):
        yield Tensor(f"{name}.weight", value)
    elif part == "per_expert_scale" or name.endswith("router.scale"):
        to = "ffn_gate_inp" if part == "scale" else "ffn_down_exps"
        yield Tensor(f"blk.{base.split('.')[2]}.{to}.scale", value)
    else:
        yield Tensor(name, value.squeeze())


def _falcon_factors(name: str, config: Config) -> Floats:
    """FalconH1Model: what the matrices are multiplied by."""
    if config["model_type"] != "falcon_h1":
        return np.ones((), np.float32)
    part, within = name.split(".")[-2], config["attention_in_multiplier"]
    inner, states = config["mamba_d_ssm"], config["mamba_n_groups"] * config["mamba_d_state"]
    sizes = (inner, inner, states, states, config["mamba_n_heads"])
    factors = {
        "down_proj": config["mlp_multipliers"][1],
        "gate_proj": config["mlp_multipliers"][0],
        "k_proj": config["key_multiplier"] * within,
        "q_proj": within,
        "v_proj": within,
        "o_proj": config["attention_out_multiplier"],
        "out_proj": config["ssm_out_multiplier"],
        "in_proj": np.repeat(config["ssm_multipliers"], sizes)[:, None]
        * config["ssm_in_multiplier"],
        "lm_head": config["lm_head_multiplier"],
        "embed_tokens": config["embedding_multiplier"],
    }
    return np.asarray(factors.get(part, 1.0), np.float32)


def _gemma3n(name: str, value: Floats, stacks: dict[str, dict[int, Floats]]) -> Iterator[Tensor]:
    """Gemma3NModel: matrices of streams become stacks."""
    found = re.fullmatch(r"(.+altup_\w*projections)\.(\d+)\.weight", name)
    if found:
        stacks.setdefault(f"{found[1]}.weight", {})[int(found[2])] = value
    else:
        yield Tensor(f"{name}.weight" if name.endswith("_scale") else name, value)


def _rotated_in_pairs(name: str, value: Floats, config: Config) -> Floats:
    """LlamaModel.permute."""
    heads = {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]}
    count = heads.get(name.split(".")[-2])
    if count is None:
        return value
    shape = (count, 2, value.shape[0] // count // 2, *value.shape[1:])
    return np.ascontiguousarray(value.reshape(shape).swapaxes(1, 2).reshape(value.shape))


def _in_halves(name: str, value: Floats, config: Config) -> Floats:
    """Glm4Model.normal_to_neox: first all first ones of the rotated pairs, then all second."""
    if not re.search(r"[qk]_proj\.(weight|bias)$", name):
        return value
    size = config["head_dim"]
    rotated = int(size * config["rope_parameters"].get("partial_rotary_factor", 0.5))
    order = [*range(0, rotated, 2), *range(1, rotated, 2), *range(rotated, size)]
    return value.reshape(-1, size, *value.shape[1:])[:, order].reshape(value.shape)


def _gpt_oss(name: str, value: Floats) -> Iterator[Tensor]:
    if name.endswith("sinks"):
        yield Tensor(f"{name}.weight", value)
    elif name.endswith(("gate_up_proj", "gate_up_proj_bias")):
        kind = "bias" if name.endswith("bias") else "weight"
        rows = value if kind == "bias" else value.swapaxes(-1, -2)[..., None]
        base = name.removesuffix("gate_up_proj_bias").removesuffix("gate_up_proj")
        for start, part in enumerate(("gate", "up")):
            half = rows[:, start::2] if kind == "bias" else rows[:, start::2, :, 0]
            yield Tensor(f"{base}{part}_proj.{kind}", half)
    elif name.endswith("down_proj"):
        yield Tensor(f"{name}.weight", value.swapaxes(-1, -2))
    else:
        yield Tensor(name.replace("down_proj_bias", "down_proj.bias"), value)


def _step(name: str, value: Floats) -> Tensor:
    name = name.replace(".transformer.", ".").replace("shared_head.output", "shared_head.head")
    if name.endswith("moe.router_bias"):
        name += ".bias"
    return Tensor(name, value + np.float32(1) if name.endswith("norm.weight") else value)


def _ling(name: str, value: Floats, config: Config) -> Tensor:
    """BailingMoeV3Model and KimiLinearModel, latents aside."""
    base, _, part = name.removesuffix(".weight").rpartition(".")
    is_ling = config["model_type"] == _LING
    if part == "A_log":
        rates = np.exp(value)[:, None] if is_ling else -np.exp(value)
        return Tensor(f"blk.{base.split('.')[2]}.ssm_a", rates)
    if part == "dt_bias":
        return Tensor(f"{base}.dt_proj.bias", value)
    if part.endswith("conv1d"):
        return Tensor(name, value.reshape(1, len(value), 1, -1))
    if is_ling and part == "g_proj" and len(value) == config["num_attention_heads"]:
        return Tensor(f"{base}.head_gate.weight", value)
    return Tensor(name, value)


def _latent_halves(name: str, value: Floats, config: Config) -> Iterator[Tensor]:
    nope, rank = config["qk_nope_head_dim"], value.shape[-1]
    whole = value.reshape(config["num_attention_heads"], -1, rank)
    keys, values = whole[:, :nope], whole[:, nope:]
    yield Tensor(name.replace("kv_b_proj", "k_b_proj"), keys.transpose(0, 2, 1))
    yield Tensor(name.replace("kv_b_proj", "v_b_proj"), values)


def _llama3_factors(rope: Mapping[str, float], config: Config) -> Floats:
    """Step-3.5 rotates half of a head in its full layers; the list is filled up with ones."""
    bases = config.get("rope_theta", rope.get("rope_theta"))
    base, share = (bases[0], 0.5) if isinstance(bases, list) else (bases, 1.0)
    size, factors = int(config["head_dim"] * share), []
    for frequency in 1.0 / base ** (np.arange(0, size, 2) / size):
        length, trained = 2 * np.pi / frequency, rope["original_max_position_embeddings"]
        low, high = rope["low_freq_factor"], rope["high_freq_factor"]
        smooth = (trained / length - low) / (high - low)
        between = 1 / ((1 - smooth) / rope["factor"] + smooth)
        slow = length > trained / low
        factors.append(1 if length < trained / high else rope["factor"] if slow else between)
    factors += [1.0] * (config["head_dim"] // 2 - len(factors))
    return np.array(factors, np.float32)


def _joined(named: Mapping[str, Floats]) -> dict[str, Floats]:
    made = dict(named)
    for name in named:
        base = name.replace("attn_q.", "{}.")
        if base != name and base.format("attn_k") in made:
            parts = [made.pop(base.format(f"attn_{part}")) for part in "qkv"]
            made[base.format("attn_qkv")] = np.concatenate(parts)
    return joined_experts(made)


def _renamed(name: str, first: int) -> str:
    """Heads of MiMo and EXAONE get the numbers of layers; a bias without its ending gets it."""
    if found := re.fullmatch(r"(?:model\.)?mtp\.(?:layers\.(\d+)\.)?(.+)", name):
        base, _, kind = found[2].rpartition(".")
        base = base if found[1] else _OF_EXAONE[base]
        name = f"model.layers.{first + int(found[1] or 0)}.{base}.{kind}"
    name = name.replace("e_score_correction_bias", "e_score_correction.bias")
    if name.endswith(".expert_bias"):
        return f"{name}.bias"
    return f"{name}.weight" if name.endswith("attention_sink_bias") else name


def _layer(name: str) -> re.Match[str] | None:
    return re.fullmatch(r"(?:model|backbone)\.layers\.(\d+)\.(.+)\.(weight|bias)", name)


def _mapped(name: str, names: gguf.TensorNameMap) -> str:
    if name.startswith(("rope_f", "blk.", "output", "token_embd")):
        return name
    found = _layer(name)
    if found and found[2] in _BEYOND_THE_MAP:
        return f"blk.{found[1]}.{_BEYOND_THE_MAP[found[2]]}.{found[3]}"
    mapped = names.get_name(name, (".weight", ".bias"))
    assert mapped is not None, name
    return mapped


def _enum(architecture: str) -> gguf.MODEL_ARCH:
    return next(key for key, name in gguf.MODEL_ARCH_NAMES.items() if name == architecture)
