"""The vision tower of Gemma 3: SigLIP (arXiv 2303.15343), pooled to 256 tokens a picture.

A picture of any size is resized to one square. Patches have a learned position each; tokens are
averages of square groups of them, normed and projected (transformers' SiglipVisionModel and
Gemma3MultiModalProjector). In the language model all tokens of a picture attend to each other.
Crops of long pictures ("pan and scan", off by default where Gemma 3 was published) are not made.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

import mlx.core as mx
from typing_extensions import override

from mlx_engine.models.layer_specs import Shape
from mlx_engine.models.layers import Embedding, Linear, Norm
from mlx_engine.models.vision.contract import TokenGrid, VisionTower
from mlx_engine.models.vision.patches import (
    BILINEAR,
    BlockNames,
    PatchCut,
    VisionBlock,
    VisionConfig,
    layer_norm_shapes,
    linear_shapes,
)
from mlx_engine.models.weights import Part, WeightTable
from mlx_engine.values.picture import Picture

_BLOCK = BlockNames(
    norms=("layer_norm1", "layer_norm2"),
    inputs=("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    output="self_attn.out_proj",
    up="mlp.fc1",
    down="mlp.fc2",
)


@dataclass(frozen=True, slots=True)
class Gemma3VisionSpec:
    """Sizes of a tower, from `vision_config`, and its picture processing.

    side: tokens along each side of a picture. eps: of norms. out_hidden: the language model's.
    """

    placeholder_token: int
    depth: int
    hidden: int
    intermediate: int
    heads: int
    cut: PatchCut
    side: int
    eps: float
    out_hidden: int

    @staticmethod
    def read(config: VisionConfig, out_hidden: int) -> "Gemma3VisionSpec":
        """Read the spec from config.json and preprocessor_config.json.

        Raises BadModelFile for wrong fields, UnsupportedModel for what is not run.
        """
        whole, fields, process = config
        fields.require({"num_channels": 3, "hidden_act": "gelu_pytorch_tanh"})
        fields.require_multiple("hidden_size", "num_attention_heads")
        patch, tokens = fields.count("patch_size"), whole.count("mm_tokens_per_image", 256)
        side, patches = math.isqrt(tokens), fields.count("image_size") // patch
        if side**2 != tokens or patches < side or patches % side:
            raise whole.bad_field(
                "mm_tokens_per_image", tokens, f"the square of a divisor of {patches}"
            )
        token = "image_token_index" if whole.has("image_token_index") else "image_token_id"
        return Gemma3VisionSpec(
            placeholder_token=whole.count(token),
            depth=fields.layers(),
            hidden=fields.count("hidden_size"),
            intermediate=fields.count("intermediate_size"),
            heads=fields.count("num_attention_heads"),
            cut=PatchCut.read(patch, patches // side, process, BILINEAR),
            side=side,
            eps=fields.number("layer_norm_eps", 1e-6),
            out_hidden=out_hidden,
        )

    @property
    def tensors(self) -> dict[str, Shape]:
        """Shapes of all weights; the patch kernel and the projection as matrices of outputs."""
        hidden = self.hidden
        shapes: dict[str, Shape] = {
            **linear_shapes("embeddings.patch_embedding", 3 * self.cut.side**2, hidden),
            "embeddings.position_embedding.weight": ((self.side * self.cut.merge) ** 2, hidden),
            **layer_norm_shapes("post_layernorm", hidden),
            "mm_soft_emb_norm.weight": (hidden,),
            "mm_input_projection.weight": (self.out_hidden, hidden),
        }
        for number in range(self.depth):
            shapes |= _BLOCK.shapes(f"encoder.layers.{number}", hidden, self.intermediate)
        return shapes


class Gemma3Tower(VisionTower):
    """Vision tower of Gemma 3, built from its spec and weights."""

    prompt_texts: ClassVar[Mapping[str, str]] = MappingProxyType(
        {"<start_of_image>": "\n\n<start_of_image><image_soft_token><end_of_image>\n\n"}
    )

    def __init__(self, spec: Gemma3VisionSpec, table: WeightTable, identity: str = "") -> None:
        """Build the tower. Raises BadModelFile for weights missing, misshapen or left over."""
        super().__init__(spec.placeholder_token, spec.depth, identity)
        self._spec, part = spec, Part(table, "", spec.tensors)
        self._patches = Linear.read(part, "embeddings.patch_embedding")
        learned = part.matrix("embeddings.position_embedding")
        self._learned = Embedding.from_matrix(learned, learned.dtype, part.kernels)
        blocks = (part.subpart(f"encoder.layers.{number}") for number in range(spec.depth))
        self._blocks = [
            VisionBlock(block, _BLOCK, spec.heads, spec.eps, "gelu_tanh") for block in blocks
        ]
        self._last_norm = Norm.read(part, "post_layernorm", spec.eps, is_layer_norm=True)
        self._token_norm = Norm.from_weight(
            1 + part.vector("mm_soft_emb_norm.weight", mx.float32), part, spec.eps
        )
        self._out = Linear.read(part, "mm_input_projection")
        table.check_all_used()

    @override
    def token_grid(self, picture: Picture) -> TokenGrid:
        del picture
        return TokenGrid(self._spec.side, self._spec.side)

    @override
    def encode(self, picture: Picture) -> Iterator[mx.array]:
        spec, grid = self._spec, self.token_grid(picture)
        row, column = spec.cut.positions(grid)
        patches = mx.array(spec.cut.patches(picture, grid))[None]
        x = self._patches(patches.astype(self._patches.matrix.dtype))
        x = x + self._learned(mx.array(row * spec.side * spec.cut.merge + column)).astype(x.dtype)
        for block in self._blocks:
            x = block(x)
            mx.eval(x)
            yield x
        groups = self._last_norm(x).reshape(1, grid.tokens, -1, spec.hidden)
        made = self._out(self._token_norm(groups.mean(axis=2)))
        mx.eval(made)
        yield made
