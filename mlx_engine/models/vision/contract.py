"""Base of vision towers, and the rows of pictures that a forward pass over a prompt reads."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import ClassVar, NamedTuple

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from mlx_engine.values.picture import Picture


class TokenGrid(NamedTuple):
    """Rows and columns of the tokens that stand for a picture in a prompt."""

    rows: int
    columns: int

    @property
    def tokens(self) -> int:
        """Number of tokens that a picture takes in a prompt."""
        return self.rows * self.columns


class PictureRows(NamedTuple):
    """Rows of pictures among the T tokens that a forward pass over a prompt reads.

    is_picture: bool [T]. embeddings: [1, T, N H], what the decoder reads in rows of pictures, and
    what is added after each of its first N - 1 layers (deepstack), zeros in rows of text. places:
    RoPE positions of all rows by time, height and width, int [3, T]; None where they are numbered
    like text; before: of the row before, int [3, 1]. ends: for each row of a picture the number of
    the row behind the picture's last, for each row of text the number of the next row, int [T].
    """

    is_picture: mx.array
    embeddings: mx.array
    places: NDArray[np.int64] | None
    ends: NDArray[np.int64]
    before: NDArray[np.int64]

    def for_heads(self, first: int) -> "PictureRows":
        """Rows from `first` on for MTP heads: each at the RoPE position of the row before."""
        places = self.places
        if places is not None:
            places = np.concatenate([self.before, places[:, :-1]], axis=1)[:, first:]
        return self._replace(
            is_picture=self.is_picture[first:],
            embeddings=self.embeddings[:, first:],
            places=places,
            ends=self.ends[first:] - first,
        )


class VisionTower(ABC):
    """A vision tower, which turns pictures into embeddings of the language model.

    prompt_texts: what chat templates write for a picture -> what the prompt has there instead.
    reads_whole_pictures: the language model must read all rows of a picture in one pass.
    placeholder_token: id of the token that stands where a picture belongs, and becomes all of its
    tokens. steps: number of arrays that `encode` yields, one a layer and the embeddings.
    weights_identity: what embeddings depend on beside the model's own files; "" for nothing else.
    """

    prompt_texts: ClassVar[Mapping[str, str]] = MappingProxyType({})
    reads_whole_pictures: ClassVar[bool] = True

    def __init__(self, placeholder_token: int, layers: int, weights_identity: str) -> None:
        self.placeholder_token, self.steps = placeholder_token, layers + 1
        self.weights_identity = weights_identity

    @abstractmethod
    def token_grid(self, picture: Picture) -> TokenGrid:
        """Compute the grid of a picture's tokens from its size. Raises BadPicture."""

    def rope_positions(self, grid: TokenGrid) -> NDArray[np.int64]:
        """RoPE positions of a picture's tokens relative to its first, int [3, tokens].

        They are of time, height and width; here they count on like those of text. The text behind
        goes on at their largest plus 1.
        """
        return np.tile(np.arange(grid.tokens), (3, 1))

    @abstractmethod
    def encode(self, picture: Picture) -> Iterator[mx.array]:
        """Encode a picture layer by layer; the last array is its embeddings [1, tokens, N H].

        They are side by side as in PictureRows. Each array is evaluated when it is yielded, so that
        the caller can stop between layers.
        """
