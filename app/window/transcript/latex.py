"""Writes a subset of LaTeX maths as rich text; what it does not know is shown as typed."""

import re
from collections.abc import Container, Mapping
from html import escape


def _table_of(pairs: str) -> dict[str, str]:
    return dict(pair.split("=", 1) for pair in pairs.split())


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


GREEK = _table_of(
    "alpha=α beta=β gamma=γ delta=δ epsilon=ϵ zeta=ζ eta=η theta=θ iota=ι kappa=κ lambda=λ mu=μ "
    "nu=ν xi=ξ pi=π rho=ρ sigma=σ tau=τ upsilon=υ phi=ϕ chi=χ psi=ψ omega=ω varepsilon=ε "
    "vartheta=ϑ varphi=φ varrho=ϱ varsigma=ς varpi=ϖ"
)
CAPITALS = _table_of(
    "Gamma=Γ Delta=Δ Theta=Θ Lambda=Λ Xi=Ξ Pi=Π Sigma=Σ Upsilon=Υ Phi=Φ Psi=Ψ Omega=Ω"
)

SPACED = _table_of(
    "pm=± mp=∓ times=× div=÷ cdot=· ast=∗ star=⋆ circ=∘ bullet=• oplus=⊕ otimes=⊗ odot=⊙ "
    "cap=∩ cup=∪ setminus=∖ wedge=∧ land=∧ vee=∨ lor=∨ le=≤ leq=≤ leqslant=≤ ge=≥ geq=≥ "
    "geqslant=≥ ne=≠ neq=≠ ll=≪ gg=≫ approx=≈ equiv=≡ sim=∼ simeq=≃ cong=≅ propto=∝ prec=≺ "
    "succ=≻ in=∈ ni=∋ notin=∉ subset=⊂ subseteq=⊆ supset=⊃ supseteq=⊇ mid=∣ parallel=∥ "
    "perp=⊥ to=→ rightarrow=→ leftarrow=← gets=← leftrightarrow=↔ Rightarrow=⇒ Leftarrow=⇐ "
    "Leftrightarrow=⇔ iff=⇔ implies=⇒ impliedby=⇐ mapsto=↦ longrightarrow=⟶ "
    "longleftarrow=⟵ hookrightarrow=↪ rightharpoonup=⇀ uparrow=↑ downarrow=↓ vdash=⊢ models=⊨ "
    "triangleq=≜ doteq=≐ asymp=≍ bmod=mod coloneqq=≔"
)
"""Operators and relations: written with thin space around them."""

PLAIN = _table_of(
    "infty=∞ partial=∂ nabla=∇ forall=∀ exists=∃ nexists=∄ emptyset=∅ varnothing=∅ neg=¬ "
    "lnot=¬ top=⊤ bot=⊥ angle=∠ triangle=△ square=□ Box=□ blacksquare=■ therefore=∴ because=∵ "
    "sum=∑ prod=∏ coprod=∐ int=∫ iint=∬ iiint=∭ oint=∮ bigcup=⋃ bigcap=⋂ bigoplus=⨁ "
    "bigotimes=⨂ bigvee=⋁ bigwedge=⋀ ldots=… dots=… cdots=⋯ vdots=⋮ ddots=⋱ dotsc=… dotsb=⋯ "
    "hbar=ℏ ell=ℓ Re=ℜ Im=ℑ aleph=ℵ wp=℘ imath=ı jmath=ȷ prime=′ dagger=† ddagger=‡ "
    "langle=⟨ rangle=⟩ lfloor=⌊ rfloor=⌋ lceil=⌈ rceil=⌉ lvert=| rvert=| vert=| lVert=‖ "
    "rVert=‖ Vert=‖ lbrace={ rbrace=} lbrack=[ rbrack=] backslash=\\ checkmark=✓ degree=° "
    "S=§ P=¶ pounds=£ copyright=© colon=: surd=√ complement=∁"
)

SPACES = {
    ",": "\u2009",
    ":": "\u2005",
    ";": "\u2004",
    "!": "",
    " ": " ",
    "quad": "\u2003",
    "qquad": "\u2003\u2003",
    "thinspace": "\u2009",
    "\\": "; ",
}
ESCAPED = {letter: letter for letter in "{}$%&#_"} | {"|": "‖"}

FUNCTIONS = _names(
    "sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh log ln lg exp lim limsup liminf "
    "max min sup inf arg det dim ker deg gcd hom Pr argmax argmin"
)
"""Set upright, with a space before what follows."""

IGNORED = _names(
    "left right big Big bigg Bigg bigl bigr Bigl Bigr displaystyle textstyle limits nolimits "
    "nonumber notag hline mathstrut"
)

ACCENTS = {
    "hat": "\u0302",
    "widehat": "\u0302",
    "tilde": "\u0303",
    "widetilde": "\u0303",
    "bar": "\u0304",
    "overline": "\u0305",
    "underline": "\u0332",
    "vec": "\u20d7",
    "dot": "\u0307",
    "ddot": "\u0308",
    "check": "\u030c",
    "acute": "\u0301",
    "grave": "\u0300",
}
"""Combining marks, put after the letter."""

BLACKBOARD = dict(zip("CHNPQRZ", "ℂℍℕℙℚℝℤ", strict=True)) | {"E": "𝔼", "F": "𝔽", "1": "𝟙"}
SCRIPT = dict(zip("BEFHILMR", "ℬℰℱℋℐℒℳℛ", strict=True))

RAISED = dict(zip("0123456789+-=()n", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ⁿ", strict=True))
LOWERED = dict(zip("0123456789+-=()", "₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎", strict=True))

UPRIGHT = _names("mathrm text textrm textnormal operatorname operatorname* mathsf mbox")


DEEPEST = 24
"""Groups nested deeper than this are shown as typed."""
LONGEST = 8000
"""Formulas with more characters are shown as typed."""

TOKEN = re.compile(r"\\(?:[A-Za-z]+\*?|.)|\s+|\d+(?:[.,]\d+)*|.", re.DOTALL)
SYMBOL = PLAIN | CAPITALS
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
    "upright": UPRIGHT,
    "mark": ACCENTS,
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
        table, tag = (RAISED, "sup") if sign == "^" else (LOWERED, "sub")
        letters = _without_tags(inner).replace("\u2009", "").replace("−", "-")
        if letters in ("′", "∘"):
            return "′" if letters == "′" else "°"
        if letters and all(letter in table for letter in letters):
            return "".join(table[letter] for letter in letters)
        if f"<{tag}>" in inner:
            return f"{sign}({inner})"
        return f"<{tag}>{inner.replace(chr(0x2009), '')}</{tag}>"

    def _command(self, name: str) -> str:
        if name in IGNORED:
            if name in ("left", "right") and self._tokens[self._at : self._at + 1] == ["."]:
                self._at += 1
            return ""
        simple = _simple(name)
        return simple if simple is not None else self._with_arguments(name)

    def _with_arguments(self, name: str) -> str:
        kind = next((kind for kind, names in COMMANDS.items() if name in names), None)
        if kind == "mark":
            return _accented(self._argument(), ACCENTS[name])
        if kind == "letters":
            table = {"mathbb": BLACKBOARD, "mathcal": SCRIPT}.get(name, {})
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
            root = _mapped(self._bracketed(), RAISED)
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
    if name in SPACED:
        return f"\u2009{escape(SPACED[name])}\u2009"
    if name in GREEK:
        return f"<i>{GREEK[name]}</i>"
    if name in SYMBOL:
        return escape(SYMBOL[name])
    if name in FUNCTIONS:
        return f"\u2009{name}{FUNCTION_END}"
    if name in SPACES:
        return SPACES[name]
    return escape(ESCAPED[name]) if name in ESCAPED else None


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
