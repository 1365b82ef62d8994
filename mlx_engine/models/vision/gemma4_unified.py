"""The vision tower of Gemma 4 12B ("unified"), without layers: a patch is a whole token.

The pixels of a patch are normed, projected to an embedding and normed; positions by row and column
are added, and the sum is normed and projected (transformers' Gemma4UnifiedVisionEmbedder).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import mlx.core as mx
from typing_extensions import override

from mlx_engine.models.layer_specs import Shape
from mlx_engine.models.layers import Linear, Norm
from mlx_engine.models.vision.contract import TokenGrid, VisionTower
from mlx_engine.models.vision.gemma4 import PROMPT_TEXTS, largest_grid, plain_norm
from mlx_engine.models.vision.patches import (
    BICUBIC,
    PatchCut,
    VisionConfig,
    layer_norm_shapes,
    linear_shapes,
)
from mlx_engine.models.weights import Part, WeightTable
from mlx_engine.values.picture import Picture

_EPS = 1e-5


@dataclass(frozen=True, slots=True)
class Gemma4UnifiedVisionSpec:
    """Sizes of a tower, from `vision_config`, and its picture processing.

    positions: rows of the table of learned positions. most_tokens: of a picture. eps: of the last
    norm. colour_planes: whether weights count the pixels of a patch colour by colour, as in GGUF
    files, and not pixel by pixel.
    """

    placeholder_token: int
    hidden: int
    cut: PatchCut
    positions: int
    most_tokens: int
    eps: float
    colour_planes: bool
    out_hidden: int

    @staticmethod
    def read(config: VisionConfig, out_hidden: int) -> "Gemma4UnifiedVisionSpec":
        """Read the spec from config.json and preprocessor_config.json.

        Raises BadModelFile for wrong fields.
        """
        whole, fields, process = config
        side = fields.count("patch_size", 16) * fields.count("pooling_kernel_size", 3)
        most = process.count("max_soft_tokens", 280)
        positions = fields.count("mm_posemb_size", 1120)
        if positions < most:
            raise fields.bad_field("mm_posemb_size", positions, f"at least {most}")
        cut = PatchCut.read(side, 1, process, BICUBIC)
        return Gemma4UnifiedVisionSpec(
            placeholder_token=whole.count("image_token_id", 258880),
            hidden=fields.count("mm_embed_dim", 3840),
            cut=cut._replace(mean=(0.0,) * 3, deviation=(1.0,) * 3),
            positions=positions,
            most_tokens=most,
            eps=fields.number("rms_norm_eps", 1e-6),
            colour_planes=fields.flag("colour_planes", default=False),
            out_hidden=out_hidden,
        )

    @property
    def tensors(self) -> dict[str, Shape]:
        """Shapes of all weights."""
        hidden, pixels = self.hidden, 3 * self.cut.side**2
        return {
            **layer_norm_shapes("patch_ln1", pixels),
            **linear_shapes("patch_dense", pixels, hidden),
            **layer_norm_shapes("patch_ln2", hidden),
            "pos_embedding": (self.positions, 2, hidden),
            **layer_norm_shapes("pos_norm", hidden),
            "embed_vision.embedding_projection.weight": (self.out_hidden, hidden),
        }


class Gemma4UnifiedTower(VisionTower):
    """Vision tower of Gemma 4 12B, built from its spec and weights."""

    prompt_texts = PROMPT_TEXTS

    def __init__(
        self, spec: Gemma4UnifiedVisionSpec, table: WeightTable, identity: str = ""
    ) -> None:
        """Build the tower. Raises BadModelFile for weights missing, misshapen or left over."""
        super().__init__(spec.placeholder_token, 0, identity)
        self._spec, part = spec, Part(table, "", spec.tensors)
        names = ("patch_ln1", "patch_ln2", "pos_norm")
        norms = [Norm.read(part, name, _EPS, is_layer_norm=True) for name in names]
        self._pixel_norm, self._patch_norm, self._position_norm = norms
        self._dense = Linear.read(part, "patch_dense")
        self._learned = part.vector("pos_embedding")
        self._norm = plain_norm(spec.hidden, spec.eps, part)
        self._out = Linear.read(part, "embed_vision.embedding_projection")
        table.check_all_used()

    @override
    def token_grid(self, picture: Picture) -> TokenGrid:
        return largest_grid(picture, self._spec.cut.side, self._spec.most_tokens)

    @override
    def encode(self, picture: Picture) -> Iterator[mx.array]:
        spec, grid = self._spec, self.token_grid(picture)
        patches = spec.cut.patches(picture, grid)
        if spec.colour_planes:
            patches = patches.reshape(len(patches), -1, 3).swapaxes(1, 2).reshape(patches.shape)
        x = self._pixel_norm(mx.array(patches)[None].astype(self._learned.dtype))
        x = self._patch_norm(self._dense(x))
        row, column = spec.cut.positions(grid)
        by_column, by_row = self._learned[mx.array(column), 0], self._learned[mx.array(row), 1]
        x = self._position_norm(x + (by_column + by_row))
        made = self._out(self._norm(x))
        mx.eval(made)
        yield made
