"""GGUF architectures `qwen2`, `qwen3` and `qwen3moe`."""

from mlx_engine.loading.gguf.architecture import TrunkGguf
from mlx_engine.loading.gguf.names import ATTENTION, DENSE, EXPERTS


class Qwen2Gguf(TrunkGguf):
    """Names and config of one file."""

    model_type = "qwen2"


class Qwen3Gguf(TrunkGguf):
    """The same with norms of queries and keys."""

    model_type = "qwen3"


class Qwen3MoeGguf(TrunkGguf):
    """With experts in every layer, whose scores always add up to one."""

    model_type = "qwen3_moe"
    names = ATTENTION | DENSE | EXPERTS

    def _own(self) -> dict[str, object]:
        return {
            **self._experts("num_experts", "num_experts_per_tok", "moe_intermediate_size"),
            "norm_topk_prob": True,
            "decoder_sparse_step": 1,
            "mlp_only_layers": [],
        }
