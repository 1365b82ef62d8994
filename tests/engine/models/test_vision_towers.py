"""Vision towers against transformers: pixels, tokens, embeddings and logits of random models."""

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import gguf
import mlx.core as mx
import numpy as np
import pytest
import torch
import transformers as hf
from compared import relative
from fake_hub import FakeHub, serving
from numpy.typing import NDArray
from tiny_vision import (
    PROCESSING,
    VISION,
    chat_about,
    encoded,
    logits,
    picture,
    prompt_of,
    reference,
    reference_logits,
    write_tiny_deepstack,
    write_tiny_deepstack_gguf,
    write_tiny_vision,
    write_tiny_vision_gguf,
)

from mlx_engine import inspect
from mlx_engine.engine import open_engine
from mlx_engine.hub.client import Hub
from mlx_engine.loading.find import HubAccess
from mlx_engine.models.vision.patches import VisionConfig
from mlx_engine.models.vision.qwen3 import Qwen3Tower, Qwen3VisionSpec
from mlx_engine.models.weights import WeightTable
from mlx_engine.values.errors import BadPicture
from mlx_engine.values.options import LoadOptions
from mlx_engine.values.picture import Picture, read_picture

SIZES = [(40, 24), (20, 70), (7, 5), (8, 8), (200, 3), (130, 90)]
PICTURES = [read_picture(picture(seed, *size)) for seed, size in enumerate(SIZES)]
CHAT = chat_about(PICTURES)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_vision(tmp_path_factory.mktemp("seeing") / "m")


def read_spec(sizes: Mapping[str, object], processing: Mapping[str, object]) -> Qwen3VisionSpec:
    whole = {"vision_config": sizes, "image_token_id": 1}
    return Qwen3VisionSpec.read(VisionConfig.of(whole, processing, "m"), VISION["out_hidden_size"])


def theirs(folder: Path, each: Picture) -> NDArray[np.float32]:
    inputs = hf.Qwen2VLImageProcessorPil(**PROCESSING)([each.decode()], return_tensors="pt")
    with torch.no_grad():
        seen = reference(folder).model.visual(inputs.pixel_values, inputs.image_grid_thw)
    return seen.pooler_output.numpy()


def test_pixels_and_tokens_equal_transformers() -> None:
    spec = read_spec(VISION, PROCESSING)
    theirs = hf.Qwen2VLImageProcessorPil(**PROCESSING)
    for each in PICTURES:
        wanted = theirs([each.decode()], return_tensors="np")
        grid = spec.token_grid(each)
        assert [1, 2 * grid.rows, 2 * grid.columns] == wanted.image_grid_thw[0].tolist()
        pixels = wanted.pixel_values.reshape(-1, 3, 2, 16)
        assert np.array_equal(pixels[:, :, 0], pixels[:, :, 1])
        ours = spec.cut.patches(each, grid).reshape(-1, 16, 3).swapaxes(1, 2)
        assert np.abs(ours - pixels[:, :, 0]).max() < 1e-5
    with pytest.raises(BadPicture, match="too long"):
        spec.token_grid(read_picture(picture(0, 201, 1)))


def test_embeddings_equal_transformers(folder: Path) -> None:
    with open_engine(folder, LoadOptions()) as engine:
        for each in PICTURES:
            assert relative(encoded(engine, each), theirs(folder, each)) < 1e-4


def test_scores_of_a_large_picture_are_cut_on_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also with heads for which MLX has a kernel on Metal, whose scores take no memory there."""
    sizes = VISION | {"hidden_size": 64, "num_heads": 1, "depth": 1}
    large = PROCESSING | {"size": {"shortest_edge": 128 * 128, "longest_edge": 128 * 128}}
    spec = read_spec(sizes, large)
    arrays = {name: mx.full(shape, 0.01) for name, shape in spec.tensors.items()}
    tower = Qwen3Tower(spec, WeightTable(arrays, "m", compute_dtype=mx.float32))
    peaks = []
    for most in (2**30, 1):
        monkeypatch.setattr("metal_kernels.stock.SCORES_BYTES", most)
        mx.reset_peak_memory()
        list(tower.encode(PICTURES[0]))
        peaks.append(mx.get_peak_memory())
    scores = 4 * (4 * tower.token_grid(PICTURES[0]).tokens) ** 2
    assert scores > 3e6
    assert peaks[1] < peaks[0] - scores // 2


def test_logits_equal_transformers(folder: Path) -> None:
    """Text before, between and behind; pictures cut by chunks, and text behind them in others."""
    with open_engine(folder, LoadOptions()) as engine:
        for messages in (CHAT, CHAT[:1]):
            prompt = prompt_of(engine, messages)
            seen = [each for message in messages for each in message.images]
            wanted = reference_logits(folder, prompt.ids_with_placeholders, seen)
            for chunk in (1000, 11):
                assert relative(logits(engine, prompt, chunk), wanted) < 1e-4
            blind = engine.logits(prompt.ids_with_placeholders)
            assert relative(blind, wanted) > 0.1


@pytest.mark.parametrize("name", ["Qwen3VL", "Qwen3VLMoe"])
def test_rows_of_inner_layers_go_into_the_trunk(
    name: Literal["Qwen3VL", "Qwen3VLMoe"], tmp_path: Path
) -> None:
    """Deepstack, from a folder and from GGUF files."""
    folder = write_tiny_deepstack(tmp_path / "m", name)
    paths = [folder]
    if name == "Qwen3VL":
        paths.append(write_tiny_deepstack_gguf(tmp_path / "gguf", folder))
    for path in paths:
        with open_engine(path, LoadOptions()) as engine:
            prompt = prompt_of(engine, CHAT)
            wanted = reference_logits(folder, prompt.ids_with_placeholders, PICTURES[:3])
            for chunk in (1000, 11):
                assert relative(logits(engine, prompt, chunk), wanted) < 1e-4


def test_mlx_folders_and_packed_towers(folder: Path, tmp_path: Path) -> None:
    with open_engine(folder, LoadOptions()) as engine:
        wanted = [encoded(engine, each) for each in PICTURES[:2]]
    for bits, most in ((None, 1e-6), (8, 0.03)):
        place = write_tiny_vision(tmp_path / f"mlx{bits}", "mlx", bits)
        with open_engine(place, LoadOptions()) as engine:
            for each, dense in zip(PICTURES, wanted, strict=False):
                off = relative(encoded(engine, each), dense)
                assert off < most
                assert bits is None or off > 1e-4


def test_towers_that_cannot_be_used_leave_the_text(tmp_path: Path) -> None:
    path = write_tiny_vision(tmp_path / "m") / "config.json"
    whole = json.loads(path.read_text())
    for change, words in (
        ({"out_hidden_size": 32}, "different models"),
        ({"depth": 3}, "missing"),
        ({"depth": 1}, "no place"),
        ({"hidden_size": 64}, "shape"),
        ({"deepstack_visual_indexes": [1]}, "deepstack.* missing"),
        ({"num_heads": 0}, "num_heads"),
        ({"temporal_patch_size": 1}, "temporal_patch_size"),
    ):
        path.write_text(json.dumps(whole | {"vision_config": VISION | change}))
        with open_engine(tmp_path / "m", LoadOptions()) as engine:
            why = engine.description.vision
            assert why is not None
            assert re.search(words, why.words)
            with pytest.raises(BadPicture, match=words):
                next(engine.session().send("what?", images=[PICTURES[0]]))


def test_gguf_towers_give_the_folders_numbers(folder: Path, tmp_path: Path) -> None:
    path = write_tiny_vision_gguf(tmp_path / "gguf", folder)
    with open_engine(path, LoadOptions()) as engine:
        for each in PICTURES[:3]:
            assert relative(encoded(engine, each), theirs(folder, each)) < 1e-4
        prompt = prompt_of(engine, CHAT)
        wanted = reference_logits(folder, prompt.ids_with_placeholders, PICTURES[:3])
        assert relative(logits(engine, prompt, 1000), wanted) < 1e-4
    eight = write_tiny_vision_gguf(tmp_path / "q8", folder, kind=gguf.GGMLQuantizationType.Q8_0)
    with open_engine(eight, LoadOptions()) as engine:
        assert 1e-4 < relative(encoded(engine, PICTURES[0]), theirs(folder, PICTURES[0])) < 0.03
        again = prompt_of(engine, CHAT)  # what was read by the other tower is not used again
        assert again.ids_with_placeholders == prompt.ids_with_placeholders
        assert again.ids != prompt.ids


def test_pairs_for_each_axis_are_those_of_the_file(folder: Path, tmp_path: Path) -> None:
    """The fourth number is padding; without any, as many as Qwen3.5 has."""
    other = shutil.copytree(folder, tmp_path / "folder")
    config = json.loads((other / "config.json").read_text())
    config["text_config"]["rope_parameters"]["mrope_section"] = [2, 2, 0]
    (other / "config.json").write_text(json.dumps(config))
    path = write_tiny_vision_gguf(tmp_path / "gguf", folder, sections=(2, 2, 0))
    with open_engine(path, LoadOptions()) as engine:
        prompt = prompt_of(engine, CHAT)
        ids = prompt.ids_with_placeholders
        ours = logits(engine, prompt, 1000)
        wanted, usual = (reference_logits(at, ids, PICTURES[:3]) for at in (other, folder))
        assert relative(ours, wanted) < 1e-4 < relative(ours, usual)


def test_a_gguf_from_the_hub_sees_at_once(folder: Path, tmp_path: Path) -> None:
    """Its tower comes along, and lies above its folder."""
    path = write_tiny_vision_gguf(tmp_path / "gguf", folder)
    tower = path.with_name("mmproj-F32.gguf").read_bytes()
    files = {"Q4_0/tiny-Q4_0.gguf": path.read_bytes(), "mmproj-F32.gguf": tower}
    with serving(FakeHub({"org/eyes": files})) as fake:
        hub = HubAccess(Hub(tmp_path / "hub", fake.endpoint, token=False))
        found = hub.find_model("org/eyes")
    assert found.root.parent.name == "Q4_0" and inspect(found.root).vision is None


def test_gguf_towers_that_do_not_belong(folder: Path, tmp_path: Path) -> None:
    cases: list[tuple[dict[str, object], str]] = [
        ({"clip.vision.projection_dim": 32}, "no-mmproj"),
        ({"clip.projector_type": "gemma3"}, "no-mmproj"),
        ({"clip.vision.image_mean": "grey"}, "vision-unusable"),
        ({"clip.vision.patch_size": 8}, "vision-unusable"),
    ]
    for number, (changes, code) in enumerate(cases):
        path = write_tiny_vision_gguf(tmp_path / f"{number}", folder, changes=changes)
        with open_engine(path, LoadOptions()) as engine:
            assert engine.description.vision is not None
            assert engine.description.vision.code == code
    (path.parent / "mmproj-F32.gguf").write_bytes(b"GGUF")
    assert inspect(path).vision.code == "vision-unusable"
    (path.parent / "mmproj-F32.gguf").unlink()
    assert inspect(path).vision.code == "no-mmproj"


def test_a_tower_chosen_from_elsewhere(folder: Path, tmp_path: Path) -> None:
    path = write_tiny_vision_gguf(tmp_path / "gguf", folder)
    tower = path.with_name("mmproj-F32.gguf").rename(tmp_path / "tower.gguf")
    assert inspect(path).vision.code == "no-mmproj" and inspect(path, vision=tower).vision is None
    with open_engine(path, LoadOptions(vision=tower)) as engine:
        assert relative(encoded(engine, PICTURES[0]), theirs(folder, PICTURES[0])) < 1e-4
    other = write_tiny_vision_gguf(
        tmp_path / "other", folder, changes={"clip.vision.projection_dim": 32}
    ).with_name("mmproj-F32.gguf")
    for wrong, words in ((other, "of another model"), (tmp_path / "gone.gguf", "gone.gguf")):
        with open_engine(path, LoadOptions(vision=wrong)) as engine:
            why = engine.description.vision
            assert why is not None and why.code == "vision-unusable" and words in why.words
