"""EAGLE-3 drafts equal a reference in plain PyTorch; what does not fit is told in words."""

from dataclasses import replace
from functools import cache

import mlx.core as mx
import numpy as np
import pytest
import torch
from drafter_gguf import convert_drafter
from looked_into import Target, opened
from model_edits import edit_config
from tiny_eagle3 import Reference, TinyEagle, tensors_of, write_tiny_eagle
from tiny_published import VOCABULARY
from tiny_qwen3_5 import write_tiny_qwen3_5

import mlx_engine
from mlx_engine.models.attention import Masks
from mlx_engine.values.errors import BadModelFile, EngineError, UnsupportedModel
from mlx_engine.values.options import LoadOptions

TINY = TinyEagle(target_hidden=64, vocabulary=VOCABULARY)
FORMS = {
    "specforge": TINY,
    "speculators": replace(TINY, form="speculators", own_embedding=True),
    "other width": replace(TINY, hidden=48, own_embedding=True),
    "embedding read": replace(TINY, form="speculators", layers=(-1, 2, 0)),
    "whole vocabulary": replace(TINY, draft_vocabulary=None),
    "normed, the target's head": replace(
        TINY, draft_vocabulary=None, own_output=False, normed=True
    ),
}


@pytest.fixture(scope="module")
def targets(tmp_path_factory):
    place = tmp_path_factory.mktemp("target")
    return cache(lambda name: Target(name, place / name))


def found(drafter, tokens):
    """Teacher-forced logits, then those of two steps on its own states."""
    ids = mx.array([tokens])
    hidden = drafter.target.forward(ids, drafter.target.make_caches())
    caches = drafter.make_head_caches()
    states = drafter.mtp_forward(ids[:, 1:], hidden[:, :-1], caches)
    caches.commit(len(tokens) - 1)
    rows = [drafter.mtp_logits(states)[0]]
    state = states[:, -1:]
    for token in (7, 200):
        state = drafter.mtp_forward(mx.array([[token]]), state, caches)
        caches.commit(1)
        rows.append(drafter.mtp_logits(state)[0])
    return np.array(mx.concatenate(rows))


def wanted(tiny, target, layers=None):
    chosen = tiny.layers if layers is None else layers
    reference = Reference(tiny, target.embedding, target.output)
    joined = reference.joined([target.residuals[layer + 1][:-1] for layer in chosen])
    tokens, before = list(target.tokens[1:]), joined
    states = reference.states(tokens, before)
    rows = [reference.logits(states)]
    for token in (7, 200):
        tokens.append(token)
        before = torch.cat([before, states[-1:]])
        states = reference.states(tokens, before)
        rows.append(reference.logits(states[-1:]))
    return torch.cat(rows).numpy()


def relative(one, other):
    known = np.isfinite(other)
    if (np.isfinite(one) != known).any():
        return np.inf
    return float(np.abs(one[known] - other[known]).max() / np.abs(other[known]).max())


@pytest.mark.parametrize("form", FORMS)
def test_draft_logits_equal_the_reference(targets, tmp_path, form):
    target, tiny = targets("llama"), FORMS[form]
    drafter = opened(write_tiny_eagle(tmp_path / "d", tiny), target.model)
    assert relative(found(drafter, target.tokens), wanted(tiny, target)) < 1e-4


def name_layers_by_input(folder, tiny):
    """As the converter reads a config, which tells all that others leave to their form."""
    edit_config(
        folder,
        eagle_aux_hidden_state_layer_ids=[layer + 1 for layer in tiny.layers],
        norm_before_residual=tiny.form == "speculators",
        draft_vocab_size=tiny.rows,
    )


@pytest.mark.parametrize("form", FORMS)
def test_a_gguf_drafts_what_its_folder_drafts(targets, tmp_path, form):
    target, tiny = targets("llama"), FORMS[form]
    folder = write_tiny_eagle(tmp_path / "d", tiny)
    name_layers_by_input(folder, tiny)
    drafter = opened(convert_drafter(folder, tmp_path / "d.gguf"), target.model)
    assert relative(found(drafter, target.tokens), wanted(tiny, target)) < 1e-4


@pytest.mark.parametrize("name", ["qwen3", "qwen3_moe", "gpt_oss"])
def test_features_of_other_targets(targets, tmp_path, name):
    target = targets(name)
    drafter = opened(write_tiny_eagle(tmp_path / "d", TINY), target.model)
    assert relative(found(drafter, target.tokens), wanted(TINY, target)) < 1e-4


def test_layers_left_to_the_default(targets, tmp_path):
    """Inputs of layers 2, n / 2 and n - 3; of three layers that is outputs 1, 0 and -1."""
    target, tiny = targets("llama"), replace(TINY, layers=None)
    drafter = opened(write_tiny_eagle(tmp_path / "d", tiny), target.model)
    assert relative(found(drafter, target.tokens), wanted(tiny, target, (1, 0, -1))) < 1e-4


def test_the_comparison_sees_what_is_wrong(targets, tmp_path):
    """Other layers, the halves of the join swapped, rows of the output head taken for tokens."""
    target, right = targets("llama"), wanted(TINY, targets("llama"))
    for layers in ((1, 0, 2), (0, 1, 1)):
        other = write_tiny_eagle(tmp_path / f"{layers}", replace(TINY, layers=layers))
        assert relative(found(opened(other, target.model), target.tokens), right) > 0.01
    swapped = {}
    for name in ("q_proj", "k_proj", "v_proj"):
        full = f"layers.0.self_attn.{name}.weight"
        swapped[full] = tensors_of(TINY)[full].roll(TINY.width, dims=1)
    drafter = opened(write_tiny_eagle(tmp_path / "swapped", TINY, **swapped), target.model)
    assert relative(found(drafter, target.tokens), right) > 0.01
    flat = write_tiny_eagle(tmp_path / "flat", TINY, d2t=torch.zeros(TINY.rows, dtype=torch.long))
    assert relative(found(opened(flat, target.model), target.tokens), right) > 0.01


def test_a_target_without_use_is_as_before(targets, tmp_path):
    """The target's own logits do not change when it is looked into."""
    target = targets("llama")
    drafter = opened(write_tiny_eagle(tmp_path / "d", TINY), target.model)
    plain = target.engine.logits(target.tokens)
    wide = drafter.target.forward(mx.array([target.tokens]), drafter.target.make_caches())
    assert wide.shape == (1, len(target.tokens), 4 * 64)
    assert (np.array(drafter.target.logits(wide)[0]) == plain).all()


BAD = {
    "vocabulary": (replace(TINY, vocabulary=VOCABULARY - 1), {}, "vocabulary is 299 wide"),
    "width": (replace(TINY, target_hidden=32, own_embedding=True), {}, "hidden states are 32"),
    "layers": (replace(TINY, layers=(0, 1, 3)), {}, "reads layer 3 of its target, which has 3"),
    "two layers": (replace(TINY, layers=(0, 1)), {}, "fc.weight has the shape"),
    "no d2t": (TINY, {"d2t": None}, "d2t \\[120\\] is missing"),
    "d2t beyond": (TINY, {"d2t": torch.full((120,), 290)}, "d2t names token 409"),
    "no norm": (TINY, {"norm.weight": None}, "norm.weight is missing"),
    "no head": (TINY, {"lm_head.weight": None}, "lm_head.weight is missing"),
    "unknown": (TINY, {"fc_norm.weight": torch.ones(3)}, "no place for fc_norm.weight"),
    "no embedding": (replace(TINY, hidden=48), {}, "embed_tokens.weight is missing"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_does_not_fit_is_told(targets, tmp_path, name):
    tiny, changes, words = BAD[name]
    write_tiny_eagle(tmp_path / "d", tiny, **changes)
    with pytest.raises(BadModelFile, match=words):
        opened(tmp_path / "d", targets("llama").model)


def test_kinds_that_are_not_run(targets, tmp_path):
    folder = write_tiny_eagle(tmp_path / "d", TINY)
    edit_config(folder, num_hidden_layers=2)
    with pytest.raises(UnsupportedModel, match="num_hidden_layers 2"):
        opened(folder, targets("llama").model)
    edit_config(folder, num_hidden_layers=1, rope_scaling={"rope_type": "spiral"})
    with pytest.raises(UnsupportedModel, match="spiral"):
        opened(folder, targets("llama").model)


def test_refused_or_passed_over(targets, tmp_path):
    folder = write_tiny_eagle(tmp_path / "d", replace(TINY, layers=(0, 1, 30)))
    where = targets("llama").tiny.folder
    with pytest.raises(EngineError, match="layer 30"):
        mlx_engine.load(where, options=LoadOptions(draft_model=folder))
    engine = mlx_engine.load(where, options=LoadOptions(draft_model=folder, draft_misfit="plain"))
    assert engine.parts.drafting.small.why_not.code == "draft-model-misfit"


def test_residuals_of_our_own_layers(tmp_path):
    """Of Qwen3.5: from the embedding to the last layer, whose normed output is the hidden state."""
    engine = mlx_engine.load(write_tiny_qwen3_5(tmp_path / "t"))
    model = engine.parts.model
    after = (model.layers - 1, -1, 0)
    tokens = mx.array([[5, 1, 30, 17, 2]])
    wide = model.forward_with_residuals(tokens, model.make_caches(), after)
    hidden, last, embedded, first = mx.split(wide, 4, axis=-1)
    assert mx.array_equal(hidden, model.forward(tokens, model.make_caches()))
    assert mx.array_equal(hidden, model._norm(last))
    assert mx.array_equal(embedded, model.embed(tokens))
    block, caches = model._layers[0].block, model.make_caches().layers[:1]
    assert mx.array_equal(first, block(embedded, caches, Masks()))
