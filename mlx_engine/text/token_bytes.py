"""The bytes each token stands for, so that text can be put together one token at a time."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import tokenizers

_BYTE_PIECE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_SPACE = "\u2581"


def _byte_level_characters() -> dict[str, int]:
    """Character -> byte, as in GPT-2: printable bytes are themselves, others from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    characters = {chr(byte): byte for byte in printable}
    return characters | {chr(256 + place): byte for place, byte in enumerate(others)}


_BYTE_LEVEL = _byte_level_characters()


def _decoder_steps(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        yield node
        for part in node.get("decoders", ()):
            yield from _decoder_steps(part)


@dataclass(frozen=True, slots=True)
class TokenBytes:
    """Maps ids to bytes as the decoder of `core` would, one token at a time.

    Byte-level and SentencePiece-like decoders are known by their description. Any other is asked
    what a token adds after the token before it.
    """

    core: tokenizers.Tokenizer
    byte_level: bool
    pieces: bool
    drops_first_space: bool

    @classmethod
    def of(cls, core: tokenizers.Tokenizer) -> "TokenBytes":
        """Reads the description of the decoder of `core`; without one, tokens are plain words."""
        decoder = core.decoder
        description = json.loads(decoder.__getstate__()) if decoder is not None else {}
        steps = list(_decoder_steps(description))
        kinds = {step.get("type") for step in steps}
        drops = any(
            (step.get("type") == "Strip" and step.get("content") == " " and step.get("start") == 1)
            or (step.get("type") == "Metaspace" and step.get("prepend_scheme") != "never")
            for step in steps
        )
        byte_level = "ByteLevel" in kinds
        return cls(core, byte_level, bool(kinds & {"ByteFallback", "Metaspace"}), drops)

    def of_token(self, token: int, before: int | None) -> bytes:
        """The bytes of `token` after the token `before` (None: it is the first); b"" if unknown."""
        text = self.core.id_to_token(token)
        if text is None:
            return b""
        if self.byte_level:
            if all(character in _BYTE_LEVEL for character in text):
                return bytes(_BYTE_LEVEL[character] for character in text)
            return text.encode()
        if self.pieces:
            return self._of_piece(text, first=before is None)
        if before is None:
            return self.core.decode([token], skip_special_tokens=False).encode()
        both = self.core.decode([before, token], skip_special_tokens=False)
        alone = self.core.decode([before], skip_special_tokens=False)
        return both[len(alone) :].encode()

    def _of_piece(self, text: str, first: bool) -> bytes:
        byte = _BYTE_PIECE.fullmatch(text)
        if byte:
            return bytes([int(byte[1], 16)])
        spaced = text.replace(_SPACE, " ")
        return (spaced.removeprefix(" ") if first and self.drops_first_space else spaced).encode()
