"""Anything may be dropped; what it is, is told by what it holds."""

import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from model_files import gguf, hub_model, model_folder, safetensors
from tiny_gguf import write_tiny_gguf
from tiny_vision import write_tiny_vision, write_tiny_vision_gguf

from app.library.dropped import (
    DroppedHeads,
    DroppedHubModel,
    DroppedModel,
    DroppedModels,
    DroppedText,
    all_of,
    what_is,
)
from app.library.text_file import LARGEST
from app.values.attached_text import Refused
from mlx_engine.hub.repository import HubModel


def refusal(dropped: Path | str) -> str:
    said = what_is(str(dropped))
    assert isinstance(said, Refused), said
    return said.words


@pytest.mark.parametrize("name", [".", "model.safetensors", "config.json", "tokenizer.json"])
def test_a_model_folder_or_a_file_of_it(tmp_path, name):
    folder = model_folder(tmp_path / "model with a space")
    (folder / "tokenizer.json").write_text("{}")
    dropped = (folder / name).resolve()
    assert what_is(str(dropped)) == DroppedModel(folder)
    assert what_is(dropped.as_uri()) == DroppedModel(folder)


def test_any_shard_stands_for_the_model(tmp_path):
    folder = model_folder(tmp_path / "model", shards=3)
    dropped = folder / "model-00002-of-00003.safetensors"
    assert what_is(str(dropped)) == DroppedModel(folder)
    first, second = (gguf(tmp_path / f"m-0000{number}-of-00002.gguf") for number in (1, 2))
    assert what_is(str(second)) == DroppedModel(first)


def test_a_gguf(tmp_path):
    file = gguf(tmp_path / "m.gguf")
    assert what_is(str(file)) == DroppedModel(file)
    unnamed = file.rename(tmp_path / "no ending")
    assert what_is(str(unnamed)) == DroppedModel(unnamed)


def test_a_name_may_end_in_a_blank(tmp_path):
    file = gguf(tmp_path / "m.gguf ")
    assert what_is(str(file)) == DroppedModel(file)
    other = gguf(tmp_path / "n.gguf")
    assert what_is(f" {other}\n") == DroppedModel(other), (
        "around what was copied there may be blanks"
    )


def test_a_folder_around_one_model(tmp_path):
    file = gguf(tmp_path / "publisher" / "model" / "m.gguf")
    assert what_is(str(tmp_path / "publisher")) == DroppedModel(file)


def test_a_repository_of_the_hub_s_cache(tmp_path):
    weights = safetensors(tmp_path / "w").read_bytes()
    files = {"config.json": b"{}", "model.safetensors": weights}
    snapshot = hub_model(tmp_path / "hub", "org/small", files)
    assert what_is(str(tmp_path / "hub" / "models--org--small")) == DroppedModel(snapshot)


@pytest.mark.parametrize("name", ["model.onnx", "weights.npz", "m.h5"])
def test_weights_of_other_programs(tmp_path, name):
    (tmp_path / name).write_bytes(b"\x08\x01" * 99)
    assert f"{name} holds weights as" in refusal(tmp_path / name)


def test_an_adapter_is_no_model(tmp_path):
    safetensors(tmp_path / "adapter_model.safetensors", ["x.lora_A.weight"])
    (tmp_path / "adapter_config.json").write_text("{}")
    assert "a LoRA adapter and no model" in refusal(tmp_path)


def test_a_folder_whose_files_are_damaged_holds_no_heads(tmp_path):
    folder = model_folder(tmp_path / "model")
    (folder / "model.safetensors").write_bytes(b"{}")
    assert "model.safetensors: the file ends in its header" in refusal(folder)


def test_heads_by_name_or_by_tensors(tmp_path):
    by_name = safetensors(tmp_path / "mtp.safetensors", ["whatever"])
    by_tensors = safetensors(tmp_path / "x.safetensors", ["mtp.fc.weight", "model.mtp.norm"])
    assert what_is(str(by_name)) == DroppedHeads(by_name)
    assert what_is(str(by_tensors)) == DroppedHeads(by_tensors)
    assert what_is(str(tmp_path)) == DroppedHeads(tmp_path)


def test_heads_in_a_gguf_by_name_or_by_tensors(tmp_path):
    by_name = gguf(tmp_path / "one" / "mtp-Small-Q8_0.gguf")
    by_tensors = write_tiny_gguf(tmp_path / "donor.gguf", heads="only")
    whole = write_tiny_gguf(tmp_path / "whole.gguf", heads="inside")
    assert what_is(str(by_name)) == DroppedHeads(by_name)
    assert what_is(str(by_name.parent)) == DroppedHeads(by_name)
    assert what_is(str(by_tensors)) == DroppedHeads(by_tensors)
    assert what_is(str(whole)) == DroppedModel(whole)
    assert all_of([str(by_name), str(whole)]) == (DroppedModel(whole, by_name),)


def test_several_files_of_heads_are_too_many(tmp_path):
    for name in ("mtp-a.gguf", "mtp-b.gguf"):
        gguf(tmp_path / name)
    assert "2 files of drafting heads" in refusal(tmp_path)


def test_heads_beside_a_model_are_heads_and_the_model_is_a_model(tmp_path):
    folder = model_folder(tmp_path / "model")
    heads = safetensors(folder / "mtp.safetensors", ["mtp.fc.weight"])
    assert what_is(str(heads)) == DroppedHeads(heads)
    assert what_is(str(folder)) == DroppedModel(folder)
    together = [str(heads), str(folder / "config.json")]
    assert all_of(together) == (DroppedModel(folder, heads),)
    other = safetensors(tmp_path / "mtp.safetensors", ["mtp.fc.weight"])
    assert all_of([*together, str(other)]) == (DroppedModel(folder, heads), DroppedHeads(other))


def test_a_model_with_its_heads_inside_is_a_model(tmp_path):
    folder = model_folder(tmp_path / "model")
    file = safetensors(folder / "model.safetensors", ["model.norm.weight", "mtp.fc.weight"])
    assert what_is(str(file)) == DroppedModel(folder)
    assert what_is(str(folder)) == DroppedModel(folder)


def test_a_text_is_attached(tmp_path):
    file = tmp_path / "notes.md"
    file.write_text("# Größe\n" * 100_000)
    assert what_is(str(file)) == DroppedText(file, file.stat().st_size)
    alone = tmp_path / "config.json"
    alone.write_text("{}")
    assert what_is(str(alone)) == DroppedText(alone, 2)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_texts_are_told_as_attachments_are(tmp_path, encoding):
    file = tmp_path / "smileys.txt"
    file.write_text("🙂" * 20_000, encoding=encoding)
    assert what_is(str(file)) == DroppedText(file, file.stat().st_size)


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("m.gguf", b"<html>", "does not start as a GGUF"),
        ("m.gguf", b"", "the file is empty"),
        ("m.gguf", b"version https://git-lfs.github.com/spec/v1", "Git LFS"),
        ("m.gguf.part", b"GGUF", "not downloaded to its end"),
        ("model.safetensors", b"\xff" * 99, "does not start as a safetensors"),
        ("pytorch_model.bin", b"x", "could run code"),
        ("odd.txt", b"caf\xe9 \x81", "in no known encoding"),
        ("empty.txt", b"", "is empty"),
        ("long.txt", b"a" * (LARGEST + 1), "too large to attach"),
    ],
)
def test_files_of_no_use_are_refused_with_the_reason(tmp_path, name, data, words):
    (tmp_path / name).write_bytes(data)
    said = refusal(tmp_path / name)
    assert words in said
    assert name in said


def test_a_picture_part_is_dropped_for_the_model_beside_it(tmp_path):
    tower = gguf(tmp_path / "mmproj-F16.gguf")
    assert "mmproj-F16.gguf is the picture part of a model" in refusal(tower)
    model = gguf(tmp_path / "m-Q4_K.gguf")
    assert what_is(str(tower)) == DroppedModel(model)
    assert all_of([str(tower), str(model)]) == (DroppedModel(model),)
    gguf(tmp_path / "other-Q4_K.gguf")
    assert "(m-Q4_K.gguf, other-Q4_K.gguf)" in refusal(tower)
    named = gguf(tmp_path / "other-mmproj-F16.gguf")
    assert what_is(str(named)) == DroppedModel(tmp_path / "other-Q4_K.gguf", vision=named)


def test_a_picture_part_is_dropped_for_the_model_that_it_fits(tmp_path):
    """That in use, one that is dropped with it, or that of several beside it."""
    folder = write_tiny_vision(tmp_path / "folder")
    model = write_tiny_vision_gguf(tmp_path / "eyes", folder)
    tower = (tmp_path / "eyes" / "mmproj-F32.gguf").rename(tmp_path / "mmproj-F32.gguf")
    blind = write_tiny_gguf(tmp_path / "blind.gguf")
    fits = (DroppedModel(model, vision=tower),)
    assert all_of([str(tower)], in_use=model) == fits
    assert all_of([str(tower), str(model)], in_use=blind) == fits
    assert "neither loaded nor here" in refusal(tower)
    here = model.rename(tmp_path / "eyes.gguf")
    assert all_of([str(tower)], in_use=blind) == (DroppedModel(here),)
    shutil.copy(here, tmp_path / "more.gguf")
    assert "eyes.gguf, more.gguf" in refusal(tower)
    assert all_of([str(tower)], in_use=here) == (DroppedModel(here),)
    other = Path(shutil.copy(tower, tmp_path / "mmproj-BF16.gguf"))
    for chosen in (tower, other):
        assert all_of([str(chosen)], in_use=here) == (DroppedModel(here, vision=chosen),)
        assert all_of([str(here), str(chosen)]) == (DroppedModel(here, vision=chosen),)


def test_weights_without_a_config_are_refused(tmp_path):
    assert "without its config.json" in refusal(safetensors(tmp_path / "model.safetensors"))


def test_folders_of_no_use_are_refused_with_the_reason(tmp_path):
    assert "holds no model" in refusal(tmp_path)
    broken = model_folder(tmp_path / "broken", shards=2)
    (broken / "model-00001-of-00002.safetensors").unlink()
    assert "model-00001-of-00002.safetensors is missing" in refusal(broken)
    many = tmp_path / "many"
    gguf(many / "a.gguf")
    gguf(many / "b.gguf")
    assert what_is(str(many)) == DroppedModels(many, 2)


def test_the_files_of_a_model_dropped_together_are_one_model(tmp_path):
    folder = model_folder(tmp_path / "model", shards=2)
    (folder / "README.md").write_text("# About it")
    elsewhere = tmp_path / "notes.md"
    elsewhere.write_text("mine")
    files = [str(path) for path in sorted(folder.iterdir())]
    assert all_of(files) == (DroppedModel(folder),)
    assert all_of([*files, str(elsewhere)]) == (DroppedModel(folder), DroppedText(elsewhere, 4))
    shards = [gguf(tmp_path / f"m-0000{number}-of-00002.gguf") for number in (2, 1)]
    assert all_of(map(str, shards)) == (DroppedModel(shards[1]),)
    assert len(all_of([str(folder), str(shards[0]), str(elsewhere)])) == 3


@pytest.mark.parametrize(
    "dropped", ["/no/such/file", "file:///no/such/file", "~nobody-of-this-name/x", "/a\0b", ""]
)
def test_paths_that_lead_nowhere(dropped):
    assert refusal(dropped)


@pytest.mark.parametrize(
    ("text", "model"),
    [
        ("Qwen/Qwen3.5-0.8B", HubModel("Qwen/Qwen3.5-0.8B")),
        ("https://huggingface.co/org/name", HubModel("org/name")),
        (" https://huggingface.co/org/name/ ", HubModel("org/name")),
        ("huggingface.co/org/name?not-for-all-audiences=true", HubModel("org/name")),
        ("https://hf.co/org/name/tree/v2", HubModel("org/name", "v2")),
        ("https://huggingface.co/org/name/tree/main/sub", HubModel("org/name")),
        (
            "https://huggingface.co/org/name/blob/main/q%204/m.gguf",
            HubModel("org/name", "main", "q 4/m.gguf"),
        ),
        (
            "https://huggingface.co/org/name/resolve/main/m.gguf?download=true#x",
            HubModel("org/name", "main", "m.gguf"),
        ),
        ("https://huggingface.co/org/name/discussions/3", HubModel("org/name")),
    ],
)
def test_hub_links(text, model):
    assert what_is(text) == DroppedHubModel(model)


@pytest.mark.parametrize(
    "text",
    [
        "https://huggingface.co/datasets/org/name",
        "https://huggingface.co/org",
        "https://huggingface.co/spaces/org/name",
        "https://huggingface.co/a%2F..%2Fb/c",
    ],
)
def test_links_to_something_else_on_the_hub(text):
    assert "does not lead to a model" in refusal(text)


@pytest.mark.parametrize(
    "text",
    [
        "https://example.org/org/name",
        "hello",
        "https://[bad",
        "a/b/c",
        "http://evil-huggingface.co/a/b",
    ],
)
def test_other_texts(text):
    assert "neither a file here nor a model on the hub" in refusal(text)


@given(st.text(max_size=60).filter(lambda text: not text.strip().startswith(("/", "~", "file:"))))
def test_no_text_is_too_strange(text):
    assert isinstance(what_is(text), Refused | DroppedHubModel)


def test_only_the_top_of_a_folder_is_looked_at(tmp_path, monkeypatch):
    gguf(tmp_path / "a" / "b" / "near.gguf")
    assert what_is(str(tmp_path)) == DroppedModel(tmp_path / "a" / "b" / "near.gguf")
    gguf(tmp_path / "deep" / "b" / "c" / "d" / "far.gguf")
    assert "near its top" in refusal(tmp_path / "deep")
    monkeypatch.setattr("app.library.dropped.Path.home", lambda: tmp_path)
    assert "near its top" in refusal(tmp_path)


def test_a_folder_of_many_folders_is_looked_at_briefly(tmp_path, monkeypatch):
    for number in range(900):
        (tmp_path / f"{number:03}").mkdir()
    gguf(tmp_path / "999" / "last.gguf")
    assert "near its top" in refusal(tmp_path)
    monkeypatch.setattr("app.library.dropped.LONGEST_S", 0.0)
    gguf(tmp_path / "slow" / "000" / "first.gguf")
    assert "near its top" in refusal(tmp_path / "slow")
