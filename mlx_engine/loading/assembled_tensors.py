"""Tensors that a model family's recipes assemble from stored tensors or some of their rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from mlx_engine.loading.gguf.part import GgufPart
from mlx_engine.loading.safetensors import TensorInfo
from mlx_engine.models.tensor_recipes import Recipe, Recipes, RowChunk, StoredPiece, StridedRows


@dataclass(frozen=True, slots=True)
class AssembledTensor(TensorInfo):
    """Header of a weight assembled from stored tensors by a recipe (join, stack, transpose, ...).

    name, file: of the first stored tensor. sources: headers of the stored tensors, one for each
    piece of the recipe.
    """

    recipe: Recipe
    sources: tuple[TensorInfo, ...]

    @property
    def stored_headers(self) -> dict[str, TensorInfo]:
        """Headers of the stored tensors that the recipe assembles, by name in the recipe."""
        return {
            piece.name: info for piece, info in zip(self.recipe.pieces, self.sources, strict=True)
        }


def assemble_tensors(tensors: Mapping[str, TensorInfo], recipes: Recipes) -> dict[str, TensorInfo]:
    """Replace headers of stored tensors that recipes use by headers of the assembled tensors.

    Skipped are recipes that lack a piece, whose pieces do not fit together, or whose result is
    stored already; later checks report missing or surplus tensors.
    """
    made: dict[str, TensorInfo] = {}
    used: set[str] = set()
    for name, recipe in recipes.items():
        pieces = [piece.name for piece in recipe.pieces]
        if name not in tensors and all(piece in tensors for piece in pieces):
            assembled = _assembled_header(recipe, tuple(tensors[piece] for piece in pieces))
            if assembled is not None:
                made[name] = assembled
                used.update(pieces)
    return {name: info for name, info in tensors.items() if name not in used} | made


def _assembled_header(recipe: Recipe, sources: tuple[TensorInfo, ...]) -> TensorInfo | None:
    """Make the header of the tensor that `recipe` makes of stored ones; None if they do not fit."""
    recipe = recipe.for_last_axis_size(sources[0].shape[-1] if sources[0].shape else 0)
    shapes = {
        _piece_shape(source.shape, piece)
        for piece, source in zip(recipe.pieces, sources, strict=True)
    }  # joined pieces must have one shape
    shape = shapes.pop()
    first, piece = sources[0], recipe.pieces[0]
    if shapes or shape is None or any(source.dtype != first.dtype for source in sources):
        return None
    is_plain = recipe == Recipe((piece,)) and piece.axis == -2
    if isinstance(first, GgufPart) and is_plain and not isinstance(piece.rows, StridedRows):
        select_rows = first if piece.rows is None else first.select_rows(piece.rows)
        if select_rows is not None:
            return select_rows
    element, dtype = first.nbytes // max(1, prod(first.shape)), first.dtype
    shape = (len(sources), *shape) if recipe.is_stack else shape
    if recipe.form == "joined":
        shape = (*shape[:-2], len(sources) * shape[-2], shape[-1])
    nbytes = prod(shape) * element
    if recipe.form == "transposed" and len(shape) >= 2:
        shape = (*shape[:-2], shape[-1], shape[-2])
    elif recipe.form == "words":
        if dtype != "U8" or len(shape) < 2 or shape[-2] * shape[-1] % 4:
            return None
        dtype, shape = "U32", (*shape[:-2], shape[-2] * shape[-1] // 4)
    return AssembledTensor(first.name, dtype, shape, nbytes, first.file, recipe, sources)


def _piece_shape(stored_shape: tuple[int, ...], piece: StoredPiece) -> tuple[int, ...] | None:
    """Shape of the rows that a recipe's piece takes of a stored tensor; None without such rows."""
    if piece.rows is None:
        return stored_shape
    if len(stored_shape) < -piece.axis:
        return None
    rows = stored_shape[piece.axis]
    if isinstance(piece.rows, RowChunk | StridedRows):
        kept, remainder = divmod(rows, piece.rows.of)
        fits = not remainder
    else:
        kept, fits = len(piece.rows), _highest_row_number(piece.rows) < rows
    trailing = stored_shape[len(stored_shape) + piece.axis + 1 :]
    return (*stored_shape[: piece.axis], kept, *trailing) if fits else None


def _highest_row_number(rows: Sequence[int]) -> int:
    """Return the highest of the row numbers; in constant time for a range, which may be huge."""
    return rows[-1] if isinstance(rows, range) and rows else max(rows, default=0)
