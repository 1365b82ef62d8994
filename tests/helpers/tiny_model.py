"""Tiny random Qwen3.5 models in memory, with or without a head, for tests that need no file."""

from collections.abc import Mapping
from dataclasses import dataclass

import mlx.core as mx
import numpy as np
from tiny_qwen3_5 import tiny_config

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
    value_heads: int = 4
    linear_dim: int = 8
    interval: int = 2

    def config(self) -> dict[str, object]:
        config = tiny_config(self.hidden, self.layers, self.vocabulary, tied=False)
        text = config["text_config"]
        assert isinstance(text, dict)
        text |= {
            "intermediate_size": self.inner,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "head_dim": 16,
            "full_attention_interval": self.interval,
            "linear_key_head_dim": self.linear_dim,
            "linear_value_head_dim": self.linear_dim,
            "linear_num_value_heads": self.value_heads,
        }
        return config


def tiny_model(
    seed: int = 0, sizes: TinySizes | None = None, *, with_head: bool = True, scale: float = 3.0
) -> Decoder:
    """A random model; `scale` multiplies the output head, and so sharpens the logits."""
    spec = Qwen35("qwen3_5", (sizes or TinySizes()).config(), "tiny").spec
    rng = np.random.default_rng(seed)
    trunk = _drawn(spec.tensors(), rng)
    trunk["lm_head.weight"] *= scale
    head = WeightTable(_drawn(spec.head_tensors(), rng), "tiny head") if with_head else None
    return build_decoder(spec, WeightTable(trunk, "tiny trunk"), head)


def _drawn(shapes: Mapping[str, tuple[int, ...]], rng: np.random.Generator) -> dict[str, mx.array]:
    return {name: mx.array(_draw(name, shape, rng), mx.float32) for name, shape in shapes.items()}


def _draw(name: str, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    ranges = {"norm.weight": (0.7, 1.3), "dt_bias": (-2, 1), "A_log": (-1, 2)}
    for ending, (least, most) in ranges.items():
        if name.endswith(ending):
            return rng.uniform(least, most, shape)
    return rng.normal(0, 0.5 if "conv1d" in name else shape[-1] ** -0.5, shape)
