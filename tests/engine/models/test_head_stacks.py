"""MiMo-7B, MiMo-V2-Flash and Step-3.5-Flash: trunk and heads against plain PyTorch and mlx-lm."""

import json
from functools import cache

import mlx.core as mx
import numpy as np
import pytest
import transformers
from mlx_lm.utils import load_model
from model_edits import edit_tensors
from stack_reference import StackReference
from tiny_stacks import (
    HEADS,
    KINDS,
    VOCABULARY,
    WINDOW,
    config_of,
    dequantised,
    fuse_projections,
    write_stack,
)

import mlx_engine
from mlx_engine.loading.load import load_model as load_files
from mlx_engine.models.registry import family_for
from mlx_engine.self_check.teacher_forced import with_head_check
from mlx_engine.values.options import LoadOptions

pytestmark = pytest.mark.usefixtures("rows_compared")

TOKENS = [int(t) for t in np.random.default_rng(0).integers(0, VOCABULARY, 3 * WINDOW)]
CHAINED = ("mimo_v2_flash", "step3p5")
FAULTS = [(kind, fault) for kind in KINDS for fault in ("trunk", "order", "norm")]


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    """The engine of each kind, loaded once, on first need."""
    place = tmp_path_factory.mktemp("tiny")
    return cache(lambda kind: mlx_engine.load(write_stack(place / kind, kind)))


@pytest.fixture(scope="module")
def drafted(opened):
    return cache(lambda kind: opened(kind).draft_logits(TOKENS))


def relative(found, wanted):
    return float(np.nanmax(np.abs(found - wanted)) / np.nanmax(np.abs(wanted)))


def found_in(folder):
    engine = mlx_engine.load(folder)
    logits, drafted = engine.logits(TOKENS), engine.draft_logits(TOKENS)
    engine.close()
    return logits, drafted


@pytest.mark.parametrize("kind", KINDS)
def test_logits_equal_the_reference_and_mlx_lm(opened, tmp_path, kind):
    engine = opened(kind)
    found = engine.logits(TOKENS)
    assert relative(found, StackReference(kind, dequantised(kind)).logits(TOKENS)) < 1e-4
    as_mlx_counts = {"sliding_window_size": WINDOW}
    model, _ = load_model(write_stack(tmp_path / kind, kind, changes=as_mlx_counts))
    assert relative(found, np.array(model(mx.array([TOKENS]))[0])) < 1e-5
    assert engine.description.numerics == "exact"


@pytest.mark.parametrize("kind", KINDS)
def test_draft_logits_equal_the_reference(drafted, kind):
    found = drafted(kind)
    wanted = StackReference(kind, dequantised(kind)).draft_logits(TOKENS)
    assert found.shape == (HEADS[kind], len(TOKENS) - 1, VOCABULARY)
    assert np.array_equal(np.isnan(found), np.isnan(wanted))
    for head in range(HEADS[kind]):
        assert relative(found[head], wanted[head]) < 1e-4


@pytest.mark.parametrize(("kind", "fault"), [*FAULTS, *((kind, "chain") for kind in CHAINED)])
def test_another_wiring_is_noticed(drafted, kind, fault):
    reference = StackReference(kind, dequantised(kind), [fault])
    wrong = reference.draft_logits(TOKENS, first=len(TOKENS) - 5)
    assert relative(drafted(kind), wrong) > 1e-2


@pytest.mark.parametrize("fault", ["", "chain"])
def test_mimo_hands_on_its_normed_state(opened, fault):
    model = opened("mimo").parts.model
    hidden = model.forward(mx.array([TOKENS]), model.make_caches())[:, :-1]
    (head,) = model.heads
    caches = head.make_head_caches()
    states = head.mtp_forward(mx.array([TOKENS[1:]]), hidden, caches)
    caches.commit(len(TOKENS) - 1)
    second = head.mtp_forward(mx.array([[7]]), states[:, -1:], caches)
    found = np.array(head.mtp_logits(second)[0, 0])
    wanted = StackReference("mimo", dequantised("mimo"), [fault]).second_logits(TOKENS, 7)
    assert (relative(found, wanted) > 1e-2) if fault else (relative(found, wanted) < 1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_description_counts_what_the_caches_really_hold(opened, kind):
    engine = opened(kind)
    told, model = engine.description, engine.parts.model
    assert (told.mtp, told.mtp_heads) == (None, HEADS[kind])
    caches = [model.make_caches()]
    hidden = model.forward(mx.array([[1]]), caches[0])
    for head in model.heads:
        caches.append(head.make_head_caches())
        head.mtp_forward(mx.array([[1]]), hidden, caches[-1])
    values = sum(array.nbytes // array.shape[2] for one in caches for array in one.arrays())
    assert told.cache_bytes_per_token + told.state_bytes // WINDOW == values
    assert told.parameters == sum(value.size for value in dequantised(kind).values())


def test_fused_projections_are_taken_apart(opened, drafted, tmp_path):
    kind = "mimo_v2_flash"
    folder = write_stack(tmp_path / "fused", kind, fuse_projections(dequantised(kind)))
    logits, drafts = found_in(folder)
    assert np.array_equal(logits, opened(kind).logits(TOKENS))
    assert np.array_equal(drafts, drafted(kind), equal_nan=True)


@pytest.mark.parametrize(
    ("told", "window"),
    [
        ({"sliding_window_size": WINDOW}, WINDOW + 1),
        ({"sliding_window_size": WINDOW - 1}, WINDOW),
        ({"sliding_window_size": None}, WINDOW),
        ({"sliding_window_size": None, "sliding_window": None}, 129),
    ],
)
def test_the_window_is_what_transformers_makes_of_the_config(told, window):
    """Null is as silent as no key."""
    config = config_of("mimo_v2_flash", **told)
    theirs = transformers.MiMoV2FlashConfig(**{k: v for k, v in config.items() if v is not None})
    spec = family_for("mimo_v2_flash", config, "tiny").spec
    assert [block.mixer.window for block in spec.blocks] == [None, window, window, None]
    assert theirs.sliding_window == window


def packed(values):
    """MLX's 8 bits in groups of 32 for all matrices but routers, and the same values dense."""
    stored, dense = {}, {}
    for name, value in values.items():
        array = mx.array(value)
        if array.ndim == 1 or name.endswith("gate.weight"):
            stored[name] = dense[name] = array
            continue
        parts = mx.quantize(array, 32, 8)
        base = name.removesuffix(".weight")
        stored |= dict(zip((name, f"{base}.scales", f"{base}.biases"), parts, strict=True))
        dense[name] = mx.dequantize(*parts, group_size=32, bits=8)
    return stored, dense


@pytest.mark.parametrize("kind", KINDS)
def test_packed_files_equal_their_values(tmp_path, kind):
    stored, dense = packed(dequantised(kind))
    changes = {"quantization": {"group_size": 32, "bits": 8}}
    found = found_in(write_stack(tmp_path / "packed", kind, stored, changes))
    wanted = found_in(write_stack(tmp_path / "dense", kind, dense))
    assert relative(found[0], wanted[0]) < 1e-4
    assert relative(found[1], wanted[1]) < 1e-4


def test_step_with_its_rotation_listed_as_in_gguf(opened, drafted, tmp_path):
    """Full layers, those of heads too, turn as the factors say."""
    plain = 5e6 ** -(np.arange(0, 8, 2) / 8)
    turned = StackReference("step3p5", dequantised("step3p5")).periods(0, 8, 5e6).numpy()
    listed = {
        "rope_type": "listed",
        "base": 5e6,
        "factors": [float(factor) for factor in plain / turned],
        "magnitude": 1.0,
        "layers": [0, 3],
    }
    folder = write_stack(tmp_path / "m", "step3p5", None, {"rope_scaling": listed})
    logits, drafts = found_in(folder)
    assert max(listed["factors"]) > 1.5
    assert relative(logits, opened("step3p5").logits(TOKENS)) < 1e-5
    assert relative(drafts, drafted("step3p5")) < 1e-5


def test_step_3_7_is_step_3_5_with_eyes(drafted, tmp_path):
    eyes = {"vision_model.conv1.weight": mx.ones((4, 4)), "vit_large_projector.weight": mx.ones(4)}
    folder = write_stack(tmp_path / "m", "step3p5")
    text = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(
        json.dumps({"model_type": "step3p7", "text_config": text, "vision_config": {}})
    )
    edit_tensors(folder, lambda arrays: arrays | eyes)
    assert relative(found_in(folder)[1], drafted("step3p5")) < 1e-5


def as_mlx_stores_it(values):
    """Step's tensors under the names of mlx-lm's class, norms 1 + w."""
    made = {}
    for name, value in values.items():
        rename_tensor = name.replace(".share_expert.", ".mlp.share_expert.")
        rename_tensor = rename_tensor.replace(".moe.gate.", ".mlp.gate.gate.")
        rename_tensor = rename_tensor.replace(".moe.router_bias", ".mlp.gate.router_bias")
        rename_tensor = rename_tensor.replace(".moe.", ".mlp.switch_mlp.")
        made[rename_tensor] = value + 1 if name.endswith("norm.weight") else value
    return made


def test_step_in_the_form_of_mlx(opened, drafted, tmp_path):
    folder = write_stack(tmp_path / "mlx", "step3p5", as_mlx_stores_it(dequantised("step3p5")))
    logits, drafts = found_in(folder)
    assert relative(logits, opened("step3p5").logits(TOKENS)) < 1e-5
    assert relative(drafts, drafted("step3p5")) < 1e-5


@pytest.mark.parametrize("form", [dict, as_mlx_stores_it])
def test_step_with_heads_from_another_file(drafted, tmp_path, form):
    """Whether their norms are w or 1 + w is told by the values."""
    values = dequantised("step3p5")
    heads = {
        n for n in values if n.startswith(("model.layers.4", "model.layers.5", "model.layers.6"))
    }
    trunk = write_stack(
        tmp_path / "trunk", "step3p5", {n: v for n, v in values.items() if n not in heads}
    )
    stored = form({name: values[name] for name in heads})
    file = tmp_path / "heads.safetensors"
    mx.save_safetensors(str(file), {name: mx.array(value) for name, value in stored.items()})
    engine = mlx_engine.load(trunk)
    assert engine.description.mtp.code == "heads-dropped"
    assert "layer 4 has no eh_proj" in engine.description.mtp.words
    engine.close()
    engine = mlx_engine.load(trunk, heads=file)
    assert relative(engine.draft_logits(TOKENS), drafted("step3p5")) < 1e-5
    engine.close()


@pytest.mark.parametrize("kind", KINDS)
def test_the_check_of_heads_reads_the_first(tmp_path, kind):
    """A model that is sure of everything, and random heads: they do not fit."""
    model = load_files(
        write_stack(tmp_path / kind, kind, dequantised(kind, sharpness=40.0)),
        LoadOptions(),
        tmp_path,
    )
    codes = [reason.code for reason in with_head_check(model, model.description).declined]
    assert "heads-implausible" in codes
