"""Arguments of a chat template, given to a session and changed in it."""

from pathlib import Path

import pytest
from tiny_qwen3_5 import write_tiny_qwen3_5
from tiny_tokenizer import CHATML, make_tiny_tokenizer

import mlx_engine
from mlx_engine import BadOption, SamplingOptions
from mlx_engine.decoding.session import Session

GREEDY = SamplingOptions(temperature=0)


def read(session: Session) -> int:
    """Tokens of the prompt, all of it."""
    finished = list(session.send("hi"))[-1]
    assert isinstance(finished, mlx_engine.GenerationFinished)
    return finished.stats.prompt_tokens


def test_a_session_has_its_own(tmp_path: Path) -> None:
    folder = write_tiny_qwen3_5(tmp_path / "m")
    make_tiny_tokenizer(folder, chat_template="{{ tone }}" + CHATML)
    engine = mlx_engine.load(folder)
    assert engine.description.template_arguments == ("tone",)
    plain, loud = engine.session(), engine.session(template_arguments={"tone": "fox dog"})
    for session in (plain, loud):
        session.generation = mlx_engine.GenerationOptions(max_tokens=2)
    more = len(engine.tokenize("fox dog"))
    first = read(plain)
    assert read(loud) == first + more
    plain.template_arguments = {"tone": "fox dog", "enable_thinking": True}
    assert plain.template_arguments == {"tone": "fox dog", "enable_thinking": True}
    plain.load_messages([])
    assert read(plain) == first + more
    for arguments in ({"messages": "x"}, {"tone": object()}):
        with pytest.raises(BadOption, match="template_arguments"):
            plain.template_arguments = arguments  # type: ignore[assignment]
        with pytest.raises(BadOption, match="template_arguments"):
            engine.session(template_arguments=arguments)  # type: ignore[arg-type]
    with pytest.raises(BadOption, match="enable_thinking='off' is not possible: use True, False"):
        engine.session(thinking="off")  # type: ignore[arg-type]
    assert engine.session(thinking=False).template_arguments == {"enable_thinking": False}
    engine.close()
