"""LongCat-Flash and -Lite: two latent attentions in a layer, and experts that do nothing.

A layer is two blocks of latent attention and a dense feed-forward, with experts beside them
(arXiv 2509.01322). A part of the experts a router may choose return what they read. The MTP head is
one such block with a norm and, where files have it, an embedding of its own; its output head is the
trunk's. It reads hidden states after the final norm and passes on its own after its norm, as in
vLLM; no published weights were run.

LongCat-Flash-Lite (`longcat_flash_ngram`) has more numbers in embeddings of hashed n-grams than in
all else; their tables stay on disk. N-grams end at the end token in the published code, vLLM and
here, but not in mlx-lm. Nothing tells whether its head's embedding has n-grams; it has none here.

References disagree: latents are normed with an epsilon of 1e-6 in transformers and here, in vLLM
with `rms_norm_eps`, in mlx-lm with 1e-5. Biases of a router (`router_bias`) count in mlx-lm, vLLM
and here, not in transformers.
"""

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import ClassVar

from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.families.deepseek_v3 import latent_attention
from mlx_engine.models.families.llama import plain_feed_forward, plain_model
from mlx_engine.models.feed_forward_specs import ExpertsSpec
from mlx_engine.models.model_spec import BlockSpec, ModelSpec, MtpHeadsSpec
from mlx_engine.models.native_family import NativeFamily
from mlx_engine.models.ngram_spec import TokenNgramSpec
from mlx_engine.models.tensor_names import HeadNames
from mlx_engine.models.tensor_recipes import Recipe, Recipes, StoredPiece

_TABLE = re.compile(r".+\.embedders\.\d{1,3}\.(weight|scales|biases)")
_PROJECTION = re.compile(r"(.+\.post_projs)\.(\d{1,3})\.(weight|scales|biases)")
_HALVES = (0, 1)
_PARTS = {
    "self_attn": "self_attn",
    "mlps": "mlp",
    "input_layernorm": "input_layernorm",
    "post_attention_layernorm": "post_attention_layernorm",
}


class LongcatFlash(NativeFamily):
    """LongCat-Flash (`longcat_flash`): shortcut-connected experts, some of which do nothing."""

    renames: ClassVar = {
        **{f"{old}.{n}": f"halves.{n}.{new}" for old, new in _PARTS.items() for n in _HALVES},
        "mlp.router.classifier": "mlp.gate",
        "mlp.router.e_score_correction_bias": "mlp.gate.e_score_correction_bias",
    }
    head_names = HeadNames({"eh_proj": "join", "enorm.m": "enorm", "hnorm.m": "hnorm"})

    def _read_spec(self, fields: ConfigFields) -> ModelSpec:
        layers, inner = fields.count("num_layers"), fields.count("ffn_hidden_size")
        fields = fields.with_values(num_hidden_layers=layers)
        plain, hidden = latent_attention(fields), fields.count("hidden_size")
        mixer = replace(
            plain,
            scale=plain.scale * (hidden / fields.count("q_lora_rank")) ** 0.5,
            latent_scale=(hidden / plain.kv_rank) ** 0.5,
        )
        half = BlockSpec(mixer, plain_feed_forward(fields, inner))
        block = BlockSpec(None, _experts(fields), halves=(half,) * len(_HALVES))
        heads = MtpHeadsSpec((half,), embedding="either")
        return replace(plain_model(fields, [block] * fields.layers()), heads=heads)


class LongcatFlashNgram(LongcatFlash):
    """LongCat-Flash-Lite (`longcat_flash_ngram`): tokens are embedded with their n-grams."""

    renames: ClassVar = {
        **LongcatFlash.renames,
        "ngram_embeddings.word_embeddings": "embed_tokens",
        "ngram_embeddings.embedders": "layers.0.ngrams.embedders",
        "ngram_embeddings.post_projs": "layers.0.ngrams.post_projs",
    }

    def _read_spec(self, fields: ConfigFields) -> ModelSpec:
        model = super()._read_spec(fields)
        ngrams = TokenNgramSpec(
            hidden=model.hidden,
            longest=fields.count("emb_neighbor_num", 4, minimum=2, maximum=8),
            heads=fields.count("emb_split_num", 4, maximum=64),
            vocabulary=model.vocabulary,
            base=int(fields.number("ngram_vocab_size_ratio", 78) * model.vocabulary),
            end=fields.first_count("eos_token_id"),
        )
        if model.hidden % ngrams.tables:
            wanted = f"a divisor of hidden_size={model.hidden} by {ngrams.context_tokens}"
            raise fields.bad_field("emb_split_num", ngrams.heads, wanted)
        first = replace(model.blocks[0], ngrams=ngrams)
        return replace(model, blocks=(first, *model.blocks[1:]), embed_scale=ngrams.share)

    def stays_on_disk(self, name: str) -> bool:
        """Return whether a tensor is one of the tables of n-gram embeddings."""
        return _TABLE.fullmatch(name) is not None

    def tensor_recipes(self, names: Iterable[str]) -> Recipes:
        """How experts are stacked, and the projections of n-gram embeddings."""
        listed = list(names)
        found = [match for match in map(_PROJECTION.fullmatch, listed) if match]
        made = dict(super().tensor_recipes(listed))
        for kind in {match[3] for match in found}:
            of_kind = (match for match in found if match[3] == kind)
            in_order = sorted(of_kind, key=lambda match: int(match[2]))
            pieces = tuple(StoredPiece(match[0]) for match in in_order)
            made[f"{found[0][1]}.{kind}"] = Recipe(pieces, is_stack=True)
        return made


def _experts(fields: ConfigFields) -> ExpertsSpec:
    """Read routed experts, chosen by a softmax over all of them and a bias."""
    count = fields.count("n_routed_experts", maximum=2**16)
    identities = fields.count("zero_expert_num", minimum=0, maximum=2**16)
    return ExpertsSpec(
        count=count,
        per_token=fields.count("moe_topk", maximum=count + identities),
        feed=plain_feed_forward(fields, fields.count("expert_ffn_hidden_size")),
        choice_bias=True,
        router_bias=fields.flag("router_bias", default=False),
        float32_router=True,
        normalise=fields.flag("norm_topk_prob", default=False),
        scale=fields.number("routed_scaling_factor", 1.0),
        identities=identities,
    )
