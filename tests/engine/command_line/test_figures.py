"""The figures under an answer say what the stats say."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from mlx_engine.command_line.conversation import stats_figures
from mlx_engine.command_line.screen import ENDINGS, status_line
from mlx_engine.values.options import DraftOutput
from mlx_engine.values.stats import GenerationStats, SourceStats
from mlx_engine.values.words import (
    count_words,
    percent_words,
    size_words,
    token_words,
)

STATS = GenerationStats(
    prompt_tokens=12,
    generated_tokens=212,
    drafted=212,
    accepted=174,
    drafted_by_depth=(100, 80, 32),
    accepted_by_depth=(91, 83),
    passes=73,
    tokens_per_pass=2.904,
    tokens_per_second=41.26,
    time_to_first_token_s=0.4,
    draft_ms=73.0,
    verify_ms=219.0,
    host_ms=0.0,
    accept_ms=36.5,
    by_source=(SourceStats("prompt-lookup", 12, 4), SourceStats("mtp", 200, 170)),
)


def test_status_line() -> None:
    assert status_line(STATS) == (
        "41.3 tok/s · 212 tok · 0.40 s to the first · accepted 174/212 (82 %) · 2.90 tok/pass"
    )


def test_status_line_without_drafting() -> None:
    assert "nothing drafted" in status_line(GenerationStats(generated_tokens=3))


def shown(stats: GenerationStats, output: DraftOutput | None = None) -> list[str]:
    """Lines of /stats."""
    text = io.StringIO()
    Console(file=text, width=100).print(stats_figures(stats, output))
    return [line.rstrip() for line in text.getvalue().splitlines()]


def line(stats: GenerationStats, start: str) -> str:
    return next(
        found for found in shown(stats) if found.startswith(start) and "drafted by" not in found
    )


def test_what_heads_have_read_is_told() -> None:
    assert "heads" not in shown(STATS)[0]
    read = replace(STATS, prompt_tokens=8000, head_rows=256, head_share=0.0132)
    assert shown(read)[0].endswith("; heads read 256 tok, 1.3 % of the time")


def test_every_depth_has_a_bar() -> None:
    assert line(STATS, "depth 1").endswith(" 91 % (91/100)")
    assert line(STATS, "depth 3").endswith("  0 % (0/32)")
    assert [line(STATS, f"depth {depth}").count("█") for depth in (1, 2, 3)] == [21, 24, 0]
    assert "Nothing was drafted." in shown(GenerationStats())
    assert "Nothing was drafted." not in shown(STATS)


def test_every_source_has_its_sums() -> None:
    assert [line for line in shown(STATS, "4-bit") if line.startswith("drafted")] == [
        "drafted by prompt-lookup: accepted 4/12 (33 %)",
        "drafted by mtp: accepted 170/200 (85 %), output head 4-bit",
    ]


def test_stages_are_milliseconds_a_pass() -> None:
    wanted = {"draft": 1, "verify": 3, "accept": 0.5, "host": 0}
    for name, ms in wanted.items():
        assert line(STATS, f"{name} ").endswith(f"({ms:.2f} ms a pass)")
    assert "67 %" in line(STATS, "verify ") and 15 <= line(STATS, "verify ").count("█") <= 16
    assert "–" in line(GenerationStats(), "draft ")


def test_a_whole_answer_needs_no_words_for_its_end() -> None:
    assert ENDINGS["end"] == ""
    assert "/continue" in ENDINGS["stopped"]


@pytest.mark.parametrize(
    ("made", "wanted"),
    [
        (size_words(0), "0 B"),
        (size_words(999), "999 B"),
        (size_words(999_900), "1 MB"),
        (size_words(18_200_000_000), "18.2 GB"),
        (size_words(3 * 10**15), "3e+03 TB"),
        (count_words(27_400_000_000), "27.4B"),
        (count_words(940), "940"),
        (token_words(32768), "32k"),
        (token_words(1000), "1000"),
        (percent_words(1, 3), "33 %"),
        (percent_words(0, 0), "–"),
    ],
)
def test_numbers_in_words(made: str, wanted: str) -> None:
    assert made == wanted
