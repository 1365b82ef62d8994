"""A model goes with all that is its own, and with nothing that another one needs."""

from model_files import gguf, hub_model, model_folder

from app.library.find_models import own_files


def test_a_folder_and_a_gguf_with_its_shards(tmp_path):
    folder = model_folder(tmp_path / "Ein Modell (ü)")
    assert own_files(folder) == (folder,)
    single = gguf(tmp_path / "one.gguf")
    shards = [gguf(tmp_path / f"m-0000{n}-of-00003.gguf") for n in (1, 2)]
    assert own_files(single) == (single,)
    assert own_files(shards[0]) == tuple(shards), "the third is not there"


def test_a_repository_of_the_hub_goes_as_a_whole(tmp_path):
    snapshot = hub_model(tmp_path, "org/m", {"config.json": b"{}", "model.safetensors": b"x"})
    assert own_files(snapshot) == (tmp_path / "models--org--m",)
    alone = hub_model(tmp_path, "org/g", {"g-Q4_K_M.gguf": b"x", "README.md": b"x"})
    assert own_files(alone / "g-Q4_K_M.gguf") == (tmp_path / "models--org--g",)
    unfinished = tmp_path / "models--org--begun"
    (unfinished / "blobs").mkdir(parents=True)
    assert own_files(unfinished) == (unfinished,)


def test_a_folder_that_is_only_named_like_a_repository_stays(tmp_path):
    """A user may call one so, and have more in it."""
    folder = tmp_path / "models--mine"
    folder.mkdir()
    model, other = gguf(folder / "one.gguf"), gguf(folder / "two.gguf")
    assert own_files(model) == (model,) and other.exists()
    deeper = folder / "MLX"
    deeper.mkdir()
    assert own_files(deeper) == (deeper,)


def test_of_several_in_a_repository_only_one_goes(tmp_path):
    names = ["m-Q8_0-00001-of-00002.gguf", "m-Q8_0-00002-of-00002.gguf", "m-Q4_K_M.gguf"]
    snapshot = hub_model(tmp_path, "org/two", {name: name.encode() for name in names})
    gone = own_files(snapshot / names[0])
    assert {path.name for path in gone if path.is_symlink()} == set(names[:2])
    data = [path for path in gone if not path.is_symlink()]
    assert sorted(path.read_bytes() for path in data) == sorted(n.encode() for n in names[:2])


def test_data_that_another_name_leads_to_stays(tmp_path):
    snapshot = hub_model(tmp_path, "org/same", {"a.gguf": b"x", "b.gguf": b"y"})
    (snapshot / "c.gguf").symlink_to((snapshot / "a.gguf").readlink())
    assert own_files(snapshot / "a.gguf") == (snapshot / "a.gguf",)
