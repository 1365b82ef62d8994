"""Finds the first of several strings in text that arrives a character at a time."""


class PatternMatcher:
    """Knuth, Morris and Pratt (1977) for a few patterns at once; O(1) a character, amortised."""

    def __init__(self, patterns: tuple[str, ...]) -> None:
        """Patterns must not be empty."""
        self._patterns = patterns
        self._borders = [_borders(pattern) for pattern in patterns]
        self._matched = [0] * len(patterns)

    @property
    def open_length(self) -> int:
        """How many of the last characters may be the beginning of a pattern."""
        return max(self._matched, default=0)

    def feed(self, character: str) -> str | None:
        """The longest pattern that ends with this character, if any."""
        found: str | None = None
        for place, pattern in enumerate(self._patterns):
            matched = self._matched[place]
            while matched and pattern[matched] != character:
                matched = self._borders[place][matched]
            matched += pattern[matched] == character
            if matched == len(pattern):
                matched = self._borders[place][matched]
                found = max(found or "", pattern, key=len)
            self._matched[place] = matched
        return found

    def reset(self) -> None:
        """Forgets the characters fed so far."""
        self._matched = [0] * len(self._patterns)


def _borders(pattern: str) -> list[int]:
    """[n] -> length of the longest proper prefix of pattern[:n] that is also its suffix."""
    borders = [0, 0]
    for character in pattern[1:]:
        border = borders[-1]
        while border and pattern[border] != character:
            border = borders[border]
        borders.append(border + (pattern[border] == character))
    return borders
