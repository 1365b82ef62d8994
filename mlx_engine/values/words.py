"""Texts that can be said in another language; sizes, counts and lengths as people read them."""

from collections.abc import Iterable


class Words(str):
    """English for a reader, and what a translation of it needs: the text before it was filled in.

    template: with a {name} for each of `fields`, as str.format takes them. n: a count, and
    comment: the English of one of them; else n is -1, and comment tells apart two meanings of a
    text. It is its English wherever a str is wanted: in the terminal, in logs, in files.
    """

    template: str
    comment: str
    n: int
    fields: dict[str, object]

    def __new__(cls, template: str, comment: str = "", n: int = -1, /, **fields: object) -> "Words":
        """As English; `n` is filled in as a field of that name."""
        english = comment if n == 1 else template
        is_filled = bool(fields) or n >= 0
        self = super().__new__(cls, english.format(n=n, **fields) if is_filled else english)
        self.template, self.comment, self.n, self.fields = template, comment, n, fields
        return self

    def __str__(self) -> str:
        """Itself, so that an error's message can still be translated."""
        return self


class ErrorInWords(Exception):
    """An error whose message can be said in another language: it takes what Words take."""

    def __init__(self, text: str, comment: str = "", n: int = -1, /, **fields: object) -> None:
        super().__init__(text if isinstance(text, Words) else Words(text, comment, n, **fields))


def joined(parts: Iterable[str], gap: str = " · ") -> Words:
    """Those that are not empty, as one text."""
    fields = {f"_{place}": part for place, part in enumerate(filter(None, parts))}
    return Words(gap.join(f"{{{name}}}" for name in fields), **fields)


def size_words(nbytes: float) -> Words:
    """Bytes in powers of 1000, as the Finder counts: "18.2 GB"."""
    return _scaled(nbytes, (" B", " kB", " MB", " GB", " TB"))


def count_words(count: int) -> Words:
    """Things counted: "27.4B" parameters, "940" rows."""
    return _scaled(count, ("", "k", "M", "B", "T"))


def token_words(tokens: int) -> str:
    """A length in tokens, in powers of 1024 where it is one: "32k", "1000"."""
    return f"{tokens // 1024}k" if tokens >= 1024 and tokens % 1024 == 0 else f"{tokens}"


def about_tokens(tokens: int) -> str:
    """A length that is not more than this: "5k" for 5,900."""
    return f"{tokens // 1024}k" if tokens >= 1024 else f"{tokens}"


def percent_words(part: float, whole: float) -> str:
    """ "82 %", or a dash when there is nothing to divide by."""
    return f"{100 * part / whole:.0f} %" if whole else "–"


def _scaled(number: float, units: tuple[str, ...]) -> Words:
    for unit in units[:-1]:
        if number < 999.5:
            return Words("{number:.3g}{unit}", number=number, unit=unit)
        number /= 1000
    return Words("{number:.3g}{unit}", number=number, unit=units[-1])
