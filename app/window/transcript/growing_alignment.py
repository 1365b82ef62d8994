"""The alignment of a text that grows, without walking through its unchanged beginning again."""

from collections.abc import Sequence

from app.window.transcript.drafted_spans import Run, aligned

MARGIN = 64
"""Characters at the end of a text that are walked again: they may have been read otherwise."""


class GrowingAlignment:
    """Runs of the newest text: `aligned` of it, but for words that only later text explains."""

    def __init__(self) -> None:
        self._source = self._rendered = ""
        self._runs: list[Run] = []

    def of(self, source: str, rendered: str) -> Sequence[Run]:
        """The runs of a text; fast when it begins as the one before did."""
        self._keep(source, rendered)
        last = self._runs[-1] if self._runs else Run(0, 0, 0)
        at, start = last.source + last.length, last.rendered + last.length
        self._runs += aligned(source, rendered, at, start)
        self._source, self._rendered = source, rendered
        return self._runs

    def _keep(self, source: str, rendered: str) -> None:
        """Drop the runs that are not of the unchanged beginning, and those near its end."""
        old_source = self._source[:-MARGIN]
        old_rendered = self._rendered[:-MARGIN]
        same = source.startswith(old_source) and rendered.startswith(old_rendered)
        end = old_rendered.rfind(" ") + 1 if same else 0
        runs = self._runs
        while runs and (
            runs[-1].rendered + runs[-1].length > end
            or runs[-1].source + runs[-1].length > len(old_source)
        ):
            runs.pop()
