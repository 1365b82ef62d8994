"""Models, heads and draft models that are named by their place on the hub."""

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from converted_gguf import convert
from fake_hub import FakeHub, serving
from tiny_gguf import write_tiny_gguf
from tiny_published import publish
from tiny_qwen3_5 import write_tiny_qwen3_5

import mlx_engine
from mlx_engine import DraftOptions, LoadOptions, SamplingOptions
from mlx_engine.hub.client import Hub
from mlx_engine.hub.repository import ChoiceNeededError
from mlx_engine.loading.describe import inspect_model, inspect_remote
from mlx_engine.loading.find import HubAccess
from mlx_engine.self_check.doctor import check_memory_plan
from mlx_engine.values.errors import DownloadFailed, LoadStopped

GREEDY = SamplingOptions(temperature=0)
SPLIT = "big/m-Q8_0-0000{}-of-00002.gguf"
QUANTISED = {
    "m-Q4_K_M.gguf": b"GGUF" * 5,
    "m-Q4_K_S.gguf": b"GGUF" * 4,
    "m-UD-Q2_K_XL.gguf": b"GGUF" * 2,
    SPLIT.format(1): b"GGUF" * 10,
    SPLIT.format(2): b"GGUF" * 20,
    "mmproj-F16.gguf": b"GGUF",
    "mtp-m-BF16.gguf": b"GGUF" * 9,
    "mtp-m-Q4_K_S.gguf": b"GGUF",
}


@pytest.fixture
def fake() -> Iterator[FakeHub]:
    with serving(FakeHub({"org/quantised": dict(QUANTISED)})) as made:
        yield made


@pytest.fixture
def hub(fake: FakeHub, tmp_path: Path) -> HubAccess:
    return HubAccess(Hub(tmp_path / "hub", fake.endpoint, token=False))


@pytest.fixture
def everywhere(hub: HubAccess, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fake hub and its cache are those of this user."""
    monkeypatch.setattr(Hub, "for_this_user", lambda: hub.hub)


def files_of(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def test_weights_that_lie_there_twice_are_fetched_once(hub: HubAccess, fake: FakeHub) -> None:
    """As in meta-llama's and mistralai's repositories."""
    fake.repositories["org/twice"] = {
        "config.json": b"{}",
        "tokenizer.json": b"[]",
        "model-00001-of-00002.safetensors": b"a" * 1000,
        "model-00002-of-00002.safetensors": b"b" * 1000,
        "consolidated.safetensors": b"c" * 2000,
        "original/model.safetensors": b"d" * 2000,
        "original/params.json": b"{}",
    }
    files = hub.find_model("org/twice")
    assert [path.name for path in files.shards] == [
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
    ]
    assert sum(fake.sent.values()) == 2004
    before = dict(fake.sent)
    assert hub.find_model("https://huggingface.co/org/twice") == files
    assert fake.sent == before


@pytest.mark.parametrize(
    ("asked", "first"),
    [
        ("Q4_K_M", "m-Q4_K_M.gguf"),
        ("q4_k_s", "m-Q4_K_S.gguf"),
        ("Q2_K_XL", "m-UD-Q2_K_XL.gguf"),
        ("UD-Q2_K_XL", "m-UD-Q2_K_XL.gguf"),
        ("Q8_0", SPLIT.format(1)),
        ("m-Q4_K_S.gguf", "m-Q4_K_S.gguf"),
    ],
)
def test_one_quantisation_of_several(hub: HubAccess, fake: FakeHub, asked: str, first: str) -> None:
    files = hub.find_model(f"org/quantised:{asked}")
    assert (files.kind, files.root.name) == ("gguf", Path(first).name)
    weights = {name for name in fake.sent if not name.startswith("mtp")} - {"mmproj-F16.gguf"}
    assert ("mmproj-F16.gguf" in fake.sent) == (asked != "Q8_0"), "which lies elsewhere"
    assert weights == ({first, SPLIT.format(2)} if asked == "Q8_0" else {first})
    assert files.root.read_bytes() == QUANTISED[first]
    assert hub.find_model(f"org/quantised:{asked}") == files


def test_heads_beside_come_along_in_one_form(hub: HubAccess) -> None:
    files = hub.find_model("org/quantised:Q4_K_S")
    assert [path.name for path in files.heads] == ["mtp-m-Q4_K_S.gguf"]
    other = hub.find_model("org/quantised:Q4_K_M")
    assert "mtp-m-BF16.gguf" in {path.name for path in other.heads}


def test_without_a_quantisation_those_there_are_listed(hub: HubAccess) -> None:
    with pytest.raises(ChoiceNeededError) as asked:
        hub.find_model("org/quantised")
    assert [choice.label for choice in asked.value.choices] == [
        "UD-Q2_K_XL",
        "Q4_K_S",
        "Q4_K_M",
        "Q8_0",
    ]
    assert "org/quantised:UD-Q2_K_XL" in str(asked.value)
    assert "Q4_K_M (20 B), Q8_0 (120 B)." in str(asked.value)


def test_a_quantisation_that_is_not_there(hub: HubAccess, fake: FakeHub) -> None:
    with pytest.raises(DownloadFailed, match=r"it has no Q4_K\. There are UD-Q2_K_XL \(8 B\), Q4_"):
        hub.find_model("org/quantised:Q4_K")
    fake.repositories["org/plain"] = {"config.json": b"{}", "model.safetensors": b"x"}
    with pytest.raises(DownloadFailed, match="leave out :Q8_0"):
        hub.find_model("org/plain:Q8_0")
    assert not fake.sent


def test_progress_and_stop(hub: HubAccess, fake: FakeHub) -> None:
    weights = bytes(range(256)) * 8000
    fake.repositories["org/large"] = {"config.json": b"{}", "model.safetensors": weights}
    fake.slow["model.safetensors"] = 2**18
    told: list[tuple[int, int]] = []
    stopped = replace(hub, on_progress=lambda *s: told.append(s), stop=lambda: len(told) > 9)
    with pytest.raises(LoadStopped, match="org/large: the download was stopped"):
        stopped.find_model("org/large")
    assert len(told) == 10
    fake.slow.clear()
    fake.sent.clear()
    replace(hub, on_progress=lambda *s: told.append(s)).find_model("org/large")
    assert told[-1] == (len(weights) + 2, len(weights) + 2)
    assert fake.ranges
    assert fake.sent["model.safetensors"] < len(weights)


def test_a_stop_does_not_wait_for_a_silent_server(
    hub: HubAccess, fake: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mlx_engine.hub.client.LONGEST_SILENCE_S", 3)
    weights = bytes(range(256)) * 4000
    fake.repositories["org/large"] = {"config.json": b"{}", "model.safetensors": weights}
    fake.stalls_at["model.safetensors"] = 300_000
    told: list[int] = []
    looks = itertools.count()

    def stop() -> bool:
        """Stop a few looks behind the first bytes: by then the server is silent."""
        return bool(told) and next(looks) > 6

    with pytest.raises(LoadStopped, match="org/large: the download was stopped"):
        replace(hub, on_progress=lambda done, _: told.append(done), stop=stop).find_model(
            "org/large"
        )
    assert hub.find_model("org/large").shards[0].read_bytes() == weights, (
        "what came is gone on from"
    )


def test_a_folder_that_has_lost_a_shard_is_completed(hub: HubAccess, fake: FakeHub) -> None:
    fake.repositories["org/plain"] = {"config.json": b"{}", "model.safetensors": b"x"}
    shard = hub.find_model("org/plain").shards[0]
    shard.unlink()
    assert hub.find_model("org/plain").shards[0].read_bytes() == b"x"


def published(fake: FakeHub, name: str, place: Path) -> None:
    """A repository of what lies at a place, which then is gone."""
    files = files_of(place) if place.is_dir() else {place.name: place.read_bytes()}
    fake.repositories[name] = files
    if place.is_dir():
        shutil.rmtree(place)
    else:
        place.unlink()


@pytest.mark.usefixtures("everywhere")
def test_headers_that_never_end_are_not_fetched(
    tmp_path: Path, fake: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mlx_engine.loading.find._IN_ALL", 1000)
    published(fake, "org/m", publish("llama", tmp_path / "m").folder)
    with pytest.raises(DownloadFailed, match="has more than 1000 bytes"):
        inspect_remote("org/m", tmp_path)


@pytest.mark.usefixtures("everywhere")
@pytest.mark.parametrize("form", ["gguf", "folder"])
def test_heads_of_the_hub(tmp_path: Path, fake: FakeHub, form: str) -> None:
    if form == "gguf":
        model = write_tiny_gguf(tmp_path / "m.gguf", heads="none")
        published(fake, "org/heads", write_tiny_gguf(tmp_path / "mtp-m-Q8_0.gguf", heads="only"))
    else:
        model = write_tiny_qwen3_5(tmp_path / "m", heads="none")
        donor = write_tiny_qwen3_5(tmp_path / "d", heads="beside")
        (donor / "model.safetensors").unlink()
        published(fake, "org/heads", donor)
    engine = mlx_engine.load(model, heads="org/heads")
    assert (engine.description.mtp_heads, engine.description.mtp) == (1, None)
    engine.close()
    assert inspect_model(model, model, Path("org/heads")).mtp_heads == 1


@pytest.mark.usefixtures("everywhere")
def test_a_draft_model_of_the_hub(tmp_path: Path, fake: FakeHub) -> None:
    model = write_tiny_qwen3_5(tmp_path / "m", heads="none")
    published(fake, "org/small-GGUF", write_tiny_gguf(tmp_path / "s-F32.gguf", heads="none"))
    published(fake, "org/same", write_tiny_qwen3_5(tmp_path / "same", heads="none"))
    told: list[tuple[int, int]] = []
    engine = mlx_engine.load(
        model, draft_model="org/same", on_download=lambda *step: told.append(step)
    )
    made = engine.generate([5, 9, 3], 12, draft=DraftOptions("model", depth=2))
    assert made.stats.drafted > 0
    assert told[-1][0] == told[-1][1] > 0
    engine.close()
    with pytest.raises(LoadStopped):
        mlx_engine.load(
            model,
            options=LoadOptions(draft_model="org/small-GGUF:F32", draft_misfit="plain"),
            on_download=lambda *step: told.append(step),
            stop=lambda: bool(told) and told[-1][0] < told[-1][1],
        )


@pytest.mark.usefixtures("everywhere")
def test_a_gguf_of_the_hub_answers(tmp_path: Path, fake: FakeHub) -> None:
    here = write_tiny_gguf(tmp_path / "m-Q8_0.gguf", form="packed")
    with_it = mlx_engine.load(here)
    wanted = with_it.generate([5, 9, 3], 8, GREEDY).tokens
    with_it.close()
    published(fake, "org/m-GGUF", here)
    engine = mlx_engine.load("org/m-GGUF:q8_0")
    assert engine.generate([5, 9, 3], 8, GREEDY).tokens == wanted
    engine.close()


@pytest.mark.usefixtures("everywhere")
@pytest.mark.parametrize("form", ["gguf", "folder"])
@pytest.mark.parametrize("no_ranges", [False, True])
def test_memory_is_planned_without_a_download(
    tmp_path: Path, fake: FakeHub, form: str, no_ranges: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a Llama 3, whose GGUF holds the factors of its rotation; cut as larger headers are."""
    monkeypatch.setattr("mlx_engine.loading.find._LOOK", 2**12)
    here = publish("llama", tmp_path / "m").folder
    whole = here if form == "folder" else convert(here, tmp_path / "m-F32.gguf")
    wanted = inspect_model(whole, whole)
    published(fake, "org/m", whole)
    fake.no_ranges = no_ranges
    told = inspect_remote("org/m", whole)
    assert replace(told, path="", name="", without_metal=None) == replace(
        wanted, path="", name="", without_metal=None
    )
    (finding,) = check_memory_plan("org/m")
    assert "org/m" in finding.words or form == "gguf"
    assert not (tmp_path / "hub").exists()
    weights = max(fake.sent, key=lambda name: len(fake.repositories["org/m"][name]))
    if not no_ranges:
        assert fake.sent[weights] < len(fake.repositories["org/m"][weights]) / 2


HEARS_CTRL_C = """
import runpy, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
runpy.run_module("mlx_engine", run_name="__main__", alter_sys=True)
"""
"""A shell starts what runs in its background deaf to Ctrl-C, and tests may run there."""


def test_in_the_terminal(tmp_path: Path, fake: FakeHub) -> None:
    """Ctrl-C ends it at once, and the next time it goes on; progress goes where people look."""
    published(fake, "org/m-GGUF", write_tiny_gguf(tmp_path / "m-Q8_0.gguf", form="packed"))
    fake.slow["m-Q8_0.gguf"] = 2**13
    around = {"HF_ENDPOINT": fake.endpoint, "HF_HOME": str(tmp_path / "home")}
    command = [sys.executable, "-c", HEARS_CTRL_C, "inspect", "org/m-GGUF:Q8_0", "--json"]
    asked = partial(subprocess.Popen, command, env=os.environ | around, stdout=subprocess.PIPE)
    blobs = tmp_path / "home" / "hub" / "models--org--m-GGUF" / "blobs"
    with asked(stderr=subprocess.PIPE) as first:
        while not any(path.stat().st_size for path in blobs.glob("*.incomplete")):
            assert first.poll() is None
            time.sleep(0.02)
        first.send_signal(signal.SIGINT)
        assert first.wait(120) == 130
    fake.slow.clear()
    with asked() as second:
        told, _ = second.communicate(timeout=120)
    assert json.loads(told)["name"] == "m-Q8_0"
    assert fake.ranges
