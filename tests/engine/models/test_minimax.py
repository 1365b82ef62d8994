"""MiniMax-M3: selected blocks of tokens, trunk and heads against transformers and mlx-lm."""

import mlx.core as mx
import numpy as np
import pytest
import tiny_minimax
from compared import normal, relative
from converted_gguf import convert
from family_checks import (
    TEXTS,
    assert_compiled_for_any_length,
    assert_same_bits_after_any_count,
    assert_same_words_drafted,
    opening,
)
from mlx_lm.utils import load_model as open_in_mlx_lm
from mlx_lm.utils import save_model
from model_edits import edit_config, logits
from session_runs import PICKS, PLAIN
from tiny_eagle3 import TinyEagle, write_tiny_eagle
from tiny_minimax import SPARSE
from tiny_nextn import assert_as_published

import mlx_engine
from mlx_engine.cache.attention import AttentionCache
from mlx_engine.models.indexer import GroupIndexer
from mlx_engine.models.layer_specs import GroupIndexSpec
from mlx_engine.models.registry import family_for
from mlx_engine.models.weights import Part, WeightTable
from mlx_engine.values.options import DraftOptions, LoadOptions

VARIANTS = {
    "as published": {},
    "two blocks of its own, one key head, low limits": {
        "index_local_blocks": 2,
        "index_block_size": 3,
        "index_topk_blocks": 4,
        "index_head_dim": 48,
        "num_key_value_heads": 1,
        "index_n_heads": 1,
        "swiglu_limit": 0.4,
        "rms_norm_eps": 0.1,
        "routed_scaling_factor": 0.7,
        "num_hidden_layers": 2,
        "layer_types": [SPARSE, SPARSE],
        "mlp_layer_types": ["sparse", "sparse"],
    },
    "single tokens, whole heads rotated": {
        "index_block_size": 1,
        "index_topk_blocks": 9,
        "num_key_value_heads": 4,
        "index_n_heads": 4,
        "rotary_dim": 32,
        "rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4},
        "num_hidden_layers": 2,
        "layer_types": ["full_attention", SPARSE],
        "mlp_layer_types": ["sparse", "dense"],
    },
}
PLAINEST, ODD, _ = VARIANTS


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    """Each variant once."""

    def publish(name):
        return tiny_minimax.publish(tmp_path_factory.mktemp("minimax") / "m", **VARIANTS[name])

    with opening(publish) as get:
        yield get


@pytest.mark.parametrize("name", VARIANTS)
def test_logits_and_draft_logits_below_and_above_the_selection(opened, name):
    tiny, engine = opened(name)
    assert_as_published(engine, tiny)


def test_two_heads_one_after_the_other(tmp_path):
    tiny = tiny_minimax.publish(tmp_path / "m", heads=2)
    with mlx_engine.load(tiny.folder) as engine:
        model, tokens = engine.parts.model, mx.array([tiny.tokens])
        first, second = model.heads
        hidden = model.forward(tokens, model.make_caches())[:, :-1]
        states = first.mtp_forward(tokens[:, 1:], hidden, first.make_head_caches())
        read = mx.array([[*tiny.tokens[1:], tiny.drafted]])
        before = mx.concatenate([hidden, states[:, -1:]], axis=1)
        made = second.mtp_forward(read, before, second.make_head_caches())
        assert relative(np.array(second.mtp_logits(made)[0, -1]), tiny.chained) < 1e-4
        assert engine.draft_logits(tiny.tokens).shape[0] == 2


@pytest.mark.parametrize("name", [PLAINEST, ODD])
def test_rows_are_the_same_bits_and_go_back_to_any_number(opened, name):
    """Across the length from which blocks are selected; a count may be the device's alone."""
    assert_same_bits_after_any_count(opened(name), 10, 21)


@pytest.mark.parametrize(("name", "bits", "temperature"), [(PLAINEST, 8, 0), (ODD, 16, 0.8)])
def test_words_with_the_head_are_those_without(opened, name, bits, temperature):
    """Of three chats alone and in shared passes, of which some select blocks and some not yet."""
    assert_same_words_drafted(opened(name).engine, temperature, bits)


def test_eagle_3_drafts_for_it(opened, tmp_path):
    """As people run it, for no head was published."""
    folder = opened(PLAINEST).tiny.folder
    drafter = write_tiny_eagle(tmp_path / "eagle", TinyEagle(64, 300))
    with mlx_engine.load(folder, options=LoadOptions(draft_model=drafter)) as engine:
        asked = {"max_tokens": 8, "ignore_eos": True, "sampling": PICKS}
        wanted = engine.generate(TEXTS[0], draft=PLAIN, **asked).tokens
        found = engine.generate(TEXTS[0], draft=DraftOptions(source="model", depth=2), **asked)
        assert found.tokens == wanted
        assert found.stats.drafted


def test_compiled_formulas_take_texts_of_any_length(opened, monkeypatch):
    """As on a GPU, where elementwise operations are compiled once for all shapes."""
    assert_compiled_for_any_length(opened(PLAINEST), monkeypatch)


def test_a_conversion_of_mlx_lm_and_a_config_that_transformers_saved(opened, tmp_path):
    tiny, place = opened(PLAINEST).tiny, tmp_path / "m"
    save_model(place, open_in_mlx_lm(tiny.folder, strict=False)[0])
    for file in tiny.folder.iterdir():
        if not file.name.startswith("model"):
            (place / file.name).write_bytes(file.read_bytes())
    assert relative(logits(place, tiny.tokens), tiny.logits) < 1e-4
    flat = {n: tiny_minimax.SIZES[n] for n in tiny_minimax.SIZES if "index" in n or "types" in n}
    edit_config(place, **flat, sparse_attention_config=None, moe_layer_freq=None)
    assert relative(logits(place, tiny.tokens), tiny.logits) < 1e-4


def test_a_gguf(opened, tmp_path):
    """Norms are stored as 1 + w; no converter writes heads."""
    tiny = opened(PLAINEST).tiny
    found = logits(convert(tiny.folder, tmp_path / "m.gguf"), tiny.tokens)
    assert relative(found, tiny.logits) < 1e-4


@pytest.mark.parametrize("local", [1, 2])
def test_blocks_are_selected_by_their_best_token(local):
    """Against numpy, one row at a time and all together; a row's own blocks are always there."""
    spec = GroupIndexSpec(heads=2, size=8, block=3, most=2, local=local)
    shapes = {n.removeprefix("indexer."): shape for n, shape in spec.tensors(6).items()}
    arrays = {n: normal(shape, seed) for seed, (n, shape) in enumerate(shapes.items())}
    indexer = GroupIndexer(spec, None, Part(WeightTable(arrays, "tiny"), "", shapes), 1e-6)
    queries, keys = indexer.project_queries_keys(normal((1, 17, 6), 1))
    side, whole, alone = (
        mx.zeros((1, 2, 17, 32)),
        AttentionCache(others=1),
        AttentionCache(others=1),
    )
    whole.append(side, side, indexer.keys_to_cache(keys, 0))
    together = indexer.select_keys(queries, whole, 0)

    def normed(x, name):
        x = np.array(x).reshape(17, -1, 8)
        x = x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + 1e-6)
        return x * np.array(arrays[f"{name}_norm.weight"])

    scores = np.einsum("thc,lc->thl", normed(queries, "q"), normed(keys, "k")[:, 0])
    for row in range(17):
        part = slice(row, row + 1)
        alone.append(side[:, :, part], side[:, :, part], indexer.keys_to_cache(keys[:, part], row))
        found = indexer.select_keys(queries[:, part], alone, row)
        alone.commit(1)
        if row < spec.most * spec.block:
            assert found is None
            continue
        own = row // 3
        for head in range(2):
            best = {
                b: scores[row, head, 3 * b : min(3 * b + 3, row + 1)].max() for b in range(own + 1)
            }
            best |= dict.fromkeys(range(own + 1 - local, own + 1), np.inf)
            blocks = sorted(sorted(best, key=best.get)[-spec.most :])
            wanted = {t for b in blocks for t in range(3 * b, 3 * b + 3) if t <= row}
            count = found.counts.item()
            assert set(found.tokens[0, head, :count].tolist()) == wanted
            assert set(together.tokens[row, head, :count].tolist()) == wanted


@pytest.mark.parametrize(
    "changes",
    [
        {"index_n_heads": 4},
        {"index_head_dim": 8},
        {"index_topk_blocks": 0},
        {"index_local_blocks": 4},
        {"index_local_blocks": 0},
        {"swiglu_alpha": 1.0},
        {"layer_types": ["full_attention"]},
    ],
)
def test_impossible_configs_are_refused_by_name(changes):
    with pytest.raises(mlx_engine.EngineError, match=next(iter(changes))):
        family_for("minimax_m3_vl", tiny_minimax.SIZES | changes, "tiny").compute_sizes()
