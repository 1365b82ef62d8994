"""What goes with a model and is none says so, and to which model it belongs."""

import json
import shutil
from pathlib import Path

import pytest
import tiny_nextn
from converted_gguf import convert
from model_edits import edit_tensors
from tiny_dflash import TinyDFlash, write_tiny_dflash
from tiny_eagle3 import TinyEagle, write_tiny_eagle
from tiny_gemma4 import write_pair
from tiny_published import publish
from tiny_qwen3_5 import write_tiny_qwen3_5
from tiny_stacks import write_stack

import mlx_engine
from mlx_engine.loading.no_model import are_mtp_heads
from mlx_engine.values.errors import BadChatTemplate, BadModelFile, HeadsOnly, UnsupportedModel

ALONE = r"holds drafting heads only\. Open the {} model they belong to \(hidden size 64\) and give"


def left(folder: Path, part: str) -> Path:
    """Only tensors with this in their names."""
    edit_tensors(folder, lambda arrays: {n: a for n, a in arrays.items() if part in n})
    return folder


def refused(place: Path, message: str, error: type[Exception] = HeadsOnly) -> None:
    """Before loading and on it, with the place in front."""
    for attempt in (mlx_engine.inspect, mlx_engine.load):
        with pytest.raises(error, match=message) as told:
            attempt(place)
        assert str(told.value).startswith(f"{place}: ")


@pytest.mark.parametrize("layout", ["hf", "mlx"])
def test_heads_of_qwen_alone(tmp_path, layout):
    folder = left(write_tiny_qwen3_5(tmp_path / "m", layout=layout), "mtp.")
    refused(folder, ALONE.format("qwen3_5"))
    (folder / "config.json").unlink()
    refused(folder, "holds drafting heads only. Open the model they belong to and")


def test_heads_without_a_prefix(tmp_path):
    whole = write_tiny_qwen3_5(tmp_path / "m", heads="sibling")
    folder = tmp_path / "m-MTP"
    refused(folder, "holds drafting heads only. Open the model they belong to and")
    shutil.copy(whole / "config.json", folder)
    refused(folder, ALONE.format("qwen3_5"))


@pytest.mark.parametrize(
    ("kind", "part"), [("mimo_v2_flash", "mtp."), ("step3p5", "layers.4."), ("mimo", "mtp_layers")]
)
def test_stacked_heads_alone(tmp_path, kind, part):
    write_stack(tmp_path / "m", kind)
    refused(left(tmp_path / "m", part), ALONE.format(kind))


@pytest.mark.parametrize("own", [False, True])
def test_heads_behind_the_trunk_alone(tmp_path, own):
    """Perhaps with an embedding of their own."""
    tiny_nextn.publish("glm4_moe", tmp_path / "m", own=own)
    refused(left(tmp_path / "m", "layers.3."), ALONE.format("glm4_moe"))


def test_embeddings_by_other_names():
    """Of Ling and Nemotron; a head has one of its own as well."""
    heads = ["mtp.embed_tokens.weight", "model.layers.61.embed_tokens.weight",
             "model.layers.61.eh_proj.weight", "mtp.pre_fc_norm_embedding.weight",
             "pre_fc_norm_embedding.weight"]  # fmt: skip
    assert are_mtp_heads(heads)
    for name in ("model.word_embeddings", "backbone.embeddings", "transformer.wte",
                 "model.language_model.embed_tokens"):  # fmt: skip
        assert not are_mtp_heads([*heads, f"{name}.weight"])


def test_heads_in_a_gguf(tmp_path):
    write_stack(tmp_path / "m", "mimo_v2_flash")
    file = convert(tmp_path / "m", tmp_path / "mtp.gguf", heads="only")
    refused(file, ALONE.format("mimo_v2_flash"))


def test_a_model_without_its_embedding_is_damaged_not_heads(tmp_path):
    folder = write_tiny_qwen3_5(tmp_path / "m", heads="none")
    edit_tensors(folder, lambda arrays: {n: a for n, a in arrays.items() if "embed" not in n})
    refused(folder, "embed_tokens.weight is missing", mlx_engine.EngineError)


@pytest.mark.parametrize("kind", ["eagle3", "dflash", "gemma4-assistant"])
def test_draft_models(tmp_path, kind):
    if kind == "gemma4-assistant":
        folder = write_pair(tmp_path).assistant
    elif kind == "eagle3":
        folder = write_tiny_eagle(tmp_path / "d", TinyEagle(64, 300))
    else:
        folder = write_tiny_dflash(tmp_path / "d", TinyDFlash(64, 300))
    refused(folder, rf"a draft model \({kind}\).*give this as its draft model", UnsupportedModel)


def test_a_type_nobody_knows(tmp_path):
    folder = write_tiny_qwen3_5(tmp_path / "m")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(
        json.dumps(config | {"model_type": "gpt5", "text_config": {}})
    )
    with pytest.raises(UnsupportedModel, match=r"config\.json: .* of the type 'gpt5'"):
        mlx_engine.load(folder)


@pytest.mark.parametrize("given", ["itself", "llama", "llama.gguf", "glm4_moe"])
def test_a_model_without_heads_given_for_its_heads(tmp_path, given):
    """Is not called another model's heads, nor taken for heads that lack a tensor."""
    folder = write_tiny_qwen3_5(tmp_path / "m", heads="none")
    kind = given.removesuffix(".gguf")
    place = folder if given == "itself" else publish(kind, tmp_path / "other").folder
    if given.endswith(".gguf"):
        place = convert(place, tmp_path / given)
    with pytest.raises(BadModelFile, match=f"^{place}: no drafting heads in there"):
        mlx_engine.load(folder, heads=place)


def test_a_template_that_cannot_be_read(tmp_path):
    folder = write_tiny_qwen3_5(tmp_path / "m")
    (folder / "chat_template.jinja").write_text("{% if")
    with pytest.raises(BadChatTemplate, match=r"jinja: the chat template cannot be read .*again"):
        mlx_engine.load(folder)
