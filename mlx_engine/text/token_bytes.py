"""What one token adds to a text, in bytes."""

import re
from dataclasses import dataclass

import tokenizers

from mlx_engine.text.tokenizer_library import library_errors, steps_of

SPACE = "\u2581"
"""What stands for a space in pieces of SentencePiece."""
_BYTE_PIECE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def _byte_level_characters() -> dict[str, int]:
    """Character -> byte, as in GPT-2: printable bytes are themselves, others from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    characters = {chr(byte): byte for byte in printable}
    return characters | {chr(256 + place): byte for place, byte in enumerate(others)}


BYTE_LEVEL = _byte_level_characters()


@dataclass(frozen=True, slots=True)
class TokenBytes:
    """Maps ids to bytes as the decoder of `core` would, one token at a time.

    Byte-level and SentencePiece-like decoders are known by their description. Any other is asked
    what a token adds after the token before it.
    """

    core: tokenizers.Tokenizer
    origin: str
    byte_level: bool
    pieces: bool
    drops_first_space: bool

    @classmethod
    def of(cls, core: tokenizers.Tokenizer, origin: str) -> "TokenBytes":
        """Reads the description of the decoder of `core`; without one, tokens are plain words."""
        steps = steps_of(core.decoder)
        kinds = {step["type"] for step in steps}
        drops = any(
            (step["type"] == "Strip" and step.get("content") == " " and step.get("start") == 1)
            or (step["type"] == "Metaspace" and step.get("prepend_scheme") != "never")
            for step in steps
        )
        is_of_pieces = bool(kinds & {"ByteFallback", "Metaspace"})
        return cls(core, origin, "ByteLevel" in kinds, is_of_pieces, drops)

    def of_token(self, token: int, before: int | None) -> bytes:
        """The bytes of `token` after the token `before` (None: it is the first); b"" if unknown.

        Raises BadTokenizer.
        """
        text = self.core.id_to_token(token)
        if text is None:
            return b""
        if self.byte_level:
            if all(character in BYTE_LEVEL for character in text):
                return bytes(BYTE_LEVEL[character] for character in text)
            return text.encode()
        if self.pieces:
            return self._of_piece(text, first=before is None)
        with library_errors(self.origin):
            if before is None:
                return self.core.decode([token], skip_special_tokens=False).encode()
            both = self.core.decode([before, token], skip_special_tokens=False)
            alone = self.core.decode([before], skip_special_tokens=False)
            return both[len(alone) :].encode()

    def _of_piece(self, text: str, first: bool) -> bytes:
        byte = _BYTE_PIECE.fullmatch(text)
        if byte:
            return bytes([int(byte[1], 16)])
        spaced = text.replace(SPACE, " ")
        return (spaced.removeprefix(" ") if first and self.drops_first_space else spaced).encode()
