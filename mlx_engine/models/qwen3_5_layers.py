"""The two layer kinds of Qwen3.5: a Gated DeltaNet layer and a gated attention layer."""

import math

import mlx.core as mx

from metal_kernels.lanes import Lanes, Work
from mlx_engine.cache.attention_cache import AttentionCache
from mlx_engine.cache.contract import LayerCache
from mlx_engine.cache.delta_rule import DeltaInputs, DeltaRule, delta_rule
from mlx_engine.cache.recurrent_cache import RecurrentCache
from mlx_engine.models.attention import attention
from mlx_engine.models.experts import ExpertFeedForward
from mlx_engine.models.layers import GatedFeedForward, Linear, Norm, silu
from mlx_engine.models.qwen3_5_config import Qwen35Config
from mlx_engine.models.weight_table import WeightTable

L2_EPS = 1e-6
"""Added to the squared length of queries and keys (as the published model does)."""


def delta_rule_for(sizes: Qwen35Config, lanes: Lanes) -> DeltaRule:
    """How recurrent layers run their blocks."""
    work = Work("", sizes.linear_value_head_dim, sizes.linear_key_head_dim)
    return delta_rule(lanes.launcher_of("delta", work))


def blank_recurrent_cache(sizes: Qwen35Config, dtype: mx.Dtype, rule: DeltaRule) -> RecurrentCache:
    """A recurrent layer's cache before the first token."""
    rows = sizes.linear_conv_kernel_dim - 1
    state = (
        1,
        sizes.linear_num_value_heads,
        sizes.linear_value_head_dim,
        sizes.linear_key_head_dim,
    )
    return RecurrentCache(mx.zeros((1, rows, sizes.convolved_size), dtype), mx.zeros(state), rule)


def _take_feed_forward(
    sizes: Qwen35Config, table: WeightTable, name: str, has_experts: bool
) -> GatedFeedForward | ExpertFeedForward:
    hidden, experts = sizes.hidden_size, sizes.experts
    if experts is not None and has_experts:
        return ExpertFeedForward.take(table, name, hidden, experts)
    return GatedFeedForward.take(table, name, hidden, sizes.intermediate_size)


class AttentionLayer:
    """Residual block of gated grouped-query attention and feed-forward."""

    def __init__(
        self, sizes: Qwen35Config, table: WeightTable, name: str, *, has_experts: bool
    ) -> None:
        hidden, eps, size = sizes.hidden_size, sizes.rms_norm_eps, sizes.head_dim
        heads, kv_heads = sizes.num_attention_heads, sizes.num_key_value_heads
        inner = f"{name}.self_attn"
        self._heads, self._kv_heads, self._size = heads, kv_heads, size
        self._rope_dims, self._rope_theta = sizes.rope_dims, sizes.rope_theta
        self._attention = attention(table.lanes, size)
        self._norm = Norm.take(table, f"{name}.input_layernorm", hidden, eps)
        self._queries = Linear.take(table, f"{inner}.q_proj", 2 * heads * size, hidden)
        self._keys = Linear.take(table, f"{inner}.k_proj", kv_heads * size, hidden)
        self._values = Linear.take(table, f"{inner}.v_proj", kv_heads * size, hidden)
        self._out = Linear.take(table, f"{inner}.o_proj", hidden, heads * size)
        self._query_norm = Norm.take(table, f"{inner}.q_norm", size, eps)
        self._key_norm = Norm.take(table, f"{inner}.k_norm", size, eps)
        self._second_norm = Norm.take(table, f"{name}.post_attention_layernorm", hidden, eps)
        self._feed_forward = _take_feed_forward(sizes, table, f"{name}.mlp", has_experts)

    @property
    def dtype(self) -> mx.Dtype:
        """Element type the layer works in."""
        matrix = self._queries.matrix
        return (matrix.weight if matrix.scales is None else matrix.scales).dtype

    def __call__(self, x: mx.array, cache: LayerCache) -> mx.array:
        """[1, T, H] -> [1, T, H]."""
        assert isinstance(cache, AttentionCache)
        x = x + self._attend(self._norm(x), cache)
        return x + self._feed_forward(self._second_norm(x))

    def _attend(self, x: mx.array, cache: AttentionCache) -> mx.array:
        rows = x.shape[1]
        # every head's part of q_proj is its query followed by its gate
        both = self._queries(x).reshape(1, rows, self._heads, 2 * self._size)
        queries, gate = both[..., : self._size], both[..., self._size :]
        keys = self._keys(x).reshape(1, rows, self._kv_heads, self._size)
        values = self._values(x).reshape(1, rows, self._kv_heads, self._size)
        queries = self._rotate(self._query_norm(queries).transpose(0, 2, 1, 3), cache.length)
        keys = self._rotate(self._key_norm(keys).transpose(0, 2, 1, 3), cache.length)
        attended = self._attention(queries, keys, values.transpose(0, 2, 1, 3), cache)
        gated = attended.transpose(0, 2, 1, 3) * mx.sigmoid(gate)
        return self._out(gated.reshape(1, rows, self._heads * self._size))

    def _rotate(self, x: mx.array, offset: int) -> mx.array:
        return mx.fast.rope(
            x,
            self._rope_dims,
            traditional=False,
            base=self._rope_theta,
            scale=1.0,
            offset=offset,
        )


class RecurrentLayer:
    """Residual block of Gated DeltaNet (arXiv 2412.06464) and feed-forward."""

    def __init__(
        self, sizes: Qwen35Config, table: WeightTable, name: str, *, has_experts: bool
    ) -> None:
        hidden, eps = sizes.hidden_size, sizes.rms_norm_eps
        heads, inner = sizes.linear_num_value_heads, f"{name}.linear_attn"
        channels, kernel = sizes.convolved_size, sizes.linear_conv_kernel_dim
        self._sizes = sizes
        self._norm = Norm.take(table, f"{name}.input_layernorm", hidden, eps)
        self._in_qkv = Linear.take(table, f"{inner}.in_proj_qkv", channels, hidden)
        self._in_gate = Linear.take(table, f"{inner}.in_proj_z", sizes.value_size, hidden)
        self._in_beta = Linear.take(table, f"{inner}.in_proj_b", heads, hidden)
        self._in_decay = Linear.take(table, f"{inner}.in_proj_a", heads, hidden)
        self._taps = table.take(f"{inner}.conv1d.weight", (channels, kernel, 1))
        self._decay_bias = table.take(f"{inner}.dt_bias", (heads,)).astype(mx.float32)
        self._decay_rate = -mx.exp(table.take(f"{inner}.A_log", (heads,)).astype(mx.float32))
        self._head_norm = Norm.take(table, f"{inner}.norm", sizes.linear_value_head_dim, eps)
        self._out = Linear.take(table, f"{inner}.out_proj", hidden, sizes.value_size)
        self._second_norm = Norm.take(table, f"{name}.post_attention_layernorm", hidden, eps)
        self._feed_forward = _take_feed_forward(sizes, table, f"{name}.mlp", has_experts)

    @property
    def dtype(self) -> mx.Dtype:
        """Element type the layer works in."""
        matrix = self._in_qkv.matrix
        return (matrix.weight if matrix.scales is None else matrix.scales).dtype

    def __call__(self, x: mx.array, cache: LayerCache) -> mx.array:
        """[1, T, H] -> [1, T, H]."""
        assert isinstance(cache, RecurrentCache)
        x = x + self._recur(self._norm(x), cache)
        return x + self._feed_forward(self._second_norm(x))

    def _recur(self, x: mx.array, cache: RecurrentCache) -> mx.array:
        sizes, rows = self._sizes, x.shape[1]
        heads, size = sizes.linear_num_value_heads, sizes.linear_value_head_dim
        before = mx.concatenate([cache.window, self._in_qkv(x)], axis=1)
        # causal and depthwise: every channel by its own taps
        convolved = mx.conv1d(before, self._taps, groups=sizes.convolved_size)
        both, values = mx.split(silu(convolved).astype(mx.float32), [2 * sizes.key_size], axis=-1)
        key_heads, key_size = sizes.linear_num_key_heads, sizes.linear_key_head_dim
        units = _unit(both.reshape(1, rows, 2 * key_heads, key_size))
        inputs = DeltaInputs(
            keys=units[:, :, key_heads:],
            values=values.reshape(1, rows, heads, size),
            decay=self._decay(x),
            beta=mx.sigmoid(self._in_beta(x).astype(mx.float32)),
        )
        queries = units[:, :, :key_heads] * key_size**-0.5
        outputs = self._head_norm(cache.run(queries, inputs, before))
        gate = silu(self._in_gate(x).astype(mx.float32)).reshape(1, rows, heads, size)
        return self._out((outputs * gate).astype(x.dtype).reshape(1, rows, sizes.value_size))

    def _decay(self, x: mx.array) -> mx.array:
        """exp(-exp(A_log) * softplus(a + dt_bias)), float32 [1, T, value heads]."""
        step = self._in_decay(x).astype(mx.float32) + self._decay_bias
        softplus = mx.logaddexp(step, mx.array(0.0))
        return mx.exp(self._decay_rate * softplus)


def _unit(x: mx.array) -> mx.array:
    """x / sqrt(sum(x^2) + eps) over the last axis, through rms_norm's mean."""
    size = x.shape[-1]
    return mx.fast.rms_norm(x, None, L2_EPS / size) / math.sqrt(size)
