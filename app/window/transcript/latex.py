"""Writes a subset of LaTeX maths as rich text; what it does not know is shown as typed."""

import re
from collections.abc import Mapping
from functools import lru_cache
from html import escape
from html.entities import html5
from typing import NamedTuple
from unicodedata import category, normalize


class FormulaKey(NamedTuple):
    """LaTeX without its dollars. is_display: it stands on a line of its own."""

    latex: str
    is_display: bool

    @property
    def source(self) -> str:
        """As it is typed."""
        return f"$${self.latex}$$" if self.is_display else f"${self.latex}$"

    @classmethod
    def of(cls, source: str) -> "FormulaKey":
        """What is typed so."""
        latex = source.strip()
        is_display = latex[:2] == latex[-2:] == "$$"
        return cls(latex[2:-2] if is_display else latex[1:-1], is_display)


def _table_of(pairs: str) -> dict[str, str]:
    return dict(pair.split("=", 1) for pair in pairs.split())


def _all_as(shown: str, names: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), shown)


THIN = "\u2009"
"""The space around signs."""

RELATIONS = _table_of(
    "cdot=· ast=∗ star=⋆ circ=∘ bullet=• land=∧ lor=∨ neq=≠ leqslant=≤ geqslant=≥ models=⊨ asymp=≍ "
    "to=→ gets=← implies=⇒ impliedby=⇐ hookrightarrow=↪ rightharpoonup=⇀ Leftarrow=⇐ bmod=mod "
    "coloneqq=≔"
)
SYMBOLS = _table_of(
    "infty=∞ partial=∂ exists=∃ neg=¬ lnot=¬ bot=⊥ triangle=△ Box=□ blacksquare=■ iint=∬ ldots=… "
    "dots=… cdots=⋯ vdots=⋮ ddots=⋱ dotsc=… dotsb=⋯ lvert=| rvert=| vert=| lVert=‖ rVert=‖ "
    "backslash=\\ degree=° S=§ P=¶ pounds=£ copyright=© surd=√"
)
GREEK = _table_of("epsilon=ϵ varepsilon=ε phi=ϕ varphi=φ")
"""Where TeX has another name than HTML, or means another sign by it; HTML has all the rest."""

LARGE = frozenset("∇∀∄∅⊤∠∴∵∑∏∐∫∭∮⋃⋂⨁⨂⋁⋀℘∁")
"""Signs of mathematics that stand close to what follows."""

FUNCTION_END = "\ue000"
"""Stands after a function's name until its sub- and superscripts are known."""
FUNCTIONS = (
    "sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh log ln lg exp lim limsup liminf "
    "max min sup inf arg det dim ker deg gcd hom Pr argmax argmin"
)
IGNORED = (
    "left right left. right. big Big bigg Bigg bigl bigr Bigl Bigr displaystyle textstyle limits "
    "nolimits nonumber notag hline mathstrut !"
)
SHOWN = {
    **SYMBOLS,
    **{name: f"<i>{letter}</i>" for name, letter in GREEK.items()},
    **{name: f"{THIN}{sign}{THIN}" for name, sign in RELATIONS.items()},
    **{name: f"{THIN}{name}{FUNCTION_END}" for name in FUNCTIONS.split()},
    **{sign: escape(sign) for sign in "{}$%&#_"},
    **_all_as("", IGNORED),
    **_all_as(THIN, ", thinspace"),
    **{":": "\u2005", ";": "\u2004", " ": " ", "quad": "\u2003", "qquad": "\u2003\u2003"},
    **{"\\": "; ", "|": "‖"},
}
"""Commands without arguments."""

PATTERNS = {
    **_all_as("@⁄@", "frac dfrac tfrac cfrac"),
    **_all_as("C(#, #)", "binom dbinom tbinom"),
    **_all_as("<b>#</b>", "mathbf textbf boldsymbol bm"),
    **_all_as("#", "boxed underbrace overbrace"),
    **_all_as("~", "mathrm text textrm textnormal operatorname operatorname* mathsf mbox"),
    **{"sqrt": "?√@", "tag": "\u2003(#)", "pmod": " (mod #)"},
}
"""Commands with arguments, in which # is the next one, @ that as one factor, ~ that as it was
typed, and ? one in brackets if there is one, raised.
"""

ACCENTS = _table_of(
    "hat=\u0302 widehat=\u0302 tilde=\u0303 widetilde=\u0303 bar=\u0304 overline=\u0305 "
    "underline=\u0332 vec=\u20d7 dot=\u0307 ddot=\u0308 check=\u030c acute=\u0301 grave=\u0300"
)
"""Combining marks, put after the letter."""

SCRIPT = dict(zip("BEFHILMR", "ℬℰℱℋℐℒℳℛ", strict=True))
LETTERS: dict[str, dict[str, str]] = {
    "mathbb": dict(zip("CHNPQRZEF1", "ℂℍℕℙℚℝℤ𝔼𝔽𝟙", strict=True)),
    "mathcal": SCRIPT,
    "mathscr": SCRIPT,
    **{name: {} for name in ("mathit", "textit", "mathfrak")},
}

RAISED = dict(zip("0123456789+-=()n", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ⁿ", strict=True))
LOWERED = dict(zip("0123456789+-=()", "₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎", strict=True))

DEEPEST = 24
"""Groups nested deeper than this are shown as typed."""
LONGEST = 8000
"""Formulas with more characters are shown as typed."""

TOKEN = re.compile(r"\\(?:(?:left|right)\.|[A-Za-z]+\*?|.)|\s+|\d+(?:[.,]\d+)*|.", re.DOTALL)
AFTER_FUNCTION = re.compile(r"\ue000((?:[⁰-₎²³¹]|<(su[bp])>.*?</\2>)*)")
CALLED = re.compile(rf"{AFTER_FUNCTION.pattern}(?=\()")
NEGATED = re.compile(r"^(\u2009?(?:&\w+;|[^<]))")
SIGN = re.compile(r"(^|[(\[{ ]|\u2009(?=\u2009))\u2009?−\u2009")
"""A minus with nothing before it to subtract from."""
COMPOUND = re.compile(r"[+\-−±∓·×÷/⁄=<>≤≥,\s\u2009]")


@lru_cache(maxsize=1000)  # a growing text is rendered again and again
def latex_html(source: str) -> str:
    """Rich text for the inside of $...$: escaped, with <i>, <b>, <sup>, <sub> and <br>.

    Never raises: a formula that cannot be read is escaped and shown as it is.
    """
    if len(source) > LONGEST:
        return escape(source)
    try:
        shown = _Reader(source).until("")
    except _TooDeep:
        return escape(source)
    spaced = AFTER_FUNCTION.sub("\\1\u2009", CALLED.sub("\\1", shown)).replace("(\u2009", "(")
    return re.sub(r"[ \u2009]{2,}", " ", SIGN.sub("\\1−", spaced)).strip()


class _TooDeep(Exception):
    """Groups nested beyond DEEPEST."""


class _Reader:
    """One pass over the tokens of a formula."""

    def __init__(self, source: str) -> None:
        self._tokens = TOKEN.findall(source)
        self._at = 0
        self._depth = 0

    def until(self, end: str) -> str:
        """All up to the token `end`, which is passed, as rich text."""
        parts = []
        while self._at < len(self._tokens) and self._tokens[self._at] != end:
            parts.append(self._next())
        self._at += 1
        return "".join(parts)

    def _next(self) -> str:
        """One token with its arguments."""
        self._depth += 1
        if self._depth > DEEPEST:
            raise _TooDeep
        token = self._tokens[self._at]
        self._at += 1
        if token.startswith("\\") and len(token) > 1:
            shown = self._command(token[1:])
        elif token in "^_":
            shown = self._script(token)
        else:
            shown = self.until("}") if token == "{" else _letter(token)
        self._depth -= 1
        return shown

    def _argument(self) -> str:
        """The next group or single token; "" at the end or before a closing brace."""
        while self._at < len(self._tokens) and self._tokens[self._at].isspace():
            self._at += 1
        if self._at >= len(self._tokens) or self._tokens[self._at] == "}":
            return ""
        token = self._tokens[self._at]
        if token[0].isdigit():
            self._tokens[self._at : self._at + 1] = [token[0], *([token[1:]] if token[1:] else [])]
        return self._next()

    def _typed(self) -> str:
        """The next group or single token as it was typed, without braces and escapes."""
        start = self._at
        self._argument()
        typed = "".join(self._tokens[start : self._at]).strip()
        return re.sub(r"^\{|\}$|\\(?=[{}$%&#_ ])", "", typed)

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
        table, tag = (RAISED, "sup") if sign == "^" else (LOWERED, "sub")
        letters = _without_tags(inner).replace(THIN, "").replace("−", "-")
        if letters in ("′", "∘"):
            return "′" if letters == "′" else "°"
        if letters and all(letter in table for letter in letters):
            return "".join(table[letter] for letter in letters)
        if f"<{tag}>" in inner:
            return f"{sign}({inner})"
        return f"<{tag}>{inner.replace(THIN, '')}</{tag}>"

    def _command(self, name: str) -> str:
        if name in PATTERNS:
            return re.sub("[#@~?]", lambda place: self._filled(place[0]), PATTERNS[name])
        if name == "not":
            return normalize("NFC", NEGATED.sub("\\1\u0338", self._argument()))
        if name in ACCENTS:
            return _accented(self._argument(), ACCENTS[name])
        if name in LETTERS:
            return _mapped(self._typed(), LETTERS[name])
        if name in ("begin", "end"):
            return self._environment(name)
        return SHOWN[name] if name in SHOWN else _named(name)

    def _filled(self, place: str) -> str:
        """What stands at a place of a pattern."""
        if place == "~":
            return escape(self._typed())
        if place == "?":
            return _mapped(self._bracketed(), RAISED)
        argument = self._argument()
        return _joined(argument) if place == "@" else argument

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
        return f"{THIN}{escape(token.replace('-', '−').replace('*', '∗'))}{THIN}"
    if token.isalpha():
        return f"<i>{token}</i>"
    return {"'": "′", "&": " ", ",": ", "}.get(token) or escape(token)


def _named(name: str) -> str:
    """A symbol by its name in HTML: relations get room, Greek letters slant."""
    symbol = html5.get(f"{name};")
    if symbol is None:
        return escape("\\" + name)
    if category(symbol[0]) == "Sm" and symbol not in LARGE:
        return f"{THIN}{escape(symbol)}{THIN}"
    return f"<i>{symbol}</i>" if "α" <= symbol <= "ϵ" else escape(symbol)


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
