"""Blocks of DFlash, DFlash 2 and DSpark equal plain PyTorch; what does not fit is told in words."""

from dataclasses import replace

import compared
import mlx.core as mx
import numpy as np
import pytest
import torch
from drafter_gguf import convert_drafter
from drafts_again import propose_again, tell
from gguf import GGMLQuantizationType
from lazy_graph import primitives
from looked_into import Target, hidden_of, opened
from model_edits import edit_config, edit_tensors
from tiny_dflash import (
    BLOCK,
    LATTICE,
    TinyDFlash,
    confidences,
    lattice_scores,
    likeliest,
    reference,
    tensors_of,
    write_tiny_dflash,
)
from tiny_published import VOCABULARY

from mlx_engine.drafting.contract import DraftRequest
from mlx_engine.drafting.drafters import FeatureDraft
from mlx_engine.models.drafters.lattice_choice import LatticeChoice, LatticeSizes
from mlx_engine.models.weights import Part, WeightTable
from mlx_engine.sampling.sampler import Sampler
from mlx_engine.values.errors import BadModelFile, UnsupportedModel
from mlx_engine.values.options import DraftOptions, SamplingOptions

TINY = TinyDFlash(target_hidden=64, vocabulary=VOCABULARY)
FORMS = {
    "full": TINY,
    "a window": replace(TINY, window=7),
    "a cap": replace(TINY, cap=3.0, layers=(2, 0, 1)),
    "scaled values, heads rotated in part": replace(TINY, rotated=8, value_scale=0.7),
    "two": replace(TINY, kind="dflash2"),
    "two, a window, a cap": replace(TINY, kind="dflash2", window=7, cap=3.0),
    "lattice": replace(TINY, kind="lilicorr"),
    "lattice, numbered parts, a window": replace(TINY, kind="lilicorr", numbered=True, window=7),
    "spark": replace(TINY, kind="dspark"),
    "spark, masks alone": replace(TINY, kind="dspark", newest_drafts=False, sure=False, window=9),
    "spark, sinks": replace(TINY, kind="dspark", sinks=True),
    "spark of DeepSpec": replace(TINY, kind="dspark", flat=True),
    "spark of Gemma 4": replace(TINY, kind="dspark", flat=True, gemma=True),
    "DFlash of speculators": replace(TINY, rows=120, window=7),
    "spark of speculators": replace(TINY, kind="dspark", rows=120),
    "spark of speculators, masks alone": replace(
        TINY, kind="dspark", rows=120, newest_drafts=False
    ),
    "DeepSpec, no Markov head": replace(TINY, kind="dspark", flat=True, pairs=False, sure=False),
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
    states = drafter.draft_block_states(mx.array(target.tokens[-1:]), source.caches[0])
    return np.array(drafter.logits(states)[0])


def block_of(tiny, target):
    residuals = [target.residuals[layer + 1][:-1] for layer in tiny.layers]
    return reference(tiny, residuals, target.tokens[-1], target.embedding, target.output)


def wanted(tiny, target):
    """Of all tokens of the target, -inf for those without a row in a head of its own."""
    logits = block_of(tiny, target).logits.numpy()
    if not tiny.rows:
        return logits
    made = np.full((len(logits), VOCABULARY), -np.inf)
    made[:, tensors_of(tiny)["d2t"].numpy() + np.arange(tiny.rows)] = logits
    return made


def relative(found, wanted):
    known = np.isfinite(wanted)
    assert (np.isfinite(found) == known).all()
    return compared.relative(found[known], wanted[known])


@pytest.mark.parametrize("form", FORMS)
def test_draft_logits_equal_the_reference(target, tmp_path, form):
    drafter = opened(write_tiny_dflash(tmp_path / "d", FORMS[form]), target.model)
    for chunks in ((), (1, 2, 9)):
        assert relative(found(drafter, target, chunks), wanted(FORMS[form], target)) < 1e-4


def test_logits_are_capped_once(tmp_path):
    """DeepSpec's configs repeat the cap of Gemma, whose output head is the draft model's."""
    target, tiny = Target("gemma2", tmp_path / "t"), FORMS["spark of Gemma 4"]
    cap = target.model.spec.logit_cap
    folder = write_tiny_dflash(tmp_path / "d", tiny)
    edit_config(folder, final_logit_softcapping=cap)
    plain = block_of(tiny, target).logits.numpy()
    assert np.abs(plain).max() > cap / 9
    capped = cap * np.tanh(plain / cap)
    assert relative(found(opened(folder, target.model), target), capped) < 1e-4


NOT_CONVERTED = ("spark, masks alone", "DFlash of speculators")
NOT_CONVERTED += tuple(form for form, tiny in FORMS.items() if tiny.kind == "lilicorr")
"""Forms whose config llama.cpp's converter does not read in full."""


@pytest.mark.parametrize("form", [form for form in FORMS if form not in NOT_CONVERTED])
def test_a_gguf_drafts_what_its_folder_drafts(target, tmp_path, form):
    folder = write_tiny_dflash(tmp_path / "d", FORMS[form])
    edit_config(folder, use_sliding_window=True)
    drafter = opened(convert_drafter(folder, tmp_path / "d.gguf"), target.model)
    assert drafter.limit == FORMS[form].drafts
    assert relative(found(drafter, target), wanted(FORMS[form], target)) < 1e-4


def test_a_gguf_that_does_not_fit(target, tmp_path):
    folder, file = write_tiny_dflash(tmp_path / "d", TINY), tmp_path / "d.gguf"
    edit_tensors(folder, lambda arrays: arrays | {"layers.0.hc_attn_fn": mx.zeros((2, 2))})
    with pytest.raises(UnsupportedModel, match="DeepSeek-V4"):
        opened(convert_drafter(folder, file), target.model)
    edit_tensors(folder, lambda arrays: {n: a for n, a in arrays.items() if "hc_" not in n})
    data = convert_drafter(folder, file).read_bytes()
    file.write_bytes(data.replace(b"fc.weight", b"fd.weight"))
    with pytest.raises(BadModelFile, match=r"fc\.weight is missing"):
        opened(file, target.model)


def test_a_gguf_in_eight_bits(target, tmp_path):
    """Matrices in Q8_0 draft what their values in float32 draft, an own output head included."""
    for form in ("two, a window, a cap", "spark of speculators"):
        folder = write_tiny_dflash(tmp_path / form, FORMS[form])
        edit_config(folder, use_sliding_window=True)
        files = (
            convert_drafter(
                folder,
                tmp_path / f"{form}{unpacked}.gguf",
                GGMLQuantizationType.Q8_0,
                unpacked=unpacked,
            )
            for unpacked in (False, True)
        )
        packed, plain = (found(opened(file, target.model), target) for file in files)
        assert relative(packed, plain) < 1e-4


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
    states = drafter.draft_block_states(mx.array(target.tokens[-1:]), source.caches[0])
    assert primitives(states)["Concatenate"] == rotations + 1  # of the newest token and the masks


@pytest.mark.parametrize("form", FORMS)
def test_a_draft_is_one_pass(target, tmp_path, form):
    """Greedy drafts are the best of each row given the token before, however few are asked for."""
    tiny = FORMS[form]
    drafter = opened(write_tiny_dflash(tmp_path / "d", tiny), target.model)
    best = likeliest(tiny, block_of(tiny, target), target.tokens[-1])
    is_plain = tiny.kind == "dflash" or not tiny.pairs
    assert (best == wanted(tiny, target).argmax(axis=-1).tolist()) is is_plain
    sampler = Sampler(SamplingOptions(temperature=0), VOCABULARY, 0)
    for depth in (1, 3, 8):
        source = observed(drafter, target.tokens[:-1], (3,))
        draft = propose_again(
            source, DraftRequest(depth, mx.array(target.tokens[-1:]), 17), sampler
        )
        assert draft.tokens.tolist() == best[: min(depth, tiny.drafts)]
        assert draft.passes == 1
    assert source.limit == tiny.drafts


def test_scores_of_a_lattice_equal_the_reference(target, tmp_path):
    """With the target's newest features and, as at the start of an answer, without."""
    tiny = FORMS["lattice"]
    drafter = opened(write_tiny_dflash(tmp_path / "d", tiny), target.model)
    block = block_of(tiny, target)
    weights = {n.removeprefix("lilicorr."): w.double() for n, w in tensors_of(tiny).items()}
    best = torch.log_softmax(block.logits, dim=-1).topk(tiny.candidates)
    given = [mx.array(part.numpy()) for part in (best.indices, block.logits, block.states)]
    given[1:] = [part.astype(mx.float32) for part in given[1:]]
    newest = observed(drafter, target.tokens[:-1], (3,)).snapshot().newest
    unknown = weights | {"context_proj.bias": torch.zeros(LATTICE["hidden_size"]).double()}
    anchors = ((newest, weights, block.newest), (None, unknown, 0 * block.newest))
    for anchor, known, row in anchors:
        wanted = lattice_scores(known, *best[::-1], block.states, row, block.embedding)
        found = drafter._choice.score_pairs(*given, anchor)
        assert compared.relative(np.array(found[0]), wanted[0].numpy()) < 1e-4
        assert compared.relative(np.array(found[1]), wanted[1].numpy()) < 1e-4


def test_scores_of_a_lattice_equal_published_numbers():
    """Those that TensorRT-LLM's tests have of NVIDIA's Model Optimizer."""
    sizes = LatticeSizes(
        8, 16, 2, 2, rows=3, candidates=3, factors=8, least_norm=1e-4, scale=8.0, eps=1e-5
    )
    arrays = {}
    for name, shape in sizes.tensors(32).items():
        published = name.replace("in_proj.", "in_proj_")
        values = np.arange(np.prod(shape)) * 0.17 + sum(published.encode()) * 0.013
        arrays[name] = mx.array(0.2 * np.sin(values).reshape(shape), dtype=mx.float32)
    ids = np.array([[2, 5, 9], [6, 3, 1], [4, 7, 8]])
    surety = np.array([[-0.4, -1.5, -3.0], [-0.6, -1.7, -2.7], [-0.2, -2.1, -3.4]])
    rest = (1 - np.exp(surety).sum(axis=1, keepdims=True)) / 13
    logits = np.broadcast_to(np.log(rest), (3, 16)).copy()
    np.put_along_axis(logits, ids, surety, axis=1)
    embedding = np.linspace(-1.2, 1.3, 512, dtype=np.float32).reshape(16, 32)
    states = np.linspace(-0.7, 0.9, 96, dtype=np.float32).reshape(3, 32)
    anchor = np.linspace(-0.5, 0.4, 32, dtype=np.float32)
    part = Part(WeightTable(arrays, "head"), "", sizes.tensors(32))
    choice = LatticeChoice(part, sizes, mx.array(embedding).__getitem__)
    given = [mx.array(part.astype(np.float32)) for part in (logits, states, anchor[None, None])]
    start, pairs = choice.score_pairs(mx.array(ids), *given)
    np.testing.assert_allclose(start, [-2.00565147, -2.00631571, -2.01010752], atol=2e-5)
    wanted = [
        [[1.16437435, 1.16812551, 1.15701485], [1.16656375, 1.17030466, 1.15921211]],
        [[1.14806044, 1.14459574, 1.12698877], [1.14481199, 1.14134955, 1.12373281]],
    ]
    np.testing.assert_allclose(np.array(pairs)[:, :2], wanted, atol=2e-5)


def test_a_draft_ends_where_the_model_is_less_sure(target, tmp_path):
    """By DSpark's confidence head, which looks at the token before."""
    tiny = replace(FORMS["spark"], seed=11)
    drafter = opened(write_tiny_dflash(tmp_path / "d", tiny), target.model)
    block, newest = block_of(tiny, target), target.tokens[-1]
    sure, best = confidences(tiny, block, newest), likeliest(tiny, block, newest)
    least = min(sure[1:]) + 1e-4
    count = next(n for n, each in enumerate(sure) if each < least)
    assert 0 < count < tiny.drafts
    source = observed(drafter, target.tokens[:-1], ())
    source.options = DraftOptions(rule="greedy", min_probability=least)
    sampler = Sampler(SamplingOptions(temperature=0), VOCABULARY, 0)
    draft = source.draft(DraftRequest(8, mx.array([newest]), 17), sampler)
    assert draft.tokens.tolist() == best[:count]


def test_codebooks_with_the_ending_of_matrices(target, tmp_path):
    """As converters for MLX have them, beside a prefix."""
    tiny = FORMS["two"]
    folder = write_tiny_dflash(tmp_path / "d", tiny)
    edit_tensors(
        folder,
        lambda arrays: {
            f"model.{n}.weight" if n.endswith("codebook") else f"model.{n}": a
            for n, a in arrays.items()
        },
    )
    drafter = opened(folder, target.model)
    assert relative(found(drafter, target), wanted(tiny, target)) < 1e-4


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
    with pytest.raises(BadModelFile, match="selector_top_k"):
        opened(folder, target.model)
    edit_config(folder, selector_rank=None, markov_rank=8, markov_head_type="gated")
    with pytest.raises(UnsupportedModel, match="markov_head_type"):
        opened(folder, target.model)
    edit_config(folder, markov_rank=None, conv_kernel_size=3, conv_group_size=7)
    with pytest.raises(BadModelFile, match="conv_group_size"):
        opened(folder, target.model)
    edit_config(folder, conv_kernel_size=None, dflash_config={"mask_token_id": 1})
    with pytest.raises(BadModelFile, match="no target_layer_ids"):
        opened(folder, target.model)
    edit_config(folder, dflash_config={"target_layer_ids": [0, 2], "mask_token_id": VOCABULARY})
    with pytest.raises(BadModelFile, match="mask_token_id=300"):
        opened(folder, target.model)
    own = {"target_layer_ids": [0, 2], "mask_token_id": 9, "lilicorr_candidate_topk": 4}
    edit_config(folder, conv_kernel_size=None, dflash_config=own)
    with pytest.raises(BadModelFile, match="lilicorr_mlp_ratio"):
        opened(folder, target.model)
