"""More of mlx-lm's classes: Gemma 3n, Hunyuan with experts."""

from math import erf, inf, sqrt
from typing import ClassVar

import numpy as np

from mlx_engine.loading.gguf.architecture import DEEPEST, EXPERTS
from mlx_engine.loading.gguf.in_library import HunyuanGguf
from mlx_engine.loading.gguf.llama_like import Gemma3Gguf, layer_kinds
from mlx_engine.loading.gguf.metadata import base_of
from mlx_engine.loading.gguf.part import Change, Placement


class HunyuanMoeGguf(HunyuanGguf):
    """Hunyuan-A13B: experts in every layer, and one that all share."""

    model_type = "hunyuan"
    names = (
        HunyuanGguf.names
        | EXPERTS
        | {"ffn_gate_inp": "mlp.gate.wg"}
        | {f"ffn_{one}_shexp": f"mlp.shared_mlp.{one}_proj" for one in ("gate", "up", "down")}
    )

    def _own(self) -> dict[str, object]:
        return {
            **self._experts("num_experts", "moe_topk", "moe_intermediate_size"),
            "attention_bias": self._has("attn_q.bias"),
            "num_shared_expert": self._metadata.count("expert_shared_count", 1),
            "use_mixed_mlp_moe": self._has("ffn_up_shexp.weight"),
            "use_qk_norm": self._has("attn_q_norm.weight"),
            "use_cla": False,
            "cla_share_factor": 1,
        }

    def _scaling(self) -> dict[str, object] | None:
        """How far it is stretched is in the base of its periods."""
        return {"type": "dynamic", "factor": 1.0, "alpha": 1.0}


_CUTS = np.array([1.6448536] * 10 + [-inf] * 90)
"""By layer: standard deviations above the mean below which gates are cut off, as published."""


class Gemma3nGguf(Gemma3Gguf):
    """Gemma 3n: several residual streams, small inputs for each layer, some gates cut off.

    All values are those of the folder, but for matrices that lie in one stack.
    """

    model_type = "gemma3n"
    runs = ("final_logit_softcapping",)
    _inner: ClassVar = "model.language_model."
    _stacks: ClassVar = {
        "altup_proj.weight": "altup_projections",
        "altup_unembd_proj.weight": "altup_unembed_projections",
    }
    outside: ClassVar = {
        "token_embd": f"{_inner}embed_tokens",
        "output_norm": f"{_inner}norm",
        "per_layer_token_embd": f"{_inner}embed_tokens_per_layer",
        "per_layer_model_proj": f"{_inner}per_layer_model_projection",
        "per_layer_proj_norm": f"{_inner}per_layer_projection_norm",
    }
    names = Gemma3Gguf.names | {
        "inp_gate": "per_layer_input_gate",
        "proj": "per_layer_projection",
        "post_norm": "post_per_layer_input_norm",
        "altup_correct_coef": "altup.correction_coefs",
        "altup_correct_scale.weight": "altup.correct_output_scale",
        "altup_predict_coef": "altup.prediction_coefs",
        "altup_router": "altup.modality_router",
        "altup_router_norm": "altup.router_norm",
        "laurel_l": "laurel.linear_left",
        "laurel_r": "laurel.linear_right",
        "laurel_post_norm": "laurel.post_laurel_norm",
    }

    def place(self, name: str) -> tuple[Placement, ...]:
        """Each matrix of a stack by itself."""
        stack = self._stacks.get(name)
        if stack is None:
            return super().place(name)
        count = self._file.tensors[name].shape[0]
        if count > DEEPEST:
            raise self._cannot_be(f"{count} matrices in {name}", "altup.num_inputs")
        return tuple(
            Placement(f"{self._inner}{stack}.{number}.weight", matrix=number)
            for number in range(count)
        )

    def config(self) -> dict[str, object]:
        """What the class reads of its text part."""
        text = super().config()
        return {"model_type": self.model_type, "dtype": text["dtype"], "text_config": text}

    def _own(self) -> dict[str, object]:
        count, blocks = self._metadata.count, self._main_blocks
        told = self._file.metadata.get("gemma3n.activation_sparsity_scale")
        cuts = told if isinstance(told, np.ndarray) else _CUTS
        return {
            "activation_sparsity_pattern": [_share_below(cut) for cut in cuts[:blocks]],
            "altup_active_idx": count("altup.active_idx", 0),
            "altup_coef_clip": 120.0,
            "altup_correct_scale": True,
            "altup_num_inputs": count("altup.num_inputs", 4),
            "final_logit_softcapping": self._metadata.number("final_logit_softcapping", 30.0),
            "hidden_size_per_layer_input": count("embedding_length_per_layer_input", 256),
            "laurel_rank": self._width("laurel_l.weight"),
            "layer_types": layer_kinds(self._metadata, blocks, 5),
            "num_kv_shared_layers": count("attention.shared_kv_layers", 0),
            "sliding_window": count("attention.sliding_window", 512),
            "vocab_size_per_layer_input": self._rows("per_layer_token_embd.weight"),
        }

    def _rotation(self) -> dict[str, object]:
        local = base_of(self._metadata, "rope.freq_base_swa")
        return {"rope_theta": base_of(self._metadata, default=1e6), "rope_local_base_freq": local}

    def _layer(self, block: int) -> str:
        return f"{self._inner}layers.{block}."

    def _change(self, name: str) -> Change:
        del name
        return "none"


def _share_below(deviations: float) -> float:
    """Of a normal distribution, as configs tell it; what is minus infinite lets all through."""
    return (1 + erf(deviations / sqrt(2))) / 2
