"""DFlash blocks equal a reference in plain PyTorch; what does not fit is told in words."""

from dataclasses import replace

import mlx.core as mx
import numpy as np
import pytest
import torch
from compared import relative
from drafts_again import propose_again, tell
from lazy_graph import primitives
from looked_into import Target, hidden_of, opened
from model_edits import edit_config
from tiny_dflash import BLOCK, TinyDFlash, reference, tensors_of, write_tiny_dflash
from tiny_published import VOCABULARY

from mlx_engine.drafting.drafter import DraftRequest
from mlx_engine.drafting.drafters import FeatureDraft
from mlx_engine.sampling.sampler import Sampler
from mlx_engine.values.errors import BadModelFile, UnsupportedModel
from mlx_engine.values.options import DraftOptions, SamplingOptions

TINY = TinyDFlash(target_hidden=64, vocabulary=VOCABULARY)
FORMS = {
    "full": TINY,
    "a window": replace(TINY, window=7),
    "a cap": replace(TINY, cap=3.0, layers=(2, 0, 1)),
}


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    return Target("qwen3", tmp_path_factory.mktemp("target") / "qwen3")


def observed(drafter, tokens, chunks):
    """A source that was told tokens in chunks of these sizes."""
    hidden, start = hidden_of(drafter, tokens), 0
    source = FeatureDraft(drafter, DraftOptions(rule="greedy"))
    for rows in (*chunks, len(tokens) - sum(chunks)):
        tell(source, mx.array(tokens[start : start + rows]), hidden[:, start : start + rows])
        start += rows
    return source


def found(drafter, target, chunks=(4,)):
    """Logits of the block whose newest token is the last one."""
    source = observed(drafter, target.tokens[:-1], chunks)
    source.snapshot()  # reads what waits
    states = drafter.block(mx.array(target.tokens[-1:]), source.caches[0])
    return np.array(drafter.logits(states)[0])


def wanted(tiny, target):
    residuals = [target.residuals[layer + 1][:-1] for layer in tiny.layers]
    newest = target.tokens[-1]
    return reference(tiny, residuals, newest, target.embedding, target.output).numpy()


@pytest.mark.parametrize("form", FORMS)
def test_draft_logits_equal_the_reference(target, tmp_path, form):
    drafter = opened(write_tiny_dflash(tmp_path / "d", FORMS[form]), target.model)
    for chunks in ((), (1, 2, 9)):
        assert relative(found(drafter, target, chunks), wanted(FORMS[form], target)) < 1e-4


def test_the_comparison_sees_what_is_wrong(target, tmp_path):
    """Other layers or another order of them, another mask, another window, blocks that see back."""
    right = wanted(FORMS["a window"], target)
    for name, tiny in {"order": replace(FORMS["a window"], layers=(2, 0)),
                       "layers": replace(FORMS["a window"], layers=(0, 1)),
                       "window": replace(TINY, window=6), "no window": TINY}.items():  # fmt: skip
        folder = write_tiny_dflash(tmp_path / name, tiny)
        assert relative(found(opened(folder, target.model), target), right) > 0.001, name
    folder = write_tiny_dflash(tmp_path / "both ways", FORMS["a window"])
    edit_config(folder, is_causal=False)
    assert relative(found(opened(folder, target.model), target), right) > 0.001
    spoilt = {"hidden_norm.weight": tensors_of(TINY)["hidden_norm.weight"].flip(0)}
    folder = write_tiny_dflash(tmp_path / "norm", FORMS["a window"], **spoilt)
    assert relative(found(opened(folder, target.model), target), right) > 0.001


def test_a_draft_copies_nothing_of_its_context(target, tmp_path):
    """Its rows are written behind the context; MLX's own rotation joins halves on a CPU."""
    drafter = opened(write_tiny_dflash(tmp_path / "d", TINY), target.model)
    source = observed(drafter, target.tokens[:-1], ())
    source.snapshot()
    mx.eval(source.arrays())
    rows = mx.zeros((1, 1, BLOCK, 32))
    turned = mx.fast.rope(rows, 32, traditional=False, base=1e4, scale=1.0, offset=3)
    rotations = 2 * len(drafter._layers) * primitives(turned)["Concatenate"]
    states = drafter.block(mx.array(target.tokens[-1:]), source.caches[0])
    assert primitives(states)["Concatenate"] == rotations + 1  # of the newest token and the masks


def test_a_draft_is_one_pass(target, tmp_path):
    """Greedy drafts are the best of each row, however few are asked for."""
    drafter = opened(write_tiny_dflash(tmp_path / "d", TINY), target.model)
    best = wanted(TINY, target).argmax(axis=-1).tolist()
    sampler = Sampler(SamplingOptions(temperature=0), VOCABULARY, 0)
    for depth in (1, 3, 8):
        source = observed(drafter, target.tokens[:-1], (3,))
        draft = propose_again(
            source, DraftRequest(depth, mx.array(target.tokens[-1:]), 17), sampler
        )
        assert draft.tokens.tolist() == best[: min(depth, BLOCK - 1)]
        assert draft.passes == 1
    assert source.limit == BLOCK - 1


def test_a_place_to_go_back_to(target, tmp_path):
    drafter = opened(write_tiny_dflash(tmp_path / "d", FORMS["a window"]), target.model)
    sampler = Sampler(SamplingOptions(temperature=0), VOCABULARY, 0)
    tokens, hidden = target.tokens[:-1], hidden_of(drafter, target.tokens[:-1])
    source = FeatureDraft(drafter, DraftOptions(rule="greedy"))
    tell(source, mx.array(tokens[:9]), hidden[:, :9])
    place = source.snapshot()
    before = source.draft(DraftRequest(4, mx.array([tokens[9]]), 10), sampler).tokens.tolist()
    tell(source, mx.array(tokens[9:]), hidden[:, 9:])
    assert (
        source.draft(DraftRequest(4, mx.array([tokens[9]]), 17), sampler).tokens.tolist() != before
    )
    source.restore(place)
    assert source.length == 9
    assert (
        source.draft(DraftRequest(4, mx.array([tokens[9]]), 10), sampler).tokens.tolist() == before
    )


BAD = {
    "vocabulary": (replace(TINY, vocabulary=VOCABULARY + 1), {}, "vocabulary is 301 wide"),
    "width": (replace(TINY, target_hidden=32), {}, "hidden states are 32"),
    "layers": (replace(TINY, layers=(0, 9)), {}, "reads layer 9 of its target, which has 3"),
    "no norm": (TINY, {"norm.weight": None}, "norm.weight is missing"),
    "unknown": (TINY, {"gate.weight": torch.ones(3)}, "no place for gate.weight"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_does_not_fit_is_told(target, tmp_path, name):
    tiny, changes, words = BAD[name]
    write_tiny_dflash(tmp_path / "d", tiny, **changes)
    with pytest.raises(BadModelFile, match=words):
        opened(tmp_path / "d", target.model)


def test_kinds_that_are_not_run(target, tmp_path):
    folder = write_tiny_dflash(tmp_path / "d", TINY)
    edit_config(folder, selector_rank=8)
    with pytest.raises(UnsupportedModel, match="DFlash 2"):
        opened(folder, target.model)
    edit_config(folder, selector_rank=None, dflash_config={"mask_token_id": 1})
    with pytest.raises(BadModelFile, match="no target_layer_ids"):
        opened(folder, target.model)
    edit_config(folder, dflash_config={"target_layer_ids": [0, 2], "mask_token_id": VOCABULARY})
    with pytest.raises(BadModelFile, match="mask_token_id=300"):
        opened(folder, target.model)
