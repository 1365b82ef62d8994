"""Translatable texts, and sizes, counts and lengths formatted for people."""

from collections.abc import Iterable


class Words(str):
    """An English text that also carries what a translation needs: template and fields.

    template: text with a {name} for each of `fields`, as str.format takes them. n: a count for
    plural forms, with `comment` as the English singular; n is -1 for texts without a count, where
    `comment` tells two meanings of a text apart. As a str it is the English text.
    """

    template: str
    comment: str
    n: int
    fields: dict[str, object]

    def __new__(cls, template: str, comment: str = "", n: int = -1, /, **fields: object) -> "Words":
        """Format the translatable text in English; `n` is also available as the field {n}."""
        english = comment if n == 1 else template
        is_filled = bool(fields) or n >= 0
        self = super().__new__(cls, english.format(n=n, **fields) if is_filled else english)
        self.template, self.comment, self.n, self.fields = template, comment, n, fields
        return self

    def __str__(self) -> str:
        """Return self instead of a plain str, so that an error's message stays translatable."""
        return self


class ErrorInWords(Exception):
    """Base of exceptions with a translatable message; takes the arguments of Words."""

    def __init__(self, text: str, comment: str = "", n: int = -1, /, **fields: object) -> None:
        super().__init__(text if isinstance(text, Words) else Words(text, comment, n, **fields))


def join_words(parts: Iterable[str], separator: str = " · ") -> Words:
    """Join the non-empty texts into one translatable text."""
    fields = {f"_{place}": part for place, part in enumerate(filter(None, parts))}
    return Words(separator.join(f"{{{name}}}" for name in fields), **fields)


def size_words(nbytes: float) -> Words:
    """Format bytes in powers of 1000, as macOS's Finder does: "18.2 GB"."""
    return _format_three_digits(nbytes, (" B", " kB", " MB", " GB", " TB"))


def count_words(count: int) -> Words:
    """Format a count with a unit prefix: "27.4B" parameters, "940" rows."""
    return _format_three_digits(count, ("", "k", "M", "B", "T"))


def token_words(tokens: int) -> str:
    """Format a number of tokens, multiples of 1024 with a k: "32k", "1000"."""
    return f"{tokens // 1024}k" if tokens >= 1024 and tokens % 1024 == 0 else f"{tokens}"


def percent_words(part: float, whole: float) -> str:
    """Format part / whole as "82 %", or a dash when `whole` is 0."""
    return f"{100 * part / whole:.0f} %" if whole else "–"


def _format_three_digits(number: float, suffixes: tuple[str, ...]) -> Words:
    """Format a number to three digits; suffixes: for units of 1, 1000, 1000**2, ..."""
    for suffix in suffixes[:-1]:
        if number < 999.5:
            return Words("{number:.3g}{unit}", number=number, unit=suffix)
        number /= 1000
    return Words("{number:.3g}{unit}", number=number, unit=suffixes[-1])
