"""Writes a subset of LaTeX maths as rich text; what it does not know is shown as typed."""

import re
from collections.abc import Container, Mapping
from html import escape

from app.window.transcript import latex_symbols as symbols

DEEPEST = 24
"""Groups nested deeper than this are shown as typed."""
LONGEST = 8000
"""Formulas with more characters are shown as typed."""

TOKEN = re.compile(r"\\(?:[A-Za-z]+\*?|.)|\s+|\d+(?:[.,]\d+)*|.", re.DOTALL)
SYMBOL = symbols.PLAIN | symbols.CAPITALS
FUNCTION_END = "\ue000"
"""Stands after a function's name until its sub- and superscripts are known."""
AFTER_FUNCTION = re.compile(r"\ue000((?:[⁰-₎²³¹]|<(su[bp])>.*?</\2>)*)")
COMPOUND = re.compile(r"[+\-−±∓·×÷/⁄=<>≤≥,\s\u2009]")


COMMANDS: dict[str, Container[str]] = {
    "fraction": ("frac", "dfrac", "tfrac", "cfrac"),
    "binomial": ("binom", "dbinom", "tbinom"),
    "root": ("sqrt",),
    "bold": ("mathbf", "textbf", "boldsymbol", "bm"),
    "same": ("boxed", "underbrace", "overbrace"),
    "tag": ("tag",),
    "modulo": ("pmod",),
    "letters": ("mathbb", "mathcal", "mathscr", "mathit", "textit", "mathfrak"),
    "upright": symbols.UPRIGHT,
    "mark": symbols.ACCENTS,
    "environment": ("begin", "end"),
}
"""What to do with a command that has arguments -> the commands."""


def latex_html(source: str) -> str:
    """Rich text for the inside of $...$: escaped, with <i>, <b>, <sup>, <sub> and <br>.

    Never raises: a formula that cannot be read is escaped and shown as it is.
    """
    if len(source) > LONGEST:
        return escape(source)
    try:
        return _Reader(source).all()
    except _TooDeep:
        return escape(source)


class _TooDeep(Exception):
    """Groups nested beyond DEEPEST."""


class _Reader:
    """One pass over the tokens of a formula."""

    def __init__(self, source: str) -> None:
        self._tokens = TOKEN.findall(source)
        self._at = 0
        self._depth = 0

    def all(self) -> str:
        """The whole formula; a closing brace too many is shown."""
        parts = []
        while self._at < len(self._tokens):
            parts.append(self._until("}"))
            if self._at < len(self._tokens):
                parts.append("}")
                self._at += 1
        shown = (
            AFTER_FUNCTION.sub("\\1\u2009", "".join(parts))
            .replace("\u2009(", "(")
            .replace("(\u2009", "(")
        )
        return re.sub(r"[ \u2009]{2,}", " ", shown).strip()

    def _until(self, end: str) -> str:
        parts = []
        while self._at < len(self._tokens) and self._tokens[self._at] != end:
            parts.append(self._next())
        return "".join(parts)

    def _next(self) -> str:
        """One token with its arguments, as rich text."""
        token = self._tokens[self._at]
        self._at += 1
        if token.startswith("\\") and len(token) > 1:
            return self._command(token[1:])
        if token in "^_":
            return self._script(token)
        return self._group() if token == "{" else _letter(token)

    def _group(self) -> str:
        """What stands up to the closing brace, which is passed."""
        self._depth += 1
        if self._depth > DEEPEST:
            raise _TooDeep
        inner = self._until("}")
        self._at += 1
        self._depth -= 1
        return inner

    def _argument(self) -> str:
        """The next group or single token; "" at the end or before a closing brace."""
        while self._at < len(self._tokens) and self._tokens[self._at].isspace():
            self._at += 1
        if self._at >= len(self._tokens) or self._tokens[self._at] == "}":
            return ""
        self._depth += 1
        if self._depth > DEEPEST:
            raise _TooDeep
        token = self._tokens[self._at]
        if token[0].isdigit():
            self._tokens[self._at : self._at + 1] = [token[0], *([token[1:]] if token[1:] else [])]
        shown = self._next()
        self._depth -= 1
        return shown

    def _typed(self) -> str:
        """The next group as it was typed, without its braces."""
        if self._at >= len(self._tokens) or self._tokens[self._at] != "{":
            return ""
        start, level = self._at + 1, 0
        while self._at < len(self._tokens):
            token = self._tokens[self._at]
            level += (token == "{") - (token == "}")
            self._at += 1
            if level == 0:
                return "".join(self._tokens[start : self._at - 1])
        return "".join(self._tokens[start:])

    def _bracketed(self) -> str:
        """An optional [argument], "" when there is none."""
        rest = self._tokens[self._at :]
        if not rest or rest[0] != "[" or "]" not in rest:
            return ""
        size = rest.index("]")
        self._at += size + 1
        return "".join(rest[1:size])

    def _script(self, sign: str) -> str:
        inner = self._argument()
        table, tag = (symbols.RAISED, "sup") if sign == "^" else (symbols.LOWERED, "sub")
        letters = _without_tags(inner).replace("\u2009", "").replace("−", "-")
        if letters in ("′", "∘"):
            return "′" if letters == "′" else "°"
        if letters and all(letter in table for letter in letters):
            return "".join(table[letter] for letter in letters)
        if f"<{tag}>" in inner:
            return f"{sign}({inner})"
        return f"<{tag}>{inner.replace(chr(0x2009), '')}</{tag}>"

    def _command(self, name: str) -> str:
        if name in symbols.IGNORED:
            if name in ("left", "right") and self._tokens[self._at : self._at + 1] == ["."]:
                self._at += 1
            return ""
        simple = _simple(name)
        return simple if simple is not None else self._with_arguments(name)

    def _with_arguments(self, name: str) -> str:
        kind = next((kind for kind, names in COMMANDS.items() if name in names), None)
        if kind == "mark":
            return _accented(self._argument(), symbols.ACCENTS[name])
        if kind == "letters":
            table = {"mathbb": symbols.BLACKBOARD, "mathcal": symbols.SCRIPT}.get(name, {})
            return _mapped(self._typed(), table)
        if kind == "upright":
            return escape(self._typed())
        if kind == "environment":
            return self._environment(name)
        return self._of_arguments(kind, name)

    def _of_arguments(self, kind: str | None, name: str) -> str:
        """Commands that put their arguments into a pattern."""
        if kind == "fraction":
            above = self._argument()
            return f"{_joined(above)}\u2044{_joined(self._argument())}"
        if kind == "binomial":
            above = self._argument()
            return f"C({above}, {self._argument()})"
        if kind == "root":
            root = _mapped(self._bracketed(), symbols.RAISED)
            return f"{root}√{_joined(self._argument())}"
        pattern = {"bold": "<b>{}</b>", "same": "{}", "tag": "\u2003({})", "modulo": " (mod {})"}
        if kind in pattern:
            return pattern[kind].format(self._argument())
        return escape("\\" + name)

    def _environment(self, side: str) -> str:
        """Matrices keep their brackets; other environments only their lines."""
        kind = self._typed()
        if kind == "array":
            self._typed()
        pair = {"pmatrix": "()", "bmatrix": "[]", "vmatrix": "||", "cases": "{ "}.get(kind, "  ")
        return pair[side == "end"].strip()


def _letter(token: str) -> str:
    """Spaces as typed mean nothing; signs get room, letters slant."""
    if token.isspace():
        return ""
    if token in "+-=<>*":
        return f"\u2009{escape(token.replace('-', '−').replace('*', '∗'))}\u2009"
    if token.isalpha():
        return f"<i>{token}</i>"
    return {"'": "′", "&": " ", ",": ", "}.get(token) or escape(token)


def _simple(name: str) -> str | None:
    """A command without arguments; None for any other."""
    if name in symbols.SPACED:
        return f"\u2009{escape(symbols.SPACED[name])}\u2009"
    if name in symbols.GREEK:
        return f"<i>{symbols.GREEK[name]}</i>"
    if name in SYMBOL:
        return escape(SYMBOL[name])
    if name in symbols.FUNCTIONS:
        return f"\u2009{name}{FUNCTION_END}"
    if name in symbols.SPACES:
        return symbols.SPACES[name]
    return escape(symbols.ESCAPED[name]) if name in symbols.ESCAPED else None


def _without_tags(shown: str) -> str:
    return re.sub(r"</?(?:i|b|sup|sub)>", "", shown)


def _joined(shown: str) -> str:
    """In parentheses if it is more than one factor."""
    inner = shown.strip("\u2009 ")
    return f"({inner})" if COMPOUND.search(_without_tags(inner)) else inner


def _mapped(letters: str, table: Mapping[str, str]) -> str:
    return "".join(table.get(x) or (f"<i>{x}</i>" if x.isalpha() else escape(x)) for x in letters)


def _accented(shown: str, mark: str) -> str:
    return re.sub(r"(?<![&\w])(\w)(?!\w*[>;])|(?<=>)(\w)(?=<)", lambda m: m[0] + mark, shown)
