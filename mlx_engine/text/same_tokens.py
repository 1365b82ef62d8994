"""Whether two tokenizers number the same tokens alike."""

from mlx_engine.text.tokenizer import Tokenizer

MOST_UNKNOWN = 0.01
"""Share of the ids that only one of the two may know: added tokens differ between releases."""


def first_difference(target: Tokenizer, draft: Tokenizer) -> str | None:
    """The first token id that means another text, in words; None when all ids agree."""
    size = max(target.vocabulary, draft.vocabulary)
    unknown = 0
    for token in range(size):
        here, there = target.token_text(token), draft.token_text(token)
        if here == there:
            continue
        if here and there:
            return f"token {token} is {here!r} in one and {there!r} in the other"
        unknown += 1
    if unknown > MOST_UNKNOWN * size:
        return f"{unknown} of {size} tokens are known to one of them only"
    return None
