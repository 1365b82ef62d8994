"""EAGLE-3: one layer that reads three inner layers of its target (arXiv 2503.01840).

fc joins the residuals after three layers of the target into one state; the layer attends over
[norm(embedding of x_k), norm(state of k-1)], embedding first, and adds to the state itself. The
layer's output, before the last norm, is the state for the next draft. The output head has rows for
a part of the vocabulary, row i for token i + d2t[i], or is the target's. EAGLE-3.1 norms the joined
residuals before fc.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import mlx.core as mx

from mlx_engine.cache.attention import AttentionCache
from mlx_engine.cache.contract import LayerCache, LayerCaches
from mlx_engine.cache.joint import ConversationCaches, JointCache
from mlx_engine.models import layer_specs
from mlx_engine.models.attention import Attention, Masks
from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.drafters.target import (
    DraftTarget,
    DraftVocabulary,
    FeatureReader,
    check_widths,
)
from mlx_engine.models.families.llama import plain_feed_forward
from mlx_engine.models.feed_forward_specs import FeedForwardSpec
from mlx_engine.models.layers import Embedding, GatedFeedForward, Linear, Norm
from mlx_engine.models.rope import rope_spec
from mlx_engine.models.vision.contract import PictureRows
from mlx_engine.models.weights import Part, WeightTable
from mlx_engine.values.errors import BadModelFile
from mlx_engine.values.options import CacheBits

_SPECULATORS = "transformer_layer_config"
_IDS = "eagle_aux_hidden_state_layer_ids"


def plain_name(name: str) -> str:
    """Rename a tensor of an EAGLE-3 file to the newer form, with `layers.0.` for `midlayer.`."""
    plain = name.removeprefix("model.")
    return f"layers.0.{plain.removeprefix('midlayer.')}" if plain.startswith("midlayer.") else plain


@dataclass(frozen=True, slots=True)
class Eagle3Config:
    """Sizes of an EAGLE-3 draft model.

    layers: layers of the target whose residuals are read, in the order of `fc`.
    norm_before_residual: whether the draft layer adds its output to the normed state, not to the
    state. norm_before_fc: whether the joined residuals are normed (EAGLE-3.1).
    """

    layers: tuple[int, ...]
    hidden: int
    target_hidden: int
    attention: layer_specs.AttentionSpec
    feed: FeedForwardSpec
    eps: float
    vocabulary: int
    draft_vocabulary: int
    norm_before_residual: bool
    norm_before_fc: bool

    @staticmethod
    def read(config: Mapping[str, object], target_layers: int, origin: str) -> "Eagle3Config":
        """Read an EAGLE-3 model's config.

        Raises BadModelFile for a wrong key, UnsupportedModel for variants that are not run.
        """
        inner = config.get(_SPECULATORS)
        is_speculators = isinstance(inner, Mapping)
        flat = {**config, **inner} if isinstance(inner, Mapping) else dict(config)
        fields = ConfigFields(flat, origin)
        fields.require({"num_hidden_layers": 1, "attention_bias": False, "mlp_bias": False})
        hidden, heads = fields.count("hidden_size"), fields.count("num_attention_heads")
        size = fields.count("head_dim", max(1, hidden // heads))
        vocabulary = fields.count("vocab_size")
        return Eagle3Config(
            layers=_feature_layer_numbers(flat, target_layers, origin),
            hidden=hidden,
            target_hidden=fields.count("target_hidden_size", hidden),
            attention=layer_specs.AttentionSpec(
                heads, fields.kv_heads(heads), size, size, rope_spec(fields, size)
            ),
            feed=plain_feed_forward(fields),
            eps=fields.number("rms_norm_eps", 1e-6),
            vocabulary=vocabulary,
            draft_vocabulary=fields.count("draft_vocab_size", vocabulary),
            norm_before_residual=fields.flag("norm_before_residual", default=is_speculators),
            norm_before_fc=fields.flag("norm_before_fc", default=False),
        )

    def tensors(self) -> layer_specs.Shapes:
        """Tensor name -> shape for an EAGLE-3 model, without embedding and head that some lack."""
        hidden, norms = self.hidden, ("input_layernorm", "hidden_norm", "post_attention_layernorm")
        attention = self.attention.tensors(2 * hidden)
        attention["o_proj.weight"] = (hidden, attention["o_proj.weight"][1])
        feed, joined = self.feed.tensors(hidden), len(self.layers) * self.target_hidden
        return {
            "fc.weight": (hidden, joined),
            **({"input_norm.weight": (joined,)} if self.norm_before_fc else {}),
            "norm.weight": (hidden,),
            **{f"layers.0.{norm}.weight": (hidden,) for norm in norms},
            **{f"layers.0.self_attn.{name}": shape for name, shape in attention.items()},
            **{f"layers.0.mlp.{name}": shape for name, shape in feed.items()},
        }


def _feature_layer_numbers(
    flat_config: Mapping[str, object], count: int, origin: str
) -> tuple[int, ...]:
    """Numbers of the target's layers whose outputs EAGLE-3 reads, -1 for the embedding.

    SpecForge and SGLang number outputs, in `eagle_config`; vLLM, and so the speculators form,
    numbers inputs. Both take the inputs of layers 2, n / 2 and n - 3 where nothing is said.
    """
    inner = flat_config.get("eagle_config")
    nested = ConfigFields(inner, origin).counts(_IDS) if isinstance(inner, Mapping) else ()
    if nested:
        return nested
    given = ConfigFields(flat_config, origin).counts(_IDS)
    return tuple(layer - 1 for layer in given or (2, count // 2, count - 3))


class _Layer:
    """EAGLE-3's decoder layer, whose attention reads a token's embedding and state side by side."""

    def __init__(self, part: Part, sizes: Eagle3Config) -> None:
        inner, eps = part.subpart("layers.0"), sizes.eps
        self._is_normed = sizes.norm_before_residual
        self._embedding_norm = Norm.read(inner, "input_layernorm", eps)
        self._state_norm = Norm.read(inner, "hidden_norm", eps)
        self._attention = Attention(sizes.attention, inner.subpart("self_attn"), eps)
        self._second_norm = Norm.read(inner, "post_attention_layernorm", eps)
        self._feed_forward = GatedFeedForward.read(inner.subpart("mlp"), sizes.feed)

    def __call__(
        self, embedded: mx.array, state: mx.array, cache: LayerCache | JointCache
    ) -> mx.array:
        """Run the layer on embeddings and states, [1, T, H] each; returns states [1, T, H]."""
        normed = self._state_norm(state)
        residual = normed if self._is_normed else state
        joined = mx.concatenate([self._embedding_norm(embedded), normed], axis=-1)
        x = self._attention.out_proj(residual, self._attention.mix_tokens(joined, cache, Masks()))
        return self._feed_forward.add_to_residual(x, self._second_norm(x))


class Eagle3(FeatureReader):
    """EAGLE-3 draft model; drafts as an MTP head does, on its layer's states before the last norm.

    d2t: int [rows of the output head], token of row i minus i; None where the head has all tokens.
    """

    def __init__(
        self, sizes: Eagle3Config, table: WeightTable, d2t: mx.array | None, target: DraftTarget
    ) -> None:
        origin, hidden = table.origin, sizes.hidden
        check_widths(sizes.target_hidden, sizes.vocabulary, target.model, origin)
        self._hidden = hidden
        self.vocabulary = target.model.vocabulary
        self.packed_cache = sizes.attention.packed_cache
        self._tokens = DraftVocabulary(d2t, sizes.draft_vocabulary, sizes.vocabulary, origin)
        self.target = target.with_layer_outputs(sizes.layers, origin)
        shapes, has_part = sizes.tensors(), sizes.draft_vocabulary != sizes.vocabulary
        owns_output = has_part or "lm_head.weight" in table
        if owns_output:
            shapes["lm_head.weight"] = (sizes.draft_vocabulary, hidden)
        part = Part(table, "", shapes)
        self._fc = Linear.read(part, "fc")
        self._joined_norm = None
        if sizes.norm_before_fc:
            self._joined_norm = Norm.read(part, "input_norm", sizes.eps)
        self._layer = _Layer(part, sizes)
        self._norm = Norm.read(part, "norm", sizes.eps)
        self.mtp_output = Linear.read(part, "lm_head") if owns_output else None
        self._embed, owns_embedding = target.embed, "embed_tokens.weight" in table
        if owns_embedding:
            matrix = table.take_matrix("embed_tokens", self.vocabulary, hidden)
            self._embed = Embedding(matrix, self._norm.weight.dtype)
        if hidden != target.model.hidden_size and not (owns_output and owns_embedding):
            raise BadModelFile(
                "{origin}: the tensor {name} is missing, and that of the target is "
                "{hidden_size} wide, not {hidden}. Get the file again.",
                origin=origin,
                name="lm_head.weight" if owns_embedding else "embed_tokens.weight",
                hidden_size=target.model.hidden_size,
                hidden=hidden,
            )
        table.check_all_used()
        self.arrays = (*table.taken_arrays, *self._tokens.arrays)

    def check_tensor_values(self) -> None:
        """Raise BadModelFile if d2t maps a row of the output head to no token; reads d2t."""
        self._tokens.check_token_map()

    def make_head_caches(self, bits: CacheBits = 16) -> LayerCaches:
        """Create an empty KV cache for EAGLE-3's one layer."""
        return LayerCaches([AttentionCache(bits)])

    def mtp_forward(
        self,
        tokens: mx.array,
        hidden: mx.array,
        caches: LayerCaches | ConversationCaches,
        pictures: PictureRows | None = None,
    ) -> mx.array:
        """Run EAGLE-3 on tokens [1, T] and the states before them; returns states [1, T, H].

        hidden: the target's states with features or, after a drafted token, the layer's own.
        """
        del pictures
        is_own = hidden.shape[-1] == self._hidden
        state = hidden if is_own else self._join_features(self.target.features(hidden))
        return self._layer(self._embed(tokens), state, caches.layers[0])

    def _join_features(self, features: mx.array) -> mx.array:
        return self._fc(features if self._joined_norm is None else self._joined_norm(features))

    def mtp_logits(self, hidden: mx.array, output: Linear | None = None) -> mx.array:
        """Float32 logits [1, T, V] of EAGLE-3's states; -inf for tokens not in its output head."""
        head, normed = output or self.mtp_output, self._norm(hidden)
        if head is None:
            return self.target.logits(normed)
        logits = head(normed).astype(mx.float32)
        return self._tokens.scatter_logits(logits)
