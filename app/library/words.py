"""Sizes and lengths as the cards say them."""


def size_words(nbytes: int) -> str:
    """Bytes in powers of 1000, as the Finder counts: "18.2 GB"."""
    number = float(nbytes)
    for unit in ("B", "kB", "MB", "GB"):
        if number < 999.5:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:.3g} TB"


def count_words(count: int) -> str:
    """Parameters: "27.4B"."""
    number = float(count)
    for unit in ("", "k", "M", "B"):
        if number < 999.5:
            return f"{number:.3g}{unit}"
        number /= 1000
    return f"{number:.3g}T"


def token_words(tokens: int) -> str:
    """A length of context: "4k", "262k" is "256k" because contexts are powers of two."""
    return f"{tokens // 1024}k" if tokens >= 1024 else str(tokens)
