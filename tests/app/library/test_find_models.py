"""What is on the disk: every layout and kind of damage, quickly, and without circles."""

import shutil
import time
from pathlib import Path

from model_files import COMMIT, gguf, hub_model, model_folder, safetensors
from tiny_gguf import write_tiny_gguf

import mlx_engine
from app.library.find_models import Place, find_models, look_around, recall, usual_places
from app.library.machine import Machine
from app.library.model_card import read_card, with_headers
from app.values.models import RECENT, FoundModel, ModelCard
from mlx_engine.built_in_model import built_in_model
from mlx_engine.hub.weight_files import model_name
from mlx_engine.values.model_description import ModelDescription
from mlx_engine.values.words import count_words

GGUF_BYTES = b"GGUF\x03\x00\x00\x00"


def found_in(folder: Path) -> dict[str, FoundModel]:
    return {model.name: model for model in find_models([Place("mine", folder)])}


def problems_in(folder: Path) -> dict[str, str]:
    return {name: model.problem for name, model in found_in(folder).items()}


def hub_files(tmp_path: Path) -> dict[str, bytes]:
    weights = safetensors(tmp_path / "source" / "model.safetensors").read_bytes()
    return {"config.json": b"{}", "model.safetensors": weights}


def test_folders_and_ggufs_at_any_depth(tmp_path):
    model_folder(tmp_path / "one")
    model_folder(tmp_path / "publisher" / "two", shards=3)
    gguf(tmp_path / "publisher" / "three" / "three-Q4_K_M.gguf")
    gguf(tmp_path / "publisher" / "three" / "three-Q8_0.gguf")
    found = found_in(tmp_path)
    assert set(found) == {
        "one",
        "publisher/two",
        "publisher/three/three-Q4_K_M.gguf",
        "publisher/three/three-Q8_0.gguf",
    }
    assert not any(model.problem for model in found.values())
    two = found["publisher/two"]
    assert two.nbytes == sum(file.stat().st_size for file in two.path.iterdir())


def test_the_place_itself_may_be_a_model(tmp_path):
    model_folder(tmp_path / "one")
    assert set(found_in(tmp_path / "one")) == {"one"}


def test_shards_of_a_gguf_are_one_model(tmp_path):
    for number in (1, 2):
        gguf(tmp_path / f"big-0000{number}-of-00002.gguf")
    gguf(tmp_path / "half-00001-of-00002.gguf")
    assert problems_in(tmp_path) == {
        "big-00001-of-00002.gguf": "",
        "half-00001-of-00002.gguf": ("half-00002-of-00002.gguf is missing: download that file too"),
    }


def test_what_is_no_model_is_not_listed(tmp_path):
    gguf(tmp_path / "mmproj-f16.gguf")
    (tmp_path / "notes.txt").write_text("hello")
    model_folder(tmp_path / ".hidden")
    safetensors(tmp_path / "heads" / "mtp.safetensors")
    assert found_in(tmp_path) == {}


MACHINE = Machine(48 * 10**9)


def told_in(folder: Path) -> dict[str, FoundModel]:
    """Models of a folder by name, with what their headers say."""
    told = (with_headers(model, MACHINE) for model in found_in(folder).values())
    return {model.name: model for model in told if model is not None}


def test_heads_in_a_gguf_are_not_listed(tmp_path):
    gguf(tmp_path / "mtp-small-Q8_0.gguf")
    write_tiny_gguf(tmp_path / "donor-Q8_0.gguf", heads="only")
    write_tiny_gguf(tmp_path / "small-MTP-Q8_0.gguf", heads="inside")
    assert [*told_in(tmp_path)] == ["small-MTP-Q8_0.gguf"]


def test_heads_that_a_model_is_loaded_with_count(tmp_path):
    write_tiny_gguf(tmp_path / "plain-Q8_0.gguf", heads="none")
    (tmp_path / "elsewhere").mkdir()
    heads = write_tiny_gguf(tmp_path / "elsewhere" / "mtp-plain-Q8_0.gguf", heads="only")
    model = found_in(tmp_path)["plain-Q8_0.gguf"]
    alone, helped = (with_headers(model, MACHINE, chosen) for chosen in (None, heads))
    assert alone is not None and alone.heads is False
    assert helped is not None and helped.heads is True


def test_headers_tell_what_a_card_tells(tmp_path):
    """Of heads inside, beside and in a folder of their own, page and card say the same."""
    for folder, heads in (("inside", "inside"), ("none", "none"), ("beside", "none")):
        (tmp_path / folder).mkdir()
        write_tiny_gguf(tmp_path / folder / f"{folder}-Q8_0.gguf", heads=heads)
    write_tiny_gguf(tmp_path / "beside" / "mtp-beside-Q8_0.gguf", heads="only")
    shutil.copytree(built_in_model(), tmp_path / "mlx", ignore=shutil.ignore_patterns("training"))
    told = told_in(tmp_path)
    heads = {name: model.heads for name, model in told.items()}
    assert heads == {
        "inside/inside-Q8_0.gguf": True,
        "none/none-Q8_0.gguf": False,
        "beside/beside-Q8_0.gguf": True,
        "mlx": True,
    }
    for model in told.values():
        card = read_card(model.path, MACHINE)
        assert isinstance(card, ModelCard)
        assert (model.heads, model.format) == (card.has_heads, card.format)
        assert card.memory is not None and model.fit == card.memory.fit_in_memory
        assert card.parameters.startswith(count_words(model.parameters))


def test_what_the_engine_cannot_run_has_its_reason(tmp_path):
    model_folder(tmp_path / "odd")
    found = told_in(tmp_path)["odd"]
    assert found.problem == "" and "no model_type" in found.refusal


def test_headers_are_read_once_and_again_after_a_change(tmp_path, monkeypatch):
    inspected = []

    def inspect(path: str, **places: Path | None) -> ModelDescription:
        inspected.append(Path(path).name)
        return real(path, **places)

    real = mlx_engine.inspect
    monkeypatch.setattr("mlx_engine.inspect", inspect)
    write_tiny_gguf(tmp_path / "small-Q8_0.gguf", heads="none")
    for _ in range(3):
        assert told_in(tmp_path)["small-Q8_0.gguf"].heads is False
    assert isinstance(read_card(tmp_path / "small-Q8_0.gguf", MACHINE), ModelCard)
    assert inspected == ["small-Q8_0.gguf"], "also where its card is opened"
    write_tiny_gguf(tmp_path / "mtp-small-Q8_0.gguf", heads="only")
    assert told_in(tmp_path)["small-Q8_0.gguf"].heads is True


def test_a_gguf_with_a_config_beside_it_is_a_gguf(tmp_path):
    gguf(tmp_path / "m.gguf")
    (tmp_path / "config.json").write_text("{}")
    assert problems_in(tmp_path) == {"m.gguf": ""}


def test_broken_models_are_listed_with_the_reason(tmp_path):
    (model_folder(tmp_path / "no shard", 3) / "model-00002-of-00003.safetensors").unlink()
    (model_folder(tmp_path / "no config") / "config.json").unlink()
    (model_folder(tmp_path / "cut") / "model.safetensors").write_bytes(b"abc")
    (model_folder(tmp_path / "wild") / "model.safetensors").write_bytes(b"\xff" * 64)
    (model_folder(tmp_path / "empty") / "model.safetensors").write_bytes(b"")
    pointer = b"version https://git-lfs.github.com/spec/v1\n"
    (model_folder(tmp_path / "pointer") / "model.safetensors").write_bytes(pointer)
    weightless = model_folder(tmp_path / "weightless")
    (weightless / "model.safetensors").unlink()
    partial = model_folder(tmp_path / "partial")
    (partial / "model.safetensors").rename(partial / "model.safetensors.part")
    pickled = model_folder(tmp_path / "pickled")
    (pickled / "model.safetensors").rename(pickled / "pytorch_model.bin")
    (tmp_path / "not.gguf").write_bytes(b"<html>")
    told = problems_in(tmp_path)
    expected = {
        "no shard": "model-00002-of-00003.safetensors is missing",
        "no config": "config.json is missing",
        "cut": "ends in its header",
        "wild": "does not start as a safetensors file",
        "empty": "the file is empty",
        "pointer": "pointer of Git LFS",
        "weightless": "no weights in this folder",
        "partial": "not downloaded to its end",
        "pickled": "could run code",
        "not.gguf": "does not start as a GGUF does",
    }
    assert set(told) == set(expected)
    for name, words in expected.items():
        assert words in str(told[name])


def test_the_hub_s_cache_has_one_entry_a_repository(tmp_path):
    snapshot = hub_model(tmp_path / "hub", "org/small", hub_files(tmp_path))
    hub_model(tmp_path / "hub", "org/quants", {"q4.gguf": GGUF_BYTES, "q8.gguf": GGUF_BYTES})
    (tmp_path / "hub" / "datasets--org--texts" / "snapshots").mkdir(parents=True)
    (tmp_path / "hub" / "models--org--begun" / "blobs").mkdir(parents=True)
    place = Place("Hugging Face", tmp_path / "hub", "hub-cache")
    found = {model.name: model for model in find_models([place])}
    assert set(found) == {"org/small", "org/quants/q4.gguf", "org/quants/q8.gguf", "org/begun"}
    assert found["org/small"].path == snapshot
    assert found["org/small"].nbytes > 0
    assert "not finished" in str(found["org/begun"].problem)
    assert (found["org/begun"].unfinished, found["org/small"].unfinished) == ("org/begun", "")


def test_main_decides_among_revisions_and_else_the_newest(tmp_path):
    cache, files = tmp_path / "hub", hub_files(tmp_path)
    wanted = hub_model(cache, "org/small", files, "b" * 40)
    hub_model(cache, "org/small", files, COMMIT)
    refs = cache / "models--org--small" / "refs" / "main"
    place = Place("Hugging Face", cache, "hub-cache")
    for name in ("b" * 40, "gone", "../../.."):
        refs.write_text(name)
        (found,) = find_models([place])
        assert found.path in (wanted, wanted.with_name(COMMIT))
        if name == wanted.name:
            assert found.path == wanted


def test_a_blob_that_was_deleted_is_a_reason(tmp_path):
    snapshot = hub_model(tmp_path / "hub", "org/small", hub_files(tmp_path))
    (snapshot / "model.safetensors").resolve().unlink()
    (found,) = find_models([Place("Hugging Face", tmp_path / "hub", "hub-cache")])
    assert "model.safetensors cannot be opened" in str(found.problem)


def test_links_are_followed_but_not_in_circles(tmp_path):
    model_folder(tmp_path / "elsewhere" / "linked")
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "a").symlink_to(tmp_path / "elsewhere")
    (mine / "b").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "back").symlink_to(mine)
    (mine / "dead").symlink_to(tmp_path / "nowhere")
    assert set(found_in(mine)) == {"a/linked"}


def test_places_that_are_not_there_are_passed_over(tmp_path):
    assert (
        list(find_models(usual_places(tmp_path, [tmp_path / ".cache" / "huggingface" / "hub"])))
        == []
    )


def test_the_usual_places(tmp_path):
    model_folder(tmp_path / ".lmstudio" / "models" / "publisher" / "one")
    model_folder(tmp_path / ".cache" / "lm-studio" / "models" / "publisher" / "two")
    hub_model(tmp_path / ".cache" / "huggingface" / "hub", "org/three", hub_files(tmp_path))
    found = {
        model.name: model.place
        for model in find_models(
            usual_places(tmp_path, [tmp_path / ".cache" / "huggingface" / "hub"])
        )
    }
    assert found == {
        "org/three": "Hugging Face",
        "publisher/one": "LM Studio",
        "publisher/two": "LM Studio",
    }


def test_ten_thousand_files_take_a_moment(tmp_path):
    for folder in range(100):
        inner = tmp_path / f"{folder}"
        inner.mkdir()
        for number in range(100):
            (inner / f"{number}.txt").touch()
    model_folder(tmp_path / "99" / "model")
    started = time.process_time()
    assert set(found_in(tmp_path)) == {"99/model"}
    assert time.process_time() - started < 10


def test_recent_models_are_looked_at_again(tmp_path):
    here, file = model_folder(tmp_path / "here"), gguf(tmp_path / "m.gguf")
    gone = tmp_path / "gone"
    models = recall([str(here), str(file), str(gone)])
    assert [model.path for model in models] == [here, file, gone]
    assert [not model.problem for model in models] == [True, True, False]
    assert "no longer there" in str(models[2].problem)


def test_recent_models_of_one_name_are_told_apart(tmp_path):
    for place in ("a/here/model.gguf", "b/here/model.gguf", "b/there/model.gguf", "other.gguf"):
        gguf(tmp_path / place)
    model_folder(tmp_path / "a" / "same")
    paths = [*tmp_path.rglob("*.gguf"), tmp_path / "a" / "same", tmp_path / "gone" / "same"]
    assert {model.name for model in recall(map(str, paths))} == {
        "model (a/here)",
        "model (b/here)",
        "model (there)",
        "other",
        "same (a)",
        "same (gone)",
    }


def test_a_model_is_named_by_its_path_alone_until_another_has_the_name(tmp_path):
    kept = gguf(tmp_path / "data" / "gguf" / "small-Q8_0.gguf")
    gone = gguf(tmp_path / "data" / "gguf" / "small-F16.gguf")
    folder = model_folder(tmp_path / "data" / "hf")
    names = {}
    for recent in ([str(kept), str(gone), str(folder)], [str(folder)], []):
        for own in ([tmp_path / "data"], [folder]):
            for model in look_around([], own, recent).models:
                names.setdefault(model.path, set()).add(model.name)
    assert names == {kept: {"small-Q8_0"}, gone: {"small-F16"}, folder: {model_name(folder)}}
    cached = tmp_path / "hub" / "models--org--repo" / "snapshots" / "c0ffee" / "small-F16.gguf"
    gguf(cached)
    place = Place("Hugging Face", tmp_path / "hub", "hub-cache")
    alike = look_around([place], [tmp_path / "data"], []).models
    assert {model.name for model in alike if model.base == "small"} == {
        "small-Q8_0",
        "small-F16 (gguf)",
        "small-F16 (repo)",
    }


def test_a_look_around_has_recent_ones_first_then_own_folders(tmp_path):
    mine, theirs = model_folder(tmp_path / "mine" / "a"), model_folder(tmp_path / "theirs" / "b")
    own, gone = tmp_path / "mine", tmp_path / "gone"
    found = look_around([Place("Theirs", tmp_path / "theirs")], [own, gone], [str(theirs)])
    assert [(model.place, model.path) for model in found.models] == [
        (RECENT, theirs),
        (str(own), mine),
        ("Theirs", theirs),
    ]
    assert found.missing == (gone,)


def test_draft_models_in_ggufs_are_not_offered_beside_the_model(tmp_path):
    for name in ("m-Q8_0.gguf", "m-Q8_0-mtp.gguf", "m-eagle3-F16.gguf", "MTP/m-F16-MTP.gguf"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        gguf(tmp_path / name)
    assert [*found_in(tmp_path)] == ["m-Q8_0.gguf"]
    (tmp_path / "m-Q8_0.gguf").unlink()
    (tmp_path / "m-Q8_0-mtp.gguf").unlink()
    assert [*found_in(tmp_path)] == ["m-eagle3-F16.gguf"]
    (tmp_path / "m-eagle3-F16.gguf").unlink()
    assert [*found_in(tmp_path)] == ["MTP/m-F16-MTP.gguf"]
