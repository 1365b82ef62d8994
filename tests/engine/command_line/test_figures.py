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


def shown(stats: GenerationStats, output: DraftOutput | None = None) -> dict[str, str]:
    """Lines of /stats by their first words."""
    text = io.StringIO()
    Console(file=text, width=120).print(stats_figures(stats, output))
    lines = [line.rstrip().split("  ", 1) for line in text.getvalue().splitlines()]
    return {name: words.strip() for name, words in lines}


def test_what_heads_have_read_is_told() -> None:
    assert "heads" not in shown(STATS)["prompt"]
    read = replace(STATS, prompt_tokens=8000, head_rows=256, head_share=0.0132)
    assert shown(read)["prompt"].endswith("; heads read 256 tok, 1.3 % of the time")


def test_every_depth_and_source_has_its_sums() -> None:
    found = shown(STATS, "4-bit")
    assert found["depth 1"] == "accepted 91/100 (91 %)"
    assert found["depth 3"] == "accepted 0/32 (0 %)"
    assert found["by prompt-lookup"] == "accepted 4/12 (33 %)"
    assert found["by mtp"] == "accepted 170/200 (85 %), output head 4-bit"
    assert found["answer"].startswith("73 passes; 41.3 tok/s")
    assert "nothing drafted" in shown(GenerationStats())["answer"]


def test_stages_are_milliseconds_a_pass() -> None:
    found = shown(STATS)
    assert found["draft"] == "1.00 ms a pass (22 %)"
    assert found["verify"] == "3.00 ms a pass (67 %)"
    assert found["accept"] == "0.50 ms a pass (11 %)"
    assert shown(GenerationStats())["host"] == "0.00 ms a pass (–)"


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
