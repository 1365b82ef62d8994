"""GGUF architectures `glm4moe` and `deepseek2`: experts as in DeepSeek-V3, heads behind the trunk.

DeepSeek V2, V3 and R1, Kimi K2 and GLM-4.7-Flash have latent attention: keys and values come from
one latent by `kv_b_proj`. Newer files have its halves apart, the keys' transposed, as MLX
conversions do, and count one key head in place of all.
"""

from typing import ClassVar

from mlx_engine.loading.gguf.architecture import Architecture
from mlx_engine.loading.gguf.file import GgufFile
from mlx_engine.loading.gguf.names import ATTENTION, DENSE, EXPERTS, LATENT, SHARED
from mlx_engine.loading.gguf.rotation import Kind
from mlx_engine.values.errors import UnsupportedModel

_SOFTMAX, _SIGMOID = 1, 2
"""Of expert_gating_func: how scores of experts are made of the router's output."""

_GLM_TOKENIZERS = ("glm4", "chatglm-bpe")
_LOG = 0.1  # by which the converter multiplies yarn's mscale_all_dim


class Glm4MoeGguf(Architecture):
    """GLM-4.5 to 4.7, with MTP heads in blocks behind the last."""

    model_type = "glm4_moe"
    rotates_whole_heads = False
    names = ATTENTION | DENSE | EXPERTS | SHARED

    def _own(self) -> dict[str, object]:
        count = self._metadata.count
        if count("expert_gating_func", _SIGMOID) not in (0, _SIGMOID):
            raise UnsupportedModel(
                f"{self._file.path}: chooses experts in a way this version does not "
                "(expert_gating_func). Take another model."
            )
        return {
            **self._experts("n_routed_experts", "num_experts_per_tok", "moe_intermediate_size"),
            **self._expert_scores(),
            "n_shared_experts": count("expert_shared_count", 1),
            "first_k_dense_replace": self._dense_blocks(),
            "use_qk_norm": self._has("attn_q_norm.weight"),
            "attention_bias": self._has("attn_q.bias") or self._has("attn_qkv.bias"),
            "partial_rotary_factor": (self._rotated() + 0.5) / self._head,
        }


class Deepseek2Gguf(Architecture):
    """All with latent attention."""

    rotates_whole_heads = False
    stretches: ClassVar[tuple[Kind, ...]] = ("yarn",)
    names = ATTENTION | LATENT | DENSE | EXPERTS | SHARED

    def __init__(self, file: GgufFile) -> None:
        super().__init__(file)
        self.model_type = self._class()

    def _own(self) -> dict[str, object]:
        count, nope = self._metadata.count, self._head - self._rotated()
        if nope < 1:
            what = f"{self._rotated()} rotated elements in heads of {self._head}"
            raise self._cannot_be(what, "rope.dimension_count")
        own: dict[str, object] = {
            "num_key_value_heads": self._heads,
            "q_lora_rank": count("attention.q_lora_rank", 0) or None,
            "kv_lora_rank": self._least_one("attention.kv_lora_rank"),
            "qk_rope_head_dim": self._rotated(),
            "qk_nope_head_dim": nope,
            "v_head_dim": self._own_length("value_length"),
            "n_shared_experts": count("expert_shared_count", 0) or None,
            "first_k_dense_replace": self._dense_blocks(),
            "attention_bias": False,
        }
        if not count("expert_count", 0):
            return own | {"n_routed_experts": None}
        scores = self._expert_scores()
        own |= self._experts("n_routed_experts", "num_experts_per_tok", "moe_intermediate_size")
        if self.model_type != "deepseek_v2":
            return own | scores
        if scores["norm_topk_prob"]:
            raise UnsupportedModel(
                f"{self._file.path}: weighs softmax scores of experts anew (expert_weights_norm), "
                "which this version does not. Take another model."
            )
        grouped = scores["n_group"] != scores["topk_group"]
        return own | scores | {"topk_method": "group_limited_greedy" if grouped else "greedy"}

    def _scaling(self) -> dict[str, object] | None:
        """YaRN touches the size of scores as well, by mscale_all_dim."""
        scaling = super()._scaling()
        if scaling is None:
            return None
        everywhere = self._metadata.number("rope.scaling.yarn_log_multiplier", 0.0) / _LOG
        return scaling | {"mscale": everywhere or 1.0, "mscale_all_dim": everywhere}

    def _class(self) -> str:
        """GLM's files are told by their tokenizer; scores by softmax are V2's."""
        metadata = self._metadata
        is_glm = metadata.text("tokenizer.ggml.pre") in _GLM_TOKENIZERS
        usual = _SIGMOID if is_glm or self._has("exp_probs_b.bias") else _SOFTMAX
        gating = metadata.count("expert_gating_func", 0) or usual
        if gating not in (_SIGMOID, _SOFTMAX) or (gating == _SOFTMAX and is_glm):
            raise UnsupportedModel(
                f"{self._file.path}: chooses experts in a way this version does not "
                "(expert_gating_func). Take another model."
            )
        if gating == _SOFTMAX and metadata.count("expert_count", 0):
            return "deepseek_v2"
        return "glm4_moe_lite" if is_glm else "deepseek_v3"

    def _rotated(self) -> int:
        return self._least_one("rope.dimension_count")

    @property
    def _head(self) -> int:
        """Of queries and keys once they have been made of the latent."""
        return self._own_length("key_length")

    def _kept_heads(self, block: int) -> int:
        del block
        return self._heads

    def _own_length(self, key: str) -> int:
        """Newer files tell the length in the latent by this key, and the own one by another."""
        whole = f"attention.{key}"
        newer = f"{whole}_mla"
        return self._least_one(newer if self._metadata.has(newer) else whole)
