"""The vision tower of Gemma 3: SigLIP (arXiv 2303.15343), pooled to 256 tokens a picture.

A picture of any size is resized to one square. Patches have a learned position each; tokens are
averages of square groups of them, normed and projected (transformers' SiglipVisionModel and
Gemma3MultiModalProjector). In the language model all tokens of a picture attend to each other.
Crops of long pictures ("pan and scan", off by default where Gemma 3 was published) are not made.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.layer_specs import Shape
from mlx_engine.models.layers import Embedding, Linear, Norm, activation
from mlx_engine.models.vision.contract import TokenGrid
from mlx_engine.models.vision.patches import (
    BILINEAR,
    PatchCut,
    attend_to_all,
    layer_norm_shapes,
    linear_shapes,
    positions_of_text,
)
from mlx_engine.models.weights import Part, WeightTable
from mlx_engine.values.picture import Picture


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
    def read(
        config: Mapping[str, object],
        image_processing: Mapping[str, object],
        out_hidden: int,
        origin: str,
    ) -> "Gemma3VisionSpec":
        """Read the spec from config.json and preprocessor_config.json.

        Raises BadModelFile for wrong fields, UnsupportedModel for what is not run.
        """
        whole = ConfigFields(config, origin)
        fields = whole.section("vision_config") or ConfigFields({}, origin)
        fields.require({"num_channels": 3, "hidden_act": "gelu_pytorch_tanh"})
        fields.require_multiple("hidden_size", "num_attention_heads")
        patch, tokens = fields.count("patch_size"), whole.count("mm_tokens_per_image", 256)
        side, patches = math.isqrt(tokens), fields.count("image_size") // patch
        if side**2 != tokens or patches < side or patches % side:
            raise whole.bad_field(
                "mm_tokens_per_image", tokens, f"the square of a divisor of {patches}"
            )
        process = ConfigFields(image_processing, origin)
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
        hidden, inner = self.hidden, self.intermediate
        shapes: dict[str, Shape] = {
            **linear_shapes("embeddings.patch_embedding", 3 * self.cut.side**2, hidden),
            "embeddings.position_embedding.weight": ((self.side * self.cut.merge) ** 2, hidden),
            **layer_norm_shapes("post_layernorm", hidden),
            "mm_soft_emb_norm.weight": (hidden,),
            "mm_input_projection.weight": (self.out_hidden, hidden),
        }
        for number in range(self.depth):
            block = f"encoder.layers.{number}"
            shapes |= layer_norm_shapes(f"{block}.layer_norm1", hidden)
            shapes |= layer_norm_shapes(f"{block}.layer_norm2", hidden)
            for name in _PROJECTIONS:
                shapes |= linear_shapes(f"{block}.self_attn.{name}", hidden, hidden)
            shapes |= linear_shapes(f"{block}.mlp.fc1", hidden, inner)
            shapes |= linear_shapes(f"{block}.mlp.fc2", inner, hidden)
        return shapes


_PROJECTIONS = ("q_proj", "k_proj", "v_proj", "out_proj")


class Gemma3Tower:
    """A vision tower built from its spec and weights; implements contract.VisionTower."""

    prompt_texts: Mapping[str, str] = MappingProxyType(
        {"<start_of_image>": "\n\n<start_of_image><image_soft_token><end_of_image>\n\n"}
    )
    reads_whole_pictures = True

    def __init__(self, spec: Gemma3VisionSpec, table: WeightTable, identity: str = "") -> None:
        """Build the tower. Raises BadModelFile for weights missing, misshapen or left over."""
        part = Part(table, "", spec.tensors)
        self.weights_identity = identity
        self._spec, self.placeholder_token = spec, spec.placeholder_token
        self._patches = Linear.read(part, "embeddings.patch_embedding")
        learned = part.matrix("embeddings.position_embedding")
        self._learned = Embedding.from_matrix(learned, learned.dtype, part.kernels)
        blocks = (part.subpart(f"encoder.layers.{number}") for number in range(spec.depth))
        self._blocks = [_Block(spec, block) for block in blocks]
        self._last_norm = Norm.read(part, "post_layernorm", spec.eps, is_layer_norm=True)
        self._token_norm = Norm.from_weight(
            1 + part.vector("mm_soft_emb_norm.weight", mx.float32), part, spec.eps
        )
        self._out = Linear.read(part, "mm_input_projection")
        table.check_all_used()

    def token_grid(self, picture: Picture) -> TokenGrid:
        """Return the grid of a picture's tokens, which all pictures have."""
        del picture
        return TokenGrid(self._spec.side, self._spec.side)

    def rope_positions(self, grid: TokenGrid) -> NDArray[np.int64]:
        """RoPE positions of a picture's tokens relative to its first, int [3, tokens]."""
        return positions_of_text(grid)

    @property
    def steps(self) -> int:
        """Number of arrays that `encode` yields."""
        return self._spec.depth + 1

    def encode(self, picture: Picture) -> Iterator[mx.array]:
        """Encode a picture layer by layer; the last array is its embeddings [1, tokens, H]."""
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


class _Block:
    """A block of SigLIP: attention among all patches, then a feed-forward."""

    def __init__(self, spec: Gemma3VisionSpec, part: Part) -> None:
        self._heads, self._stock = spec.heads, part.kernels.stock
        read_norm = partial(Norm.read, part, eps=spec.eps, is_layer_norm=True)
        self._norm1, self._norm2 = read_norm("layer_norm1"), read_norm("layer_norm2")
        *self._inputs, self._output = (
            Linear.read(part, f"self_attn.{name}") for name in _PROJECTIONS
        )
        self._up, self._down = Linear.read(part, "mlp.fc1"), Linear.read(part, "mlp.fc2")
        self._activate = activation("gelu_tanh")

    def __call__(self, x: mx.array) -> mx.array:
        x = x + self._output(self._attend(self._norm1(x)))
        return x + self._down(self._activate(self._up(self._norm2(x))))

    def _attend(self, x: mx.array) -> mx.array:
        split = (1, x.shape[1], self._heads, -1)
        parts = [linear(x).reshape(split).transpose(0, 2, 1, 3) for linear in self._inputs]
        queries, keys, values = parts
        return attend_to_all(queries, keys, values, queries.shape[-1] ** -0.5, self._stock)
