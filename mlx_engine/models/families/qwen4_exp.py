"""Qwen3.8-Flash-Next (`qwen4_exp`): residual streams, n-gram embeddings, sparse attention.

Layers are those of Qwen3.5 with experts, each behind a hyper-connection in place of a norm, with an
activation of the DeltaNet's gate by `output_gate_type`. Full attention sees the blocks of tokens
that an indexer selects, by keys averaged over `indexer_compress_ratio` tokens. Some layers add
embeddings of hashed n-grams, whose table (51 billion numbers as published) stays on disk: as its
rows follow from token ids, a pass waits until the host knows them, and runs while it is written.

The MTP head (`mtp.*`) adds products of the embedding and of each residual stream; its block has no
n-grams, and its own hyper-connection makes the state for the output head. It reads the streams
before the trunk's last hyper-connection, and passes on its own.

What only published weights can settle: n-grams end at the first of several `eos_token_id` in
transformers, mlx-vlm and here, at the last in llama.cpp's converter; the norm of the head's hidden
state goes over all streams together in mlx-vlm and here. Tables of hash constants in files equal
those computed, by peers' checks. llama.cpp has a converter, but no names or graph, so there are no
GGUF files to read.
"""

import re
from dataclasses import replace
from typing import ClassVar, Literal

from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.families.qwen3_5 import delta_net_spec, feed_forward, gated_attention
from mlx_engine.models.feed_forward_specs import ExpertsSpec
from mlx_engine.models.layer_specs import AttentionSpec, BlockIndexSpec
from mlx_engine.models.model_spec import BlockSpec, ModelSpec, MtpHeadsSpec, StreamsSpec
from mlx_engine.models.native_family import NativeFamily
from mlx_engine.models.ngram_spec import NgramSpec
from mlx_engine.models.recurrent_specs import DeltaNetSpec
from mlx_engine.models.rope import context_length
from mlx_engine.models.tensor_names import HeadNames
from mlx_engine.values.words import Words

_SPARSE = ("full_attention", "indexed_attention", "qwen_sparse_attention")
_TABLE = re.compile(
    r".+\.ngram_embedding\.(shards?[._]\d{1,6}\.)?(weight|scales|biases|weight_scale)"
)


class Qwen4Exp(NativeFamily):
    """Qwen3.8-Flash-Next (`qwen4_exp`), a hybrid with hyper-connections and n-gram embeddings."""

    renames: ClassVar = {
        "ple.ple_embedding": "ple",
        **{f"ple.norm_{of}": f"ple.{of}_norm" for of in ("key", "query", "conv")},
    }
    head_names = HeadNames(
        {
            "fc_embedding": "join",
            "fc_hidden": "join_streams",
            "pre_fc_norm_embedding": "enorm",
            "pre_fc_norm_hidden": "hnorm",
        },
        numbered=False,
    )
    heads_key = "mtp_num_hidden_layers"
    norms = "either"

    def _read_spec(self, fields: ConfigFields) -> ModelSpec:
        layers, interval = fields.layers(), fields.count("full_attention_interval", 4)
        kinds = fields.layer_types("linear_attention", *_SPARSE) or tuple(
            "linear_attention" if (layer + 1) % interval else _SPARSE[0] for layer in range(layers)
        )
        attention, delta = _attention_spec(fields), _delta_net_spec(fields)
        experts = feed_forward(fields.with_values(decoder_sparse_step=1, mlp_only_layers=[]), 0)
        assert isinstance(experts, ExpertsSpec)
        count = fields.count("hc_count", 4, minimum=2, maximum=2**10)
        streams = StreamsSpec(count, fields.count("hc_lowrank", 320))
        hashed = sorted({*fields.counts("ple_layer_ids")})
        if any(not 0 < layer <= layers or kinds[layer - 1] in _SPARSE for layer in hashed):
            raise fields.bad_field(
                "ple_layer_ids", hashed, Words("numbers of linear_attention layers")
            )
        blocks = [
            BlockSpec(
                delta if kind == "linear_attention" else attention,
                experts,
                streams=streams,
                ngrams=_ngram_spec(fields, hashed.index(number), count)
                if number in hashed
                else None,
            )
            for number, kind in enumerate(kinds, 1)
        ]
        return ModelSpec(
            hidden=fields.count("hidden_size"),
            vocabulary=fields.count("vocab_size"),
            context=context_length(fields),
            eps=fields.number("rms_norm_eps", 1e-6),
            blocks=tuple(blocks),
            tied=fields.ties_embeddings(),
            heads=MtpHeadsSpec(
                (BlockSpec(attention, experts, streams=streams),),
                trunk_state="residual",
                chain_state="residual",
            ),
        )

    def stays_on_disk(self, name: str) -> bool:
        """Return whether a tensor is a part of a table of n-gram embeddings."""
        return _TABLE.fullmatch(name) is not None


def _attention_spec(fields: ConfigFields) -> AttentionSpec:
    plain = gated_attention(fields, rotated_share=1.0)
    if not fields.has("indexer_n_heads"):
        return plain
    fields.require_multiple("indexer_budget", "indexer_compress_ratio")
    size, block = fields.count("indexer_head_dim"), fields.count("indexer_compress_ratio")
    if plain.rope is not None and size < plain.rope.width:
        raise fields.bad_field("indexer_head_dim", size, f"at least {plain.rope.width}")
    most = fields.count("indexer_budget") // block
    heads = fields.count("indexer_n_heads", maximum=2**16)
    return replace(plain, index=BlockIndexSpec(heads, size, block, most))


def _delta_net_spec(fields: ConfigFields) -> DeltaNetSpec:
    gates: dict[str, Literal["silu", "sigmoid"]] = {"silu": "silu", "sigmoid": "sigmoid"}
    named = fields.string("output_gate_type", "silu")
    if named not in gates:
        raise fields.bad_field("output_gate_type", named, Words("silu or sigmoid"))
    return replace(delta_net_spec(fields), gate=gates[named])


def _ngram_spec(fields: ConfigFields, layer_number: int, streams: int) -> NgramSpec:
    """Spec of the n-gram embeddings of layer `layer_number` among those with any."""
    longest = fields.count("ngram_size", 3, minimum=2, maximum=8)
    heads = fields.count("heads_per_ngram", 8, maximum=64)
    hidden = fields.count("hidden_size")
    width = fields.count("ple_embed_dim", hidden)
    if width % ((longest - 1) * heads):
        raise fields.bad_field("ple_embed_dim", width, f"a multiple of {(longest - 1) * heads}")
    return NgramSpec(
        hidden=hidden,
        streams=streams,
        width=width,
        longest=longest,
        heads=heads,
        vocabulary=fields.count("vocab_size"),
        base=fields.count("ngram_vocab_size_base", 20_000_000, maximum=2**30),
        divisor=fields.count("make_ngram_vocab_size_divisible_by", 128),
        seed=fields.count("seed", 1234, minimum=0),
        end=fields.first_count("eos_token_id"),
        number=layer_number,
        taps=fields.count("ple_conv_kernel_size", 4, maximum=2**10),
    )
