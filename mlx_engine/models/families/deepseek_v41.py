"""DeepSeek-V4.1-Flash (`deepseek_v41`): entries shared between layers, staggered streams.

Most layers attend to the last `sliding_window` tokens and to entries of two tokens or of one, which
a few of them make; a few select entries for those behind them. A hyper-connection reads residual
streams by the weights of the one before. Two layers add embeddings of n-grams, "engrams", whose
tables stay on disk: tokens that differ in case, accents or space alone are one class in an n-gram,
which the tokenizer tells. They are added behind the layer before theirs here. DSpark's stages under
`mtp.` are a draft model in the model's own folder (drafters/deepseek4_dspark.py).

References disagree, and no published weights were run: DeepSeek's code and mlx-lm's class round
keys to fp8 and entries, indexers' queries and keys to fp4, where sizes are multiples of 32; here
they stay in the model's own type.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, TypeVar

from mlx_engine.models.compressed_specs import CandidatesSpec, SharedEntriesSpec
from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.families.deepseek_v3 import indexer_spec
from mlx_engine.models.families.deepseek_v4 import (
    DeepseekV4,
    entry_rope,
    experts_by_score,
    streams_of,
    window_attention,
)
from mlx_engine.models.families.llama import plain_model
from mlx_engine.models.family import TensorParts
from mlx_engine.models.feed_forward_specs import ExpertsSpec
from mlx_engine.models.model_spec import BlockSpec, ModelSpec
from mlx_engine.models.ngram_spec import EngramSpec
from mlx_engine.values.words import Words

T = TypeVar("T")
_PICTURES = ("vision.", "aligner.", "image_")
_CANDIDATES = ("topk_blocks", "block_size")


class DeepseekV41(DeepseekV4):
    """DeepSeek-V4.1-Flash (`deepseek_v41`); DSpark's stages are a draft model."""

    renames: ClassVar = {
        **DeepseekV4.renames,
        **{
            f"{theirs}.indexer.{old}": f"self_attn.indexer.{new}"
            for theirs in ("attn", "self_attn")
            for old, new in (("wk", "k_proj"), ("q_b_proj", "wq_b"))
        },
        "ffn.experts.switch_mlp": "mlp.switch_mlp",
        "mlp.experts.switch_mlp": "mlp.switch_mlp",
    }

    def split_tensors(self, tensors: Mapping[str, T], origin: str) -> TensorParts[T]:
        """Sort tensors by use, as of DeepSeek-V4; skipped are those that read pictures, too."""
        seen = {name: tensor for name, tensor in tensors.items() if name.startswith(_PICTURES)}
        own = {name: tensor for name, tensor in tensors.items() if name not in seen}
        parts = super().split_tensors(own, origin)
        parts.skipped.update(seen)
        for part in (parts.trunk, parts.on_disk):
            for name in [name for name in part if ".engram." in name]:
                start, layer, rest = name.split(".", 2)  # to the layer before
                part[f"{start}.{int(layer) - 1}.{rest}"] = part.pop(name)
        return parts

    def stays_on_disk(self, name: str) -> bool:
        """Return whether a tensor is a part of a table of n-gram embeddings."""
        return ".engram.embed." in name

    def _read_spec(self, fields: ConfigFields) -> ModelSpec:
        experts, ngrams = _experts(fields), _ngrams(fields)
        streams = replace(streams_of(fields), staggered=True)
        blocks = [
            BlockSpec(mixer, experts, streams=streams, ngrams=ngrams.get(layer))
            for layer, mixer in enumerate(_mixers(fields))
        ]
        return plain_model(fields, blocks)


def _ngrams(fields: ConfigFields) -> dict[int, EngramSpec]:
    """Embeddings of n-grams by the layer behind which they are added, the one before theirs."""
    made = dict[int, EngramSpec]()
    for number, layer in enumerate(fields.counts("engram_layer_ids")):
        if not 0 < layer < fields.layers():
            raise fields.bad_field("engram_layer_ids", layer, Words("a layer behind the first"))
        made[layer - 1] = EngramSpec(
            hidden=fields.count("hidden_size"),
            streams=streams_of(fields).count,
            row=fields.count("engram_head_dim"),
            longest=fields.count("engram_max_ngram_size", 4, minimum=2, maximum=64),
            heads=fields.count("engram_n_heads"),
            classes=fields.count("engram_compressed_vocab_size"),
            base=fields.count("engram_vocab_size"),
            end=fields.count("engram_pad_token_id", 2, minimum=0),
            layer=layer,
            number=number,
        )
    return made


def staggered_block(fields: ConfigFields) -> BlockSpec:
    """Read the block of DSpark's stages, which may have other numbers of experts."""
    own = {
        name: fields.count(f"dspark_{name}")
        for name in ("n_routed_experts", "num_experts_per_tok")
        if fields.has(f"dspark_{name}")
    }
    streams = replace(streams_of(fields), staggered=True)
    return BlockSpec(_window(fields), _experts(fields.with_values(**own)), streams=streams)


def _experts(fields: ConfigFields) -> ExpertsSpec:
    """Routed experts; the score of a single one is not divided by itself."""
    experts = experts_by_score(fields)
    return replace(experts, normalise=experts.normalise and experts.per_token > 1)


def _window(fields: ConfigFields) -> SharedEntriesSpec:
    """Attention to the window alone."""
    plain = window_attention(fields)
    return SharedEntriesSpec(
        heads=plain.heads,
        size=plain.size,
        q_rank=plain.q_rank,
        rope=plain.rope,
        window=plain.window,
        groups=plain.groups,
        out_rank=plain.out_rank,
        norms_queries=False,
    )


def _mixers(fields: ConfigFields) -> list[SharedEntriesSpec]:
    """Attention of each layer, by `compress_ratios` and the layers that make and select entries."""
    layers, ratios = fields.layers(), fields.counts("compress_ratios")
    if len(ratios) < layers:
        raise fields.bad_field("compress_ratios", list(ratios), Words("a number for each layer"))
    makers, selectors = (set(fields.counts(f"{kind}_source_layer_ids")) for kind in ("kv", "index"))
    plain = _window(fields)
    rope = entry_rope(fields, plain.size)
    indexer = replace(indexer_spec(fields, rope), rotates_end=True)
    source = fields.count("candidate_source_layer_id", -1, minimum=-1)
    made, newest = list[SharedEntriesSpec](), 0
    for layer, ratio in enumerate(ratios[:layers]):
        if not ratio:
            made.append(plain)
            continue
        newest = ratio if layer in makers else newest
        if ratio != newest or (layer in makers and layer not in selectors):
            raise fields.bad_field(
                "kv_source_layer_ids",
                sorted(makers),
                Words("layers that select entries, too, one for each change of compress_ratios"),
            )
        candidates = None
        if 0 <= source <= layer and layer in selectors:
            most, block = (fields.count(f"candidate_{name}") for name in _CANDIDATES)
            candidates = CandidatesSpec(most, block, layer == source)
        made.append(
            replace(
                plain,
                rope=rope,
                ratio=ratio,
                makes_entries=layer in makers,
                indexer=indexer if layer in selectors else None,
                candidates=candidates,
            )
        )
    return made
