"""The tokenizer and chat template of a model's files."""

from typing import NamedTuple

from mlx_engine.loading.headers import ModelHeaders
from mlx_engine.text.chat_template import ChatTemplate
from mlx_engine.text.gguf_tokenizer import template_from_gguf, tokenizer_from_gguf
from mlx_engine.text.tokenizer import Tokenizer
from mlx_engine.text.tokenizer_folder import read_tokenizer


class TextParts(NamedTuple):
    """A tokenizer and a chat template, None for models that cannot chat."""

    tokenizer: Tokenizer
    template: ChatTemplate | None


def read_text_parts(headers: ModelHeaders) -> TextParts:
    """Read tokenizer and template. Raises BadTokenizer, BadChatTemplate, UnsupportedModel."""
    root = headers.files.root
    if headers.gguf is None:
        return TextParts(read_tokenizer(root), ChatTemplate.from_folder(root))
    metadata, origin = headers.gguf.metadata, str(root)
    return TextParts(tokenizer_from_gguf(metadata, origin), template_from_gguf(metadata, origin))
