"""Arguments are parsed, explained and refused, without loading anything heavy."""

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from mlx_engine.command_line.arguments import parse_command_line
from mlx_engine.command_line.options import (
    load_options,
    session_options,
)
from mlx_engine.values.errors import BadOption
from mlx_engine.values.options import (
    CacheOptions,
    DraftOptions,
    GenerationOptions,
    LoadOptions,
    SamplingOptions,
)

ROOT = Path(__file__).parents[3]
RECOMMENDED = SamplingOptions(temperature=0.6, top_k=20)


def test_without_flags_a_chat_takes_the_defaults() -> None:
    given = parse_command_line(["chat"])
    assert given.model is None
    assert load_options(given) == LoadOptions()
    assert session_options(given, RECOMMENDED) == {
        "sampling": RECOMMENDED,
        "draft": DraftOptions(),
        "generation": GenerationOptions(),
        "cache": CacheOptions(),
    }


def test_flags_become_options() -> None:
    words = "chat m.gguf --heads h.gguf --numerics fast --context 99 --depth 3 --draft-source none"
    words += " --draft-rule greedy --min-probability 0.5 --temperature 0 --seed 7 --top-p 0.9"
    words += " --logit-bias 4:-1.5 --logit-bias 5=2 --max-tokens 9 --stop a --stop b --ignore-eos"
    words += " --cache-bits 8"
    given = parse_command_line(words.split())
    options = load_options(given)
    assert (given.model, str(options.heads)) == ("m.gguf", "h.gguf")
    assert (options.numerics, options.context_length) == ("fast", 99)
    answer = session_options(given, RECOMMENDED)
    assert answer["draft"] == DraftOptions("none", 3, 0.5, "greedy")
    assert answer["generation"] == GenerationOptions(9, ("a", "b"), True)
    assert answer["cache"] == CacheOptions(8, 16)
    assert answer["sampling"] == SamplingOptions(
        temperature=0.0, top_k=20, top_p=0.9, seed=7, logit_bias={4: -1.5, 5: 2.0}
    )


def test_a_source_that_there_is_not_is_told_with_those_that_there_are() -> None:
    with pytest.raises(BadOption, match=r"source='luck' is not possible: use one of mtp, "):
        session_options(parse_command_line(["chat", "--source", "luck"]), RECOMMENDED)


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        parse_command_line(["--version"])
    assert left.value.code == 0
    told = capsys.readouterr().out
    assert told == f"Headstart {version('headstart')} (MLX {version('mlx')})\n"


@pytest.mark.parametrize("depth", ["auto", "0", "8"])
def test_depths(depth: str) -> None:
    wanted = depth if depth == "auto" else int(depth)
    assert (
        session_options(parse_command_line(["chat", "--depth", depth]), RECOMMENDED)["draft"].depth
        == wanted
    )


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("", "COMMAND"),
        ("dance", "dance"),
        ("chat --depth 9", "auto or 0 to 8"),
        ("chat --depth=-1", "auto or 0 to 8"),
        ("chat --temperature warm", "warm"),
        ("chat --temp 1", "--temp"),
        ("chat a b", "b"),
        ("inspect", "FILE"),
        ("doctor --fix", "--fix"),
    ],
)
def test_a_bad_argument_is_one_line(
    words: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        parse_command_line(words.split())
    assert left.value.code == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count("\n") == 1
    assert says in shown.err
    assert "--help" in shown.err


@pytest.mark.parametrize("command", ["chat", "generate", "inspect", "doctor"])
def test_help_has_defaults_and_examples(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        parse_command_line([command, "--help"])
    assert left.value.code == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert f"examples: headstart {command}" in shown
    if command in ("chat", "generate"):
        assert "default: auto" in shown
        assert "default: the built-in model" in shown


def python(*arguments: str) -> bytes:
    """What a new Python prints; raises when it fails."""
    return subprocess.run(
        [sys.executable, *arguments], check=True, stdout=subprocess.PIPE, cwd=ROOT
    ).stdout


def test_help_loads_nothing_heavy() -> None:
    script = (
        "import sys\n"
        "from mlx_engine.command_line.run import run_command_line\n"
        "try: run_command_line(['chat', '--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'mlx', 'mlx_lm', 'numpy', 'rich', 'prompt_toolkit', 'transformers', 'PySide6'}\n"
        "sys.exit(', '.join(heavy & set(sys.modules)) or 0)"
    )
    assert b"--draft-source" in python("-c", script)


def test_both_ways_in_know_the_same_commands() -> None:
    shown = {python("-m", package, "--help") for package in ("app", "mlx_engine")}
    assert len(shown) == 1
    assert b"doctor" in shown.pop()
