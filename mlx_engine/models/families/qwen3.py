"""Qwen2 and Qwen3, with and without experts, MiMo-7B, Mellum: biases or norms of queries and keys.

Layers from `max_window_layers` on have a window, if `use_sliding_window` says so; in Qwen3 MoE all,
in Qwen2 MoE every other one before.
Qwen3 technical report: arXiv 2505.09388.
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
from mlx_engine.models.layer_specs import AttentionSpec, ExpertsSpec, FeedForwardSpec
from mlx_engine.models.model_spec import BlockSpec, ModelSpec, MtpHeadsSpec
from mlx_engine.models.native_family import NativeFamily
from mlx_engine.models.tensor_names import MTP_NAMES, HeadNames
from mlx_engine.models.tensor_recipes import Piece, Recipe, Recipes, Run


class Qwen2(NativeFamily):
    """`qwen2`."""

    def _read_spec(self, fields: ConfigFields) -> ModelSpec:
        return _dense_model(fields, replace(plain_attention(fields), qkv_bias=True))


class Qwen2Moe(NativeFamily):
    """`qwen2_moe`: a shared expert, gated, beside those chosen."""

    def _read_spec(self, fields: ConfigFields) -> ModelSpec:
        bias = fields.flag("qkv_bias", default=True)
        attention = replace(plain_attention(fields), qkv_bias=bias)
        shared = plain_feed_forward(fields, fields.count("shared_expert_intermediate_size", 5632))
        first, blocks = fields.count("max_window_layers", 28, least=0), list[BlockSpec]()
        windows = fields.layer_windows(
            _window(fields), lambda layer: layer < first and layer % 2 == 0
        )
        for layer, window in enumerate(windows):
            feed = _feed_forward(fields, layer)
            if isinstance(feed, ExpertsSpec):
                feed = replace(feed, shared=shared, shared_gate=True)
            blocks.append(BlockSpec(replace(attention, window=window), feed))
        return plain_model(fields, blocks)


class Mimo(Qwen2):
    """`mimo` (MiMo-7B): Qwen2 with one MTP head, which joins the hidden state before the token.

    As modeling_mimo.py of the published repository runs it: states after the final norm, and its
    own after its norm. Further heads, if any, are not run: nobody says how they are to be used.
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
        heads = MtpHeadsSpec(
            blocks=(replace(block, mixer=replace(block.mixer, window=None)),),
            promised=fields.count("num_nextn_predict_layers", 0, least=0),
            embedding_first=False,
        )
        return replace(model, heads=heads)


class Qwen3(NativeFamily):
    """`qwen3`."""

    def _read_spec(self, fields: ConfigFields) -> ModelSpec:
        return _dense_model(fields, _normed_attention(fields))


class Qwen3Moe(NativeFamily):
    """`qwen3_moe`."""

    def _read_spec(self, fields: ConfigFields) -> ModelSpec:
        attention = _normed_attention(fields)
        blocks = (
            BlockSpec(replace(attention, window=window), _feed_forward(fields, layer))
            for layer, window in enumerate(_late_windows(fields, 0))
        )
        return plain_model(fields, blocks)


class Mellum(NativeFamily):
    """`mellum` (Mellum 2): each kind of layer has a rotation of its own, and so has the head.

    As transformers runs it: states after the final norm, and its own after its norm.
    """

    head_names = MTP_NAMES

    def _read_spec(self, fields: ConfigFields) -> ModelSpec:
        promised = fields.count("num_nextn_predict_layers", 0, least=0)
        kinds = fields.words("mtp_layer_types") or ("sliding_attention",)
        head = fields.with_values(
            num_hidden_layers=1,
            layer_types=list(kinds),
            mlp_layer_types=list(fields.words("mtp_mlp_layer_types")),
        )
        heads = MtpHeadsSpec(blocks=tuple(_mellum_blocks(head)), promised=promised)
        return replace(plain_model(fields, _mellum_blocks(fields)), heads=heads)


class Qwen3VlMoe(Qwen3Moe):
    """`qwen3_vl_moe`: stacks of experts are published turned, [E, H, 2 D] and [E, D, H]."""

    def _read_spec(self, fields: ConfigFields) -> ModelSpec:
        return super()._read_spec(fields.with_values(norm_topk_prob=True))

    def recipes(self, names: Iterable[str]) -> Recipes:
        """Gates and ups are columns side by side; MLX conversions have the stacks themselves, and
        transformers 5 writes them as it does for others.
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
                    piece = Piece(name, Run(half, 2), axis=-1)
                    stack = f"{base}.switch_mlp.{part}_proj.weight"
                    made[stack] = Recipe((piece,), form="transposed", inputs=wide)
            elif alone:
                stack = f"{down}.switch_mlp.down_proj.weight"
                made[stack] = Recipe((Piece(name),), form="transposed", inputs=inner)
        return made


def _dense_model(fields: ConfigFields, attention: AttentionSpec) -> ModelSpec:
    feed = plain_feed_forward(fields)
    windows = _late_windows(fields, fields.count("max_window_layers", 28, least=0))
    return plain_model(fields, (BlockSpec(replace(attention, window=w), feed) for w in windows))


def _late_windows(fields: ConfigFields, first: int) -> tuple[int | None, ...]:
    """For each layer the window or None; where `layer_types` is silent, those from `first` on."""
    return fields.layer_windows(_window(fields), lambda layer: layer >= first)


def _window(fields: ConfigFields) -> int | None:
    return fields.window_size() if fields.flag("use_sliding_window", default=False) else None


def _normed_attention(fields: ConfigFields) -> AttentionSpec:
    bias = fields.flag("attention_bias", default=False)
    return replace(plain_attention(fields), qkv_bias=bias, out_bias=bias, qk_norm="head")


def _mellum_blocks(fields: ConfigFields) -> Iterator[BlockSpec]:
    """Kinds of Mellum's layers, by `layer_types`; default: none has a window."""
    full = _normed_attention(fields)
    slides = replace(full, rope=local_rope(fields, full.key_dim, 10000.0))
    windows = fields.layer_windows(fields.count("sliding_window", 1024), lambda _: False)
    for layer, window in enumerate(windows):
        mixer = replace(slides, window=window) if window else full
        yield BlockSpec(mixer, _feed_forward(fields, layer))


def _feed_forward(fields: ConfigFields, layer: int) -> FeedForwardSpec | ExpertsSpec:
    """Every decoder_sparse_step-th layer has experts, but those of mlp_only_layers, or those of
    `mlp_layer_types` that are sparse.
    """
    step = fields.count("decoder_sparse_step", 1)
    is_dense = fields.words("mlp_layer_types")[layer : layer + 1] == ("dense",)
    if is_dense or layer in fields.counts("mlp_only_layers") or (layer + 1) % step:
        return plain_feed_forward(fields)
    named = "num_experts" if fields.has("num_experts") else "num_local_experts"
    count = fields.count(named, 128, most=2**16)
    return ExpertsSpec(
        count=count,
        per_token=fields.count("num_experts_per_tok", 8, most=count),
        feed=plain_feed_forward(fields, fields.count("moe_intermediate_size", 768)),
        normalise=fields.flag("norm_topk_prob", default=False),
    )
