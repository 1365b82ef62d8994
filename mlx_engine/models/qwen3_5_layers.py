"""The two layer kinds of Qwen3.5: a Gated DeltaNet layer and a gated attention layer."""

import mlx.core as mx

from metal_kernels.choice import Kernels, Work
from metal_kernels.gated_delta_inputs import Fixed, Projected
from mlx_engine.cache.attention import AttentionCache
from mlx_engine.cache.contract import LayerCache
from mlx_engine.cache.recurrent import DeltaRule, RecurrentCache, delta_rule
from mlx_engine.models.attention import attention
from mlx_engine.models.experts import ExpertFeedForward
from mlx_engine.models.layers import GatedFeedForward, Linear, Norm, ResidualLinear, silu
from mlx_engine.models.qwen3_5_config import Qwen35Config
from mlx_engine.models.recurrent_inputs import recurrent_inputs
from mlx_engine.models.weight_table import WeightTable


def delta_rule_for(sizes: Qwen35Config, kernels: Kernels) -> DeltaRule:
    """How recurrent layers run their blocks."""
    work = Work("", sizes.linear_value_head_dim, sizes.linear_key_head_dim)
    return delta_rule(kernels.launcher_of("delta", work))


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
        self._attention = attention(table.kernels, size)
        self._norm = Norm.take(table, f"{name}.input_layernorm", hidden, eps)
        self._queries = Linear.take(table, f"{inner}.q_proj", 2 * heads * size, hidden)
        self._keys = Linear.take(table, f"{inner}.k_proj", kv_heads * size, hidden)
        self._values = Linear.take(table, f"{inner}.v_proj", kv_heads * size, hidden)
        self._out = ResidualLinear.take(table, f"{inner}.o_proj", hidden, heads * size)
        self._query_norm = Norm.take(table, f"{inner}.q_norm", size, eps)
        self._key_norm = Norm.take(table, f"{inner}.k_norm", size, eps)
        self._second_norm = Norm.take(table, f"{name}.post_attention_layernorm", hidden, eps)
        self._feed_forward = _take_feed_forward(sizes, table, f"{name}.mlp", has_experts)

    @property
    def dtype(self) -> mx.Dtype:
        """Element type the layer works in."""
        return self._queries.matrix.dtype

    def __call__(self, x: mx.array, cache: LayerCache) -> mx.array:
        """[1, T, H] -> [1, T, H]."""
        assert isinstance(cache, AttentionCache)
        x = self._out(x, self._attend(self._norm(x), cache))
        return self._feed_forward.onto(x, self._second_norm(x))

    def _attend(self, x: mx.array, cache: AttentionCache) -> mx.array:
        """[1, T, H] -> what the output projection takes."""
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
        return gated.reshape(1, rows, self._heads * self._size)

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
        self._norm = Norm.take(table, f"{name}.input_layernorm", hidden, eps)
        self._in_qkv = Linear.take(table, f"{inner}.in_proj_qkv", channels, hidden)
        self._in_gate = Linear.take(table, f"{inner}.in_proj_z", sizes.value_size, hidden)
        self._in_beta = Linear.take(table, f"{inner}.in_proj_b", heads, hidden)
        self._in_decay = Linear.take(table, f"{inner}.in_proj_a", heads, hidden)
        fixed = Fixed(
            taps=table.take(f"{inner}.conv1d.weight", (channels, kernel, 1)).squeeze(-1),
            decay_bias=table.take(f"{inner}.dt_bias", (heads,)).astype(mx.float32),
            decay_rate=-mx.exp(table.take(f"{inner}.A_log", (heads,)).astype(mx.float32)),
            key_heads=sizes.linear_num_key_heads,
            key_size=sizes.linear_key_head_dim,
            value_size=sizes.linear_value_head_dim,
        )
        self._inputs = recurrent_inputs(table.kernels, fixed)
        self._head_norm = Norm.take(table, f"{inner}.norm", sizes.linear_value_head_dim, eps)
        self._out = ResidualLinear.take(table, f"{inner}.out_proj", hidden, sizes.value_size)
        self._second_norm = Norm.take(table, f"{name}.post_attention_layernorm", hidden, eps)
        self._feed_forward = _take_feed_forward(sizes, table, f"{name}.mlp", has_experts)

    @property
    def dtype(self) -> mx.Dtype:
        """Element type the layer works in."""
        return self._in_qkv.matrix.dtype

    def __call__(self, x: mx.array, cache: LayerCache) -> mx.array:
        """[1, T, H] -> [1, T, H]."""
        assert isinstance(cache, RecurrentCache)
        x = self._out(x, self._recur(self._norm(x), cache))
        return self._feed_forward.onto(x, self._second_norm(x))

    def _recur(self, x: mx.array, cache: RecurrentCache) -> mx.array:
        """[1, T, H] -> what the output projection takes."""
        gate = silu(self._in_gate(x).astype(mx.float32))
        projected = Projected(self._in_qkv(x), self._in_decay(x), self._in_beta(x))
        queries, steps, convolved = self._inputs(projected, cache.window)
        outputs = self._head_norm(cache.run(queries, steps, convolved))
        gated = outputs.reshape(gate.shape) * gate
        return gated.astype(x.dtype)
