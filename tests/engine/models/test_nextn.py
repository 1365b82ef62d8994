"""NextN heads against transformers: logits, drafts, and what flips of the definition do."""

import json
from dataclasses import replace
from functools import cache

import mlx.core as mx
import numpy as np
import pytest
from compared import relative
from mlx_lm.utils import load_model as open_in_mlx_lm
from model_edits import edit_config, edit_tensors
from tiny_nextn import LAYER, OTHERS, TYPES, publish, publish_ling

import mlx_engine
from mlx_engine.loading.find import locate_model
from mlx_engine.loading.headers import read_headers
from mlx_engine.loading.load_tensors import load_tensors
from mlx_engine.models.registry import FAMILIES
from mlx_engine.models.weights import WeightTable

pytestmark = pytest.mark.usefixtures("rows_compared")

STRAIGHT = 32
"""Of latent attention, so that rows of this part can be packed."""
FORMS = [*((name, own) for name in TYPES for own in (True, False)), *((o, False) for o in OTHERS)]


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    place = tmp_path_factory.mktemp("nextn")
    return cache(lambda name, own=True: publish(name, place / f"{name}-{own}", own=own))


def model_of(folder, name, **changes):
    """The model with its head described otherwise."""

    class Changed(FAMILIES[name]):
        def _read_spec(self, fields):
            spec = super()._read_spec(fields)
            return replace(spec, heads=replace(spec.heads, **changes))

    headers = read_headers(locate_model(folder, folder))
    family = Changed(name, headers.family.config, "tiny")
    trunk = family.canonical_trunk(load_tensors(headers.parts.trunk, mx.float32), "trunk")
    head = family.canonical_head(load_tensors(headers.heads.tensors, mx.float32), "head", None)
    tables = [WeightTable(part.arrays, "tiny") for part in (trunk, head)]
    model = family.build(*tables)
    for table in tables:
        table.check_all_used()
    return model


def drafts_of(model, tiny):
    """Logits of the trunk, of the head, and of one more draft from the head's own state."""
    (head,) = model.heads
    tokens, caches = mx.array([tiny.tokens]), head.make_head_caches()
    hidden = model.forward(tokens, model.make_caches())
    states = head.mtp_forward(tokens[:, 1:], hidden[:, :-1], caches)
    caches.commit(len(tiny.tokens) - 1)
    further = head.mtp_forward(mx.array([[tiny.drafted]]), states[:, -1:], caches)
    found = model.logits(hidden), head.mtp_logits(states), head.mtp_logits(further)
    return [np.array(logits[0]) for logits in found]


@pytest.mark.parametrize(("name", "own"), FORMS)
def test_logits_and_draft_logits_equal_transformers(published, name, own):
    tiny = published(name, own)
    engine = mlx_engine.load(tiny.folder)
    assert engine.description.mtp is None
    assert engine.description.mtp_heads == 1
    assert engine.description.numerics == "exact"
    assert relative(engine.logits(tiny.tokens), tiny.logits) < 1e-4
    assert relative(engine.draft_logits(tiny.tokens)[0], tiny.draft_logits) < 1e-4
    logits, drafted, chained = drafts_of(engine.parts.model, tiny)
    assert relative(logits, tiny.logits) < 1e-4
    assert relative(drafted, tiny.draft_logits) < 1e-4
    assert relative(chained[0], tiny.chained) < 1e-4
    engine.close()


FLIPS = {
    "hidden state": {"trunk_state": "residual"},
    "join": {"embedding_first": False},
}


def test_ling_is_glm_by_other_names(tmp_path):
    """As transformers has GLM-4.5; its trunk as mlx-lm has Ling, too."""
    tiny = publish_ling(tmp_path / "m")
    engine = mlx_engine.load(tiny.folder)
    assert (engine.description.mtp, engine.description.mtp_heads) == (None, 1)
    assert relative(engine.logits(tiny.tokens), tiny.logits) < 1e-4
    found = drafts_of(engine.parts.model, tiny)
    for ours, theirs in zip(found, (tiny.logits, tiny.draft_logits, tiny.chained), strict=True):
        assert relative(ours, theirs) < 1e-4
    engine.close()
    edit_tensors(
        tiny.folder, lambda arrays: {n: a for n, a in arrays.items() if f"layers.{LAYER}" not in n}
    )
    edit_config(tiny.folder, rope_theta=1e4)
    assert mlx_engine.inspect(tiny.folder).mtp.code == "heads-dropped"
    theirs = np.array(open_in_mlx_lm(tiny.folder)[0](mx.array([tiny.tokens]))[0])
    assert relative(theirs, tiny.logits) < 1e-4


def test_exaone_4_5_has_its_text_part_within(tmp_path):
    """The kind of the head's layer stands behind those of the trunk's."""
    tiny = publish("exaone4", tmp_path / "m", own=False)
    config = json.loads((tiny.folder / "config.json").read_text())
    text = config | {"model_type": "exaone4_5_text"}
    text["layer_types"] += text.pop("mtp_layer_types")
    whole = {"model_type": "exaone4_5", "num_nextn_predict_layers": 1, "text_config": text}
    (tiny.folder / "config.json").write_text(json.dumps(whole))
    edit_tensors(
        tiny.folder,
        lambda arrays: {n.replace("model.", "model.language_model."): a for n, a in arrays.items()},
    )
    engine = mlx_engine.load(tiny.folder)
    assert (engine.description.mtp, engine.description.mtp_heads) == (None, 1)
    for ours, theirs in zip(
        drafts_of(engine.parts.model, tiny),
        (tiny.logits, tiny.draft_logits, tiny.chained[None]),
        strict=True,
    ):
        assert relative(ours, theirs) < 1e-4
    engine.close()


@pytest.mark.parametrize("flip", FLIPS)
@pytest.mark.parametrize("name", [*TYPES, *OTHERS])
def test_another_reading_of_the_head_is_seen(published, name, flip):
    tiny = published(name, name in TYPES)
    model = model_of(tiny.folder, name, **FLIPS[flip])
    logits, drafted, _ = drafts_of(model, tiny)
    assert relative(logits, tiny.logits) < 1e-4
    assert relative(drafted, tiny.draft_logits) > 1e-2


@pytest.mark.parametrize("name", TYPES)
def test_norms_around_one_more_are_seen(tmp_path, name):
    """Of the head, whose norms are used as stored."""
    tiny = publish(name, tmp_path / "m", own=True)
    head = f".layers.{LAYER}."
    edit_tensors(
        tiny.folder,
        lambda arrays: {
            n: array + 1 if head in n and n.endswith("norm.weight") else array
            for n, array in arrays.items()
        },
    )
    engine = mlx_engine.load(tiny.folder)
    assert relative(engine.draft_logits(tiny.tokens)[0], tiny.draft_logits) > 1e-2
    engine.close()


@pytest.mark.parametrize("name", TYPES)
def test_a_chain_on_the_state_before_the_norm_is_seen(published, name):
    tiny = published(name)
    model = model_of(tiny.folder, name, chain_state="residual")
    _, drafted, chained = drafts_of(model, tiny)
    assert relative(drafted, tiny.draft_logits) < 1e-4
    assert relative(chained[0], tiny.chained) > 1e-2


def as_mlx_has_them(arrays):
    """Experts stacked, kv_b_proj split."""
    made, stacks = {}, {}
    for name, array in arrays.items():
        base, _, part = name.partition(".mlp.experts.")
        if part:
            number, _, kind = part.partition(".")
            stacks.setdefault(f"{base}.mlp.switch_mlp.{kind}", {})[int(number)] = array
        elif name.endswith("kv_b_proj.weight"):
            prefix = name.removesuffix("kv_b_proj.weight")
            keys, values = mx.split(array.reshape(4, -1, array.shape[1]), [STRAIGHT], axis=1)
            made[f"{prefix}embed_q.weight"] = mx.contiguous(keys.swapaxes(1, 2))
            made[f"{prefix}unembed_out.weight"] = mx.contiguous(values)
        else:
            made[name] = array
    for name, stack in stacks.items():
        made[name] = mx.stack([stack[number] for number in range(len(stack))])
    return made


def packed(arrays):
    """Matrices but the routers' in 8 bits."""
    made = {}
    for name, array in arrays.items():
        if array.ndim == 1 or name.endswith(("mlp.gate.weight", "conv1d.weight")):
            made[name] = array
            continue
        matrix = name.removesuffix(".weight")
        for part, one in zip(
            ("weight", "scales", "biases"), mx.quantize(array, 32, 8), strict=True
        ):
            made[f"{matrix}.{part}"] = one
    return made


def rounded(arrays):
    """The values that packing leaves, dense."""
    small = packed(arrays)
    return {
        name: array
        if name in small and small[name].dtype != mx.uint32
        else mx.dequantize(
            *(small[name.replace("weight", part)] for part in ("weight", "scales", "biases")),
            group_size=32,
            bits=8,
        )
        for name, array in arrays.items()
    }


@pytest.mark.parametrize("name", TYPES)
def test_conversions_that_kept_the_head(tmp_path, name):
    """Experts stacked and kv_b_proj split, as MLX stores them."""
    wide = {} if name == "glm4_moe" else {"qk_nope_head_dim": STRAIGHT}
    tiny = publish(name, tmp_path / "m", own=True, **wide)
    edit_tensors(tiny.folder, as_mlx_has_them)
    engine = mlx_engine.load(tiny.folder)
    logits, drafted, chained = drafts_of(engine.parts.model, tiny)
    assert relative(logits, tiny.logits) < 1e-4
    assert relative(drafted, tiny.draft_logits) < 1e-4
    assert relative(chained[0], tiny.chained) < 1e-4
    engine.close()


@pytest.mark.parametrize("name", [*TYPES, *(one for one in OTHERS if one != "ernie4_5_moe")])
def test_packed_conversions_that_kept_the_head(tmp_path, name):
    """They draft like the same values dense; ERNIE's biases are no rows that can be packed."""
    wide = {"qk_nope_head_dim": STRAIGHT} if name in (*TYPES[1:], "bailing_hybrid") else {}
    tiny, found = publish(name, tmp_path / "m", own=name in TYPES, **wide), []
    arrays = as_mlx_has_them(mx.load(str(tiny.folder / "model.safetensors")))
    mx.eval(arrays)
    for stored in (rounded(arrays), packed(arrays)):
        mx.save_safetensors(str(tiny.folder / "model.safetensors"), stored)
        engine = mlx_engine.load(tiny.folder)
        found.append(drafts_of(engine.parts.model, tiny))
        storage = {group.name: group.storage for group in engine.description.groups}
        engine.close()
    assert "8-bit affine, groups of 32" in storage["MTP head"]
    for dense, small in zip(*found, strict=True):
        assert relative(small, dense) < 1e-4


def test_heads_behind_a_deeper_trunk_have_its_number(published):
    """The layer is told from the config, not from a list of models."""
    headers = read_headers(locate_model(published("deepseek_v3").folder, None))
    stored = headers.heads.tensors["layers.0.join.weight"]
    assert stored.name == f"model.layers.{LAYER}.eh_proj.weight"
