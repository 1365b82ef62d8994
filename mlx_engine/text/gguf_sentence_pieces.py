"""A tokenizer of SentencePiece's kind: byte pairs over text with spaces written as U+2581.

Its Hugging Face twin has merges, in whose place the file has one score for each piece: of two
neighbours, those are joined first that make the piece with the highest score.
"""

from collections.abc import Mapping

import tokenizers
from tokenizers import decoders, models, normalizers

from mlx_engine.text.gguf_vocabulary import (
    NORMAL,
    UNKNOWN,
    USER_DEFINED,
    GgufVocabulary,
    checked_model,
)

SPACE = "\u2581"
Pair = tuple[str, str]


def sentence_piece_core(
    vocabulary: GgufVocabulary, ids: Mapping[str, int], merges: list[Pair], space_first: bool
) -> tokenizers.Tokenizer:
    """Characters without a piece become the pieces `<0x..>` of their bytes.

    ids: of `piece_ids`. space_first: every run of text between special tokens gets a space in
    front, and the decoder takes one from the front of the whole.
    """
    unknown = [text for text, i in ids.items() if vocabulary.kinds[i] == UNKNOWN]
    options = {"unk_token": next(iter(unknown), None), "fuse_unk": True, "byte_fallback": True}
    model = checked_model(lambda: models.BPE(dict(ids), merges, **options), vocabulary.origin)
    core = tokenizers.Tokenizer(model)
    spaces = normalizers.Replace(" ", SPACE)
    steps = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    if space_first:
        core.normalizer = normalizers.Sequence([normalizers.Prepend(SPACE), spaces])
        core.decoder = decoders.Sequence([*steps, decoders.Strip(" ", 1, 0)])
    else:
        core.normalizer = spaces
        core.decoder = decoders.Sequence(steps)
    return core


def piece_ids(vocabulary: GgufVocabulary) -> dict[str, int]:
    """Piece -> id. Runs of blanks, which a converter writes plainly, are pieces again."""
    given = vocabulary.ids()
    pieces = dict(given)
    for text, i in given.items():
        run = SPACE * len(text)
        if vocabulary.kinds[i] == USER_DEFINED and not text.strip(" ") and run not in given:
            del pieces[text]
            pieces[run] = i
    return pieces


def merges_from_scores(vocabulary: GgufVocabulary, ids: Mapping[str, int]) -> list[Pair]:
    """Every way to make a piece of two others, the best piece first.

    User-defined runs of spaces come before all, longest first: where a vocabulary has them
    (Gemma), the converter wrote no scores for them. Ways to one piece go by ids.
    """
    kinds, scores = vocabulary.kinds, vocabulary.scores().tolist()
    normal = {text: i for text, i in ids.items() if kinds[i] == NORMAL}
    runs = [t for t, i in ids.items() if kinds[i] == USER_DEFINED and t == SPACE * len(t)]
    parts = normal | {text: ids[text] for text in runs}
    merges = [(text[:-1], SPACE) for text in sorted(runs, key=len, reverse=True)]
    merges = [pair for pair in merges if pair[0] in parts and SPACE in parts]
    for text in sorted(normal, key=lambda text: (-scores[normal[text]], normal[text])):
        halves = ((text[:i], text[i:]) for i in range(1, len(text)))
        found = [pair for pair in halves if pair[0] in parts and pair[1] in parts]
        merges += sorted(found, key=lambda pair: (parts[pair[0]], parts[pair[1]]))
    return merges
