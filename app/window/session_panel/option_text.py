"""Options that are typed as text: stop strings and logit biases."""

from collections.abc import Mapping

from mlx_engine.values.errors import BadOption

ESCAPES = {"\\n": "\n", "\\r": "\r", "\\t": "\t", "\\\\": "\\"}


def read_stop(text: str) -> tuple[str, ...]:
    r"""One stop string a line, with \n, \r, \t and \\ for characters that cannot be typed."""
    return tuple(_unescaped(line) for line in text.split("\n") if line)


def stop_text(stop: tuple[str, ...]) -> str:
    """The inverse of read_stop."""
    return "\n".join(_escaped(text) for text in stop)


def read_logit_bias(text: str) -> dict[int, float]:
    """A token's id and its bias a line: "1734: -5". Raises BadOption with the line's number."""
    biases: dict[int, float] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        token, colon, bias = (part.strip() for part in line.partition(":"))
        if not colon or not token.isascii() or not token.isdecimal() or len(token) > 9:
            raise BadOption(f"Line {number}: write a token's id and its bias, such as 1734: -5.")
        try:
            biases[int(token)] = float(bias)
        except ValueError:
            raise BadOption(f"Line {number}: “{bias[:20]}” is not a number.") from None
    return biases


def logit_bias_text(biases: Mapping[int, float]) -> str:
    """The inverse of read_logit_bias."""
    return "\n".join(f"{token}: {repr(bias).removesuffix('.0')}" for token, bias in biases.items())


def says_stop(text: str, stop: tuple[str, ...]) -> bool:
    """Whether a text that is being typed already means these stop strings."""
    return read_stop(text) == stop


def says_logit_bias(text: str, biases: Mapping[int, float]) -> bool:
    """Whether a text that is being typed already means these biases."""
    try:
        return read_logit_bias(text) == dict(biases)
    except BadOption:
        return False


def _escaped(text: str) -> str:
    for short, long in reversed(ESCAPES.items()):
        text = text.replace(long, short)
    return text


def _unescaped(line: str) -> str:
    parts, at = [], 0
    while at < len(line):
        pair = line[at : at + 2]
        parts.append(ESCAPES.get(pair, line[at]))
        at += 2 if pair in ESCAPES else 1
    return "".join(parts)
