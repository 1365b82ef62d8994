"""DeepSeek-V4.1: shared entries, staggered streams, engrams and DSpark's stages."""

from dataclasses import replace
from functools import cache

import mlx.core as mx
import numpy as np
import pytest
import tiny_deepseek41
from compared import relative
from model_edits import edit_config, edit_tensors
from session_runs import PICKS, PLAIN
from tiny_deepseek41 import ENGRAMS, SIZES, SPARK

import mlx_engine
from mlx_engine.cache.contract import RowCount
from mlx_engine.cache.joint import combine_caches
from mlx_engine.loading.draft_model import build_drafter, read_drafter
from mlx_engine.loading.folder import model_files_at
from mlx_engine.models.families.deepseek_v41 import DeepseekV41
from mlx_engine.models.ngram_spec import EngramSpec
from mlx_engine.models.registry import family_for
from mlx_engine.models.tensor_names import rename_tensor
from mlx_engine.self_check.numerics import rows_that_differ
from mlx_engine.values.options import CacheOptions, DraftOptions, LoadOptions

YARN = {"type": "yarn", "factor": 4.0, "beta_fast": 32, "beta_slow": 1}
VARIANTS = {
    "engrams and stages": ENGRAMS | SPARK,
    "YaRN, a window behind entries": {
        "rope_scaling": YARN | {"original_max_position_embeddings": 16},
        "compress_ratios": [2, 2, 0, 1],
        "kv_source_layer_ids": [0, 3],
        "index_source_layer_ids": [0, 3],
        "candidate_source_layer_id": -1,
        "hc_mult": 3,
        "scoring_func": "sigmoid",
        "swiglu_limit": 0.4,
        "o_groups": 4,
        "routed_scaling_factor": 2.7,
    },
    "one maker, candidates": {
        "compress_ratios": [3, 3, 3, 3],
        "kv_source_layer_ids": [0],
        "index_source_layer_ids": [0, 1, 3],
        "candidate_source_layer_id": 1,
        "compress_rope_theta": 700.0,
        "hc_mult": 4,
        "index_topk": 2,
        "sliding_window": 3,
        "norm_topk_prob": False,
        "rms_norm_eps": 0.02,
    },
}
FULL, *_, NARROW = VARIANTS
TEXTS = ("the fox and the fox", "abc abc abc", "1 2")


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    """Each variant once; with the stages as its draft model, if it has any."""
    engines, place = [], tmp_path_factory.mktemp("shared")

    @cache
    def get(name):
        tiny = tiny_deepseek41.publish(place / str(len(engines)), **VARIANTS[name])
        stages = tiny.folder if tiny.drafted else None
        engines.append(mlx_engine.load(tiny.folder, options=LoadOptions(draft_model=stages)))
        return tiny, engines[-1]

    yield get
    for engine in engines:
        engine.close()


@pytest.mark.parametrize("name", VARIANTS)
def test_logits_are_those_of_mlx_lm_and_the_same_bits_in_blocks_of_any_size(opened, name):
    tiny, engine = opened(name)
    model, found = engine.parts.model, []
    for size in (1, 5, 24):
        caches, made = model.make_caches(), []
        for start in range(0, 24, size):
            block = tiny.tokens[start : start + size]
            made.append(model.logits(model.forward(mx.array([block]), caches)))
            caches.commit(len(block))
        found.append(np.array(mx.concatenate(made, axis=1)[0]))
    assert relative(found[0], tiny.logits) < 1e-4
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


@pytest.mark.parametrize("name", [FULL, NARROW])
def test_a_round_goes_back_to_any_number_of_its_rows(opened, name):
    """Told by the host, or known to the device alone; the reference tells what comes after."""
    tiny, engine = opened(name)
    model, begin = engine.parts.model, model_begin(engine, tiny.tokens[:14])
    for kept in range(5):
        rows = tiny.tokens[14 : 14 + kept]
        rejected = [7] * (4 - kept)
        for count in (kept, RowCount(mx.array([kept], dtype=mx.int32), 4)):
            caches = begin.fork()
            model.forward(mx.array([rows + rejected]), caches)
            caches.commit(count)
            after = tiny.tokens[14 + kept : 20 + kept]
            logits = model.logits(model.forward(mx.array([after]), caches))[0]
            assert relative(np.array(logits), tiny.logits[14 + kept : 20 + kept]) < 1e-4


def model_begin(engine, tokens):
    """Caches behind a text."""
    caches = engine.parts.model.make_caches()
    engine.parts.model.forward(mx.array([tokens]), caches)
    caches.commit(len(tokens))
    return caches


@pytest.mark.parametrize("name", [FULL, NARROW])
def test_rows_of_two_chats_in_one_pass_are_those_of_each_alone(opened, name):
    tiny, engine = opened(name)
    chats, blocks = [tiny.tokens[:14], tiny.tokens[5:14]], [tiny.tokens[:3], tiny.tokens[8:10]]
    model, begun = engine.parts.model, [model_begin(engine, chat) for chat in chats]
    joint = combine_caches([caches.fork() for caches in begun], [3, 2])
    found = model.forward(mx.array([[*blocks[0], *blocks[1]]]), joint)
    pairs = zip(blocks, begun, strict=True)
    alone = [model.forward(mx.array([block]), caches) for block, caches in pairs]
    assert mx.array_equal(found, mx.concatenate(alone, axis=1))


@pytest.mark.parametrize("name", [FULL, NARROW])
def test_the_check_of_rows_finds_none_that_differ(opened, name):
    assert not rows_that_differ(opened(name)[1].parts.model, 64)


def test_blocks_of_the_stages_are_those_of_the_reference(opened):
    """Features are read in two parts."""
    tiny, engine = opened(FULL)
    assert engine.description.draft_models == (str(tiny.folder),)
    found = drafted_block(tiny, engine.parts.model)
    assert relative(found.logits, tiny.drafted.logits) < 1e-4
    assert found.tokens == tiny.drafted.tokens


def drafted_block(tiny, model):
    drafter = build_drafter(read_drafter(model_files_at(tiny.folder)), model)
    target, caches, picked = drafter.target, drafter.make_caches(), []
    features = target.features(target.forward(mx.array([tiny.tokens[:-1]]), target.make_caches()))
    drafter.append_features(features[:, :9], caches)
    drafter.append_features(features[:, 9:], caches)
    newest = mx.array(tiny.tokens[-1:])
    logits = drafter.logits(drafter.draft_block_states(newest, caches))[0]

    def pick(row, _):
        picked.append(mx.argmax(row, axis=-1).astype(mx.int32))
        return picked[-1]

    drafter.draft(newest, None, caches, len(tiny.drafted.tokens), pick)
    return tiny_deepseek41.Drafted(np.array(logits), [token.item() for token in picked])


@pytest.mark.parametrize("temperature", [0, 0.8])
def test_words_with_the_stages_are_those_without(opened, temperature):
    """Of three chats in shared passes."""
    _, engine = opened(FULL)
    picks = replace(PICKS, temperature=temperature)
    asked = {"max_tokens": 6, "ignore_eos": True, "sampling": picks}
    truth = [engine.generate(text, draft=PLAIN, **asked).tokens for text in TEXTS]
    answers = engine.generate_many(TEXTS, draft=DraftOptions(depth=3, source="model"), **asked)
    assert [answer.tokens for answer in answers] == truth
    assert all(answer.stats.drafted for answer in answers)


def test_a_stage_that_reads_what_the_trunk_reads_is_right(tmp_path):
    """Where layers add nothing, the block's first row is the trunk's."""
    silent = ("wo_b.weight", "w2.weight", "wkv.weight", "markov_head.head.weight")
    place = tiny_deepseek41.publish(tmp_path / "m", **SPARK).folder

    def arrange(arrays):
        made = {n: a * 0 if n.endswith(silent) else a for n, a in arrays.items()}
        return made | {"mtp.1.norm.weight": made["norm.weight"]}

    edit_tensors(place, arrange)
    with mlx_engine.load(place, options=LoadOptions(draft_model=place)) as engine:
        asked = {"max_tokens": 10, "sampling": PICKS, "ignore_eos": True}
        drafted = engine.generate(TEXTS[0], draft=DraftOptions(depth=1, source="model"), **asked)
        assert drafted.tokens == engine.generate(TEXTS[0], draft=PLAIN, **asked).tokens
        assert drafted.stats.accepted == drafted.stats.drafted > 3


def test_tables_of_ngrams_have_the_published_numbers_of_rows():
    """Of layers 1 and 14, as the published config says."""
    first = EngramSpec(5120, 4, 256, 4, 8, classes=99092, base=16_000_000, end=2, layer=1, number=0)
    second = replace(first, layer=14, number=1)
    assert first.table_shape.rows == 384_006_168
    assert second.table_shape.rows == 384_016_682


def test_another_tokenizer_and_layers_without_entries_are_refused(tmp_path, opened):
    place = tiny_deepseek41.publish(tmp_path / "m", **ENGRAMS).folder
    edit_config(place, text_config=None, **SIZES, **ENGRAMS, engram_compressed_vocab_size=5)
    with pytest.raises(mlx_engine.EngineError, match=r"classes of tokens.*for 5"):
        mlx_engine.load(place)
    for wrong in ({"kv_source_layer_ids": [2]}, {"index_source_layer_ids": [1, 3]}):
        with pytest.raises(mlx_engine.EngineError, match="kv_source_layer_ids"):
            family_for("deepseek_v41", SIZES | wrong, "tiny").compute_sizes()
    with pytest.raises(mlx_engine.EngineError, match="one entry for several tokens"):
        opened(NARROW)[1].generate("abc", cache=CacheOptions(bits=8, head_bits=8))


@pytest.mark.parametrize(
    ("names", "ours"),
    [
        (("layers.1.attn.indexer.wk.weight", "layers.1.self_attn.indexer.k_proj.weight"),
         "layers.1.self_attn.indexer.k_proj.weight"),
        (("layers.1.attn.indexer.wq_b.weight", "layers.1.self_attn.indexer.q_b_proj.weight"),
         "layers.1.self_attn.indexer.wq_b.weight"),
        (("layers.1.mlp.experts.switch_mlp.up_proj.scales",),
         "layers.1.mlp.switch_mlp.up_proj.scales"),
    ],
)  # fmt: skip
def test_names_of_other_conversions(names, ours):
    """DeepSeek's first, then those of mlx-lm."""
    assert {rename_tensor(name, DeepseekV41.renames) for name in names} == {ours}
