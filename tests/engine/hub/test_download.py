"""Downloads from a hub on this machine: planned, resumed, checked, stopped, and in words."""

import errno
import shutil
import time
from collections import namedtuple
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from fake_hub import COMMIT, FakeHub, git_id, serving

from mlx_engine.hub.client import LONGEST_SILENCE_S, Hub, translated_hub_errors
from mlx_engine.hub.download import download
from mlx_engine.hub.plan import SPARE_BYTES, DownloadPlan, partial_path, plan_download
from mlx_engine.hub.repository import ChoiceNeededError, HubFile, HubModel
from mlx_engine.loading.find import HubAccess
from mlx_engine.values.errors import DownloadFailed

MODEL = HubModel("org/small")
WEIGHTS = bytes(range(256)) * 20_000  # five pieces of a megabyte
FILES = {
    "config.json": b'{"model_type": "qwen3_5"}',
    "tokenizer.json": b"{}",
    "empty.txt": b"",
    "README.md": b"# Small",
    "model.safetensors": WEIGHTS,
    "mtp/head.safetensors": b"head" * 100,
    "onnx/model.safetensors": b"no" * 100,
    "pytorch_model.bin": b"no" * 100,
}
WANTED = {
    "config.json",
    "tokenizer.json",
    "empty.txt",
    "model.safetensors",
    "mtp/head.safetensors",
}


@pytest.fixture
def fake() -> Iterator[FakeHub]:
    with serving(FakeHub({"org/small": dict(FILES)})) as made:
        yield made


@pytest.fixture
def hub(fake: FakeHub, tmp_path: Path) -> Hub:
    return Hub(tmp_path / "hub", fake.endpoint, token=False)


def fetched(hub: Hub, model: HubModel = MODEL) -> Path:
    return download(hub, plan_download(hub, model))


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_the_plan_knows_files_and_sizes_before_anything_is_fetched(hub: Hub) -> None:
    plan = plan_download(hub, MODEL)
    assert {file.name for file in plan.files} == WANTED
    assert plan.total_bytes == sum(len(FILES[name]) for name in WANTED)
    assert (plan.have_bytes, plan.commit) == (0, COMMIT)
    assert plan.fits_on_disk
    assert plan.plan_summary.startswith("5 files, 5.12 MB; ")
    assert not hub.cache.exists()


def test_all_that_is_needed_arrives_and_the_engine_finds_it(hub: Hub) -> None:
    folder = fetched(hub)
    assert contents(folder) == {name: FILES[name] for name in WANTED}
    assert (
        HubAccess(replace(hub, endpoint="http://127.0.0.1:9")).find_model("org/small").root
        == folder
    )


def test_progress_grows_to_the_whole(hub: Hub) -> None:
    told: list[tuple[int, int]] = []
    plan = plan_download(hub, MODEL)
    download(hub, plan, lambda done, total: told.append((done, total)))
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert told[-1] == (plan.total_bytes, plan.total_bytes)
    assert len(told) > len(WANTED)


def test_a_second_download_fetches_nothing(hub: Hub, fake: FakeHub) -> None:
    folder = fetched(hub)
    before = dict(fake.sent)
    assert plan_download(hub, MODEL).missing_bytes == 0
    assert fetched(hub) == folder
    assert fake.sent == before


def test_a_cut_download_goes_on_where_it_stopped(hub: Hub, fake: FakeHub) -> None:
    fake.cut_at["model.safetensors"] = 3 * 2**20
    with pytest.raises(DownloadFailed, match="goes on where it stopped"):
        fetched(hub)
    assert not (hub.repository("org/small") / "snapshots").exists()
    have = plan_download(hub, MODEL).have_bytes
    assert have > 2 * 2**20
    assert contents(fetched(hub))["model.safetensors"] == WEIGHTS
    assert fake.ranges
    assert fake.sent["model.safetensors"] < len(WEIGHTS) + 2 * 2**20


def test_a_download_that_stalls_ends_and_goes_on_where_it_stopped(
    hub: Hub, fake: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hub holds the connection and sends nothing: no one waits for ever."""
    assert LONGEST_SILENCE_S <= 15
    fake.stalls_at["model.safetensors"] = 3 * 2**20
    with monkeypatch.context() as patch:
        patch.setattr("mlx_engine.hub.client.LONGEST_SILENCE_S", 1)
        with pytest.raises(DownloadFailed, match=r"no connection .* goes on where it stopped"):
            fetched(hub)
    assert plan_download(hub, MODEL).have_bytes > 2 * 2**20
    assert contents(fetched(hub))["model.safetensors"] == WEIGHTS
    assert fake.ranges


def test_two_programs_that_want_the_same_model_fetch_it_once(hub: Hub, fake: FakeHub) -> None:
    """Two that write to one file at once would both have a damaged one."""
    fake.slow["model.safetensors"] = 2**20
    plan = plan_download(hub, MODEL)
    told: list[int] = []
    with ThreadPoolExecutor() as pool:
        first = pool.submit(download, hub, plan)
        part = partial_path(hub.repository("org/small") / "blobs", weights_of(plan))
        while not part.exists() or not part.stat().st_size:
            time.sleep(0.01)
        second = pool.submit(download, hub, plan, lambda done, _: told.append(done))
        assert first.result() == second.result()
    assert contents(first.result())["model.safetensors"] == WEIGHTS
    assert fake.sent["model.safetensors"] < len(WEIGHTS) + 2**16
    assert told == sorted(told)
    assert any(2**20 < done < len(WEIGHTS) for done in told), "who waits is told how far it is"


def weights_of(plan: DownloadPlan) -> HubFile:
    return next(file for file in plan.files if file.name == "model.safetensors")


def test_a_stopped_download_goes_on_where_it_stopped(hub: Hub, fake: FakeHub) -> None:
    """Whatever ends it, in the middle of a write: a kill leaves the same."""
    seen: list[int] = []

    def stop(done: int, _total: int) -> None:
        seen.append(done)
        if len(seen) > 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        download(hub, plan_download(hub, MODEL), stop)
    assert not (hub.repository("org/small") / "snapshots").exists()
    assert contents(fetched(hub))["model.safetensors"] == WEIGHTS
    assert fake.ranges


def test_a_server_that_cannot_resume_sends_it_again(hub: Hub, fake: FakeHub) -> None:
    fake.no_ranges, fake.cut_at["model.safetensors"] = True, 2 * 2**20
    with pytest.raises(DownloadFailed):
        fetched(hub)
    assert contents(fetched(hub))["model.safetensors"] == WEIGHTS


def test_files_too_large_for_one_request_come_another_way(
    hub: Hub, fake: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mlx_engine.hub.download.LARGEST_BY_HTTP", 2**20)
    assert contents(fetched(hub))["model.safetensors"] == WEIGHTS
    blobs = hub.repository("org/small") / "blobs"
    assert all(path.is_file() for path in blobs.iterdir()), "nothing is left of its own cache"


def test_a_large_file_that_came_is_not_fetched_again(
    hub: Hub, fake: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its checksum takes minutes, in which a program may end."""
    plan = plan_download(hub, MODEL)
    part = partial_path(hub.repository("org/small") / "blobs", weights_of(plan))
    part.parent.mkdir(parents=True)
    part.write_bytes(WEIGHTS)
    monkeypatch.setattr("mlx_engine.hub.download.LARGEST_BY_HTTP", 2**20)
    assert contents(fetched(hub))["model.safetensors"] == WEIGHTS
    assert "model.safetensors" not in fake.sent


@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_damaged_files_are_thrown_away(hub: Hub, fake: FakeHub, name: str) -> None:
    fake.garbled.add(name)
    with pytest.raises(DownloadFailed, match=f"{name} arrived damaged"):
        fetched(hub)
    assert not list((hub.repository("org/small") / "blobs").glob("*.incomplete"))
    assert contents(fetched(hub))[name] == FILES[name]


def test_a_damaged_part_is_noticed_at_the_end(hub: Hub, fake: FakeHub) -> None:
    fake.cut_at["model.safetensors"] = 2 * 2**20
    with pytest.raises(DownloadFailed):
        fetched(hub)
    (part,) = (hub.repository("org/small") / "blobs").glob("*.incomplete")
    part.write_bytes(b"x" * part.stat().st_size)
    with pytest.raises(DownloadFailed, match="damaged"):
        fetched(hub)
    assert contents(fetched(hub))["model.safetensors"] == WEIGHTS


def test_a_part_that_is_too_long_is_not_used(hub: Hub) -> None:
    plan = plan_download(hub, MODEL)
    blobs = hub.repository("org/small") / "blobs"
    blobs.mkdir(parents=True)
    for file in plan.files:
        (blobs / f"{file.blob_name}.incomplete").write_bytes(b"x" * (file.nbytes + 7))
    assert contents(fetched(hub))["config.json"] == FILES["config.json"]


INDEX = b"""{"weight_map": {"lm_head.weight": "model-00001-of-00002.safetensors",
 "mtp.fc.weight": "model-00002-of-00002.safetensors"}}"""
SHARDS = {f"model-0000{n}-of-00002.safetensors": bytes([n]) * 99 for n in (1, 2)}


@pytest.mark.parametrize(
    ("index", "wanted"),
    [
        (INDEX, {"model-00002-of-00002.safetensors"}),
        (INDEX.replace(b"mtp.", b"model.layers.9."), set(SHARDS)),
        (INDEX.replace(b"00002-of", b"00003-of"), set(SHARDS)),
        (b"[]", set(SHARDS)),
        (b"{", set(SHARDS)),
    ],
)
def test_of_shards_only_those_with_heads_are_fetched(
    hub: Hub, fake: FakeHub, index: bytes, wanted: set[str]
) -> None:
    small = {"config.json": b"{}", "model.safetensors.index.json": index}
    fake.repositories["org/donor"] = SHARDS | small
    plan = plan_download(hub, HubModel("org/donor"), heads=True)
    assert {file.name for file in plan.files} == wanted | set(small)
    assert set(contents(download(hub, plan))) == wanted | set(small)
    assert set(contents(fetched(hub, HubModel("org/donor")))) == set(SHARDS) | set(small)


def test_a_full_disk_is_seen_before_the_first_byte(
    hub: Hub, fake: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")
    plan = plan_download(hub, MODEL)
    monkeypatch.setattr(
        shutil, "disk_usage", lambda _: usage(0, 0, plan.total_bytes + SPARE_BYTES - 1)
    )
    tight = plan_download(hub, MODEL)
    assert not tight.fits_on_disk
    with pytest.raises(DownloadFailed, match="Make room first"):
        download(hub, tight)
    assert not fake.sent


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_disk_that_is_full_meanwhile_says_what_to_do(number: int) -> None:
    with pytest.raises(DownloadFailed, match="disk is full"), translated_hub_errors("org/small"):
        raise OSError(number, "No space left on device")


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (HubModel("org/nowhere"), "no such model on the hub"),
        (HubModel("org/two..dots"), "no model can have this name"),
        (HubModel("org/gated"), "accept their terms"),
        (HubModel("org/small", "v9"), "no such branch"),
        (HubModel("org/pickles"), "can run code"),
        (HubModel("org/nothing"), "no weights"),
        (HubModel("org/ggufs"), "holds 2 GGUF models: choose one"),
        (HubModel("org/ggufs", file="c.gguf"), "no file c.gguf"),
        (HubModel("org/half", file="x-00001-of-00002.gguf"), "no file x-00002-of-00002.gguf"),
    ],
)
def test_refusals_have_words(hub: Hub, fake: FakeHub, model: HubModel, words: str) -> None:
    fake.gated.add("org/gated")
    fake.repositories |= {
        "org/pickles": {"pytorch_model.bin": b"x"},
        "org/nothing": {"README.md": b"x"},
        "org/ggufs": {"a-Q4.gguf": b"GGUFa", "b-Q8.gguf": b"GGUFb", "mmproj-f16.gguf": b"GGUF"},
        "org/half": {"x-00001-of-00002.gguf": b"GGUF"},
    }
    with pytest.raises(DownloadFailed, match=words) as refused:
        plan_download(hub, model)
    assert str(refused.value).startswith(model.hub_id)


def test_one_gguf_of_several_by_its_link(hub: Hub, fake: FakeHub) -> None:
    fake.repositories["org/ggufs"] = {"a-Q4.gguf": b"GGUFa", "b-Q8.gguf": b"GGUFb"}
    path = fetched(hub, HubModel("org/ggufs", file="b-Q8.gguf"))
    assert path.name == "b-Q8.gguf"
    assert path.read_bytes() == b"GGUFb"
    assert set(contents(path.parent)) == {"b-Q8.gguf"}


def test_several_ggufs_are_a_choice_with_sizes_and_shards_are_one(hub: Hub, fake: FakeHub) -> None:
    fake.repositories["org/ggufs"] = {
        "Q8_0/m-Q8_0-00001-of-00002.gguf": b"GGUF" * 10,
        "Q8_0/m-Q8_0-00002-of-00002.gguf": b"GGUF" * 20,
        "m-Q4_K_M.gguf": b"GGUF" * 5,
        "m-F16-00001-of-00002.gguf": b"GGUF",
        "mmproj-F16.gguf": b"GGUF",
    }
    with pytest.raises(ChoiceNeededError) as asked:
        plan_download(hub, HubModel("org/ggufs"))
    small, split = asked.value.choices
    assert (small.file, small.nbytes) == ("m-Q4_K_M.gguf", 20)
    assert (split.file, split.nbytes) == ("Q8_0/m-Q8_0-00001-of-00002.gguf", 120)
    path = fetched(hub, HubModel("org/ggufs", file=split.file))
    assert path.name == "m-Q8_0-00001-of-00002.gguf"
    assert len(contents(path.parent)) == 2
    assert (path.parent.parent / "mmproj-F16.gguf").exists(), "its vision tower lies above"
    del fake.repositories["org/ggufs"]["m-Q4_K_M.gguf"]
    assert plan_download(hub, HubModel("org/ggufs")).total_bytes == 124


def test_no_connection_in_words(tmp_path: Path) -> None:
    with serving(FakeHub()) as gone:
        hub = Hub(tmp_path, gone.endpoint, token=False)
    with pytest.raises(DownloadFailed, match=r"org/small: no connection to the hub\. "):
        plan_download(hub, MODEL)


def test_an_error_of_the_hub_in_words(hub: Hub, fake: FakeHub) -> None:
    plan = plan_download(hub, MODEL)
    fake.status = 418
    with pytest.raises(DownloadFailed, match="the hub answered with error 418"):
        download(hub, plan)


def test_names_that_lead_out_of_the_cache_are_not_taken(hub: Hub, fake: FakeHub) -> None:
    for name in ("../../../../evil.gguf", "/evil.gguf", "a\\evil.gguf"):
        fake.repositories["org/evil"] = {name: b"GGUF"}
        with pytest.raises(DownloadFailed, match="no weights"):
            plan_download(hub, HubModel("org/evil"))
        with pytest.raises(DownloadFailed, match="has no file"):
            plan_download(hub, HubModel("org/evil", file=name))


def test_checksums_that_are_none_are_refused(
    hub: Hub, fake: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fake_hub.git_id", lambda data: "../../evil")
    with pytest.raises(DownloadFailed, match="no checksums"):
        plan_download(hub, MODEL)


def test_other_copies_of_the_tensors_stay_there(hub: Hub, fake: FakeHub) -> None:
    fake.repositories["org/small"]["consolidated.safetensors"] = b"same again"
    assert {file.name for file in plan_download(hub, MODEL).files} == WANTED


def test_git_knows_files_by_this_name() -> None:
    assert git_id(b"hello\n") == "ce013625030ba8dba906f756967f9e9ca394464a"


def test_a_plan_is_a_value(hub: Hub) -> None:
    plan = plan_download(hub, MODEL)
    assert isinstance(plan, DownloadPlan)
    assert replace(plan, free_bytes=0).fits_on_disk is False


def test_the_token_goes_to_the_hub_and_nowhere_else(hub: Hub, fake: FakeHub) -> None:
    fetched(replace(hub, token="hf_secret"))
    assert fake.signed == {"api": True, "org": True, "storage": False}
