import json
import re
import shutil
from pathlib import Path

import pytest
from drafter_gguf import convert_drafter
from tiny_dflash import TinyDFlash, write_tiny_dflash

from mlx_engine.hub.client import Hub
from mlx_engine.hub.weight_files import is_drafter_of
from mlx_engine.loading.find import HubAccess, locate_heads, locate_model
from mlx_engine.loading.folder import draft_models_near, gguf_file
from mlx_engine.loading.headers import read_headers
from mlx_engine.values.errors import (
    BadModelFile,
    DownloadFailed,
    HeadsOnly,
    ModelNotFound,
    UnsafeModelFile,
    UnsupportedModel,
)


def fill(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("{}")
    return folder


no_download = HubAccess(Hub(Path("/nowhere"), "http://127.0.0.1:9", token=False))
"""A hub that nobody answers for."""


def names(paths: tuple[Path, ...]) -> list[str]:
    return [path.name for path in paths]


def test_nothing_is_the_built_in_model(tmp_path: Path) -> None:
    built_in = fill(tmp_path / "pocket", "config.json", "model.safetensors")
    assert locate_model(None, built_in, no_download).root == built_in


@pytest.mark.parametrize("given", ["", "model.safetensors", "config.json"])
def test_a_folder_or_a_file_in_it(tmp_path: Path, given: str) -> None:
    root = fill(tmp_path / "m", "config.json", "model.safetensors", "tokenizer.json")
    files = locate_model(root / given, tmp_path, no_download)
    assert (files.root, files.kind, files.config) == (root, "folder", root / "config.json")
    assert names(files.shards) == ["model.safetensors"]
    assert locate_model(str(root / given), tmp_path, no_download) == files


def test_shards_come_from_the_index(tmp_path: Path) -> None:
    root = fill(tmp_path, "config.json", "a-2.safetensors", "a-1.safetensors", "b.safetensors")
    table = {"x": "a-2.safetensors", "y": "a-1.safetensors", "z": "a-2.safetensors"}
    index = root / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": table}))
    files = locate_model(root, tmp_path, no_download)
    assert names(files.shards) == ["a-1.safetensors", "a-2.safetensors"]
    (root / "a-1.safetensors").unlink()
    files = locate_model(root, tmp_path, no_download)
    assert re.search(r"a-1\.safetensors: missing, though .*index\.json", files.incomplete)
    assert files.absent == {"y": "a-1.safetensors"}
    for name in ("a-2.safetensors", "b.safetensors"):
        (root / name).unlink()
    with pytest.raises(BadModelFile, match="missing, though"):
        locate_model(root, tmp_path, no_download)


@pytest.mark.parametrize(
    "index",
    [
        "[]",
        "{",
        "{}",
        '{"weight_map": {}}',
        '{"weight_map": 3}',
        '{"weight_map": {"x": "../model.safetensors"}}',
        '{"weight_map": {"x": "/model.safetensors"}}',
        '{"weight_map": {"x": "model.bin"}}',
        '{"weight_map": {"x": 7}}',
        '{"weight_map": {"x": "a\\u0000.safetensors"}}',
        '{"weight_map": {"x": "%s.safetensors"}}' % ("x" * 300),
    ],
)
def test_a_bad_index_is_told_only_where_the_weights_are_missing(tmp_path: Path, index: str) -> None:
    root = fill(tmp_path / "m", "config.json", "model.safetensors", "../model.safetensors")
    (root / "model.safetensors.index.json").write_text(index)
    files = locate_model(root, tmp_path, no_download)
    assert names(files.shards) == ["model.safetensors"] and "index.json" in files.incomplete
    (root / "model.safetensors").unlink()
    with pytest.raises(BadModelFile, match=r"index\.json"):
        locate_model(root, tmp_path, no_download)


@pytest.mark.parametrize(
    "left",
    [
        ["model.safetensors"],
        ["model-00001-of-00001.safetensors"],
        ["model-00001-of-00002.safetensors", "model.safetensors"],
        [f"model-0000{n}-of-00003.safetensors" for n in (1, 2, 3)],
        ["consolidated.safetensors", "model.safetensors"],
    ],
)
@pytest.mark.parametrize("index", ["model", "consolidated"])
def test_an_index_of_other_files_does_not_matter(
    tmp_path: Path, left: list[str], index: str
) -> None:
    """The tensors are in whatever is there; shards of the index that are left over are not read."""
    root = fill(tmp_path, "config.json", *left)
    table = {f"t{n}": f"{index}-0000{n}-of-00002.safetensors" for n in (1, 2)}
    (root / f"{index}.safetensors.index.json").write_text(json.dumps({"weight_map": table}))
    files = locate_model(root, tmp_path, no_download)
    wanted = left[-1:] if "model.safetensors" in left else left
    assert names(files.shards) == wanted and files.heads == ()


def test_numbered_shards_without_index_must_be_complete(tmp_path: Path) -> None:
    shards = [f"model-0000{n}-of-00003.safetensors" for n in (1, 2, 3)]
    root = fill(tmp_path, "config.json", *shards)
    assert names(locate_model(root, tmp_path, no_download).shards) == shards
    (root / shards[1]).unlink()
    found = locate_model(root, tmp_path, no_download).incomplete
    assert "model-00002-of-00003.safetensors: missing" in found


def test_heads_beside_are_not_shards(tmp_path: Path) -> None:
    root = fill(tmp_path, "config.json", "model.safetensors", "mtp.safetensors")
    fill(root, "mtp/weights.safetensors", "mtp-4bit.safetensors", "other.safetensors")
    files = locate_model(root, tmp_path, no_download)
    assert names(files.shards) == ["model.safetensors"]
    assert names(files.heads) == ["mtp-4bit.safetensors", "mtp.safetensors", "weights.safetensors"]


@pytest.mark.parametrize(
    "name", ["model-mtp.safetensors", "Qwen_MTP-4bit.safetensors", "MTP/a.safetensors"]
)
def test_heads_that_the_index_leaves_out(tmp_path: Path, name: str) -> None:
    root = fill(tmp_path, "config.json", "model.safetensors", "smtpd.safetensors", name)
    index = {"weight_map": {"x": "model.safetensors"}}
    (root / "model.safetensors.index.json").write_text(json.dumps(index))
    files = locate_model(root, tmp_path, no_download)
    assert names(files.shards) == ["model.safetensors"]
    assert files.heads == (root / name,)


def test_a_whole_model_may_be_named_after_its_heads(tmp_path: Path) -> None:
    root = fill(tmp_path, "config.json", "Qwen3.5-4B-MTP.safetensors")
    files = locate_model(root, tmp_path, no_download)
    assert names(files.shards) == ["Qwen3.5-4B-MTP.safetensors"] and files.heads == ()


def test_heads_that_the_index_lists_are_shards(tmp_path: Path) -> None:
    root = fill(tmp_path, "config.json", "model.safetensors", "mtp.safetensors")
    table = {"x": "model.safetensors", "mtp.y": "mtp.safetensors"}
    (root / "model.safetensors.index.json").write_text(json.dumps({"weight_map": table}))
    files = locate_model(root, tmp_path, no_download)
    assert names(files.shards) == ["model.safetensors", "mtp.safetensors"]
    assert files.heads == ()


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "m.pth", "m.pkl", "m.CKPT"])
def test_formats_that_run_code_are_refused(tmp_path: Path, name: str) -> None:
    root = fill(tmp_path, "config.json", name)
    for place in (root, root / name):
        with pytest.raises(UnsafeModelFile, match=r"run code.*safetensors"):
            locate_model(place, tmp_path, no_download)


def test_they_are_no_matter_beside_safe_weights(tmp_path: Path) -> None:
    root = fill(tmp_path, "config.json", "model.safetensors", "pytorch_model.bin")
    assert names(locate_model(root, tmp_path, no_download).shards) == ["model.safetensors"]


def test_gguf_is_found_by_file_or_folder(tmp_path: Path) -> None:
    root = fill(tmp_path, "model-Q8_0.gguf")
    for place in (root, root / "model-Q8_0.gguf"):
        files = locate_model(place, tmp_path, no_download)
        assert (files.kind, files.root) == ("gguf", root / "model-Q8_0.gguf")
        with pytest.raises(BadModelFile, match="not a GGUF"):
            read_headers(files)
    fill(root, "mtp-model.gguf")
    fill(root, "mmproj-model.gguf")
    assert locate_model(root, tmp_path, no_download).heads == (root / "mtp-model.gguf",)
    fill(root, "other.gguf")
    with pytest.raises(ModelNotFound, match="2 GGUF files"):
        locate_model(root, tmp_path, no_download)


@pytest.mark.parametrize("name", ["notes.md", "model", "image.png"])
def test_other_files(tmp_path: Path, name: str) -> None:
    with pytest.raises(UnsupportedModel, match=name):
        locate_model(fill(tmp_path, name) / name, tmp_path, no_download)


@pytest.mark.parametrize("path", ["models/m.gguf", "m/model.safetensors", "m/x.bin"])
def test_a_file_that_is_not_there_is_not_asked_for_on_the_hub(
    tmp_path: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelNotFound, match="no such file or folder"):
        locate_model(path, tmp_path, no_download)


@pytest.mark.parametrize("path", ["/no/such/model", "a/b/c", "", "x" * 5000, "a\0b", "~nobody/x/y"])
def test_no_such_place(tmp_path: Path, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelNotFound):
        locate_model(path, tmp_path, no_download)


def test_no_name_is_not_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(fill(tmp_path / "model", "config.json", "model.safetensors"))
    with pytest.raises(ModelNotFound, match="No model is named"):
        locate_model("", tmp_path, no_download)


def test_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound, match=r"config\.json and \.safetensors"):
        locate_model(tmp_path, tmp_path, no_download)


def fake_cache(cache: Path) -> Path:
    """A hub cache with one model in it, weights as links to blobs as the hub's client lays them."""
    repository = cache / "models--org--name"
    fill(repository, "blobs/aaa", "refs/main")
    (repository / "refs" / "main").write_text("c0ffee")
    snapshot = fill(repository / "snapshots" / "c0ffee", "config.json")
    (snapshot / "model.safetensors").symlink_to("../../blobs/aaa")
    return snapshot


def test_hub_cache_is_looked_at_first(tmp_path: Path) -> None:
    snapshot = fake_cache(tmp_path)
    files = locate_model("org/name", tmp_path, HubAccess(Hub(tmp_path, "http://127.0.0.1:9")))
    assert (files.root, files.shards) == (snapshot, (snapshot / "model.safetensors",))


def test_a_repository_in_the_cache_of_the_hub(tmp_path: Path) -> None:
    snapshot = fake_cache(tmp_path)
    repository = tmp_path / "models--org--name"
    assert locate_model(repository, tmp_path, no_download).root == snapshot
    (repository / "refs" / "main").unlink()
    assert locate_model(repository, tmp_path, no_download).root == snapshot
    shutil.rmtree(repository / "snapshots")
    with pytest.raises(ModelNotFound, match="no model in this folder"):
        locate_model(repository, tmp_path, no_download)


def test_a_folder_here_goes_before_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    root = fill(tmp_path / "org" / "name", "config.json", "model.safetensors")
    assert locate_model("org/name", tmp_path, no_download).root.resolve() == root.resolve()


@pytest.mark.parametrize("lost", ["config.json", "model.safetensors"])
def test_half_a_download_does_not_count_as_cached(tmp_path: Path, lost: str) -> None:
    (fake_cache(tmp_path) / lost).unlink()
    hub = HubAccess(Hub(tmp_path, "http://127.0.0.1:9", token=False))
    for name in ("org/name", "org/other"):
        with pytest.raises(DownloadFailed, match="no connection to the hub"):
            locate_model(name, tmp_path, hub)


@pytest.mark.parametrize("place", ["x" * 5000, "~no-such-user/x"])
def test_heads_at_a_place_that_cannot_be(place: str) -> None:
    with pytest.raises(ModelNotFound, match="cannot be opened"):
        locate_heads(Path(place), no_download)


def test_heads_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(fill(tmp_path, "mtp.safetensors")))
    assert locate_heads(Path("~/mtp.safetensors"), no_download) == tmp_path / "mtp.safetensors"


def test_a_gguf_in_a_folder_that_cannot_be_listed(tmp_path: Path) -> None:
    assert gguf_file(tmp_path / "closed" / "m.gguf").heads == ()


@pytest.mark.parametrize("name", ["mtp.safetensors", "mtp-Q8_0.gguf"])
def test_a_folder_of_heads_is_told_from_a_model(tmp_path: Path, name: str) -> None:
    with pytest.raises(HeadsOnly, match="heads"):
        locate_model(fill(tmp_path, "config.json", name), tmp_path, no_download)


@pytest.mark.parametrize("name", ["adapter_model.safetensors", "0000100_adapters.safetensors"])
def test_an_adapter_is_told_from_a_model(tmp_path: Path, name: str) -> None:
    root = fill(tmp_path, "adapter_config.json", name)
    with pytest.raises(UnsupportedModel, match="a LoRA adapter and no model"):
        locate_model(root, tmp_path, no_download)
    fill(root, "config.json", "model.safetensors")
    assert names(locate_model(root, tmp_path, no_download).shards) == ["model.safetensors"]


def test_a_gguf_in_parts_without_its_first(tmp_path: Path) -> None:
    """Which of them is opened does not matter: that the first is missing is told by reading it."""
    root = fill(tmp_path, "m-00002-of-00003.gguf", "m-00003-of-00003.gguf")
    assert locate_model(root, tmp_path, no_download).root == root / "m-00002-of-00003.gguf"


@pytest.mark.parametrize(
    "name", ["mmproj-F16.gguf", "m-mmproj-f16.gguf", "mtp-m.gguf", "m.imatrix.gguf"]
)
def test_what_belongs_to_a_gguf_is_no_other_model(tmp_path: Path, name: str) -> None:
    root = fill(tmp_path, "m.gguf", name)
    assert locate_model(root, tmp_path, no_download).root == root / "m.gguf"


@pytest.mark.parametrize("inner", ["Q4_K_M", "a/b"])
def test_a_gguf_one_folder_below(tmp_path: Path, inner: str) -> None:
    """As a repository with a folder for each quantisation is downloaded; no deeper."""
    (tmp_path / inner).mkdir(parents=True)
    (tmp_path / "mtp").mkdir()
    fill(tmp_path / inner, "m-00001-of-00002.gguf", "m-00002-of-00002.gguf")
    if "/" in inner:
        with pytest.raises(ModelNotFound, match="no model in this folder"):
            locate_model(tmp_path, tmp_path, no_download)
    else:
        found = locate_model(tmp_path, tmp_path, no_download)
        assert found.root == tmp_path / inner / "m-00001-of-00002.gguf"


def test_several_ggufs_are_named(tmp_path: Path) -> None:
    for name in ("Q4_K_M", "Q8_0"):
        (tmp_path / name).mkdir()
        fill(tmp_path / name, f"m-{name}.gguf")
    says = "2 GGUF files; open one of them: Q4_K_M/m-Q4_K_M.gguf, Q8_0/m-Q8_0.gguf"
    with pytest.raises(ModelNotFound, match=says):
        locate_model(tmp_path, tmp_path, no_download)


def test_draft_models_made_for_a_model_are_found(tmp_path: Path) -> None:
    """In its folder, beside it, and in the hub's cache; not those of other models."""
    sizes = TinyDFlash(64, 300)
    model, other = fill(tmp_path / "a" / "Qwen3.8-27B-4bit", "config.json", "m.safetensors"), "x"
    inside = write_tiny_dflash(model / "dflash", sizes)
    beside = write_tiny_dflash(model.parent / "Qwen3.8-27B-DFlash2", sizes)
    write_tiny_dflash(model.parent / "Qwen3.8-9B-DFlash2", sizes)
    write_tiny_dflash(model.parent / other, sizes)
    fill(model.parent / "Qwen3.8-27B-assistant", "config.json", "model.safetensors")
    assert draft_models_near(locate_model(model, tmp_path)) == (inside, beside)

    file = fill(model.parent, "Qwen3.8-27B-Q4_K_M.gguf") / "Qwen3.8-27B-Q4_K_M.gguf"
    packed = convert_drafter(beside, model.parent / "Qwen3.8-27B-DFlash2-Q8_0.gguf")
    ggufs = fill(model.parent / "Qwen3.8-27B-DFlash-GGUF", "Qwen3.8-27B-DFlash-imatrix.gguf")
    alone = convert_drafter(beside, ggufs / "Qwen3.8-27B-DFlash-Q4_K_M.gguf")
    convert_drafter(beside, model.parent / "Qwen3.8-9B-DFlash2-Q8_0.gguf")
    fill(model.parent, "Qwen3.8-27B-draft-Q8_0.gguf")
    assert draft_models_near(gguf_file(file)) == (alone, beside, packed)

    here = fill(
        tmp_path / "models--org--Qwen3.8-27B" / "snapshots" / "1", "config.json", "m.safetensors"
    )
    cached = tmp_path / "models--z-lab--Qwen3.8-27B-DSpark" / "snapshots" / "2"
    write_tiny_dflash(cached, sizes)
    write_tiny_dflash(tmp_path / "models--z-lab--Qwen3.8-9B-DSpark" / "snapshots" / "2", sizes)
    assert draft_models_near(locate_model(here, tmp_path)) == (cached,)


@pytest.mark.parametrize(
    ("drafter", "model"),
    [
        ("yuhuili/EAGLE3-LLaMA3.1-Instruct-8B", "meta-llama/Llama-3.1-8B-Instruct"),
        ("RedHatAI/gemma-4-31B-it-speculator.eagle3", "gemma-4-31B-it-4bit"),
        ("AngelSlim/Qwen3-8B_eagle3", "Qwen/Qwen3-8B"),
        ("z-lab/Qwen3-8B-DFlash-b16", "Qwen3-8B-Q4_K_M"),
        ("deepseek-ai/dspark_qwen3_8b_block7", "Qwen3-8B"),
        ("DeepSeek-V3-EAGLE3", "DeepSeek-V3"),
    ],
)
def test_draft_models_by_their_published_names(drafter: str, model: str) -> None:
    assert is_drafter_of(drafter, model)
    assert not is_drafter_of(model)
    assert not is_drafter_of(drafter, "Qwen3-14B")
