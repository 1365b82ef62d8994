"""Qwen2 and Qwen3, dense and with experts, MiMo-7B and Mellum.

If `use_sliding_window` is set, layers from `max_window_layers` on have a window; in Qwen3 MoE all
layers, in Qwen2 MoE every other layer before that number. Qwen3: arXiv 2505.09388.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.families.llama import (
    local_rope,
    plain_attention,
    plain_feed_forward,
    plain_model,
)
from mlx_engine.models.feed_forward_specs import ExpertsSpec, FeedForwardSpec
from mlx_engine.models.layer_specs import AttentionSpec
from mlx_engine.models.model_spec import BlockSpec, ModelSpec, MtpHeadsSpec
from mlx_engine.models.native_family import NativeFamily
from mlx_engine.models.rope import interleaved_axes
from mlx_engine.models.tensor_names import MTP_NAMES, HeadNames
from mlx_engine.models.tensor_recipes import Recipe, Recipes, RowChunk, StoredPiece


class Qwen2(NativeFamily):
    """Qwen2 and Qwen2.5 (`qwen2`, `qwen2_vl`, `qwen2_5_vl`): biases of queries, keys and values."""

    def _read_spec(self, fields: ConfigFields) -> ModelSpec:
        return _dense_model(fields, replace(plain_attention(fields), qkv_bias=True))


class Qwen2Moe(NativeFamily):
    """Qwen2 with experts (`qwen2_moe`): routed experts and a gated shared one."""

    def _read_spec(self, fields: ConfigFields) -> ModelSpec:
        bias = fields.flag("qkv_bias", default=True)
        attention = replace(plain_attention(fields), qkv_bias=bias)
        shared = plain_feed_forward(fields, fields.count("shared_expert_intermediate_size", 5632))
        first, blocks = fields.count("max_window_layers", 28, minimum=0), list[BlockSpec]()
        windows = fields.layer_windows(
            _window_size(fields), lambda layer: layer < first and layer % 2 == 0
        )
        for layer, window in enumerate(windows):
            feed = _feed_forward_spec(fields, layer)
            if isinstance(feed, ExpertsSpec):
                feed = replace(feed, shared=shared, shared_gate=True)
            blocks.append(BlockSpec(replace(attention, window=window), feed))
        return plain_model(fields, blocks)


class Mimo(Qwen2):
    """MiMo-7B (`mimo`): Qwen2 with an MTP head that puts the hidden state before the embedding.

    As in modeling_mimo.py of the published repository, the head reads hidden states after the final
    norm and passes on its own after its norm. Further heads, if any, are not run.
    """

    head_names = HeadNames(
        {
            "token_layernorm": "enorm",
            "hidden_layernorm": "hnorm",
            "input_proj": "join",
            "final_layernorm": "norm",
        }
    )

    def _read_spec(self, fields: ConfigFields) -> ModelSpec:
        model = super()._read_spec(fields)
        block = model.blocks[0]
        assert isinstance(block.mixer, AttentionSpec)
        head = replace(block, mixer=replace(block.mixer, window=None))
        return replace(model, heads=MtpHeadsSpec((head,), embedding_first=False))


class Qwen3(NativeFamily):
    """Qwen3 (`qwen3`): norms of each head's queries and keys."""

    def _read_spec(self, fields: ConfigFields) -> ModelSpec:
        return _dense_model(fields, _normed_attention(fields))


class Qwen3Vl(NativeFamily):
    """Qwen3-VL (`qwen3_vl`): Qwen3 with M-RoPE."""

    def _read_spec(self, fields: ConfigFields) -> ModelSpec:
        return _dense_model(fields, _attention_with_pictures(fields))


class Qwen3Moe(NativeFamily):
    """Qwen3 with experts (model type `qwen3_moe`): norms of each head's queries and keys."""

    def _read_spec(self, fields: ConfigFields) -> ModelSpec:
        return _model_with_experts(fields, _normed_attention(fields))


class Mellum(NativeFamily):
    """Mellum 2 (`mellum`): sliding and full layers, and the MTP head, have their own RoPE.

    As in transformers, the head reads hidden states after the final norm and passes on its own
    after its norm.
    """

    head_names = MTP_NAMES

    def _read_spec(self, fields: ConfigFields) -> ModelSpec:
        kinds = fields.strings("mtp_layer_types") or ("sliding_attention",)
        head = fields.with_values(
            num_hidden_layers=1,
            layer_types=list(kinds),
            mlp_layer_types=list(fields.strings("mtp_mlp_layer_types")),
        )
        heads = MtpHeadsSpec(tuple(_mellum_blocks(head)))
        return replace(plain_model(fields, _mellum_blocks(fields)), heads=heads)


class Qwen3VlMoe(Qwen3Moe):
    """Qwen3-VL with experts (`qwen3_vl_moe`): expert stacks are stored transposed, [E, H, 2 D]."""

    def _read_spec(self, fields: ConfigFields) -> ModelSpec:
        fields = fields.with_values(norm_topk_prob=True)
        return _model_with_experts(fields, _attention_with_pictures(fields))

    def tensor_recipes(self, names: Iterable[str]) -> Recipes:
        """How gate and up are split from transposed expert stacks that hold them side by side.

        MLX conversions have the canonical stacks, and transformers 5 writes them as for other
        families.
        """
        made, wide = dict[str, Recipe](), self.spec.hidden
        inner = next(
            (b.feed.feed.inner for b in self.spec.blocks if isinstance(b.feed, ExpertsSpec)), 0
        )
        for name in names:
            base, joined, _ = name.partition(".experts.gate_up_proj")
            down, alone, _ = name.partition(".experts.down_proj")
            if joined:
                for half, part in enumerate(("gate", "up")):
                    piece = StoredPiece(name, RowChunk(half, 2), axis=-1)
                    stack = f"{base}.switch_mlp.{part}_proj.weight"
                    made[stack] = Recipe((piece,), form="transposed", inputs=wide)
            elif alone:
                stack = f"{down}.switch_mlp.down_proj.weight"
                made[stack] = Recipe((StoredPiece(name),), form="transposed", inputs=inner)
        return made


def _dense_model(fields: ConfigFields, attention: AttentionSpec) -> ModelSpec:
    feed = plain_feed_forward(fields)
    windows = _windows_from_layer(fields, fields.count("max_window_layers", 28, minimum=0))
    return plain_model(fields, (BlockSpec(replace(attention, window=w), feed) for w in windows))


def _windows_from_layer(fields: ConfigFields, first_layer: int) -> tuple[int | None, ...]:
    """Each layer's window or None, by `layer_types`, else all from `first_layer` on have one."""
    return fields.layer_windows(_window_size(fields), lambda layer: layer >= first_layer)


def _window_size(fields: ConfigFields) -> int | None:
    return fields.window_size() if fields.flag("use_sliding_window", default=False) else None


def _normed_attention(fields: ConfigFields) -> AttentionSpec:
    return replace(plain_attention(fields, bias="attention_bias"), qk_norm="head")


def _attention_with_pictures(fields: ConfigFields) -> AttentionSpec:
    """Attention of Qwen3-VL; pictures have RoPE positions by time, height and width."""
    attention = _normed_attention(fields)
    assert attention.rope is not None
    axes = interleaved_axes(fields, attention.rope.width // 2, (24, 20, 20))
    return replace(attention, rope=replace(attention.rope, axes=axes))


def _model_with_experts(fields: ConfigFields, attention: AttentionSpec) -> ModelSpec:
    blocks = (
        BlockSpec(replace(attention, window=window), _feed_forward_spec(fields, layer))
        for layer, window in enumerate(_windows_from_layer(fields, 0))
    )
    return plain_model(fields, blocks)


def _mellum_blocks(fields: ConfigFields) -> Iterator[BlockSpec]:
    """Layer specs of Mellum by `layer_types`; by default none has a sliding window."""
    full = _normed_attention(fields)
    slides = replace(full, rope=local_rope(fields, full.key_dim, 10000.0))
    windows = fields.layer_windows(fields.count("sliding_window", 1024), lambda _: False)
    for layer, window in enumerate(windows):
        mixer = replace(slides, window=window) if window else full
        yield BlockSpec(mixer, _feed_forward_spec(fields, layer))


def _feed_forward_spec(fields: ConfigFields, layer: int) -> FeedForwardSpec | ExpertsSpec:
    """Feed-forward spec of a layer: experts in every decoder_sparse_step-th, else dense.

    `mlp_only_layers` and dense entries of `mlp_layer_types` are dense too.
    """
    step = fields.count("decoder_sparse_step", 1)
    is_dense = fields.strings("mlp_layer_types")[layer : layer + 1] == ("dense",)
    if is_dense or layer in fields.counts("mlp_only_layers") or (layer + 1) % step:
        return plain_feed_forward(fields)
    named = "num_experts" if fields.has("num_experts") else "num_local_experts"
    count = fields.count(named, 128, maximum=2**16)
    return ExpertsSpec(
        count=count,
        per_token=fields.count("num_experts_per_tok", 8, maximum=count),
        feed=plain_feed_forward(fields, fields.count("moe_intermediate_size", 768)),
        normalise=fields.flag("norm_topk_prob", default=False),
    )
