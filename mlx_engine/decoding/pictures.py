"""Pictures in a prompt: which tokens stand for them, their RoPE positions and their embeddings.

Where token ids of prompts are compared or hashed, a picture's tokens are numbers below 0 that
follow from its content. So what was read of a prompt is used again for the same picture, and for no
other one.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from mlx_engine.models.vision.contract import PictureRows, TokenGrid, VisionTower
from mlx_engine.values.errors import BadChatTemplate, BadPicture, Reason
from mlx_engine.values.memory_plan import PictureSizes
from mlx_engine.values.picture import Picture
from mlx_engine.values.words import size_words

MOST_KEPT = 256 * 1024**2
"""Bytes of the newest encoded pictures that are kept, at most."""
KEPT_SHARE = 8
"""Bytes that conversations may hold, per byte of encoded pictures that are kept."""


class PictureMemory(NamedTuple):
    """The memory that encoding may use.

    sizes: of the vision tower, None if they are not known. most_bytes: of the model and all else, 0
    for no limit. model_bytes: of the model. kept_bytes: of encoded pictures that are kept.
    make_room: frees the memory of conversations that are not being answered.
    """

    sizes: PictureSizes | None = None
    most_bytes: int = 0
    model_bytes: int = 0
    kept_bytes: int = MOST_KEPT
    make_room: Callable[[], None] = lambda: None

    def check_fits(self, picture: Picture, tokens: int) -> None:
        """Raise BadPicture if encoding a picture takes more memory than the model leaves free."""
        if self.sizes is None or not self.most_bytes:
            return
        needed = self.sizes.tower + self.sizes.work_bytes(tokens)
        free = max(0, self.most_bytes - self.model_bytes)
        if needed > free:
            raise BadPicture(
                "A picture of {width} x {height} pixels takes {needed} of memory to look at, and "
                "the model leaves {free}. Make the picture smaller, or take a smaller model.",
                width=picture.width,
                height=picture.height,
                needed=size_words(needed),
                free=size_words(free),
            )

    def make_room_for(self, tokens: int) -> None:
        """Drop idle conversations, if encoding a picture of so many tokens needs their memory."""
        needed = 0 if self.sizes is None else self.sizes.work_bytes(tokens)
        if self.most_bytes and mx.get_active_memory() + needed > self.most_bytes:
            self.make_room()


NO_LIMITS = PictureMemory()


class EncodingStep(NamedTuple):
    """The share of a picture's encoding that is done, and at the end embeddings [1, tokens, H]."""

    share: float
    embeddings: mx.array | None = None


class EncodingProgress(NamedTuple):
    """How many of a prompt's `total` pictures are encoded; part of the present one counts."""

    done: float
    total: int


class PictureEncoder:
    """Encodes pictures with a model's vision tower; keeps the newest, by content.

    tower: None for a model that sees no pictures, with why_not. encoded: how many pictures the
    tower has encoded so far.
    """

    def __init__(
        self,
        tower: VisionTower | None,
        no_tower_reason: Reason | None,
        memory: PictureMemory = NO_LIMITS,
        read_weights: Callable[[], None] = lambda: None,
    ) -> None:
        """read_weights: reads the tower's weights into memory, before the first picture."""
        self.tower, self.why_not = tower, no_tower_reason
        self.encoded = 0
        self.memory, self._read_weights = memory, read_weights
        self._kept: dict[bytes, mx.array] = {}

    def require_tower(self) -> VisionTower:
        """Return the tower. Raises BadPicture with the reason if the model sees no pictures."""
        if self.tower is None:
            raise BadPicture(
                "{words} Leave the pictures out, or use a model that sees them.",
                words=self.why_not.words if self.why_not else "",
            )
        return self.tower

    @property
    def nbytes(self) -> int:
        """Bytes of the encoded pictures that are kept."""
        return sum(made.nbytes for made in self._kept.values())

    def forget(self) -> None:
        """Let go of all encoded pictures."""
        self._kept.clear()

    def keeps(self, picture: Picture) -> bool:
        """Return whether a picture's embeddings are kept, so that it needs no encoding."""
        return picture.digest in self._kept

    def encode(self, picture: Picture) -> Iterator[EncodingStep]:
        """Encode a picture layer by layer, in one step if it is kept; the last has embeddings."""
        made = self._kept.pop(picture.digest, None)
        if made is None:
            tower = self.require_tower()
            self.memory.make_room_for(tower.token_grid(picture).tokens)
            self._read_weights()
            for number, layer in enumerate(tower.encode(picture), 1):
                made = layer
                if number < tower.steps:
                    yield EncodingStep(number / tower.steps)
            self.encoded += 1
        assert made is not None
        self._kept[picture.digest] = made
        while self.nbytes > self.memory.kept_bytes:
            del self._kept[next(iter(self._kept))]
        yield EncodingStep(1.0, made)


class PlacedPicture(NamedTuple):
    """A picture in a prompt: its first token, the token behind it, and its RoPE positions.

    first: position of the first token. places: of all tokens relative to it, int [3, tokens].
    """

    picture: Picture
    start: int
    end: int
    first: int
    places: NDArray[np.int64]

    @property
    def next_position(self) -> int:
        """RoPE position of the token behind the picture."""
        return self.first + int(self.places.max()) + 1


class PromptPictures:
    """The pictures of a prompt, one at least, and their embeddings from encoding to reading."""

    def __init__(self, placed: Sequence[PlacedPicture], encoder: PictureEncoder) -> None:
        self._placed, self._encoder = placed, encoder
        self._encoded: dict[int, mx.array] = {}
        self._done = 0

    @property
    def end_index(self) -> int:
        """Number of tokens up to the first behind all pictures.

        Heads read that one, too, at the RoPE position of a picture's last token.
        """
        return self._placed[-1].end + 1

    @property
    def placeholder_id(self) -> int:
        """Id of the token that the template wrote for each picture."""
        return self._encoder.require_tower().placeholder_token

    def start_of(self, index: int) -> int:
        """Return the first token of the picture that token `index` is in; `index` for text."""
        inside = (placed.start for placed in self._placed if placed.start < index < placed.end)
        return next(inside, index)

    def whole_chunk_end(self, start: int, end: int) -> int:
        """Move the end of a pass over tokens `start` to `end` out of a picture that is read whole.

        It becomes the picture's first token, or the token behind it if the pass starts there.
        """
        if self._encoder.require_tower().reads_whole_pictures:
            for placed in self._placed:
                if placed.start < end < placed.end:
                    return placed.start if placed.start > start else placed.end
        return end

    def position_shift(self, length: int) -> int:
        """RoPE position of text after the first `length` tokens, less that number."""
        before = [placed for placed in self._placed if placed.end <= length]
        return before[-1].next_position - before[-1].end if before else 0

    def encode(self, start: int, end: int) -> Iterator[EncodingProgress]:
        """Encode the pictures in tokens `start` to `end` layer by layer, if they are not yet.

        The progress is of all pictures that this prompt needs encoded, from `start` on.
        """
        for number, placed in enumerate(self._placed):
            if placed.start >= end or placed.end <= start or number in self._encoded:
                continue
            is_kept, to_come = self._encoder.keeps(placed.picture), self._count_unencoded(start)
            if not is_kept:
                yield EncodingProgress(self._done, self._done + to_come)
            for step in self._encoder.encode(placed.picture):
                if step.embeddings is not None:
                    self._encoded[number] = step.embeddings
                if not is_kept:
                    yield EncodingProgress(self._done + step.share, self._done + to_come)
            self._done += not is_kept

    def _count_unencoded(self, start: int) -> int:
        """Count the different pictures behind token `start` that are still to be encoded."""
        return len(
            {
                placed.picture.digest
                for number, placed in enumerate(self._placed)
                if placed.end > start
                and number not in self._encoded
                and not self._encoder.keeps(placed.picture)
            }
        )

    def embeddings(self, start: int, end: int) -> PictureRows | None:
        """Make the rows of tokens `start` to `end`, pictures encoded; None for text alone.

        Embeddings of pictures that end there are dropped.
        """
        count = end - start
        ends = np.arange(1, count + 1)
        parts: list[mx.array] = []
        done = 0
        is_picture = np.zeros(count, dtype=np.bool_)
        for number, placed in enumerate(self._placed):
            if placed.start >= end or placed.end <= start:
                continue
            first, last = max(placed.start, start), min(placed.end, end)
            inside = slice(first - placed.start, last - placed.start)
            embeddings = self._encoded[number][:, inside]
            if first - start > done:
                parts.append(_zero_rows(embeddings, first - start - done))
            parts.append(embeddings)
            done = last - start
            is_picture[first - start : done], ends[first - start : done] = True, done
            if last == placed.end:
                del self._encoded[number]
        if not parts:
            return None
        if done < count:
            parts.append(_zero_rows(parts[0], count - done))
        before, places = np.split(self._rope_positions(start - 1, end), [1], axis=1)
        is_like_text = np.array_equal(places, np.tile(np.arange(start, end), (3, 1)))
        shown = None if is_like_text else places
        embeddings = mx.concatenate(parts, axis=1)
        return PictureRows(mx.array(is_picture), embeddings, shown, ends, before)

    def _rope_positions(self, start: int, end: int) -> NDArray[np.int64]:
        """RoPE positions of tokens `start` to `end` by time, height and width, int [3, tokens]."""
        places = np.tile(np.arange(start, end) + self.position_shift(start), (3, 1))
        for placed in self._placed:
            if placed.start < end and placed.end > start:
                first, last = max(placed.start, start), min(placed.end, end)
                inside = placed.places[:, first - placed.start : last - placed.start]
                places[:, first - start : last - start] = placed.first + inside
                places[:, last - start :] = np.arange(end - last) + placed.next_position
        return places


def _zero_rows(template_rows: mx.array, rows: int) -> mx.array:
    return mx.zeros((1, rows, template_rows.shape[-1]), dtype=template_rows.dtype)


class TokensWithPictures(NamedTuple):
    """The token ids of a prompt, those of pictures by content, and the pictures in it."""

    ids: tuple[int, ...]
    pictures: PromptPictures


def place_pictures(
    tokens: Sequence[int], pictures: Sequence[Picture], encoder: PictureEncoder, origin: str
) -> TokensWithPictures:
    """Replace each placeholder of a chat template by the tokens of its picture.

    origin: of the template. Raises BadPicture, also if the model sees none or has no memory for one
    of them, and BadChatTemplate if the template has not one place for each picture.
    """
    tower = encoder.require_tower()
    if tokens.count(tower.placeholder_token) != len(pictures):
        raise BadChatTemplate(
            "{origin}: the chat template has no place for pictures. Get the template that was "
            "published with the model, or leave the pictures out.",
            origin=origin,
        )
    ids, placed, left = list[int](), list[PlacedPicture](), list(pictures)
    lead = 0
    for token in tokens:
        if token != tower.placeholder_token:
            ids.append(token)
            continue
        picture, start = left.pop(0), len(ids)
        grid = tower.token_grid(picture)
        encoder.memory.check_fits(picture, grid.tokens)
        ids += content_ids(picture, grid, tower.weights_identity)
        placed.append(
            PlacedPicture(picture, start, len(ids), start + lead, tower.rope_positions(grid))
        )
        lead = placed[-1].next_position - placed[-1].end
    return TokensWithPictures(tuple(ids), PromptPictures(placed, encoder))


def content_ids(picture: Picture, grid: TokenGrid, tower: str) -> list[int]:
    """Numbers below 0, in 32 bits, that stand for a picture's tokens, by content and grid.

    tower: its identity.
    """
    seed = picture.digest + f"{grid.rows} {grid.columns} {tower}".encode()
    words = np.frombuffer(hashlib.shake_128(seed).digest(4 * grid.tokens), dtype=np.uint32)
    return [-1 - int(word) for word in words >> 1]
