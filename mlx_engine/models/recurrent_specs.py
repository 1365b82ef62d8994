"""Specs of recurrent layers, whose state does not grow with the text.

A state cannot be rolled back, so a pass keeps its rows beside the state from before them
(cache/recurrent.py). No MLX here.
"""

import math
from dataclasses import dataclass
from typing import Literal

from mlx_engine.models.layer_specs import CacheSize, RopeSpec, Shapes
from mlx_engine.models.ngram_spec import AnyNgramSpec


@dataclass(frozen=True, slots=True)
class DeltaNetSpec:
    """Gated DeltaNet (arXiv 2412.06464): a recurrent state for each value head.

    taps: kernel size of the causal convolution over queries, keys and values. tiled: rows of
    in_proj_z and columns of out_proj are ordered by value head within a key head first, as in GGUF
    files (first value heads of all key heads, then second ones). gate: activation of the output
    gate. is_split: queries, keys and values have matrices and convolutions of their own.
    doubles_beta: a step's weight beta lies between 0 and 2, so that a state may change its sign
    (arXiv 2411.12537). norm_eps: of the outputs' norm, None for the model's.
    """

    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    taps: int
    tiled: bool = False
    gate: Literal["silu", "sigmoid"] = "silu"
    is_split: bool = False
    doubles_beta: bool = False
    norm_eps: float | None = None

    prefix = "linear_attn"

    @property
    def values(self) -> int:
        """Total width of the values of a Gated DeltaNet layer over all heads."""
        return self.value_heads * self.value_dim

    @property
    def channels(self) -> int:
        """Channels of a Gated DeltaNet layer's convolution: queries, keys and values together."""
        return 2 * self.key_heads * self.key_dim + self.values

    def tensors(self, hidden: int, *, has_split_kv_b: bool = False) -> Shapes:
        """Names and shapes of the weights of a Gated DeltaNet layer."""
        del has_split_kv_b
        keys = self.key_heads * self.key_dim
        inputs, convolved = {"in_proj_qkv": self.channels}, {"conv1d": self.channels}
        if self.is_split:
            rows = {"q": keys, "k": keys, "v": self.values}
            inputs = {f"in_proj_{part}": count for part, count in rows.items()}
            convolved = {f"{part}_conv1d": count for part, count in rows.items()}
        return {
            **{f"{name}.weight": (count, hidden) for name, count in inputs.items()},
            "in_proj_z.weight": (self.values, hidden),
            "in_proj_b.weight": (self.value_heads, hidden),
            "in_proj_a.weight": (self.value_heads, hidden),
            "out_proj.weight": (hidden, self.values),
            **{f"{n}.weight": (count, self.taps, 1) for n, count in convolved.items()},
            "dt_bias": (self.value_heads,),
            "A_log": (self.value_heads,),
            "norm.weight": (self.value_dim,),
        }

    @property
    def cache(self) -> CacheSize:
        """Cache size of a Gated DeltaNet layer: the state and the convolution's last rows."""
        kept, states = (self.taps - 1) * self.channels, self.values * self.key_dim
        return CacheSize(kept_elements=kept, state_elements=states)

    packed_cache = None


@dataclass(frozen=True, slots=True)
class KimiDeltaSpec:
    """Kimi Delta Attention (arXiv 2510.26692): Gated DeltaNet with a decay by channel of the keys.

    The log of a decay is -exp(A_log) softplus(raw + dt_bias), or with a least log, which is
    negative, least_log * sigmoid(exp(A_log) (raw + dt_bias)). Outputs are gated by a sigmoid.
    rank: of the two matrices whose product projects raw decays, and gates; 0 for a single one.
    """

    heads: int
    head_dim: int
    taps: int
    least_log: float = 0.0
    rank: int = 0

    prefix = "self_attn"

    @property
    def width(self) -> int:
        """Total width of queries, of keys or of values over all heads."""
        return self.heads * self.head_dim

    @property
    def channels(self) -> int:
        """Channels of the convolutions: queries, keys and values together."""
        return 3 * self.width

    def tensors(self, hidden: int, *, has_split_kv_b: bool = False) -> Shapes:
        """Names and shapes of the weights of a Kimi Delta Attention layer."""
        del has_split_kv_b
        wide = "qkv" if self.rank else "qkvfg"
        made: Shapes = {f"{part}_proj.weight": (self.width, hidden) for part in wide}
        for part in "fg" if self.rank else "":
            made[f"{part}_a_proj.weight"] = (self.rank, hidden)
            made[f"{part}_b_proj.weight"] = (self.width, self.rank)
        made |= {f"{part}_conv1d.weight": (self.width, self.taps, 1) for part in "qkv"}
        return made | {
            "b_proj.weight": (self.heads, hidden),
            "o_proj.weight": (hidden, self.width),
            "dt_bias": (self.width,),
            "A_log": (self.heads,),
            "o_norm.weight": (self.head_dim,),
        }

    @property
    def cache(self) -> CacheSize:
        """Cache size of a Kimi Delta Attention layer: the state and the last convolved rows."""
        kept, states = (self.taps - 1) * self.channels, self.width * self.head_dim
        return CacheSize(kept_elements=kept, state_elements=states)

    packed_cache = None


@dataclass(frozen=True, slots=True)
class ShortConvolutionSpec:
    """Gated short convolution (LFM2, arXiv 2511.23404): out(c * conv(b * x)) with b, c, x = in(h).

    width: channels of b, c and x each. taps: kernel size of the causal depthwise convolution, whose
    last taps - 1 inputs are cached. bias: of both projections and the convolution.
    """

    width: int
    taps: int
    bias: bool = False

    prefix = "conv"

    def tensors(self, hidden: int, *, has_split_kv_b: bool = False) -> Shapes:
        """Names and shapes of the weights of a short-convolution layer."""
        del has_split_kv_b
        made: Shapes = {
            "in_proj.weight": (3 * self.width, hidden),
            "out_proj.weight": (hidden, self.width),
            "conv.weight": (self.width, self.taps, 1),
        }
        if self.bias:
            made |= {
                "in_proj.bias": (3 * self.width,),
                "out_proj.bias": (hidden,),
                "conv.bias": (self.width,),
            }
        return made

    @property
    def cache(self) -> CacheSize:
        """Cache size of a short-convolution layer: the convolution's last rows."""
        return CacheSize(kept_elements=(self.taps - 1) * self.width)

    packed_cache = None


@dataclass(frozen=True, slots=True)
class ResidualConvolutionSpec:
    """Short causal depthwise convolution that is added to what it reads: x + conv(x) (Inkling).

    parts: names of the weights of channels side by side, and their numbers of channels. taps:
    kernel size; the last taps - 1 inputs are cached. scaled: what it reads is multiplied by a
    stored number.
    """

    prefix: str
    parts: tuple[tuple[str, int], ...]
    taps: int
    scaled: bool = False

    @property
    def width(self) -> int:
        """Channels of all parts."""
        return sum(channels for _, channels in self.parts)

    def tensors(self, hidden: int, *, has_split_kv_b: bool = False) -> Shapes:
        """Names and shapes of the weights of a convolution that is added to what it reads."""
        del hidden, has_split_kv_b
        made: Shapes = {f"{name}.weight": (channels, self.taps, 1) for name, channels in self.parts}
        return made | ({"scale": (1,)} if self.scaled else {})

    @property
    def cache(self) -> CacheSize:
        """Cache size of the convolution: its last rows."""
        return CacheSize(kept_elements=(self.taps - 1) * self.width)

    packed_cache = None


@dataclass(frozen=True, slots=True)
class Mamba2Spec:
    """Mamba-2 (arXiv 2405.21060): a state S [head_dim, state] for each head, S <- a S + dt x b^T.

    Output y = S c + D x, with dt = softplus(raw + dt_bias) clipped to [least_step, most_step] and a
    = exp(-exp(A_log) dt); b and c are shared by a group of heads. x, b and c go through a causal
    convolution with `taps` taps and SiLU. norm: RMS norm of each group's outputs after the gate
    ("gated") or before it.
    """

    heads: int
    head_dim: int
    state: int
    groups: int
    taps: int
    norm: Literal["none", "gated", "before gate"] = "gated"
    least_step: float = 0.0
    most_step: float = math.inf
    conv_bias: bool = True
    in_bias: bool = False
    out_bias: bool = False

    prefix = "mamba"

    @property
    def inner_width(self) -> int:
        """Total width of a Mamba-2 layer's input x over all heads."""
        return self.heads * self.head_dim

    @property
    def channels(self) -> int:
        """Channels of a Mamba-2 layer's convolution: x, b and c together."""
        return self.inner_width + 2 * self.groups * self.state

    def tensors(self, hidden: int, *, has_split_kv_b: bool = False) -> Shapes:
        """Names and shapes of the weights of a Mamba-2 layer.

        in_proj yields gate, convolution channels and raw step sizes.
        """
        del has_split_kv_b
        rows = self.inner_width + self.channels + self.heads
        made: Shapes = {
            "in_proj.weight": (rows, hidden),
            "out_proj.weight": (hidden, self.inner_width),
            "conv1d.weight": (self.channels, self.taps, 1),
            **dict.fromkeys(("dt_bias", "A_log", "D"), (self.heads,)),
        }
        made |= {"norm.weight": (self.inner_width,)} if self.norm != "none" else {}
        made |= {"conv1d.bias": (self.channels,)} if self.conv_bias else {}
        made |= {"in_proj.bias": (rows,)} if self.in_bias else {}
        return made | ({"out_proj.bias": (hidden,)} if self.out_bias else {})

    @property
    def cache(self) -> CacheSize:
        """Cache size of a Mamba-2 layer: the state and the convolution's last rows."""
        kept, states = (self.taps - 1) * self.channels, self.inner_width * self.state
        return CacheSize(kept_elements=kept, state_elements=states)

    packed_cache = None


@dataclass(frozen=True, slots=True)
class LightningSpec:
    """Lightning attention (arXiv 2401.04658): a state S <- a S + v k^T for each head, y = S q.

    log_decays: log of a for each head, constant. Queries and keys are normed by head (if qk_norm)
    and rotated; outputs are RMS-normed in `groups` groups and gated by a sigmoid.
    """

    heads: int
    head_dim: int
    groups: int
    log_decays: tuple[float, ...]
    rope: RopeSpec
    qk_norm: bool = True
    bias: bool = False

    prefix = "self_attn"

    @property
    def width(self) -> int:
        """Total width of queries, of keys or of values over all heads."""
        return self.heads * self.head_dim

    def tensors(self, hidden: int, *, has_split_kv_b: bool = False) -> Shapes:
        """Names and shapes of the weights of a lightning attention layer."""
        del has_split_kv_b
        made: Shapes = {
            "qkv_proj.weight": (3 * self.width, hidden),
            "g_proj.weight": (self.width, hidden),
            "o_proj.weight": (hidden, self.width),
            "g_norm.weight": (self.width,),
        }
        made |= {"qkv_proj.bias": (3 * self.width,)} if self.bias else {}
        norms = ("q_norm.weight", "k_norm.weight") if self.qk_norm else ()
        return made | dict.fromkeys(norms, (self.head_dim,))

    @property
    def cache(self) -> CacheSize:
        """Cache size of a lightning attention layer: the state."""
        return CacheSize(state_elements=self.width * self.head_dim)

    packed_cache = None


RecurrentSpec = (
    DeltaNetSpec
    | KimiDeltaSpec
    | ShortConvolutionSpec
    | ResidualConvolutionSpec
    | Mamba2Spec
    | LightningSpec
    | AnyNgramSpec
)
"""Every kind of them."""
