"""Falcon-H1 (arXiv 2507.22448): attention and Mamba-2 in parallel in every layer, scaled by muP.

The config has a multiplier for nearly every matrix. They are folded into the matrices here, as the
converters of llama.cpp and mlx-lm do, except those of keys and values, which remain factors of the
layer. mlx-lm scales no biases, so biases are always scaled here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import linear_regression
from typing import TYPE_CHECKING, ClassVar

from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.families.granite_hybrid import mamba_spec
from mlx_engine.models.families.llama import plain_attention, plain_feed_forward, plain_model
from mlx_engine.models.model_spec import BlockSpec, ModelSpec
from mlx_engine.models.native_family import NativeFamily
from mlx_engine.models.recurrent_specs import Mamba2Spec
from mlx_engine.values.errors import UnsupportedModel

if TYPE_CHECKING:
    import mlx.core as mx

_CONVOLUTION = "mamba.conv1d.weight"
_ROWS_LOOKED_AT, _LEAST = 256, 1e-30
_LEAST_SLOPE = 0.3
"""Of sizes of matrices over factors, where those are in; nearly all such files are mlx-lm's."""


@dataclass(frozen=True, slots=True)
class MupFactors:
    """Falcon-H1's muP multipliers; parts: for in_proj's rows of gate, x, b, c and step size."""

    embedding: float
    logits: float
    attention_in: float
    attention_out: float
    key: float
    ssm_in: float
    ssm_out: float
    gate: float
    down: float
    parts: tuple[float, ...]

    @staticmethod
    def read(fields: ConfigFields) -> MupFactors:
        """Read Falcon-H1's muP multipliers from a config; absent ones are 1."""

        def mup_factor(name: str) -> float:
            return fields.number(f"{name}_multiplier", 1.0)

        def mup_factor_list(name: str, count: int) -> tuple[float, ...]:
            values = fields.numbers(name) or (1.0,) * count
            if len(values) != count or min(values) <= 0:
                raise fields.bad_field(name, list(values), f"a list of {count} numbers above 0")
            return values

        gate, down = mup_factor_list("mlp_multipliers", 2)
        return MupFactors(
            embedding=mup_factor("embedding"),
            logits=mup_factor("lm_head"),
            attention_in=mup_factor("attention_in"),
            attention_out=mup_factor("attention_out"),
            key=mup_factor("key"),
            ssm_in=mup_factor("ssm_in"),
            ssm_out=mup_factor("ssm_out"),
            gate=gate,
            down=down,
            parts=mup_factor_list("ssm_multipliers", 5),
        )


class FalconH1(NativeFamily):
    """Falcon-H1 (model type `falcon_h1`): attention and Mamba-2 in parallel in every layer."""

    renames: ClassVar = {
        "final_layernorm": "norm",
        "pre_ff_layernorm": "post_attention_layernorm",
        "feed_forward": "mlp",
    }

    def _read_spec(self, fields: ConfigFields) -> ModelSpec:
        factors, attention = MupFactors.read(fields), plain_attention(fields, bias="attention_bias")
        attention = replace(
            attention,
            scale=attention.key_dim**-0.5 * factors.key,
            value_scale=factors.attention_in,
        )
        mamba = replace(
            mamba_spec(fields), norm="none", out_bias=fields.flag("projectors_bias", default=False)
        )
        if fields.flag("mamba_rms_norm", default=False):
            before = fields.flag("mamba_norm_before_gate", default=True)
            mamba = replace(mamba, norm="before gate" if before else "gated")
        feed = plain_feed_forward(fields, has_bias=fields.flag("mlp_bias", default=False))
        tied = fields.flag("tie_word_embeddings", default=False)
        return replace(
            plain_model(fields, [BlockSpec(attention, feed, second_mixer=mamba)] * fields.layers()),
            tied=tied,
            logit_scale=factors.logits / factors.embedding if tied else 1.0,
        )

    def convert_stored(self, tensors: Mapping[str, mx.array]) -> dict[str, mx.array]:
        """Return the trunk's tensors with Falcon-H1's muP factors folded into matrices and biases.

        Raises UnsupportedModel for quantised matrices without scales.
        """
        factors, made = (
            MupFactors.read(ConfigFields(self.config, self.origin)),
            super().convert_stored(tensors),
        )
        of_matrices, of_biases = self._matrix_mup_factors(factors), self._bias_mup_factors(factors)
        is_bare = not self._has_mup_factors(tensors, of_matrices)
        for name, array in made.items():
            base, _, kind = name.rpartition(".")
            part = ".".join(base.split(".")[-2:])
            if kind == "bias" and part in of_biases:
                made[name] = _multiply(array, of_biases[part])
            elif is_bare and part in of_matrices and kind in _SCALED:
                made[name] = self._scaled_matrix(name, array, of_matrices[part], tensors)
        return made

    def _has_mup_factors(
        self, tensors: Mapping[str, mx.array], factors: Mapping[str, Factor]
    ) -> bool:
        """Whether the files' matrices include their muP factors, as mlx-lm's converter leaves them.

        That converter also transposes the convolutions; others transpose them without scaling.
        Unscaled weights of a model have similar magnitudes, while factors range from 0.01 to 6: log
        magnitude over log factor has a slope near 1 for scaled files, near 0 for others.
        """
        import mlx.core as mx

        from mlx_engine.models.layers import Embedding
        from mlx_engine.models.weights import WeightTable

        convolutions = [array for name, array in tensors.items() if name.endswith(_CONVOLUTION)]
        if any(array.ndim == 3 and 1 == array.shape[1] < array.shape[2] for array in convolutions):
            return False
        shapes, table = self.spec.tensors(tensors), WeightTable(tensors, self.origin)
        named = {f"layers.0.{part}" if "." in part else part: f for part, f in factors.items()}
        means = {
            name: sum(factor) / len(factor) if isinstance(factor, tuple) else factor
            for name, factor in named.items()
            if f"{name}.weight" in shapes
        }
        if len({*means.values()}) == 1:
            return True
        sizes = []
        for name in means:
            matrix = table.take_matrix(name, *shapes[f"{name}.weight"])
            rows = mx.arange(0, matrix.output_size, max(1, matrix.output_size // _ROWS_LOOKED_AT))
            square = float(mx.square(Embedding(matrix, mx.float32)(rows)).mean())
            sizes.append(math.log(max(square, _LEAST)) / 2)
        return linear_regression(list(map(math.log, means.values())), sizes).slope > _LEAST_SLOPE

    def _scaled_matrix(
        self, name: str, array: mx.array, factor: Factor, tensors: Mapping[str, mx.array]
    ) -> mx.array:
        """Multiply a matrix by its muP factor; of a quantised one only scales and biases."""
        import mlx.core as mx

        base, _, kind = name.rpartition(".")
        if kind == "weight" and f"{base}.scales" in tensors:
            return array
        if not mx.issubdtype(array.dtype, mx.floating) and factor != 1.0:
            raise UnsupportedModel(
                "{origin}: {name} is quantised in a form that cannot be scaled, and Falcon-H1"
                " scales it. Use the model as published, converted by mlx-lm, or as a GGUF.",
                origin=self.origin,
                name=base,
            )
        return _multiply(array, factor)

    def _matrix_mup_factors(self, factors: MupFactors) -> dict[str, Factor]:
        """muP factors of matrices, by the last two parts of their names."""
        rows = self._in_proj_row_factors(factors)
        return {
            "embed_tokens": factors.embedding,
            "lm_head": factors.logits,
            "self_attn.q_proj": factors.attention_in,
            "self_attn.k_proj": factors.attention_in,
            "self_attn.o_proj": factors.attention_out,
            "mamba.in_proj": tuple(factors.ssm_in * row for row in rows),
            "mamba.out_proj": factors.ssm_out,
            "mlp.gate_proj": factors.gate,
            "mlp.down_proj": factors.down,
        }

    def _bias_mup_factors(self, factors: MupFactors) -> dict[str, Factor]:
        """muP factors of biases, by the last two parts of their names; the layer scales again."""
        return {
            "self_attn.v_proj": 1 / factors.attention_in,
            "self_attn.o_proj": factors.attention_out,
            "mamba.in_proj": self._in_proj_row_factors(factors),
            "mamba.out_proj": factors.ssm_out,
            "mlp.gate_proj": factors.gate,
            "mlp.down_proj": factors.down,
        }

    def _in_proj_row_factors(self, factors: MupFactors) -> tuple[float, ...]:
        spec = self.spec.blocks[0].second_mixer
        assert isinstance(spec, Mamba2Spec)
        shared = spec.groups * spec.state
        sizes = (spec.inner_width, spec.inner_width, shared, shared, spec.heads)
        pairs = zip(factors.parts, sizes, strict=True)
        return tuple(factor for factor, size in pairs for _ in range(size))


Factor = float | tuple[float, ...]
"""Of a whole matrix, or of each of its rows."""
_SCALED = ("weight", "scales", "biases")


def _multiply(array: mx.array, factor: Factor) -> mx.array:
    """Multiply an array [N, ...] by a factor, or by one factor per row, keeping its dtype."""
    import mlx.core as mx

    if factor == 1.0:
        return array
    if isinstance(factor, tuple):
        rows = mx.array(factor).reshape(-1, *[1] * (array.ndim - 1))
        return (array.astype(mx.float32) * rows).astype(array.dtype)
    return (array.astype(mx.float32) * factor).astype(array.dtype)
