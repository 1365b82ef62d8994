"""A quick bench of a tiny model: one JSON line with all its keys, and none for a wrong drafter."""

import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path

import pytest
from fake_outside import FakeOutside, Terminal
from rich.console import Console
from tiny_qwen3_5 import write_tiny_qwen3_5

from mlx_engine.bench.card import card
from mlx_engine.bench.report import PARTS, BenchReport, Part, Plan, quick_plan
from mlx_engine.bench.run_bench import run_bench
from mlx_engine.engine import Engine, open_engine
from mlx_engine.loading.load import load_model
from mlx_engine.values.conversation import Generation
from mlx_engine.values.options import DraftOptions, LoadOptions, SamplingOptions

SMALL = replace(
    quick_plan(),
    repeats=1,
    run_s=0.1,
    plain_tokens=8,
    prompt=12,
    agreement_tokens=8,
    draft_prompts=1,
    draft_tokens=8,
    acceptance_prompts=1,
    acceptance_draws=2,
    memory_prompt=24,
    memory_tokens=24,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_qwen3_5(tmp_path_factory.mktemp("bench") / "tiny", bits=8)


@pytest.fixture(scope="module")
def engine(folder: Path) -> Iterator[Engine]:
    opened = open_engine(folder, LoadOptions())
    yield opened
    opened.close()


class WrongDrafter(Engine):
    """Drafting changes one token of a text."""

    def generate(
        self,
        prompt: str | Sequence[int],
        max_tokens: int | None = None,
        sampling: SamplingOptions | None = None,
        draft: DraftOptions | None = None,
        stop: Sequence[str] = (),
        ignore_eos: bool = False,
    ) -> Generation:
        made = super().generate(prompt, max_tokens, sampling, draft, stop, ignore_eos)
        is_plain = draft is not None and draft.source == "none"
        return made if is_plain else replace(made, tokens=(*made.tokens[:5], 0, *made.tokens[6:]))


def shown(report: BenchReport) -> str:
    text = io.StringIO()
    Console(width=120, file=text).print(card(report))
    return text.getvalue()


def only(*parts: Part) -> Plan:
    return replace(SMALL, parts=parts)


@pytest.fixture(scope="module")
def report(engine: Engine) -> BenchReport:
    return run_bench(engine, SMALL)


def test_everything_is_measured(report: BenchReport) -> None:
    assert report.agreement.is_green
    assert report.declined == ()
    assert report.plain is not None
    assert [found.peer.rpartition(", ")[2] for found in report.plain] == ["float32", "as is"]
    found = report.plain[0]
    assert found.equal_tokens == found.decode_tokens == 8
    assert found.decode.ours > 0 < found.decode.theirs
    assert report.drafting is not None
    names = [(arm.temperature, arm.depth) for arm in report.drafting.arms]
    assert names == [(t, d) for t in (0.0, 0.8) for d in ("0", "1", "2", "3", "auto")]
    assert report.drafting.arms[0].ratio == 1.0
    assert report.acceptance is not None
    assert 0 < report.acceptance.bound <= 1
    assert report.memory is not None
    assert report.memory.prompt_tokens + report.memory.generated_tokens == 48
    assert report.memory.replay_bytes > 0
    assert report.ops is not None
    assert [row.drafted for row in report.ops] == [0, 3, 0]
    assert all(row.nodes > 100 for row in report.ops)


def test_the_report_is_one_json_line_with_its_keys(report: BenchReport) -> None:
    line = report.as_json()
    assert "\n" not in line
    read = json.loads(line)
    assert list(read) == [field.name for field in fields(BenchReport)]
    assert set(PARTS) <= set(read)
    assert set(read["plain"][0]["decode"]) == {"ours", "theirs", "ratio"}
    assert set(read["drafting"]["arms"][-1]) >= {"tokens_per_pass", "acceptance", "ratio", "why"}
    assert read["memory"]["samples"][0].keys() == {"tokens", "active_bytes", "track_bytes"}


def test_the_card_shows_every_part(report: BenchReport) -> None:
    text = shown(report)
    for words in ("Same words", "mlx-lm", "0.8, auto", "rejection sampling", "peak MB", "nodes"):
        assert words in text


def test_no_green_no_number(folder: Path) -> None:
    engine = WrongDrafter(load_model(folder, LoadOptions(), folder), LoadOptions())
    report = run_bench(engine, SMALL)
    engine.close()
    assert not report.agreement.is_green
    assert report.agreement.difference == "token 5 differs at temperature 0, depth 1"
    assert all(
        value is None for name, value in json.loads(report.as_json()).items() if name in PARTS
    )
    assert [reason.code for reason in report.declined] == ["text-differs"]
    assert "NOT the same words" in shown(report)


def test_without_heads_the_rest_is_measured(tmp_path: Path) -> None:
    folder = write_tiny_qwen3_5(tmp_path / "headless", heads="none")
    report = run_bench(folder, only("drafting", "ops"))
    assert report.agreement.is_green
    assert report.drafting is None
    assert report.ops is not None
    assert [row.drafted for row in report.ops] == [0, 0]
    assert [reason.code for reason in report.declined] == ["heads-dropped"]


def test_the_command(folder: Path, tmp_path: Path) -> None:
    outside = FakeOutside(tmp_path)
    status = outside.run("bench", str(folder), "--quick", "--only", "ops", "--json")
    assert status == 0
    (line,) = outside.out.splitlines()
    assert json.loads(line)["quick"] is True
    assert json.loads(line)["plain"] is None
    assert "Graph of a round" in outside.err


@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
def test_no_figure_is_cut_off(
    folder: Path,
    report: BenchReport,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    stream: type[io.StringIO],
) -> None:
    """A file has no width, and a narrow terminal breaks lines by itself."""
    monkeypatch.setattr("mlx_engine.bench.run_bench.run_bench", lambda *args, **kwargs: report)
    outside = FakeOutside(tmp_path, stdout=stream())
    assert outside.run("bench", str(folder), "--quick") == 0
    (title,) = (line for line in outside.out.splitlines() if "temperature, depth" in line)
    assert all(column in title for column in ("accepted by depth", "cpu ms/tok", "host ms"))
    assert "\N{HORIZONTAL ELLIPSIS}" not in outside.out


def test_the_command_refuses_unknown_parts(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="2"):
        FakeOutside(tmp_path).run("bench", "--only", "speed")
