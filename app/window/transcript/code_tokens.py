"""Colours of a finished piece of code, from Pygments."""

from app.window.transcript.code_words import Colour, Word

LONGEST = 300
"""Lines; longer code keeps the colours of code_words, which cost a tenth."""


def pygments_words(code: str, language: str) -> list[list[Word]] | None:
    """For each line its coloured words; None for an unknown language or code that is too long.

    Pygments is imported on the first call: it takes longer than opening a chat.
    """
    if not language or code.count("\n") >= LONGEST:
        return None
    from pygments.lexer import Lexer
    from pygments.lexers import find_lexer_class_by_name
    from pygments.util import ClassNotFound

    try:
        lexer: Lexer = find_lexer_class_by_name(language)(stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None
    lines: list[list[Word]] = [[]]
    column = 0
    for kind, text in lexer.get_tokens(code):
        colour = _colour(str(kind))
        for index, part in enumerate(text.split("\n")):
            if index:
                lines.append([])
                column = 0
            if colour and part.strip():
                lines[-1].append(Word(column, len(part), colour))
            column += len(part)
    return lines


def _colour(kind: str) -> Colour | None:
    """Of a token type such as Token.Literal.String.Doc; the first that fits."""
    rules: tuple[tuple[str, Colour], ...] = (
        ("Token.Comment", "comment"),
        ("Token.Literal.String", "string"),
        ("Token.Literal.Number", "number"),
        ("Token.Keyword", "keyword"),
        ("Token.Operator.Word", "keyword"),
        ("Token.Name.Tag", "keyword"),
        ("Token.Name.Function", "name"),
        ("Token.Name.Class", "name"),
        ("Token.Name.Decorator", "name"),
        ("Token.Name.Attribute", "name"),
        ("Token.Name.Builtin", "name"),
    )
    return next((colour for prefix, colour in rules if kind.startswith(prefix)), None)
