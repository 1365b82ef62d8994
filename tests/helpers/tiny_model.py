"""Tiny random Qwen3.5 models in memory, with or without a head, for tests that need no file."""

from dataclasses import dataclass

import mlx.core as mx
import numpy as np

from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.decoder import Decoder, build_decoder
from mlx_engine.models.families.qwen3_5 import Qwen35
from mlx_engine.models.weights import WeightTable


@dataclass(frozen=True)
class TinySizes:
    """Sizes of a random model; small, and awkward where it costs nothing."""

    vocabulary: int = 61
    hidden: int = 32
    inner: int = 48
    layers: int = 4
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 16
    key_heads: int = 2
    value_heads: int = 4
    linear_dim: int = 8
    interval: int = 2
    tied: bool = False

    def config(self) -> dict[str, object]:
        return {
            "model_type": "qwen3_5",
            "text_config": {
                "vocab_size": self.vocabulary,
                "max_position_embeddings": 512,
                "hidden_size": self.hidden,
                "intermediate_size": self.inner,
                "num_hidden_layers": self.layers,
                "num_attention_heads": self.heads,
                "num_key_value_heads": self.kv_heads,
                "head_dim": self.head_dim,
                "rms_norm_eps": 1e-6,
                "tie_word_embeddings": self.tied,
                "full_attention_interval": self.interval,
                "linear_conv_kernel_dim": 4,
                "linear_key_head_dim": self.linear_dim,
                "linear_value_head_dim": self.linear_dim,
                "linear_num_key_heads": self.key_heads,
                "linear_num_value_heads": self.value_heads,
                "rope_parameters": {
                    "rope_type": "default",
                    "rope_theta": 10000.0,
                    "partial_rotary_factor": 0.5,
                },
            },
        }


def tiny_model(
    seed: int = 0, sizes: TinySizes | None = None, *, with_head: bool = True, scale: float = 3.0
) -> Decoder:
    """A random model; `scale` multiplies the output head, and so sharpens the logits."""
    sizes = sizes or TinySizes()
    rng = np.random.default_rng(seed)
    trunk = WeightTable(_trunk(sizes, rng, scale), "tiny trunk")
    head = WeightTable(_head(sizes, rng), "tiny head") if with_head else None
    spec = Qwen35("qwen3_5").read(ConfigFields(sizes.config(), "tiny"))
    return build_decoder(spec, trunk, head)


def _matrix(rng: np.random.Generator, outputs: int, inputs: int) -> mx.array:
    return mx.array(rng.normal(0, inputs**-0.5, (outputs, inputs)).astype(np.float32))


def _norm(rng: np.random.Generator, size: int) -> mx.array:
    return mx.array(rng.uniform(0.7, 1.3, size).astype(np.float32))


def _trunk(sizes: TinySizes, rng: np.random.Generator, scale: float) -> dict[str, mx.array]:
    arrays = {
        "embed_tokens.weight": _matrix(rng, sizes.vocabulary, sizes.hidden),
        "norm.weight": _norm(rng, sizes.hidden),
    }
    if not sizes.tied:
        arrays["lm_head.weight"] = scale * _matrix(rng, sizes.vocabulary, sizes.hidden)
    for n in range(sizes.layers):
        is_recurrent = (n + 1) % sizes.interval != 0
        mixer = _recurrent(sizes, rng) if is_recurrent else _attention(sizes, rng)
        arrays |= {f"layers.{n}.{name}": array for name, array in mixer.items()}
        arrays |= {f"layers.{n}.{name}": array for name, array in _around(sizes, rng).items()}
    return arrays


def _head(sizes: TinySizes, rng: np.random.Generator) -> dict[str, mx.array]:
    arrays = {
        "join.weight": _matrix(rng, sizes.hidden, 2 * sizes.hidden),
        "enorm.weight": _norm(rng, sizes.hidden),
        "hnorm.weight": _norm(rng, sizes.hidden),
        "norm.weight": _norm(rng, sizes.hidden),
    }
    arrays |= _attention(sizes, rng) | _around(sizes, rng)
    return {f"layers.0.{name}": array for name, array in arrays.items()}


def _around(sizes: TinySizes, rng: np.random.Generator) -> dict[str, mx.array]:
    return {
        "input_layernorm.weight": _norm(rng, sizes.hidden),
        "post_attention_layernorm.weight": _norm(rng, sizes.hidden),
        "mlp.gate_proj.weight": _matrix(rng, sizes.inner, sizes.hidden),
        "mlp.up_proj.weight": _matrix(rng, sizes.inner, sizes.hidden),
        "mlp.down_proj.weight": _matrix(rng, sizes.hidden, sizes.inner),
    }


def _attention(sizes: TinySizes, rng: np.random.Generator) -> dict[str, mx.array]:
    queries, keys = sizes.heads * sizes.head_dim, sizes.kv_heads * sizes.head_dim
    return {
        "self_attn.q_proj.weight": _matrix(rng, 2 * queries, sizes.hidden),
        "self_attn.k_proj.weight": _matrix(rng, keys, sizes.hidden),
        "self_attn.v_proj.weight": _matrix(rng, keys, sizes.hidden),
        "self_attn.o_proj.weight": _matrix(rng, sizes.hidden, queries),
        "self_attn.q_norm.weight": _norm(rng, sizes.head_dim),
        "self_attn.k_norm.weight": _norm(rng, sizes.head_dim),
    }


def _recurrent(sizes: TinySizes, rng: np.random.Generator) -> dict[str, mx.array]:
    values = sizes.value_heads * sizes.linear_dim
    channels = 2 * sizes.key_heads * sizes.linear_dim + values
    heads = sizes.value_heads
    return {
        "linear_attn.in_proj_qkv.weight": _matrix(rng, channels, sizes.hidden),
        "linear_attn.in_proj_z.weight": _matrix(rng, values, sizes.hidden),
        "linear_attn.in_proj_a.weight": _matrix(rng, heads, sizes.hidden),
        "linear_attn.in_proj_b.weight": _matrix(rng, heads, sizes.hidden),
        "linear_attn.conv1d.weight": mx.array(
            rng.normal(0, 0.5, (channels, 4, 1)).astype(np.float32)
        ),
        "linear_attn.dt_bias": mx.array(rng.uniform(-2, 1, heads).astype(np.float32)),
        "linear_attn.A_log": mx.array(rng.uniform(-1, 2, heads).astype(np.float32)),
        "linear_attn.norm.weight": _norm(rng, sizes.linear_dim),
        "linear_attn.out_proj.weight": _matrix(rng, sizes.hidden, values),
    }
