"""Tokenizer and chat template of a model, from the files beside it or from inside a GGUF."""

from typing import NamedTuple

from mlx_engine.loading.headers import ModelHeaders
from mlx_engine.text.chat_template import ChatTemplate
from mlx_engine.text.gguf_tokenizer import template_from_gguf, tokenizer_from_gguf
from mlx_engine.text.tokenizer import Tokenizer


class TextParts(NamedTuple):
    """template: None for models that cannot chat."""

    tokenizer: Tokenizer
    template: ChatTemplate | None


def read_text_parts(headers: ModelHeaders) -> TextParts:
    """Raises BadTokenizer, BadChatTemplate."""
    root = headers.files.root
    if headers.gguf is None:
        return TextParts(Tokenizer.from_folder(root), ChatTemplate.from_folder(root))
    metadata, origin = headers.gguf.metadata, str(root)
    return TextParts(tokenizer_from_gguf(metadata, origin), template_from_gguf(metadata, origin))
