"""A bench of a tiny model: all parts, and arms by a script for turns, texts and Ctrl-C."""

import io
import json
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from time import perf_counter, sleep
from xml.etree import ElementTree

import pytest
from fake_runtime import FakeRuntime, Terminal
from rich.console import Console, Group, RenderableType
from rich.progress import Progress
from tiny_qwen3_5 import write_tiny_qwen3_5

from mlx_engine.bench.arms import Arm, BenchQuestion, DraftSetting, draft_arm, questions
from mlx_engine.bench.report import (
    PARTS,
    AnswerFigures,
    BenchPlan,
    BenchReport,
    Part,
    parse_arm,
    quick_plan,
)
from mlx_engine.bench.run_bench import Show, run_bench
from mlx_engine.bench.tables import write_picture
from mlx_engine.decoding.session import Session
from mlx_engine.engine import Engine, open_engine
from mlx_engine.self_check.between_answers import SelfCheck
from mlx_engine.values.conversation import Generation
from mlx_engine.values.options import SOURCES, DraftOptions, LoadOptions, SamplingOptions
from mlx_engine.values.stats import GenerationStats
from mlx_engine.values.words import size_words

SMALL = replace(quick_plan(), kinds=1, tokens=12, chat_tokens=8)
TEXT = (7, 8, 9)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_qwen3_5(tmp_path_factory.mktemp("bench") / "tiny", bits=8)


@pytest.fixture(scope="module")
def engine(folder: Path) -> Iterator[Engine]:
    opened = open_engine(folder, LoadOptions())
    yield opened
    opened.close()


@dataclass
class Script:
    """Arms that answer by a script; `seen` lists who was asked, and for how many tokens."""

    texts: dict[str, tuple[int, ...]]
    interrupt_at: int = 10**9
    fails: str = ""
    seen: list[tuple[str, int]] = field(default_factory=list)

    def arm(self, name: str) -> Arm:
        def answer(question: BenchQuestion, tokens: int) -> AnswerFigures:
            self.seen.append((name, tokens))
            if len(self.seen) > self.interrupt_at:
                raise KeyboardInterrupt
            if name == self.fails:
                raise OSError("it is gone")
            text = self.texts[name]
            return AnswerFigures(5, text, len(text), 0, 0, len(text), 0.5, 1.5, len(text) - 1, 1.0)

        return Arm(name, answer, is_peer=name.startswith("peer"))

    def bench(
        self, engine: Engine, monkeypatch: pytest.MonkeyPatch, plan: BenchPlan
    ) -> BenchReport:
        arms = [self.arm(name) for name in self.texts]
        room = "mlx_engine.bench.run_bench"
        ours = {arm.name: arm for arm in arms if not arm.is_peer}
        settings = [DraftSetting(name, DraftOptions()) for name in ours]
        monkeypatch.setattr(f"{room}.draft_settings", lambda *_: settings)
        monkeypatch.setattr(f"{room}.draft_arm", lambda engine, plan, setting: ours[setting.name])
        monkeypatch.setattr(f"{room}.peer_arms", lambda *_: [a for a in arms if a.is_peer])
        return run_bench(engine, plan, show=self.shown.append, progress=self.progress)

    progress: Progress = field(default_factory=lambda: Progress(disable=True))
    shown: list[RenderableType] = field(default_factory=list)


def shown(tables: list[RenderableType]) -> str:
    text = io.StringIO()
    Console(width=160, file=text).print(Group(*tables))
    return text.getvalue()


def only(*parts: Part) -> BenchPlan:
    return replace(SMALL, parts=parts)


@pytest.fixture(scope="module")
def tables() -> list[RenderableType]:
    """What the run of `report` shows."""
    return []


@pytest.fixture(scope="module")
def report(engine: Engine, tables: list[RenderableType]) -> BenchReport:
    plan = replace(SMALL, ignore_eos=True, parts=("drafting",))
    return run_bench(engine, plan, show=tables.append)


def test_everything_is_measured(report: BenchReport) -> None:
    assert (report.text_difference, report.declined) == (None, ())
    assert report.drafting is not None
    (kind,) = report.drafting.kinds
    names = [row.arm for row in kind.rows]
    assert names[:5] == ["off", "depth 1", "depth 2", "depth 3", "depth 2, p 0.85"]
    assert names[5:7] == ["auto", "prompt-lookup"]
    assert names[7].startswith("mlx-lm ") and names[7].endswith(", float32")
    assert all(row.tokens == row.equal_tokens == 12 for row in kind.rows)
    for row in kind.rows:
        for figure in (row.tokens_per_second, row.prompt_tokens_per_second, row.wall_s, row.cpu_ms):
            assert figure is not None and figure > 0
    off, one, _, three, careful = kind.rows[:5]
    assert (off.drafted, off.ratio, off.passes) == (0, 1, 12)
    assert one.drafted > 0
    assert sum(careful.depths.values()) == careful.passes
    assert three.passes + three.accepted == 12
    assert [row.arm for row in report.drafting.total] == names


def test_long_prompts_are_asked_instead(engine: Engine) -> None:
    """Each a few tokens short of its length, with what it needs in memory; too long ones not."""
    shown_tables: list[RenderableType] = []
    asked = (160, 320, engine.parts.context_length)
    plan = replace(SMALL, contexts=asked, arms=("1",), tokens=4)
    report = run_bench(engine, plan, show=shown_tables.append)
    assert report.drafting is not None and report.chats is None
    kinds = report.drafting.kinds
    assert [kind.kind for kind in kinds] == ["160 tokens", "320 tokens"]
    for kind, length in zip(kinds, asked, strict=False):
        assert length - 8 <= kind.prompt_tokens <= length
        assert all(row.is_same for row in kind.rows)
    assert kinds[0].memory_bytes < kinds[1].memory_bytes
    assert [reason.code for reason in report.declined].count("context-short") == 1
    assert size_words(kinds[1].memory_bytes) in shown(shown_tables)


def test_a_question_that_is_asked_again_is_read_again(engine: Engine) -> None:
    """Else only the first arm's prompt would be timed."""
    arm = draft_arm(engine, SMALL, DraftSetting("off", DraftOptions("none")))
    question = questions(engine)[0]
    with pytest.MonkeyPatch.context() as patch:
        found: list[Session] = []
        patch.setattr(engine, "session", lambda **given: found.append(made(**given)) or found[-1])
        made = Engine.session.__get__(engine)
        assert arm.answer(question, 2).tokens == arm.answer(question, 2).tokens
    for session in found:
        assert session.stats.reused_tokens == 0
        assert session.stats.prompt_tokens == len(question.tokens)


def test_what_comes_behind_an_answer_is_not_timed(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kernels are tried and passes timed there."""
    behind: list[float] = []

    def run_a_while(_: SelfCheck) -> None:
        behind.append(perf_counter())
        sleep(0.05)

    monkeypatch.setattr(SelfCheck, "run_a_while", run_a_while)
    arm = draft_arm(engine, SMALL, DraftSetting("off", DraftOptions("none")))
    question, started = questions(engine)[0], perf_counter()
    run = arm.answer(question, 2)
    assert run.wall_s <= behind[0] - started


def test_several_chats_at_once_share_their_passes(engine: Engine) -> None:
    plan = replace(only("chats"), kinds=3, arms=("2", "mlx-lm"), ignore_eos=True)
    tables: list[RenderableType] = []
    report = run_bench(engine, plan, show=tables.append)
    assert report.chats is not None
    assert [row.arm for row in report.chats] == ["off", "depth 2"]
    for row in report.chats:
        assert (row.chats, row.is_same) == (3, True)
        assert row.passes < 0.6 * row.alone_passes <= 0.6
        assert min(row.alone, row.at_once, row.ratio) > 0
    assert "3 chats, tok/s of all" in shown(tables)


def test_the_report_is_one_json_line_with_its_keys(report: BenchReport) -> None:
    line = report.as_json()
    assert "\n" not in line
    read = json.loads(line)
    assert list(read) == [field.name for field in fields(BenchReport)]
    assert set(PARTS) | {"model", "machine", "mlx", "plan", "date"} <= set(read)
    assert read["plan"]["sampling"]["seed"] == 1
    row = read["drafting"]["kinds"][0]["rows"][1]
    assert row.keys() >= {"tokens", "drafted", "accepted", "tokens_per_second", "ratio", "why"}


def test_every_part_is_shown(report: BenchReport, tables: list[RenderableType]) -> None:
    text = shown(tables)
    words = (
        "code in Python (1 of 1)",
        "in all",
        "12 of 12",
        "prompt tok/s",
        "A pass of 1 to 9 rows",
        "auto: rounds",
        "6 drafted texts, 72 tokens, all equal",
    )
    for word in (*words, "Same words", "seed 1", report.date):
        assert word in text


def test_there_are_nine_kinds_of_prompt(engine: Engine) -> None:
    asked = questions(engine)
    assert len({question.kind for question in asked}) == len(asked) == BenchPlan().kinds == 9
    assert len({question.text for question in asked}) == 9


def test_arms_take_turns_and_peers_are_asked_for_as_many_tokens(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = Script({"off": TEXT, "1": TEXT, "peer": (7, 1)})
    plan = replace(only("drafting"), kinds=2, repeats=2)
    report = script.bench(engine, monkeypatch, plan)
    there, back = ["off", "1", "peer"], ["peer", "1", "off"]
    assert script.seen[:3] == [("off", 8), ("1", 8), ("peer", 3)]  # to warm up
    seen = script.seen[3:]
    assert [name for name, _ in seen] == 2 * [*there, *back]
    assert {tokens for name, tokens in seen if name == "peer"} == {3}
    assert {tokens for name, tokens in seen if name != "peer"} == {12}
    assert report.text_difference is None
    (task,) = script.progress.tasks
    assert (task.description, task.completed, task.total) == (
        "code in C++, off (15 of 15)",
        15,
        15,
    )


def test_no_green_no_number(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script({"off": TEXT, "1": (7, 8, 1), "2": TEXT})
    report = script.bench(engine, monkeypatch, SMALL)
    assert report.text_difference == "code in Python, 1: token 2 differs"
    assert report.drafting is not None
    speeds = [row.tokens_per_second is None for row in report.drafting.total]
    assert speeds == [False, True, False]
    assert report.chats is None
    assert [reason.code for reason in report.declined] == ["text-differs"]
    assert "NOT the same words" in shown(script.shown)
    assert "NO, token 2 differs" in shown(script.shown)


def test_a_peer_that_fails_is_left_out(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script({"off": TEXT, "peer": TEXT}, fails="peer")
    report = script.bench(engine, monkeypatch, replace(only("drafting"), kinds=2))
    assert [name for name, _ in script.seen].count("peer") == 1
    assert report.drafting is not None
    assert [row.arm for row in report.drafting.total] == ["off"]
    assert [reason.words for reason in report.declined] == [
        "peer cannot run this model: it is gone"
    ]


def test_ctrl_c_leaves_the_kinds_that_were_complete(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = Script({"off": TEXT, "1": TEXT}, interrupt_at=5)  # the second kind's first arm is done
    report = script.bench(engine, monkeypatch, replace(SMALL, kinds=2))
    assert report.is_interrupted
    assert report.drafting is not None
    assert [kind.kind for kind in report.drafting.kinds] == ["code in Python"]
    assert [row.tokens for row in report.drafting.total] == [3, 3]
    assert report.chats is None
    assert "Interrupted" in shown(script.shown)
    stopped = Script({"off": TEXT}, interrupt_at=1)
    assert stopped.bench(engine, monkeypatch, SMALL).drafting is None


def test_chats_that_differ_are_told(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    given = iter(range(99))

    def generate_many(*_: object, **__: object) -> list[Generation]:
        return [Generation("", (next(given),), GenerationStats(passes=1), "end")]

    monkeypatch.setattr(engine, "generate_many", generate_many)
    plan = replace(only("chats"), arms=())
    tables: list[RenderableType] = []
    report = run_bench(engine, plan, show=tables.append)
    assert report.text_difference == "off: chats at once"
    assert "NOT the same words" in shown(tables)


def test_prompts_that_do_not_fit_are_declined(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = Script({"off": TEXT}).bench(engine, monkeypatch, replace(only("drafting"), kinds=9))
    assert report.drafting is not None
    assert 0 < len(report.drafting.kinds) < 9
    assert {reason.code for reason in report.declined} == {"context-short"}
    assert "long code review" in report.declined[-1].words


class Opening(FakeRuntime):
    """Opens real models."""

    def load(self, path: str | None = None, *, options: LoadOptions, **_: object) -> Engine:  # type: ignore[override]
        return open_engine(path, options)


def test_the_command_measures_a_model_without_heads(tmp_path: Path) -> None:
    folder = write_tiny_qwen3_5(tmp_path / "headless", heads="none")
    outside = Opening()
    chosen = "--quick --only drafting --tokens 4 --arms 1,prompt-lookup,mlx-lm --json"
    assert outside.run("bench", str(folder), *chosen.split()) == 0
    (line,) = outside.out.splitlines()
    read = json.loads(line)
    assert read["plan"]["is_quick"] is True
    assert read["chats"] is None
    names = [row["arm"].partition(" ")[0] for row in read["drafting"]["total"]]
    assert names == ["off", "prompt-lookup", "mlx-lm"]
    assert "heads-dropped" in {reason["code"] for reason in read["declined"]}
    assert "code in Python (1 of" in outside.err


@dataclass
class Measured:
    """What run_bench shows, and the plans that it is given."""

    report: BenchReport
    tables: list[RenderableType]
    plans: list[BenchPlan] = field(default_factory=list)

    def bench(
        self, engine: object, plan: BenchPlan, *, heads: object, show: Show, progress: Progress
    ) -> BenchReport:
        self.plans.append(plan)
        with progress:
            progress.add_task("code in Python, depth 1", total=9, completed=2)
        for table in self.tables:
            show(table)
        return self.report


@pytest.fixture
def measured(
    report: BenchReport, tables: list[RenderableType], monkeypatch: pytest.MonkeyPatch
) -> Measured:
    found = Measured(report, tables)
    monkeypatch.setattr("mlx_engine.bench.run_bench.run_bench", found.bench)
    return found


def test_options_become_a_plan(measured: Measured) -> None:
    chosen = (
        "--quick --only chats,drafting --arms 1,2@0.5,mlx-lm --tokens 4 --repeats 3 --ignore-eos"
        " --contexts 512,4k"
    )
    server = "--llama-server bin/llama-server --temperature 0.5 --top-k 20"
    assert FakeRuntime().run("bench", *chosen.split(), *server.split()) == 0
    FakeRuntime().run("bench")
    assert measured.plans == [
        replace(
            quick_plan(),
            parts=("drafting", "chats"),
            arms=("1", "2@0.5", "mlx-lm"),
            contexts=(512, 4096),
            tokens=4,
            repeats=3,
            ignore_eos=True,
            llama_server=Path("bin/llama-server"),
            sampling=SamplingOptions(0.5, top_k=20, seed=1),
        ),
        BenchPlan(),
    ]


@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
def test_no_figure_is_cut_off(measured: Measured, stream: type[io.StringIO]) -> None:
    """A file has no width, and a narrow terminal breaks lines by itself."""
    outside = FakeRuntime(stdout=stream())
    assert outside.run("bench", "--quick") == 0
    title = next(line for line in outside.out.splitlines() if "tok/pass" in line)
    assert all(column in title for column in ("accepted by depth", "cpu ms/tok", "same words"))
    assert "\N{HORIZONTAL ELLIPSIS}" not in outside.out


def test_how_far_it_is_is_shown_at_a_terminal(measured: Measured) -> None:
    outside = FakeRuntime()
    outside.run("bench")
    assert outside.err == ""
    at_terminal = FakeRuntime(stdout=Terminal())
    at_terminal.run("bench")
    assert "code in Python, depth 1" in at_terminal.out


def test_ctrl_c_prints_and_leaves_with_130(measured: Measured) -> None:
    measured.report = replace(measured.report, is_interrupted=True)
    outside = FakeRuntime()
    assert outside.run("bench", "--json") == 130
    assert json.loads(outside.out)["is_interrupted"] is True


def test_the_picture(tmp_path: Path, measured: Measured) -> None:
    picture = tmp_path / "figures.svg"
    measured.report = replace(measured.report, is_interrupted=True)
    assert FakeRuntime().run("bench", "--svg", str(picture)) == 130
    root = ElementTree.parse(picture).getroot()
    text = " ".join(" ".join(root.itertext()).split()).replace("\xa0", " ")
    for words in ("code in Python", "in all", "depth 2, p 0.85", "× 1.00", "Interrupted"):
        assert words in text
    assert "url(" not in picture.read_text().replace("url(#", ""), "nothing is fetched to show it"


def test_a_picture_of_one_arm_that_ended_at_once(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = Script({"off": (7,)}).bench(engine, monkeypatch, only("drafting"))
    write_picture(report, tmp_path / "figures.svg")
    assert ElementTree.parse(tmp_path / "figures.svg")


def test_a_picture_that_cannot_be_is_refused_before_anything_is_measured(
    tmp_path: Path, measured: Measured
) -> None:
    for path in (tmp_path, tmp_path / "none" / "figures.svg"):
        outside = FakeRuntime()
        assert outside.run("bench", "--svg", str(path)) == 2
        assert "name a file in a folder that exists" in outside.err
    assert measured.plans == []


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--only", "memory"),
        ("--arms", "9"),
        ("--arms", "x"),
        ("--tokens", "0"),
        ("--contexts", "4k,x"),
    ],
)
def test_the_command_refuses(option: str, value: str) -> None:
    with pytest.raises(SystemExit, match="2"):
        FakeRuntime().run("bench", option, value)


@pytest.mark.parametrize("source", SOURCES)
def test_every_source_of_drafts_may_be_an_arm(source: str) -> None:
    assert parse_arm(source).source == source


def test_sampling_is_greedy_unless_told() -> None:
    assert BenchPlan().sampling == quick_plan().sampling == SamplingOptions(temperature=0, seed=1)
