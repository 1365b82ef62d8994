"""GGUF architecture `glm4moe`: GLM-4.5 to 4.7, with MTP heads in blocks behind the last."""

from typing import ClassVar

from mlx_engine.loading.gguf.architecture import TrunkGguf
from mlx_engine.loading.gguf.names import ATTENTION, DENSE, EXPERTS, SHARED
from mlx_engine.values.errors import UnsupportedModel

SIGMOID = 2
"""Of expert_gating_func: how scores of experts are made of the router's output."""


class Glm4MoeGguf(TrunkGguf):
    """Names and config of one file."""

    model_type = "glm4_moe"
    rotates_whole_heads = False
    names: ClassVar = (
        ATTENTION | DENSE | EXPERTS | SHARED | {"post_attention_norm": "post_attention_layernorm"}
    )

    def _own(self) -> dict[str, object]:
        count = self._metadata.count
        if count("expert_gating_func", SIGMOID) not in (0, SIGMOID):
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
