"""Searches tell format and heads from names; a look tells sizes, one row a model, and the heads."""

import json
from collections import namedtuple

import pytest
from fake_hub import FakeHub, serving
from model_files import safetensors

from app.library.find_models import Place, find_models
from app.library.hub_search import fit_of, look_at, search
from app.library.machine import Machine
from app.values.models import HubOffer, suggested
from mlx_engine.hub.client import Hub
from mlx_engine.hub.download import download
from mlx_engine.hub.plan import plan_download
from mlx_engine.hub.repository import HubModel, read_hub_link
from mlx_engine.values.errors import DownloadFailed

MACHINE = Machine(10_000)
TRUNK = ("model.norm.weight",)


@pytest.fixture
def fake():
    with serving(FakeHub()) as made:
        yield made


@pytest.fixture
def hub(fake, tmp_path):
    return Hub(tmp_path, fake.endpoint, token=False)


def index(*names: str) -> bytes:
    table = dict.fromkeys(names, "model-00001-of-00002.safetensors")
    return json.dumps({"weight_map": table}).encode()


def sharded(*names: str) -> dict[str, bytes]:
    shards = {f"model-0000{n}-of-00002.safetensors": b"x" * 4000 for n in (1, 2)}
    return {"config.json": b"{}", "model.safetensors.index.json": index(*names), **shards}


def counts(**numbers: int) -> dict[str, object]:
    """As the hub tells what safetensors hold."""
    return {"parameters": numbers, "total": sum(numbers.values())}


def test_a_search_tells_format_size_and_heads(fake, hub):
    fake.repositories = {
        "org/Qwen-9B-MTP-GGUF": {"m-Q4_K_M.gguf": b"", "m-Q8_0.gguf": b""},
        "org/Qwen-9B-4bit": {"config.json": b"", "model.safetensors": b"", "mtp.safetensors": b""},
        "org/Qwen-9B": {"config.json": b"", "model.safetensors": b""},
        "org/Qwen-old": {"pytorch_model.bin": b""},
        "org/Other": {"m.gguf": b""},
    }
    fake.told = {
        "org/Qwen-9B-MTP-GGUF": {"gguf": {"total": 9_000_000_000}, "downloads": 12345},
        "org/Qwen-9B-4bit": {"tags": ["mlx"], "safetensors": counts(BF16=500, U32=2000)},
        "org/Qwen-9B": {"safetensors": counts(BF16=9_000), "gated": "manual"},
    }
    gguf, mlx, plain = search(hub, "qwen", MACHINE)
    assert (gguf.format, gguf.parameters, gguf.fit) == ("GGUF", 9 * 10**9, "too-large")
    assert gguf.heads and gguf.about == "12,345 downloads a month"
    assert (mlx.format, mlx.parameters, mlx.nbytes, mlx.fit) == ("MLX", 0, 9000, "fits")
    assert mlx.heads, "and words of 32 bits are no parameters"
    assert (plain.format, plain.parameters, plain.nbytes) == ("Safetensors", 9000, 18_000)
    assert plain.fit == "too-large" and "terms" in plain.about
    assert fake.searches[0]["limit"] == ["50"]
    search(hub, "qwen", MACHINE, "MLX")
    assert fake.searches[1]["filter"] == ["mlx"]


def test_a_look_at_many_quantisations_is_a_row_each(fake, hub):
    labels = [f"{kind}{n}_K_{size}" for kind in ("Q", "IQ") for n in range(2, 7) for size in "SML"]
    files = {f"m-{label}.gguf": b"GGUF" * (n + 1) for n, label in enumerate(labels)}
    shards = {f"big/m-BF16-0000{n}-of-00002.gguf": b"x" * 9000 for n in (1, 2)}
    fake.repositories["org/many"] = files | shards | {"mmproj-F16.gguf": b"x"}
    offers = look_at(hub, HubModel("org/many"), MACHINE)
    assert [offer.label for offer in offers] == [*labels, "BF16"]
    assert (offers[0].nbytes, offers[0].fit) == (4 + 1, "fits")  # with its vision tower
    assert (offers[-1].nbytes, offers[-1].fit) == (18_000, "too-large")
    assert offers[-1].heads is None
    assert offers[-1].words.startswith("2 files, 18 kB; ")
    best = suggested(offers)
    assert best is not None
    assert best.label == "Q4_K_M"
    assert read_hub_link(best.link) == HubModel("org/many", file="m-Q4_K_M.gguf")


def test_heads_beside_a_gguf_count(fake, hub):
    fake.repositories["org/two"] = {"m-Q8_0.gguf": b"x" * 100, "mtp-m-Q8_0.gguf": b"x" * 10}
    (offer,) = look_at(hub, HubModel("org/two"), MACHINE)
    assert (offer.nbytes, offer.words[:7], offer.heads) == (110, "2 files", True)


def test_what_is_here_already_has_its_place_and_the_size_it_has_in_models(fake, hub, tmp_path):
    files = {
        "config.json": b"{}",
        "tokenizer.json": b"{}",
        "model.safetensors": safetensors(tmp_path / "w").read_bytes(),
    }
    fake.repositories["org/here"] = files
    (offer,) = look_at(hub, HubModel("org/here"), MACHINE)
    assert offer.path == ""
    came = download(hub, plan_download(hub, HubModel("org/here")))
    (offer,) = look_at(hub, HubModel("org/here"), MACHINE)
    assert offer.path == str(came)
    (found,) = find_models([Place("Hugging Face", hub.cache, "hub-cache")])
    assert (found.path, found.nbytes) == (came, offer.nbytes)


@pytest.mark.parametrize(
    ("files", "heads"),
    [
        (sharded(*TRUNK, "mtp.fc.weight"), True),
        (sharded(*TRUNK, "model.layers.61.eh_proj.weight"), True),
        (sharded(*TRUNK), False),
        (sharded() | {"model.safetensors.index.json": b"no index"}, None),
        (sharded(*TRUNK) | {"mtp/head.safetensors": b"x"}, True),
    ],
)
def test_the_index_tells_of_heads(fake, hub, files, heads):
    fake.repositories["org/folder"] = files
    (offer,) = look_at(hub, HubModel("org/folder"), MACHINE)
    assert offer.heads is heads
    assert not any(name.endswith(".safetensors") for name in fake.sent), "no weights were fetched"


@pytest.mark.parametrize(("names", "heads"), [(TRUNK, False), ((*TRUNK, "mtp.fc.weight"), True)])
def test_the_header_of_a_single_file_tells_of_heads(fake, hub, tmp_path, names, heads):
    weights = safetensors(tmp_path / "model.safetensors", names).read_bytes() + bytes(10**6)
    fake.repositories["org/one"] = {"config.json": b"{}", "model.safetensors": weights}
    (offer,) = look_at(hub, HubModel("org/one"), MACHINE)
    assert offer.heads is heads
    assert fake.sent["model.safetensors"] <= 100_001


def test_a_disk_without_room_is_said_before(fake, hub, monkeypatch):
    fake.repositories["org/one"] = {"m.gguf": b"GGUF"}
    monkeypatch.setattr("shutil.disk_usage", lambda _: namedtuple("Disk", "free")(10**6))
    (offer,) = look_at(hub, HubModel("org/one"), MACHINE)
    assert not offer.has_room
    assert "Make room first" in offer.words


def test_what_is_not_there_cannot_be_read_or_wants_terms_is_said(fake, hub):
    fake.repositories["org/none"] = {"README.md": b""}
    fake.gated.add("org/gated")
    for hub_id, words in (
        ("org/none", "holds no weights"),
        ("org/gated", "accept their terms"),
        ("org/unknown", "no such model"),
    ):
        with pytest.raises(DownloadFailed, match=words):
            look_at(hub, HubModel(hub_id), MACHINE)
    fake.repositories["org/broken"] = {"config.json": b"{}", "model.safetensors": b"x" * 10**6}
    with pytest.raises(DownloadFailed, match="cannot be read"):
        look_at(hub, HubModel("org/broken"), MACHINE)
    fake.nonsense = b"<html>Sign in to the guest network</html>"
    with pytest.raises(DownloadFailed, match="cannot be read"):
        search(hub, "qwen", MACHINE)
    fake.nonsense = b'[{"id": 7, "siblings": [3]}]'
    with pytest.raises(DownloadFailed, match="cannot be read"):
        search(hub, "qwen", MACHINE)
    with pytest.raises(DownloadFailed, match=r"Check the network and try again\.$"):
        search(Hub(hub.cache, "http://127.0.0.1:9", token=False), "qwen", MACHINE)


def test_a_hub_that_says_nothing_is_not_waited_for(fake, hub, monkeypatch):
    fake.silence_s = 0.5
    monkeypatch.setattr("app.library.hub_search.LONGEST_SILENCE_S", 0.1)
    with pytest.raises(DownloadFailed, match="no connection to the hub"):
        search(hub, "qwen", MACHINE)


def test_the_largest_that_fits_is_suggested():
    def offer(label: str, nbytes: int) -> HubOffer:
        return HubOffer("", label, nbytes, None, fit_of(nbytes, MACHINE))

    small, usual, large = offer("Q2_K", 100), offer("UD-Q4_K_M", 9500), offer("Q8_0", 11_000)
    assert [o.fit for o in (small, usual, large)] == ["fits", "tight", "too-large"]
    assert suggested((small, usual, large)) == small
    assert suggested((large,)) == large
    assert suggested(()) is None


@pytest.mark.parametrize(
    "model",
    [
        HubModel("org/m"),
        HubModel("org/m", quantisation="Q4_K_M"),
        HubModel("org/m", file="Q4/m-Q4_K_M.gguf"),
        HubModel("org/m", file="ein Modell (neu) #2 ü.gguf"),
        HubModel("org/m", "refs/pr/3"),
        HubModel("org/m", "v1", "m.gguf"),
    ],
)
def test_a_link_leads_back(model):
    assert read_hub_link(model.shortest_link) == model
