"""Tokens that ran out, links out of the cache, and listings that nobody of good will makes."""

import os
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from fake_hub import COMMIT, FakeHub, serving

from mlx_engine.hub.client import Hub, fetch_byte_range, fetch_small_file, translated_hub_errors
from mlx_engine.hub.download import cached_path, download
from mlx_engine.hub.plan import plan_download
from mlx_engine.hub.repository import (
    ChoiceNeededError,
    HubFile,
    HubModel,
    needed_files,
    read_hub_link,
)
from mlx_engine.hub.weight_files import (
    GGUF_WITH_TOWERS,
    ShardName,
    gguf_models,
    hub_snapshot,
)
from mlx_engine.loading.find import HubAccess
from mlx_engine.loading.gguf.model import ARCHITECTURES
from mlx_engine.loading.vision import _BY_TYPE
from mlx_engine.values.errors import DownloadFailed, EngineError
from mlx_engine.values.untrusted import CONFIG_BYTES

MODEL = HubModel("org/small")


@pytest.fixture
def fake() -> Iterator[FakeHub]:
    files = {"config.json": b"{}", "model.safetensors": b"x" * 100_000}
    with serving(FakeHub({"org/small": files})) as made:
        yield made


@pytest.fixture
def hub(fake: FakeHub, tmp_path: Path) -> Hub:
    return Hub(tmp_path / "hub", fake.endpoint, token="hf_" + "x" * 34)


def test_a_token_that_ran_out_does_not_matter_for_a_public_model(hub: Hub, fake: FakeHub) -> None:
    fake.expired = True
    folder = download(hub, plan_download(hub, MODEL))
    assert (folder / "model.safetensors").stat().st_size == 100_000


def test_a_token_that_ran_out_is_told_where_it_would_be_needed(hub: Hub, fake: FakeHub) -> None:
    fake.expired = True
    fake.gated = {"org/small"}
    for name in ("org/small", "org/hidden"):
        with pytest.raises(DownloadFailed, match=r"refuses the token .*hf auth login"):
            plan_download(hub, HubModel(name))
    with pytest.raises(DownloadFailed, match="no such model on the hub"):
        plan_download(replace(hub, token=False), HubModel("org/hidden"))


UP = "..%2F..%2F..%2F.."


@pytest.mark.parametrize("kind", ["tree", "blob", "resolve"])
@pytest.mark.parametrize(
    "revision",
    ["%2F", "%2Ftmp", f"{UP}%2Ftmp", "..", "a%2F..%2F..%2Fb", "a%5C..%5Cb", "%00", "a%0Ab",
     "x" * 5000, "~", ".hidden", "a%2F%2Fb"],
)  # fmt: skip
def test_a_revision_is_no_path(hub: Hub, kind: str, revision: str) -> None:
    link = f"https://huggingface.co/org/small/{kind}/{revision}/m.gguf"
    assert isinstance(read_hub_link(link), str)
    with pytest.raises(EngineError, match="does not lead to a model"):
        HubAccess(hub).find_model(link)


@pytest.mark.parametrize("revision", ["/", "../../../../x", "", "a/../b", "\0", "x" * 5000])
def test_nothing_outside_the_cache_is_looked_at_or_written(
    hub: Hub, tmp_path: Path, revision: str
) -> None:
    model = HubModel("org/small", revision)
    (tmp_path / "x" / "snapshots").mkdir(parents=True)
    (tmp_path / "x" / "config.json").write_text("{}")
    assert cached_path(hub, model) is None
    plan = replace(plan_download(hub, MODEL), model=model)
    with pytest.raises(DownloadFailed):
        plan_download(hub, model)
    assert not (tmp_path / "hub" / "models--org--small").exists(), plan


@pytest.mark.parametrize("commit", ["../../../../x", "/", "", "\0", "x" * 5000, "\xff"])
def test_a_reference_in_the_cache_is_no_path(hub: Hub, tmp_path: Path, commit: str) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "model.safetensors").write_text("{}")
    reference = hub.repository("org/small") / "refs" / "main"
    reference.parent.mkdir(parents=True)
    reference.write_text(commit, encoding="latin-1")
    assert cached_path(hub, MODEL) is None
    assert hub_snapshot(hub.repository("org/small")) is None
    reference.unlink()
    os.mkfifo(reference)
    assert cached_path(hub, MODEL) is None


@pytest.mark.parametrize(
    "link", ["blob/main/..%2Fm.gguf", "resolve/v2.1/%2Fm.gguf", "blob/v/a%5Cm"]
)
def test_a_file_is_no_path_out_of_its_repository(link: str) -> None:
    assert isinstance(read_hub_link(f"https://huggingface.co/org/small/{link}"), str)


@pytest.mark.parametrize("revision", ["main", "v1.0", "refs%2Fpr%2F3", "a-b_c+d@e", "c0ffee"])
def test_branches_and_tags(revision: str) -> None:
    found = read_hub_link(f"https://huggingface.co/org/small/tree/{revision}")
    assert isinstance(found, HubModel)
    assert read_hub_link(found.shortest_link) == found


def listed(*names: str) -> list[HubFile]:
    return [HubFile(name, 100, "a" * 40, None) for name in names]


BASE = "gemma-4-E2B-it"
DRAFTERS = [
    f"MTP/{BASE}-Q8_0-MTP.gguf",
    f"MTP/{BASE}-F16-MTP.gguf",
    f"{BASE}-Q8_0-mtp.gguf",
    f"mtp-{BASE}.gguf",
    f"{BASE}-assistant-F16.gguf",
    f"{BASE}-Eagle3-BF16.gguf",
    f"draft/{BASE}-F16.gguf",
    f"{BASE}-dflash.gguf",
    "mmproj-BF16.gguf",
]


def test_draft_models_are_not_offered_beside_the_model_they_draft_for() -> None:
    files = listed(f"{BASE}-Q8_0.gguf", f"{BASE}-BF16.gguf", *DRAFTERS)
    with pytest.raises(ChoiceNeededError) as asked:
        needed_files(files, HubModel("org/g"))
    assert {choice.label for choice in asked.value.choices} == {"Q8_0", "BF16"}
    model, tower = needed_files(files, HubModel("org/g", quantisation="Q8_0"))
    assert model.name == f"{BASE}-Q8_0.gguf"  # an assistant in a GGUF is not read
    assert tower.name == "mmproj-BF16.gguf"
    with pytest.raises(DownloadFailed, match="has no F16"):
        needed_files(files, HubModel("org/g", quantisation="F16"))


@pytest.mark.parametrize(
    ("model", "towers"),
    [
        ("m-Q4_0.gguf", ["mmproj-BF16.gguf", "mmproj-F16.gguf", "mmproj-F32.gguf"]),
        ("m-Q4_0.gguf", ["mmproj-model-f16.gguf", "mmproj-Q8_0.gguf"]),
        ("m-Q4_0.gguf", ["mmproj.gguf", "mmproj-Q8_0.gguf", "mmproj-Q4_0.gguf"]),
        ("a-2B-Q8_0.gguf", ["mmproj-a-2B-f16.gguf", "mmproj-a-4B-BF16.gguf"]),
        ("a-2B.i1-Q4_K_M.gguf", ["a-2B.mmproj-Q8_0.gguf", "a-4B.mmproj-f16.gguf"]),
        ("BF16/m-BF16.gguf", ["mmproj-F16.gguf", "other/mmproj-BF16.gguf"]),
        ("UD-Q4_K_XL/m.gguf", ["UD-Q4_K_XL/mmproj-F16.gguf"]),
        ("draft/m-Q4_0.gguf", []),
        ("mmproj-F16.gguf", []),
    ],
)
def test_one_vision_tower_comes_along(model: str, towers: list[str]) -> None:
    """The first of these; none from elsewhere, nor with heads alone."""
    files = [*listed(model, *towers), *listed("mmproj-F16.gguf") * (model[:5] == "draft")]
    needed = needed_files(files, HubModel("org/g", file=model))
    assert [file.name for file in needed] == [model, *towers[:1]]
    assert len(needed_files(files, HubModel("org/g", file=model), heads=True)) == 1


def test_a_vision_tower_that_is_not_run_is_left_out(hub: Hub, fake: FakeHub) -> None:
    """As far as the hub tells; a link to the tower itself is followed."""
    fake.repositories["org/g"] = {"m-Q4_0.gguf": b"GGUF", "mmproj-F16.gguf": b"GGUFs"}
    told: list[tuple[str | None, int]] = [(None, 9), ("clip", 9), ("gemma3", 9), ("llama", 4)]
    for architecture, nbytes in told:
        fake.told["org/g"] = {"gguf": architecture and {"architecture": architecture, "total": 1}}
        assert plan_download(hub, HubModel("org/g")).total_bytes == nbytes, architecture
    assert plan_download(hub, HubModel("org/g", file="mmproj-F16.gguf")).total_bytes == 5


def test_architectures_with_towers_are_those_that_loading_knows() -> None:
    types = {
        name: (
            made.keywords.get("model_type")
            if isinstance(made, partial)
            else getattr(made, "model_type", None)
        )
        for name, made in ARCHITECTURES.items()
    }
    assert {name for name, kind in types.items() if kind in _BY_TYPE} == GGUF_WITH_TOWERS


@pytest.mark.parametrize(
    "name",
    ["Qwen2.5-0.5B-DRAFT-Q8_0.gguf", "Eagle-7B-Q4_K_M.gguf", "Llama-Assistant-8B.gguf",
     "Qwen3.5-4B-MTP-Q8_0.gguf", "Qwen3.5-4B-MTP.gguf", "Spectacled-eagles-F16.gguf"],
)  # fmt: skip
def test_what_is_only_called_so_is_a_model(name: str) -> None:
    assert [file.name for file in needed_files(listed(name), HubModel("org/g"))] == [name]


def test_listings_are_read_in_linear_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice as many files, each the first of 99,999, take twice as many names; and sizes."""
    steps, made, name = {}, list[int](), ShardName.shard_name
    monkeypatch.setattr(ShardName, "shard_name", lambda self, n: made.append(n) or name(self, n))
    for count in (200, 400):
        made.clear()
        files = listed(*(f"m{n}-00001-of-99999.gguf" for n in range(count)))
        with pytest.raises(DownloadFailed, match="has no file m0-00002-of-99999"):
            needed_files(files, HubModel("org/g"))
        steps[count] = len(made)
    assert steps[400] <= 2 * steps[200] + 10 < 4000
    parts = [f"m-{n:05}-of-09999.gguf" for n in range(1, 9999)]
    assert gguf_models(parts)[0].missing == "m-09999-of-09999.gguf"
    with pytest.raises(ChoiceNeededError) as asked:
        needed_files(listed(*(f"m{n}-Q4_K_M.gguf" for n in range(3000))), HubModel("org/g"))
    assert len(asked.value.choices) == 3000 and len(str(asked.value)) < 1000


@pytest.mark.parametrize("no_ranges", [False, True])
def test_no_more_is_kept_than_was_asked_for(hub: Hub, fake: FakeHub, no_ranges: bool) -> None:
    data = os.urandom(CONFIG_BYTES + 100_000)
    fake.no_ranges = no_ranges
    fake.repositories["org/small"] = {"config.json": data, "model.safetensors": data}
    fake.repositories["org/small"]["empty.json"] = b""
    with translated_hub_errors("org/small"):
        assert fetch_small_file(hub, "org/small", "empty.json", COMMIT) == b""
        asked = hub, "org/small", "model.safetensors", COMMIT
        assert fetch_byte_range(*asked, 40_000_000, 40_000_500) == data[40_000_000:40_000_500]
        with pytest.raises(DownloadFailed, match=r"config\.json has more than"):
            fetch_small_file(hub, "org/small", "config.json", COMMIT)
