"""A bench of a tiny model: all parts, and arms by a script for turns, texts and Ctrl-C."""

import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from fake_runtime import FakeRuntime, Terminal
from rich.console import Console, Group, RenderableType
from rich.progress import Progress
from tiny_qwen3_5 import write_tiny_qwen3_5

from mlx_engine.bench.arms import Arm
from mlx_engine.bench.report import ARMS, PARTS, BenchReport, Part, Plan, parse_arm, quick_plan
from mlx_engine.bench.run_bench import Show, run_bench
from mlx_engine.bench.runs import Run, nine_kinds
from mlx_engine.bench.tables import write_picture
from mlx_engine.engine import Engine, open_engine
from mlx_engine.values.options import SOURCES, LoadOptions, SamplingOptions

SMALL = replace(
    quick_plan(),
    kinds=1,
    tokens=12,
    prompt=12,
    short_prompts=1,
    short_tokens=8,
    memory_prompt=24,
    memory_tokens=24,
)
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
        def answer(prompt: Sequence[int], tokens: int) -> Run:
            self.seen.append((name, tokens))
            if len(self.seen) > self.interrupt_at:
                raise KeyboardInterrupt
            if name == self.fails:
                raise OSError("it is gone")
            text = self.texts[name]
            return Run(text, len(text), 0, 0, len(text), 0.5, 1.5, len(text) - 1, 1.0)

        return Arm(name, answer, is_peer=name.startswith("peer"))

    def bench(self, engine: Engine, monkeypatch: pytest.MonkeyPatch, plan: Plan) -> BenchReport:
        arms = [self.arm(name) for name in self.texts]
        room = "mlx_engine.bench.run_bench"
        monkeypatch.setattr(f"{room}.draft_arms", lambda *_: [a for a in arms if not a.is_peer])
        monkeypatch.setattr(f"{room}.peer_arms", lambda *_: [a for a in arms if a.is_peer])
        return run_bench(engine, plan, show=self.shown.append, progress=self.progress)

    progress: Progress = field(default_factory=lambda: Progress(disable=True))
    shown: list[RenderableType] = field(default_factory=list)


def shown(tables: list[RenderableType]) -> str:
    text = io.StringIO()
    Console(width=160, file=text).print(Group(*tables))
    return text.getvalue()


def only(*parts: Part) -> Plan:
    return replace(SMALL, parts=parts)


@pytest.fixture(scope="module")
def tables() -> list[RenderableType]:
    """What the run of `report` shows."""
    return []


@pytest.fixture(scope="module")
def report(engine: Engine, tables: list[RenderableType]) -> BenchReport:
    parts = tuple(part for part in PARTS if part != "chats")
    return run_bench(engine, replace(SMALL, ignore_eos=True, parts=parts), show=tables.append)


def test_everything_is_measured(report: BenchReport) -> None:
    assert report.agreement.is_green
    assert (report.agreement.texts, report.agreement.tokens) == (6, 72)
    assert report.declined == ()
    assert report.drafting is not None
    (kind,) = report.drafting.kinds
    names = [row.arm for row in kind.rows]
    assert names[:5] == ["off", "depth 1", "depth 2", "depth 3", "depth 2, p 0.85"]
    assert names[5:7] == ["auto", "prompt-lookup"]
    assert names[7].startswith("mlx-lm ") and names[7].endswith(", float32")
    assert all(row.tokens == row.equal_tokens == 12 for row in kind.rows)
    assert all(row.speed is not None and row.speed.wall_s > 0 for row in kind.rows)
    off, one, _, three, careful = kind.rows[:5]
    assert (off.drafted, off.rate, off.passes) == (0, None, 12)
    assert one.drafted > 0
    assert sum(careful.depths.values()) == careful.passes
    assert three.passes + three.accepted == 12
    assert [row.arm for row in report.drafting.total] == names
    assert report.prompt is not None
    assert [row.arm for row in report.prompt[:2]] == ["without heads", "with heads"]
    assert report.prompt[0].ratio == 1
    assert all(row.tokens == 12 and row.tokens_per_second > 0 for row in report.prompt)
    assert report.cache is not None
    whole, half, quarter = report.cache
    assert (whole.bits, whole.difference, whole.divergence, whole.likeliest) == (16, 0, 0, 1)
    assert 0 < half.difference < quarter.difference and 0 < half.divergence < quarter.divergence
    assert whole.bytes_per_token > half.bytes_per_token > quarter.bytes_per_token
    assert all(row.is_same and row.accepted is not None for row in report.cache)
    assert report.memory is not None
    assert report.memory.prompt_tokens + report.memory.generated_tokens == 48
    assert report.memory.peak_bytes > report.memory.conversation_bytes > 0


def test_several_chats_at_once_share_their_passes(engine: Engine) -> None:
    plan = replace(only("chats"), arms=("2", "mlx-lm"), ignore_eos=True)
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
    assert set(PARTS) <= set(read)
    assert read["conditions"].keys() >= {"model", "machine", "mlx", "sampling", "date"}
    assert read["conditions"]["sampling"]["seed"] == 1
    row = read["drafting"]["kinds"][0]["rows"][1]
    assert row.keys() >= {"tokens", "drafted", "accepted", "rate", "tokens_per_pass", "why"}
    assert row["speed"].keys() >= {"tokens_per_second", "ratio", "wall_s", "cpu_ms"}
    assert read["memory"].keys() >= {"peak_bytes", "first_round_ms", "last_round_ms"}


def test_every_part_is_shown(report: BenchReport, tables: list[RenderableType]) -> None:
    text = shown(tables)
    words = (
        "code in Python",
        "In all",
        "12 of 12",
        "with heads",
        "Keys and values",
        "last tenth",
    )
    for word in (*words, "Same words", "seed 1", report.conditions.date):
        assert word in text


def test_there_are_nine_kinds_of_prompt() -> None:
    kinds = nine_kinds()
    assert len({kind.name for kind in kinds}) == len(kinds) == Plan().kinds == 9
    assert len({kind.question for kind in kinds}) == 9


def test_arms_take_turns_and_peers_are_asked_for_as_many_tokens(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = Script({"off": TEXT, "1": TEXT, "peer": (7, 1)})
    plan = replace(only("drafting"), kinds=2, repeats=2)
    report = script.bench(engine, monkeypatch, plan)
    there, back = ["off", "1", "peer"], ["peer", "1", "off"]
    assert script.seen[:3] == [(name, 8) for name in there]  # to warm up
    seen = script.seen[3:]
    assert [name for name, _ in seen] == ["off", *there, *back, "off", *back, *there]
    assert {tokens for name, tokens in seen if name == "peer"} == {3}
    assert {tokens for name, tokens in seen if name != "peer"} == {12}
    assert report.agreement.is_green
    (task,) = script.progress.tasks
    assert (task.description, task.completed, task.total) == (
        "code in C++, peer (17 of 17)",
        17,
        17,
    )


def test_no_green_no_number(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script({"off": TEXT, "1": (7, 8, 1), "2": TEXT})
    report = script.bench(engine, monkeypatch, SMALL)
    assert report.agreement.difference == "code in Python, 1: token 2 differs"
    assert report.drafting is not None
    speeds = [row.speed is None for row in report.drafting.total]
    assert speeds == [False, True, False]
    assert (report.cache, report.memory) == (None, None)
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


def test_ctrl_c_leaves_what_was_measured(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script({"off": TEXT, "1": TEXT}, interrupt_at=7)  # the second kind's first arm is done
    report = script.bench(engine, monkeypatch, replace(SMALL, kinds=2))
    assert report.is_interrupted
    assert report.drafting is not None
    assert [len(kind.rows) for kind in report.drafting.kinds] == [2, 1]
    assert [row.tokens for row in report.drafting.total] == [3, 3]  # of the whole kind
    assert (report.prompt, report.memory) == (None, None)
    assert "Interrupted" in shown(script.shown)
    stopped = Script({"off": TEXT}, interrupt_at=5)  # before the second kind has a row
    report = stopped.bench(engine, monkeypatch, replace(SMALL, kinds=2, repeats=2))
    assert report.drafting is not None
    assert [kind.kind for kind in report.drafting.kinds] == ["code in Python"]


def test_prompts_that_do_not_fit_are_declined(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = Script({"off": TEXT}).bench(
        engine, monkeypatch, replace(only("drafting"), kinds=len(nine_kinds()))
    )
    assert report.drafting is not None
    assert 0 < len(report.drafting.kinds) < 9
    assert {reason.code for reason in report.declined} == {"context-short"}
    assert "long code review" in report.declined[-1].words


def test_all_logits_are_kept_of_short_prompts_only(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths: list[int] = []

    def measure(_: Engine, prompts: Sequence[Sequence[int]], plan: Plan) -> None:
        lengths.extend(map(len, prompts))
        raise KeyboardInterrupt

    monkeypatch.setattr("mlx_engine.bench.run_bench.measure_cache_bits", measure)
    plan = replace(only("cache"), kinds=7, short_prompts=3)
    assert run_bench(engine, plan).is_interrupted
    shortest = sorted(len(kind.question) for kind in nine_kinds()[:7])[:3]
    assert len(lengths) == 3
    assert max(lengths) < shortest[-1] + 50  # with what the template adds


def test_without_heads_the_rest_is_measured(tmp_path: Path) -> None:
    folder = write_tiny_qwen3_5(tmp_path / "headless", heads="none")
    plan = replace(only("drafting", "cache"), arms=ARMS[:-1])
    report = run_bench(folder, plan)
    assert report.agreement.is_green
    assert report.drafting is not None
    names = [row.arm.partition(" ")[0] for row in report.drafting.total]
    assert names == ["off", "prompt-lookup", "mlx-lm"]
    assert report.cache is not None
    assert [row.accepted for row in report.cache] == [None] * 3
    assert [reason.code for reason in report.declined] == ["heads-dropped"]


def test_the_command(folder: Path, tmp_path: Path) -> None:
    outside = FakeRuntime(tmp_path)
    status = outside.run("bench", str(folder), "--quick", "--only", "memory", "--json")
    assert status == 0
    (line,) = outside.out.splitlines()
    read = json.loads(line)
    assert read["conditions"]["is_quick"] is True
    assert read["drafting"] is None
    assert read["memory"]["generated_tokens"] > 0
    assert "Memory over" in outside.err


@dataclass
class Measured:
    """What run_bench shows, and the plans that it is given."""

    report: BenchReport
    tables: list[RenderableType]
    plans: list[Plan] = field(default_factory=list)

    def bench(
        self, model: object, plan: Plan, *, options: object, show: Show, progress: Progress
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


def test_options_become_a_plan(tmp_path: Path, measured: Measured) -> None:
    chosen = (
        "--quick --only memory,drafting --arms 1,2@0.5,mlx-lm --tokens 4 --repeats 3 --ignore-eos"
    )
    server = "--llama-server bin/llama-server --temperature 0.5 --top-k 20"
    assert FakeRuntime(tmp_path).run("bench", *chosen.split(), *server.split()) == 0
    FakeRuntime(tmp_path).run("bench")
    assert measured.plans == [
        replace(
            quick_plan(),
            parts=("drafting", "memory"),
            arms=("1", "2@0.5", "mlx-lm"),
            tokens=4,
            repeats=3,
            ignore_eos=True,
            llama_server=Path("bin/llama-server"),
            sampling=SamplingOptions(0.5, top_k=20, seed=1),
        ),
        Plan(),
    ]


@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
def test_no_figure_is_cut_off(
    tmp_path: Path, measured: Measured, stream: type[io.StringIO]
) -> None:
    """A file has no width, and a narrow terminal breaks lines by itself."""
    outside = FakeRuntime(tmp_path, stdout=stream())
    assert outside.run("bench", "--quick") == 0
    title = next(line for line in outside.out.splitlines() if "tok/pass" in line)
    assert all(column in title for column in ("accepted by depth", "cpu ms/tok", "same words"))
    assert "\N{HORIZONTAL ELLIPSIS}" not in outside.out


def test_how_far_it_is_is_shown_at_a_terminal(tmp_path: Path, measured: Measured) -> None:
    outside = FakeRuntime(tmp_path)
    outside.run("bench")
    assert outside.err == ""
    at_terminal = FakeRuntime(tmp_path, stdout=Terminal())
    at_terminal.run("bench")
    assert "code in Python, depth 1" in at_terminal.out


def test_ctrl_c_prints_and_leaves_with_130(tmp_path: Path, measured: Measured) -> None:
    measured.report = replace(measured.report, is_interrupted=True)
    outside = FakeRuntime(tmp_path)
    assert outside.run("bench", "--json") == 130
    assert json.loads(outside.out)["is_interrupted"] is True


def test_the_picture(tmp_path: Path, measured: Measured) -> None:
    picture = tmp_path / "figures.svg"
    measured.report = replace(measured.report, is_interrupted=True)
    assert FakeRuntime(tmp_path).run("bench", "--svg", str(picture)) == 130
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
        outside = FakeRuntime(tmp_path)
        assert outside.run("bench", "--svg", str(path)) == 2
        assert "name a file in a folder that exists" in outside.err
    assert measured.plans == []


@pytest.mark.parametrize(
    ("option", "value"),
    [("--only", "speed"), ("--arms", "9"), ("--arms", "x"), ("--tokens", "0")],
)
def test_the_command_refuses(tmp_path: Path, option: str, value: str) -> None:
    with pytest.raises(SystemExit, match="2"):
        FakeRuntime(tmp_path).run("bench", option, value)


@pytest.mark.parametrize("source", SOURCES)
def test_every_source_of_drafts_may_be_an_arm(source: str) -> None:
    assert parse_arm(source).source == source


def test_sampling_is_greedy_unless_told() -> None:
    assert Plan().sampling == quick_plan().sampling == SamplingOptions(temperature=0, seed=1)
