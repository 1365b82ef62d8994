"""DSpark in place of an MTP head, in DeepSeek-V4-Flash-0731 and V4.1: stages of their layers.

`main_proj` and a norm join the means of residual streams after some layers of the target; of this
state each stage makes keys. A block of the newest token and mask tokens goes through the stages,
whose rows attend to the keys of the last tokens and to one another; the last stage's
hyper-connection makes states for the target's output head, and a Markov head adds to a row's logits
what the token before it says. In V4.1 `main_proj` reads what goes into those layers.

References disagree: a row sees the last `sliding_window` tokens and the block in mlx-vlm, the last
`sliding_window` positions before itself and the block in llama.cpp and here. The confidence head,
which reads states before the last norm, is left out, as in mlx-vlm.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

import mlx.core as mx
from typing_extensions import override

from mlx_engine.cache.compressed import CompressedCache
from mlx_engine.cache.contract import LayerCaches
from mlx_engine.models.attention import Masks
from mlx_engine.models.compressed_specs import CompressedAttentionSpec
from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.decoder import Decoder
from mlx_engine.models.drafters.block_choice import BlockChoice, IndependentRows, MarkovHead
from mlx_engine.models.drafters.dflash import LONGEST_BLOCK, DFlash
from mlx_engine.models.drafters.target import DraftTarget, DraftVocabulary, check_widths
from mlx_engine.models.families.deepseek_v4 import LAYER_NAMES, window_block
from mlx_engine.models.families.deepseek_v41 import staggered_block
from mlx_engine.models.hyper_connections import StreamBlock, last_connection_of
from mlx_engine.models.layer_specs import Shapes
from mlx_engine.models.layers import Linear, Norm
from mlx_engine.models.model_spec import BlockSpec, ModelSpec
from mlx_engine.models.tensor_names import rename_tensor
from mlx_engine.models.weights import Part, WeightTable
from mlx_engine.values.errors import BadModelFile
from mlx_engine.values.options import CacheBits

_STAGE = re.compile(r"(?:mtp|stages)\.(\d{1,3})\.(.+)")
_OUTSIDE = (
    "main_proj.",
    "main_norm.",
    "markov_head.",
    "confidence_head.",
    "hyper_connection_mixer.",
)
_LAST = "hyper_connection_mixer"
_NAMES = {
    **LAYER_NAMES,
    "markov_head.embed": "markov_head.markov_w1",
    "markov_head.head": "markov_head.markov_w2",
}


def dspark_name(name: str) -> str | None:
    """Canonical name of a tensor of DSpark's stages; None for tensors that are not used."""
    found = _STAGE.fullmatch(name)
    within = name if found is None else rename_tensor(found[2], _NAMES)
    if within.startswith("confidence_head.") or within.endswith("gate.bias_vl"):
        return None
    if within.startswith(_OUTSIDE):
        return within
    return None if found is None else f"layers.{found[1]}.{within}"


@dataclass(frozen=True, slots=True)
class StagesConfig:
    """Sizes of DSpark's stages: those of the target, and those of the drafter alone.

    block: of a stage. layers: of the target, after which residuals are read. drafts: tokens of a
    block. rank: of the Markov head, 0 for none.
    """

    hidden: int
    vocabulary: int
    eps: float
    block: BlockSpec
    stages: int
    layers: tuple[int, ...]
    drafts: int
    mask_token: int
    rank: int

    @staticmethod
    def read(config: Mapping[str, object], stages: int, origin: str) -> "StagesConfig":
        """Read the config of the target, or that of stages that mlx-vlm split off.

        Raises BadModelFile for a wrong key.
        """
        fields = ConfigFields(config, origin)
        layers = fields.counts("dspark_target_layer_ids") or fields.counts("target_layer_ids")
        if not layers:
            raise BadModelFile(
                "{origin}: the config names no dspark_target_layer_ids. Get it again.",
                origin=origin,
            )
        block = window_block(fields)
        if any(kind.startswith("deepseek_v41") for kind in fields.model_types):
            block = staggered_block(fields)
            layers = tuple(layer - 1 for layer in layers)  # what goes into a layer is read
        assert isinstance(block.mixer, CompressedAttentionSpec)
        vocabulary = fields.count("vocab_size")
        return StagesConfig(
            hidden=fields.count("hidden_size"),
            vocabulary=vocabulary,
            eps=fields.number("rms_norm_eps", 1e-6),
            block=replace(block, mixer=replace(block.mixer, sees_whole_block=True)),
            stages=stages,
            layers=layers,
            drafts=fields.count("dspark_block_size", maximum=256),
            mask_token=fields.count("dspark_noise_token_id", minimum=0, maximum=vocabulary - 1),
            rank=fields.count("dspark_markov_rank", 256, minimum=0, maximum=2**14),
        )

    def tensors(self) -> Shapes:
        """Tensor name -> shape for the stages, the join before them and the heads behind them."""
        hidden, streams = self.hidden, self.block.streams
        assert streams is not None
        made: Shapes = {
            "main_proj.weight": (hidden, len(self.layers) * hidden),
            "main_norm.weight": (hidden,),
        }
        last = streams.tensors(hidden, has_gains=False)
        made |= {f"{_LAST}.{name}": shape for name, shape in last.items()}
        for number in range(self.stages):
            shapes = self.block.tensors(hidden)
            made |= {f"layers.{number}.{name}": shape for name, shape in shapes.items()}
        if self.rank:
            tokens = (self.vocabulary, self.vocabulary)
            made |= MarkovHead.tensors(
                hidden, tokens, self.rank, has_confidence=False, joined=False
            )
        return made


class StagesDSpark(DFlash):
    """DSpark with stages of DeepSeek-V4's layers: drafts a block of tokens in one pass."""

    def __init__(self, sizes: StagesConfig, table: WeightTable, target: DraftTarget) -> None:
        origin = table.origin
        check_widths(sizes.hidden, sizes.vocabulary, target.model, origin)
        assert isinstance(target.model, Decoder)
        assert sizes.block.streams is not None
        self._stage_sizes, self._decoder = sizes, target.model
        self._tokens = DraftVocabulary(None, sizes.vocabulary, sizes.vocabulary, origin)
        self.limit = min(LONGEST_BLOCK, sizes.drafts)
        self._embed = target.embed
        self.target = target.with_layer_outputs(sizes.layers, origin)
        part = Part(table, "", sizes.tensors())
        self._fc = Linear.read(part, "main_proj")
        self._join_norm = Norm.read(part, "main_norm", sizes.eps)
        model = ModelSpec(sizes.hidden, sizes.vocabulary, 8, sizes.eps, (sizes.block,))
        self._stages = [
            StreamBlock(sizes.block, part.subpart(f"layers.{n}"), model)
            for n in range(sizes.stages)
        ]
        self._last = last_connection_of(sizes.block.streams, part.subpart(_LAST), sizes.eps)
        self._choice: BlockChoice = IndependentRows()
        if sizes.rank:
            self._choice = MarkovHead(part, has_confidence=False, joined=False)
        self.packed_cache = sizes.block.mixers[0].packed_cache
        table.check_all_used()
        self.arrays = table.taken_arrays

    @override
    def make_caches(self, bits: CacheBits = 16) -> LayerCaches:
        return LayerCaches([cache for stage in self._stages for cache in stage.make_caches(bits)])

    @override
    def append_features(self, features: mx.array, caches: LayerCaches) -> None:
        context = self._join_features(features)
        for stage, cache in zip(self._stages, caches.layers, strict=True):
            assert isinstance(cache, CompressedCache)
            stage.append_context(context, cache)
        caches.commit(features.shape[1])

    @override
    def draft_block_states(self, token: mx.array, caches: LayerCaches) -> mx.array:
        sizes = self._stage_sizes
        assert sizes.block.streams is not None
        masks = mx.full((sizes.drafts - 1,), sizes.mask_token, token.dtype)
        x = self._embed(mx.concatenate([token, masks])[None])
        x = mx.tile(x, (1, 1, sizes.block.streams.vectors))
        for stage, cache in zip(self._stages, caches.layers, strict=True):
            x = stage(x, [cache], Masks())
        caches.commit(0)
        return self._last(x)

    @override
    def _row_logits(self, states: mx.array) -> mx.array:
        return self._decoder.project_to_logits(states)
