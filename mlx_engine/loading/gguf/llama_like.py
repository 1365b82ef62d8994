"""GGUF architectures with grouped-query attention beside Llama: Qwen, Gemma 3, gpt-oss, others."""

from dataclasses import replace
from functools import lru_cache
from typing import ClassVar

from mlx_engine.loading.gguf.architecture import (
    ATTENTION,
    DENSE,
    EXPERTS,
    ONE_SHARED,
    SHARED,
    Architecture,
)
from mlx_engine.loading.gguf.metadata import GgufMetadata, Kind, base_of
from mlx_engine.loading.gguf.part import Change, Placement
from mlx_engine.values.errors import BadModelFile

_LAYERS_OF_27B, _LAYERS_OF_GEMMA_2_27B = 62, 46


class Qwen3MoeGguf(Architecture):
    """Qwen3 with experts in every layer, whose scores always add up to one."""

    model_type = "qwen3_moe"
    names = ATTENTION | DENSE | EXPERTS

    def _own(self) -> dict[str, object]:
        return {
            **self._experts("num_experts", "num_experts_per_tok", "moe_intermediate_size"),
            "norm_topk_prob": True,
            "decoder_sparse_step": 1,
            "mlp_only_layers": [],
        }


class OlmoeGguf(Architecture):
    """OLMoE: norms of all queries and keys at once, experts in every layer."""

    model_type = "olmoe"
    names = ATTENTION | DENSE | EXPERTS

    def _own(self) -> dict[str, object]:
        own = self._experts("num_experts", "num_experts_per_tok", "intermediate_size")
        return own | {"norm_topk_prob": False}


class Qwen2MoeGguf(Architecture):
    """Qwen1.5 and Qwen2 with experts, and one that is always asked, behind a gate of its own."""

    model_type = "qwen2_moe"
    names = ATTENTION | DENSE | EXPERTS | ONE_SHARED

    def _own(self) -> dict[str, object]:
        return {
            **self._experts("num_experts", "num_experts_per_tok", "moe_intermediate_size"),
            "shared_expert_intermediate_size": self._width("ffn_up_shexp.weight"),
        }

    def _change(self, name: str) -> Change:
        return "a first axis" if name.startswith("ffn_gate_inp_shexp.") else "none"


class GemmaGguf(Architecture):
    """The first Gemma: norms stored as used."""

    model_type = "gemma"

    def _change(self, name: str) -> Change:
        return "less one" if name.endswith("norm.weight") else "none"


class Gemma3Gguf(GemmaGguf):
    """Norms stored as used, five layers with a window to one without.

    Layers with a window have a base of their own and are never stretched.
    """

    model_type = "gemma3_text"
    stretches: ClassVar[tuple[Kind, ...]] = ("linear",)
    usual_base = 1e6
    names = (
        ATTENTION
        | DENSE
        | {
            "ffn_norm": "pre_feedforward_layernorm",
            "post_ffw_norm": "post_feedforward_layernorm",
        }
    )

    def _own(self) -> dict[str, object]:
        window = self._metadata.count("attention.sliding_window", 0)
        return {
            "sliding_window": window or self._metadata.count("context_length"),
            "layer_types": layer_kinds(self._metadata, self._main_blocks, 6 if window else 0),
            "query_pre_attn_scalar": self._scaled_by(),
        }

    def _rotation(self) -> dict[str, object]:
        local = base_of(self._metadata, "rope.freq_base_swa")
        return super()._rotation() | {"rope_local_base_freq": local}

    def _scaled_by(self) -> int:
        """The 27B is scaled by width over heads; its heads are smaller."""
        if self._main_blocks == _LAYERS_OF_27B:
            return self._metadata.count("embedding_length") // self._heads
        return self._head


class Gemma2Gguf(GemmaGguf):
    """Norms stored as used, capped scores and logits, every other layer with a window."""

    model_type = "gemma2"
    runs = ("attn_logit_softcapping", "final_logit_softcapping")
    names = Gemma3Gguf.names

    def _own(self) -> dict[str, object]:
        number, is_27b = self._metadata.number, self._main_blocks == _LAYERS_OF_GEMMA_2_27B
        width = self._metadata.count("embedding_length")
        return {
            "attn_logit_softcapping": number("attn_logit_softcapping", 50.0),
            "final_logit_softcapping": number("final_logit_softcapping", 30.0),
            "query_pre_attn_scalar": width // self._heads if is_27b else self._head,
            "sliding_window": self._metadata.count("attention.sliding_window", 4096),
        }


def layer_kinds(metadata: GgufMetadata, blocks: int, usual: int) -> list[str]:
    """`layer_types` by the file's interval or list, else with every `usual`-th without a window.

    usual: 0 where no layer has one.
    """
    if not usual:
        return ["full_attention"] * blocks
    key = "attention.sliding_window_pattern"
    told = metadata.counts(key, blocks, usual)
    if len(set(told)) == 1 and told[0] > 1:
        told = tuple(int((n + 1) % told[0] != 0) for n in range(blocks))
    if any(one > 1 for one in told):
        raise BadModelFile(
            "{path}: {architecture}.{key} is {told}, where an "
            "interval or a list of yes and no is needed. Get the file again.",
            path=metadata.path,
            architecture=metadata.architecture,
            key=key,
            told=list(told)[:9],
        )
    return ["sliding_attention" if one else "full_attention" for one in told]


class GptOssGguf(Architecture):
    """Sinks, biases everywhere, every other layer with a window.

    It was trained with YaRN whose range of frequencies is not rounded.
    """

    model_type = "gpt_oss"
    stretches: ClassVar[tuple[Kind, ...]] = ("yarn",)
    names = (
        ATTENTION
        | {base: name.replace("switch_mlp", "experts") for base, name in EXPERTS.items()}
        | {
            "attn_post_norm": "post_attention_layernorm",
            "attn_sinks.weight": "self_attn.sinks",
            "ffn_gate_inp": "mlp.router",
        }
    )

    def _own(self) -> dict[str, object]:
        kinds = ("sliding_attention", "full_attention")
        return {
            **self._experts("num_local_experts", "num_experts_per_tok", "intermediate_size"),
            "sliding_window": self._metadata.count("attention.sliding_window"),
            "layer_types": [kinds[n % 2] for n in range(self._main_blocks)],
        }

    def _scaling(self) -> dict[str, object] | None:
        scaling = super()._scaling()
        return None if scaling is None else scaling | {"truncate": False}


class Phi3Gguf(Architecture):
    """Phi-3 and Phi-4: queries, keys and values in one matrix, gates above ups in another."""

    model_type = "phi3"
    rotates_whole_heads = False
    stretches: ClassVar[tuple[Kind, ...]] = ("longrope",)
    names = ATTENTION | DENSE | {"ffn_up": "mlp.gate_up_proj"}

    def _own(self) -> dict[str, object]:
        count = self._metadata.count
        longest = count("context_length")
        return {
            "partial_rotary_factor": self._share(),
            "original_max_position_embeddings": count(
                "rope.scaling.original_context_length", longest
            ),
            "sliding_window": count("attention.sliding_window", 0) or None,
        }


class Glm4Gguf(Architecture):
    """GLM-4-0414: norms before and after, gates above ups; rows in Hugging Face's order.

    But those of queries and keys of models with eyes, whose rotated rows are first all first ones
    of the pairs, then all second.
    """

    model_type = "glm4"
    rotates_whole_heads = False
    usual_share = 2
    names = (
        ATTENTION
        | DENSE
        | {
            "ffn_up": "mlp.gate_up_proj",
            "post_attention_norm": "post_self_attn_layernorm",
            "post_ffw_norm": "post_mlp_layernorm",
        }
    )

    def _own(self) -> dict[str, object]:
        return {
            "partial_rotary_factor": self._share(),
            "attention_bias": self._has("attn_q.bias") or self._has("attn_qkv.bias"),
        }

    def _single(self, block: int, rest: str) -> Placement:
        place = super()._single(block, rest)
        heads = {"attn_q": self._heads, "attn_k": self._kept_heads(block)}
        part = rest.partition(".")[0]
        if part not in heads or not self._metadata.has("rope.dimension_sections"):
            return place
        return replace(place, rows=_apart(heads[part], self._head, self._rotated()))


@lru_cache(maxsize=8)
def _apart(heads: int, head: int, rotated: int) -> tuple[int, ...]:
    """Row 2 j + s of the rotated ones of a head is stored as its row s * rotated / 2 + j."""
    return tuple(
        first + (row % 2 * rotated // 2 + row // 2 if row < rotated else row)
        for first in range(0, heads * head, head)
        for row in range(head)
    )


class Olmo2Gguf(Architecture):
    """Norms behind mixer and feed-forward alone; OLMo 3 where layers have windows."""

    names = ATTENTION | DENSE | {"post_ffw_norm": "post_feedforward_layernorm"}

    def _class(self) -> str:
        return "olmo3" if self._metadata.count("attention.sliding_window", 0) else "olmo2"

    def _rotation(self) -> dict[str, object]:
        told = super()._rotation()
        if self._class() == "olmo2":
            return told
        plain = {"rope_theta": told["rope_theta"]}
        return told | {"rope_parameters": {"full_attention": plain, "sliding_attention": plain}}

    def _own(self) -> dict[str, object]:
        window = self._metadata.count("attention.sliding_window", 0)
        return {
            "attention_bias": self._has("attn_q.bias"),
            "sliding_window": window or None,
            "layer_types": layer_kinds(self._metadata, self._main_blocks, 4 if window else 0),
        }


class Ernie45Gguf(Architecture):
    """ERNIE 4.5 without experts."""

    model_type = "ernie4_5"

    def _own(self) -> dict[str, object]:
        return {"use_bias": self._has("attn_q.bias")}


class Ernie45MoeGguf(Ernie45Gguf):
    """With experts in some layers, whose choice is corrected."""

    model_type = "ernie4_5_moe"
    names = ATTENTION | DENSE | EXPERTS | SHARED

    def _own(self) -> dict[str, object]:
        experts = [n for n in range(self._main_blocks) if self._block_has(n, "ffn_gate_inp.weight")]
        return {
            **super()._own(),
            **self._experts("moe_num_experts", "moe_k", "moe_intermediate_size"),
            "moe_num_shared_experts": self._metadata.count("expert_shared_count", 0),
            "moe_layer_start_index": min(experts, default=0),
            "moe_layer_end_index": max(experts, default=0),
            "moe_layer_interval": self._metadata.count("interleave_moe_layer_step", 1) or 1,
        }


class MiniMaxM2Gguf(Architecture):
    """MiniMax-M2: part of a head rotated, a sigmoid router whose choice is corrected."""

    model_type = "minimax_m2"
    rotates_whole_heads = False
    names = ATTENTION | DENSE | EXPERTS | SHARED

    def _own(self) -> dict[str, object]:
        self._check_sigmoid()
        return {
            **self._experts("num_local_experts", "num_experts_per_tok", "intermediate_size"),
            "rotary_dim": self._rotated(),
            "use_qk_norm": self._has("attn_q_norm.weight"),
        }
