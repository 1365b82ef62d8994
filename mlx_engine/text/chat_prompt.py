"""Messages to tokens, so that nothing written in a message can act as a control token."""

from collections.abc import Sequence
from dataclasses import dataclass

from mlx_engine.text.chat_template import ChatTemplate, opens_thinking, unused_characters
from mlx_engine.text.tokenizer import Tokenizer
from mlx_engine.values.conversation import Message


@dataclass(frozen=True, slots=True)
class ChatPrompt:
    """A rendered conversation; thinking_open: the answer to it begins inside a think block."""

    text: str
    tokens: tuple[int, ...]
    thinking_open: bool


def tokenize_chat(
    template: ChatTemplate,
    tokenizer: Tokenizer,
    messages: Sequence[Message],
    *,
    add_generation_prompt: bool = True,
    thinking: bool | None = None,
    continue_last: bool = False,
) -> ChatPrompt:
    """Renders and encodes `messages`; raises what `ChatTemplate.render` and `encode` raise.

    Where no message spells a control token, the tokens are those of the rendered text. Where one
    does, that word is cut in its middle: the halves are encoded apart, so the model reads the same
    characters as ordinary text. The price is that tokens do not merge across those cuts, and that
    the template sees the word with a private-use character inside.
    """
    controls = tokenizer.control_ids(template.source)
    cut = unused_characters([template.source, *(m.text + m.thinking for m in messages)], 1)

    def guarded(text: str) -> str:
        return cut.join(tokenizer.plain_parts(text, controls))

    marked = [Message(m.role, guarded(m.text), guarded(m.thinking)) for m in messages]
    rendered = template.render(
        marked,
        add_generation_prompt=add_generation_prompt,
        thinking=thinking,
        continue_last=continue_last,
    )
    parts = rendered.split(cut)
    text = "".join(parts)
    goes_on_thinking = continue_last and bool(messages[-1].thinking) and not messages[-1].text
    return ChatPrompt(
        text, tuple(tokenizer.encode_parts(parts)), goes_on_thinking or opens_thinking(parts[-1])
    )
