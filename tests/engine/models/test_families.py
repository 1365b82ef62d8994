"""Every family against transformers: logits of published files, packed files, texts with drafts."""

import itertools
import json
import shutil

import mlx.core as mx
import numpy as np
import pytest
from dialled_draft import DialledDraft
from mlx_lm.utils import load_model, quantize_model, save_model
from plain_run import run
from tiny_published import ARCHITECTURES, VOCABULARY, WINDOW, edit_config, publish

import mlx_engine
from mlx_engine.drafting.contract import NoDraft
from mlx_engine.models.mlx_lm_trunk.text_config import flat_config
from mlx_engine.values.options import SamplingOptions

DRAFTED = ("llama", "gemma3_text", "gpt_oss", "qwen3_moe", "mistral")
PROMPT = [5, 1, 30, 17, 2, 9, 9, 21, 4]
LENGTH = 3 * WINDOW
WAYS = {
    "greedy": SamplingOptions(temperature=0),
    "hot": SamplingOptions(temperature=1.1, repetition_penalty=1.2),
}


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


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_logits_equal_transformers(published, name):
    tiny, engine = published(name)
    assert relative(engine.logits(tiny.tokens), tiny.logits) < 1e-4


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_rows_do_not_depend_on_their_neighbours(published, name):
    assert published(name)[1].description.numerics == "exact"


@pytest.mark.parametrize("name", ARCHITECTURES)
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


@pytest.mark.parametrize(("name", "bits"), [("llama", 4), ("qwen3", 8), ("qwen3_moe", 4),
                                            ("deepseek_v3", 8)])  # fmt: skip
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


def test_gpt_oss_in_its_published_packing(published, tmp_path):
    """Experts as blocks of MXFP4: the same logits as from a dense copy of the same values."""
    tiny, dense = published("gpt_oss")
    folder, copy = tmp_path / "packed", tmp_path / "dense"
    for place in (folder, copy):
        shutil.copytree(tiny.folder, place)
    arrays = mx.load(str(tiny.folder / "model.safetensors"))
    packed, unpacked = {}, {}
    for name, array in arrays.items():
        if not name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            packed[name] = unpacked[name] = array
            continue
        words, scales = mx.quantize(array.swapaxes(-1, -2), 32, 4, mode="mxfp4")
        bytes_ = mx.contiguous(words).view(mx.uint8)
        packed[f"{name}_blocks"] = bytes_.reshape(*scales.shape, 16)
        packed[f"{name}_scales"] = scales
        values = mx.dequantize(words, scales, group_size=32, bits=4, mode="mxfp4")
        unpacked[name] = mx.contiguous(values.swapaxes(-1, -2).astype(mx.float32))
    mx.save_safetensors(str(folder / "model.safetensors"), packed)
    mx.save_safetensors(str(copy / "model.safetensors"), unpacked)
    edit_config(folder, quantization_config={"quant_method": "mxfp4"})
    found, wanted = mlx_engine.load(folder), mlx_engine.load(copy)
    assert relative(found.logits(tiny.tokens), wanted.logits(tiny.tokens)) < 1e-5
    assert found.description.parameters == dense.description.parameters
    found.close()
    wanted.close()


@pytest.fixture(scope="module")
def plain(published):
    made = {}

    def get(name, way):
        if (name, way) not in made:
            adapter = published(name)[1].parts.adapter
            ran = run(adapter, PROMPT, NoDraft(), 0, options=WAYS[way], max_tokens=LENGTH)
            made[name, way] = ran
        return made[name, way]

    return get


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("depth", [1, 3, 8])
@pytest.mark.parametrize("name", DRAFTED)
def test_drafts_keep_the_words(published, plain, name, depth, way):
    """Every number of accepted tokens occurs, before and after the windows have filled."""
    adapter, truth = published(name)[1].parts.adapter, plain(name, way).tokens
    right = itertools.cycle([*range(depth + 1)])
    source = DialledDraft([*PROMPT, *truth], right, VOCABULARY)
    ran = run(adapter, PROMPT, source, depth, options=WAYS[way], max_tokens=LENGTH)
    assert ran.tokens == truth
    assert 0 < ran.stats.accepted < ran.stats.drafted
