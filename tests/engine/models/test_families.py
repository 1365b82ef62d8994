"""Families with heads behind the trunk, without them: logits of published and of packed files."""

import json
import shutil

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.utils import load_model, quantize_model, save_model
from tiny_published import WINDOW, publish

import mlx_engine
from mlx_engine.models.mlx_lm_trunk.text_config import flat_config

WITH_HEADS = ("glm4_moe", "glm4_moe_lite", "deepseek_v3")


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """Each architecture once, opened on first need."""
    made = {}

    def get(name):
        if name not in made:
            tiny = publish(name, tmp_path_factory.mktemp("tiny") / name)
            made[name] = tiny, mlx_engine.load(tiny.folder)
        return made[name]

    yield get
    for _, engine in made.values():
        engine.close()


def relative(found, wanted):
    return float(np.abs(found - wanted).max() / np.abs(wanted).max())


@pytest.mark.parametrize("name", WITH_HEADS)
def test_logits_equal_transformers(published, name):
    tiny, engine = published(name)
    assert relative(engine.logits(tiny.tokens), tiny.logits) < 1e-4


@pytest.mark.parametrize("name", WITH_HEADS)
def test_rows_do_not_depend_on_their_neighbours(published, name):
    assert published(name)[1].description.numerics == "exact"


@pytest.mark.parametrize("name", WITH_HEADS)
def test_description_counts_what_the_caches_really_hold(published, name):
    tiny, engine = published(name)
    told = engine.description
    caches = engine.parts.adapter.make_caches()
    engine.parts.adapter.forward(mx.array([tiny.tokens[:1]]), caches)
    values = sum(array.nbytes // array.shape[2] for cache in caches.layers
                 for array in cache.arrays())  # fmt: skip
    windowed = told.state_bytes // WINDOW
    assert told.cache_bytes_per_token + windowed == values
    assert told.mtp is not None
    assert told.mtp.code in ("no-heads", "heads-dropped")  # some configs promise them


@pytest.mark.parametrize(("name", "bits"), [("deepseek_v3", 8)])
def test_packed_files_equal_mlx_lm(published, tmp_path, name, bits):
    tiny, dense = published(name)
    folder = tmp_path / "packed"
    shutil.copytree(tiny.folder, folder)
    config = flat_config(name, json.loads((folder / "config.json").read_text()), "tiny")
    (folder / "config.json").write_text(json.dumps(config))
    model, config = quantize_model(*load_model(folder), 32, bits)
    (folder / "model.safetensors").unlink()
    save_model(folder, model)
    (folder / "config.json").write_text(json.dumps(config))
    wanted = np.array(model(mx.array([tiny.tokens]))[0])
    engine = mlx_engine.load(folder)
    assert relative(engine.logits(tiny.tokens), wanted) < 1e-5
    assert f"{bits}-bit affine, groups of 32" in engine.description.quantisation
    assert engine.description.parameters == dense.description.parameters
    engine.close()
