"""Bad models and paths: the error names file and remedy, and a good model loads afterwards."""

import json
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import mlx.core as mx
import pytest
from session_runs import PICKS, listen, session_of, tiny_folder
from tiny_tokenizer import make_tiny_tokenizer

import mlx_engine
from mlx_engine.values import errors
from mlx_engine.values.options import DraftOptions, LoadOptions, SamplingOptions

NONE = DraftOptions(depth=0)


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    return tiny_folder(tmp_path_factory.mktemp("model") / "good")


@pytest.fixture(scope="module")
def wanted(good):
    return mlx_engine.load(good).generate([1, 2, 3], 4, PICKS, NONE).tokens


@pytest.fixture
def folder(good, tmp_path):
    return Path(shutil.copytree(good, tmp_path / "m"))


def config(change: Callable[[dict], None]) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        value = json.loads((folder / "config.json").read_text())
        change(value)
        (folder / "config.json").write_text(json.dumps(value))

    return damage


def architecture(name: object) -> Callable[[Path], None]:
    return config(
        lambda value: [part.update(model_type=name) for part in (value, value["text_config"])]
    )


def tensors(change: Callable[[dict], None]) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        arrays = dict(mx.load(str(folder / "model.safetensors")))
        mx.eval(arrays)
        change(arrays)
        mx.save_safetensors(str(folder / "model.safetensors"), arrays)

    return damage


def bytes_of(name: str, change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        path = folder / name
        path.write_bytes(change(path.read_bytes()))

    return damage


def without(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def template(source: str) -> Callable[[Path], None]:
    return lambda folder: (folder / "chat_template.jinja").write_text(source) and None


def only(name: str, content: bytes) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        (folder / "model.safetensors").unlink()
        (folder / name).write_bytes(content)

    return damage


EMBEDDING = "model.language_model.embed_tokens.weight"


class Bad(NamedTuple):
    """How to damage a good folder; the error's kind; what its message names and tells to do."""

    damage: Callable[[Path], None]
    kind: type[errors.EngineError]
    names: str
    tells: str


MODELS = {
    "no config": Bad(without("config.json"), errors.BadModelFile, "config.json", "get it"),
    "config no json": Bad(bytes_of("config.json", lambda b: b[:-20]),
                          errors.BadModelFile, "config.json", "again"),
    "no weights": Bad(without("model.safetensors"), errors.ModelNotFound, "m", "needs"),
    "no tokenizer": Bad(without("tokenizer.json"), errors.BadTokenizer, "tokenizer.json", "get"),
    "truncated": Bad(bytes_of("model.safetensors", lambda b: b[: len(b) // 2]),
                     errors.BadModelFile, "model.safetensors", "again"),
    "one byte short": Bad(bytes_of("model.safetensors", lambda b: b[:-1]),
                          errors.BadModelFile, "model.safetensors", "again"),
    "empty": Bad(bytes_of("model.safetensors", lambda b: b""),
                 errors.BadModelFile, "model.safetensors", "again"),
    "no safetensors": Bad(bytes_of("model.safetensors", lambda b: b"GGUF" * 100),
                          errors.BadModelFile, "model.safetensors", "again"),
    "header cut": Bad(bytes_of("model.safetensors", lambda b: b[:8] + b"{" * 40 + b[48:]),
                      errors.BadModelFile, "model.safetensors", "again"),
    "no architecture": Bad(architecture(None), errors.EngineError, "model_type", ""),
    "odd architecture": Bad(architecture(5), errors.EngineError, "model_type", ""),
    "missing tensor": Bad(tensors(lambda a: a.pop("model.language_model.norm.weight")),
                          errors.BadModelFile, "norm", ""),
    "misshapen tensor": Bad(tensors(lambda a: a.update({EMBEDDING: mx.zeros((300, 63))})),
                            errors.BadModelFile, "embed_tokens", ""),
    "tokenizer of another": Bad(lambda f: make_tiny_tokenizer(f, 310) and None,
                                errors.BadTokenizer, "tokenizer.json", "came with"),
    "tokenizer no json": Bad(bytes_of("tokenizer.json", lambda b: b[:1000]),
                             errors.BadTokenizer, "tokenizer.json", "again"),
    "tokenizer without a model": Bad(bytes_of("tokenizer.json", lambda b: b"{}"),
                                     errors.BadTokenizer, "tokenizer.json", "again"),
    "pickled weights": Bad(only("pytorch_model.bin", pickle.dumps({"a": 1})),
                           errors.UnsafeModelFile, "pytorch_model.bin", "safetensors"),
    "torch weights": Bad(only("weights.pt", b"PK\x03\x04"),
                         errors.UnsafeModelFile, "weights.pt", "safetensors"),
    "broken template": Bad(template("{% for m in messages %}{{ m."),
                           errors.BadChatTemplate, "chat_template.jinja", "replace"),
    "endless template file": Bad(template("x" * 200_000),
                                 errors.BadChatTemplate, "chat_template.jinja", "shorter"),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_bad_folders(folder, good, wanted, name):
    bad = MODELS[name]
    bad.damage(folder)
    with pytest.raises(bad.kind) as caught:
        mlx_engine.load(folder)
    message = str(caught.value)
    assert bad.names in message
    assert bad.tells in message
    assert len(message) < 600
    assert mlx_engine.load(good).generate([1, 2, 3], 4, PICKS, NONE).tokens == wanted


@pytest.mark.parametrize("name", ["missing tensor", "misshapen tensor"])
def test_a_look_refuses_what_a_load_would(folder, name):
    bad = MODELS[name]
    bad.damage(folder)
    with pytest.raises(bad.kind) as caught:
        mlx_engine.inspect(folder)
    assert bad.names in str(caught.value)


def test_pickled_code_is_not_run(folder, tmp_path):
    """A .bin whose opening would write a file."""
    proof = tmp_path / "ran"

    class Evil:
        def __reduce__(self):
            return (Path.write_text, (proof, "x"))

    only("pytorch_model.bin", pickle.dumps(Evil()))(folder)
    for path in (folder, folder / "pytorch_model.bin"):
        with pytest.raises(errors.UnsafeModelFile, match=r"pytorch_model\.bin"):
            mlx_engine.load(path)
    assert not proof.exists()


@pytest.mark.parametrize(
    "path", ["no/such/place/at/all", "/nowhere", "", "a\0b", "~nobody/x", "x" * 5000]
)
def test_no_such_path(path, good, wanted):
    with pytest.raises(errors.ModelNotFound):
        mlx_engine.load(path or "./nothing")
    assert mlx_engine.load(good).generate([1, 2, 3], 4, PICKS, NONE).tokens == wanted


TEMPLATES = {
    "raises": "{{ raise_exception('Only one message, please.') }}",
    "raises by itself": "{{ messages[99].content }}",
    "loops": "{% for i in range(10**9) %}{% for j in range(10**9) %}x{% endfor %}{% endfor %}",
    "grows": "{% set x = 'a' * 10**9 %}{{ x * 10**9 }}",
    "recurs": "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "reaches for Python": "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "reaches for globals": "{{ raise_exception.__globals__['os'] }}",
    "imports": "{% include '/etc/passwd' %}",
}


@pytest.mark.parametrize("name", TEMPLATES)
def test_bad_templates_fail_when_used(folder, name):
    """Such a model loads; raw generation works, a chat gets the error and keeps its messages."""
    template(TEMPLATES[name])(folder)
    engine = mlx_engine.load(folder)
    session = session_of(engine)
    with pytest.raises(errors.BadChatTemplate, match=r"chat_template\.jinja.*[Rr]eplace|replace"):
        listen(session, session.send("hi"))
    assert session.messages == ()
    assert engine.generate("hi", 3, PICKS, NONE).tokens


def test_a_silent_template_is_an_error_too(folder):
    """It makes an empty prompt, which no model can answer."""
    template("{% if false %}x{% endif %}")(folder)
    session = session_of(mlx_engine.load(folder))
    with pytest.raises(errors.BadChatTemplate, match=r"chat_template\.jinja.*nothing.*Replace"):
        listen(session, session.send("hi"))
    assert session.messages == ()


@pytest.mark.parametrize(
    "make",
    [
        lambda folder: mlx_engine.load(folder, options=LoadOptions(context_length=2)),
        lambda folder: mlx_engine.load(folder).session(sampling=SamplingOptions(top_p=2)),
        lambda folder: mlx_engine.load(folder).generate("a", max_tokens=-3),
        lambda folder: mlx_engine.load(folder).generate(
            "a", sampling=SamplingOptions(logit_bias={300: 1})
        ),
    ],
)
def test_options_out_of_range(folder, make):
    with pytest.raises(errors.BadOption, match="use "):
        make(folder)
    assert mlx_engine.load(folder).generate("a", 2, PICKS).tokens


def test_weights_that_are_no_numbers_are_found_at_the_first_token(folder):
    tensors(lambda a: a.update({EMBEDDING: mx.full((300, 64), float("nan"))}))(folder)
    engine = mlx_engine.load(folder)
    assert engine.description.declined == ()
    session = session_of(engine)
    with pytest.raises(errors.NumericsError, match="NaN"):
        listen(session, session.send("hi"))
    with pytest.raises(errors.NumericsError, match="NaN"):
        engine.generate("hi")
