"""The public names: all there, all importable without MLX, and their signatures as promised."""

import inspect
import json
import pydoc
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

import mlx_engine
from mlx_engine.values import conversation, errors

ROOT = Path(__file__).parents[2]


def run_python(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def is_of(module, value):
    return inspect.isclass(value) and value.__module__ == module.__name__


def test_help_is_short_and_begins_with_an_example():
    told = pydoc.plain(pydoc.render_doc(mlx_engine))
    assert len(told.splitlines()) < 470  # Python 3.13 breaks long signatures over lines
    text = " ".join(told.replace("|", " ").split()).replace("( ", "(")
    for words in ("session.send(", "class Engine", "class Session", "send(self, text", "load(path"):
        assert words in text


def test_every_public_name_is_in_the_docstring():
    """Every value, error and event a caller may meet can be had from the package."""
    public = {
        name
        for name, value in vars(mlx_engine).items()
        if not name.startswith("_") and not inspect.ismodule(value)
    }
    helpers = {"annotations", "Callable", "Path", "TYPE_CHECKING", "replace"}
    told = set(re.findall(r"\w+", mlx_engine.__doc__))
    assert public - helpers <= told
    tree = {value.__name__ for value in vars(errors).values() if is_of(errors, value)}
    named = {kind.__name__ for kind in conversation.Event.__args__}
    assert tree | named <= public - helpers
    for name in told & set(dir(mlx_engine)) | set(mlx_engine.__all__):
        assert getattr(mlx_engine, name) is not None


def test_importing_loads_neither_mlx_nor_anything_heavy():
    code = (
        "import json, sys, mlx_engine\n"
        "for name in vars(mlx_engine): getattr(mlx_engine, name)\n"
        "mlx_engine.SamplingOptions(seed=1); mlx_engine.DraftOptions(depth=3)\n"
        "print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"
    )
    loaded = set(json.loads(run_python(code)))
    heavy = {"mlx", "mlx_lm", "numpy", "tokenizers", "jinja2", "transformers", "torch", "PySide6"}
    assert loaded & heavy == set()


def test_a_name_that_is_not_there():
    with pytest.raises(AttributeError, match="'mlx_engine' has no attribute 'Engines'"):
        mlx_engine.Engines  # noqa: B018


def test_one_stop_string_is_one():
    assert mlx_engine.GenerationOptions(stop="xyzp").stop == ("xyzp",)
    assert mlx_engine.GenerationOptions(stop=["a", "b"]).stop == ("a", "b")
    with pytest.raises(mlx_engine.BadOption, match="stop=''"):
        mlx_engine.GenerationOptions(stop="")


def test_describing_a_model_loads_no_mlx():
    code = "import sys, mlx_engine\nprint(mlx_engine.inspect().architecture, 'mlx' in sys.modules)"
    assert run_python(code).split() == ["qwen3_5", "False"]


def test_the_built_in_model_runs_without_mlx_lm():
    """What takes seconds to import is left to the models that need it."""
    code = (
        "import sys, mlx_engine\n"
        "engine = mlx_engine.load()\n"
        "made = engine.generate('Hello', max_tokens=4)\n"
        "heavy = {'mlx_lm', 'transformers', 'torch', 'huggingface_hub', 'gguf', 'rich'}\n"
        "print(len(made.tokens), *sorted(heavy & set(sys.modules)))"
    )
    assert run_python(code).split() == ["4"]


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        (
            mlx_engine.SamplingOptions,
            "temperature top_k top_p min_p repetition_penalty presence_penalty "
            "frequency_penalty logit_bias seed",
        ),
        (mlx_engine.DraftOptions, "source depth min_probability rule"),
        (mlx_engine.GenerationOptions, "max_tokens stop ignore_eos"),
        (
            mlx_engine.GenerationStats,
            "prompt_tokens generated_tokens drafted accepted accepted_by_depth drafted_by_depth "
            "passes tokens_per_pass tokens_per_second prompt_tokens_per_second "
            "time_to_first_token_s draft_ms verify_ms host_ms peak_memory_bytes",
        ),
        (mlx_engine.Generation, "text tokens stats finish_reason"),
    ],
)
def test_promised_fields(kind, names):
    assert set(names.split()) <= {field.name for field in fields(kind)}


def test_promised_methods():
    from mlx_engine.decoding.session import Session
    from mlx_engine.engine import Engine

    generate = "self prompt max_tokens sampling draft stop ignore_eos should_stop cache"
    generate += " schema regex grammar"
    assert list(inspect.signature(Engine.generate).parameters) == generate.split()
    assert {"system", "sampling", "draft"} <= set(inspect.signature(Engine.session).parameters)
    for name in [
        "session",
        "generate",
        "tokenize",
        "detokenize",
        "logits",
        "draft_logits",
        "close",
    ]:
        assert callable(getattr(Engine, name))
    for name in ["send", "regenerate", "edit", "continue_answer", "load_messages", "stop"]:
        assert callable(getattr(Session, name))
    for name in ["stats", "messages", "draft", "sampling", "generation", "system"]:
        assert isinstance(inspect.getattr_static(Session, name), property)


@pytest.mark.parametrize(
    "make",
    [
        lambda: mlx_engine.LoadOptions(numerics="best"),
        lambda: mlx_engine.LoadOptions(context_length=7),
        lambda: mlx_engine.SamplingOptions(temperature=-0.1),
        lambda: mlx_engine.SamplingOptions(temperature=float("nan")),
        lambda: mlx_engine.SamplingOptions(temperature=float("inf")),
        lambda: mlx_engine.SamplingOptions(top_k=-1),
        lambda: mlx_engine.SamplingOptions(top_p=-0.01),
        lambda: mlx_engine.SamplingOptions(top_p=True),
        lambda: mlx_engine.SamplingOptions(top_p=1.01),
        lambda: mlx_engine.SamplingOptions(min_p=1.01),
        lambda: mlx_engine.SamplingOptions(repetition_penalty=0),
        lambda: mlx_engine.SamplingOptions(presence_penalty=11),
        lambda: mlx_engine.SamplingOptions(frequency_penalty=float("nan")),
        lambda: mlx_engine.SamplingOptions(logit_bias={-1: 1.0}),
        lambda: mlx_engine.SamplingOptions(logit_bias={1: float("inf")}),
        lambda: mlx_engine.SamplingOptions(logit_bias={1: float("nan")}),
        lambda: mlx_engine.SamplingOptions(seed=-1),
        lambda: mlx_engine.SamplingOptions(seed=2**64),
        lambda: mlx_engine.DraftOptions(source="magic"),
        lambda: mlx_engine.DraftOptions(depth=9),
        lambda: mlx_engine.DraftOptions(depth=-1),
        lambda: mlx_engine.DraftOptions(depth="deep"),
        lambda: mlx_engine.DraftOptions(min_probability=1.01),
        lambda: mlx_engine.DraftOptions(rule="luck"),
        lambda: mlx_engine.GenerationOptions(max_tokens=0),
        lambda: mlx_engine.GenerationOptions(stop=("",)),
        lambda: mlx_engine.GenerationOptions(stop=None),
        lambda: mlx_engine.GenerationOptions(stop=[7]),
        lambda: mlx_engine.GenerationOptions(stop=iter(["a"])),
        lambda: mlx_engine.GenerationOptions(max_tokens=1.5),
        lambda: mlx_engine.LoadOptions(heads=5),
        lambda: mlx_engine.LoadOptions(memory_bytes="8 GB"),
        lambda: mlx_engine.LoadOptions(prompt_files_bytes=None),
        lambda: mlx_engine.SamplingOptions(temperature="0.5"),
        lambda: mlx_engine.SamplingOptions(top_k=1.5),
        lambda: mlx_engine.SamplingOptions(seed=1.5),
        lambda: mlx_engine.SamplingOptions(seed=True),
        lambda: mlx_engine.SamplingOptions(logit_bias=[7]),
        lambda: mlx_engine.SamplingOptions(logit_bias={"a": 1.0}),
        lambda: mlx_engine.SamplingOptions(logit_bias={1: "a"}),
        lambda: mlx_engine.DraftOptions(source=["mtp"]),
        lambda: mlx_engine.DraftOptions(depth=1.5),
        lambda: mlx_engine.DraftOptions(depth=True),
        lambda: mlx_engine.DraftOptions(vocabulary=300.5),
        lambda: mlx_engine.CacheOptions(bits="8"),
    ],
)
def test_options_out_of_range_are_refused_by_name(make):
    with pytest.raises(mlx_engine.BadOption, match=r"\w+=.* is not possible: use "):
        make()


def test_both_ends_of_every_range_are_possible():
    for options, ends in (
        (mlx_engine.SamplingOptions, {"temperature": (0, 10), "top_p": (0, 1), "min_p": (0, 1)}),
        (mlx_engine.SamplingOptions, {"top_k": (0, 2**64), "repetition_penalty": (0.01, 10)}),
        (mlx_engine.SamplingOptions, {"presence_penalty": (-10, 10), "seed": (0, 2**64 - 1)}),
        (mlx_engine.SamplingOptions, {"logit_bias": ({0: -1000}, {0: 1000})}),
        (mlx_engine.DraftOptions, {"depth": (0, 8), "min_probability": (0, 1)}),
        (mlx_engine.DraftOptions, {"vocabulary": (256, 2**64)}),
        (mlx_engine.GenerationOptions, {"max_tokens": (1, 2**64)}),
        (mlx_engine.LoadOptions, {"context_length": (8, 2**64), "prompt_cache_bytes": (0, 2**64)}),
        (mlx_engine.LoadOptions, {"memory_bytes": (1, 2**64), "prompt_files_bytes": (0, 2**64)}),
        (mlx_engine.CacheOptions, {"bits": (4, 16), "head_bits": (4, 16)}),
    ):
        for name, values in ends.items():
            for value in values:
                assert getattr(options(**{name: value}), name) == value


def test_what_is_no_such_thing_is_refused_where_it_is_given():
    """Python does not look at types: a dict for options, a text for a list of them."""
    options = mlx_engine.LoadOptions(heads="heads", prompt_files="files")
    assert (options.heads, options.prompt_files) == (Path("heads"), Path("files"))
    engine = mlx_engine.load()
    for given in ({"sampling": {"seed": 1}}, {"draft": "mtp"}, {"cache": 8}):
        for ask in (
            lambda more: engine.generate("a", 1, **more),
            lambda more: engine.session(**more),
        ):
            with pytest.raises(mlx_engine.BadOption, match=f"{next(iter(given))}=.*Options"):
                ask(given)
    session = engine.session()
    with pytest.raises(mlx_engine.BadOption, match="use DraftOptions"):
        session.draft = "mtp"
    for ask in (session.send, engine.tokenize, engine.generate_many):
        for bad in (None, b"a") if ask != engine.generate_many else ("abc",):
            with pytest.raises(mlx_engine.BadPrompt, match="give a"):
                list(ask(bad))
    engine.close()


def test_an_engine_is_closed_where_its_block_ends():
    with pytest.raises(KeyError), mlx_engine.load() as engine:
        assert engine.generate("import", 2).tokens
        raise KeyError
    with pytest.raises(mlx_engine.EngineMisuse, match="closed"):
        engine.tokenize("a")


@pytest.fixture(scope="module")
def built_in():
    with mlx_engine.load() as engine:
        yield engine


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda _: mlx_engine.load(5), "path=5 is not possible: use a path, or an id"),
        (lambda _: mlx_engine.inspect(b"model"), "path=b'model' is not possible"),
        (lambda e: e.generate("a", True), "max_tokens=True is not possible: use 1 or more"),
        (lambda e: e.session().load_messages(None), "messages=None is not possible: use a list"),
        (lambda e: e.session(system=5), "system=5 is not possible: use str | None"),
        (lambda e: setattr(e.session(), "system", ["a"]), "system=.'a'. is not possible"),
        (lambda e: e.generate("a", 1, should_stop=True), "should_stop=True .*: use a function"),
        (lambda e: e.generate_many(["a"], 1, should_stop=True), "should_stop=True .* a function"),
        (
            lambda e: e.session().load_messages([{"role": "user", "content": "a"}]),
            r"message={'role': 'user', .* is not possible: use Message\(role, text\)",
        ),
    ],
)
def test_what_is_of_another_kind_is_named(built_in, ask, words):
    with pytest.raises(mlx_engine.BadOption, match=words):
        ask(built_in)


def test_a_message_is_edited_by_its_number(built_in):
    session = built_in.session()
    session.load_messages([mlx_engine.Message("user", "a")])
    with pytest.raises(mlx_engine.EngineMisuse, match="Message '0' is not a question"):
        list(session.edit("0", "b"))
