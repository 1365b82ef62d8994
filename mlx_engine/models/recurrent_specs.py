"""Layers that keep a state of one size however long the text is, told in numbers like layer_specs.

A state cannot be shortened, so a pass leaves the rows it has read beside the state from before
them (cache/recurrent.py). No MLX here.
"""

from dataclasses import dataclass

from mlx_engine.models.cache_sizes import CacheSize
from mlx_engine.models.layer_specs import Shapes


@dataclass(frozen=True, slots=True)
class Delta:
    """Gated DeltaNet (arXiv 2412.06464): a state for each value head in the place of a cache.

    taps: of the causal convolution that queries, keys and values go through. tiled: the rows of
    in_proj_z and the columns of out_proj begin with the first value head of every key head, then
    come the second ones of all, as GGUF files have them.
    """

    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    taps: int
    tiled: bool = False

    prefix = "linear_attn"

    @property
    def values(self) -> int:
        """Width of all values."""
        return self.value_heads * self.value_dim

    @property
    def channels(self) -> int:
        """Of the convolution: queries, keys and values."""
        return 2 * self.key_heads * self.key_dim + self.values

    def tensors(self, hidden: int, *, in_halves: bool = False) -> Shapes:
        """Names and shapes."""
        del in_halves
        return {
            "in_proj_qkv.weight": (self.channels, hidden),
            "in_proj_z.weight": (self.values, hidden),
            "in_proj_b.weight": (self.value_heads, hidden),
            "in_proj_a.weight": (self.value_heads, hidden),
            "out_proj.weight": (hidden, self.values),
            "conv1d.weight": (self.channels, self.taps, 1),
            "dt_bias": (self.value_heads,),
            "A_log": (self.value_heads,),
            "norm.weight": (self.value_dim,),
        }

    @property
    def cache(self) -> CacheSize:
        """The state, and the rows the convolution still needs."""
        kept, states = (self.taps - 1) * self.channels, self.values * self.key_dim
        return CacheSize(kept_elements=kept, state_elements=states)

    packed_cache = None


@dataclass(frozen=True, slots=True)
class ShortConvolution:
    """Gated short convolution (LFM2, arXiv 2511.23404): out(c * conv(b * x)) of b, c, x = in(h).

    width: channels of b, c and x each. taps: of the causal convolution, each channel by itself;
    its last taps - 1 inputs are all that is kept. bias: of both projections and the convolution.
    """

    width: int
    taps: int
    bias: bool = False

    prefix = "conv"

    def tensors(self, hidden: int, *, in_halves: bool = False) -> Shapes:
        """Names and shapes."""
        del in_halves
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
        """The rows the convolution still needs."""
        return CacheSize(kept_elements=(self.taps - 1) * self.width)

    packed_cache = None


Recurrent = Delta | ShortConvolution
"""Every kind of them."""
