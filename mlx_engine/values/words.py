"""Sizes, counts and lengths as people read them."""


def size_words(nbytes: float) -> str:
    """Bytes in powers of 1000, as the Finder counts: "18.2 GB"."""
    return _scaled(nbytes, ("B", "kB", "MB", "GB", "TB"), " ")


def count_words(count: int) -> str:
    """Things counted: "27.4B" parameters, "940" rows."""
    return _scaled(count, ("", "k", "M", "B", "T"), "")


def token_words(tokens: int) -> str:
    """A length in tokens, in powers of 1024 where it is one: "32k", "1000"."""
    return f"{tokens // 1024}k" if tokens >= 1024 and tokens % 1024 == 0 else f"{tokens}"


def about_tokens(tokens: int) -> str:
    """A length that is not more than this: "5k" for 5,900."""
    return f"{tokens // 1024}k" if tokens >= 1024 else f"{tokens}"


def percent_words(part: float, whole: float) -> str:
    """ "82 %", or a dash when there is nothing to divide by."""
    return f"{100 * part / whole:.0f} %" if whole else "–"


def _scaled(number: float, units: tuple[str, ...], gap: str) -> str:
    for unit in units[:-1]:
        if number < 999.5:
            return f"{number:.3g}{gap}{unit}"
        number /= 1000
    return f"{number:.3g}{gap}{units[-1]}"
