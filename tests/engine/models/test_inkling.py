"""Inkling: biases by distance, short convolutions, scored shared experts, heads in turns."""

import json
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import mlx.core as mx
import numpy as np
import pytest
import tiny_inkling
from compared import relative
from model_edits import drop_tensors, edit_tensors, logits
from session_runs import PICKS, PLAIN
from tiny_nextn import Published

import mlx_engine
from mlx_engine.cache.contract import RowCount
from mlx_engine.engine import Engine
from mlx_engine.models.registry import family_for
from mlx_engine.values.options import CacheOptions, DraftOptions

VARIANTS = {
    "as published": {},
    "one shared expert, a norm between heads, scores that do not grow": {
        "n_shared_experts": 1,
        "num_experts_per_tok": 3,
        "chain_hidden_post_norm": True,
        "num_mtp_layers": 3,
        "rms_norm_eps": 0.1,
        "log_scaling_n_floor": None,
        "d_rel": 8,
        "local_layer_ids": [0, 1, 2],
        "sliding_window_size": 5,
    },
    "as transformers saves it, full layers alone, other taps, no padding": {
        "is_as_published": False,
        "conv_kernel_size": 3,
        "local_layer_ids": [],
        "unpadded_vocab_size": None,
        "vocab_size": 300,
        "mlp_layer_types": ["sparse", "dense", "sparse"],
        "mtp_local_layer_ids": None,
        "rel_extent": 50,
        "route_scale": 0.7,
    },
}
PLAINEST, ODD, _ = VARIANTS


class Opened(NamedTuple):
    tiny: Published
    engine: Engine


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    """Each variant once."""
    engines = []

    @cache
    def get(name):
        tiny = tiny_inkling.publish(tmp_path_factory.mktemp("inkling") / "m", **VARIANTS[name])
        engines.append(mlx_engine.load(tiny.folder))
        return Opened(tiny, engines[-1])

    yield get
    for engine in engines:
        engine.close()


@pytest.mark.parametrize("name", VARIANTS)
def test_logits_of_trunk_first_and_last_head(opened, name):
    tiny, engine = opened(name)
    heads = VARIANTS[name].get("num_mtp_layers", 2)
    assert (engine.description.mtp, engine.description.mtp_heads) == (None, heads)
    model, tokens = engine.parts.model, mx.array([tiny.tokens])
    first, *_, last = model.heads
    hidden = model.forward(tokens, model.make_caches())
    states = first.mtp_forward(tokens[:, 1:], hidden[:, :-1], first.make_head_caches())
    before = mx.concatenate([hidden[:, :-1], states[:, -1:]], axis=1)
    read = mx.array([[*tiny.tokens[1:], tiny.drafted]])
    further = last.mtp_forward(read, before, last.make_head_caches())[:, -1:]
    found = model.logits(hidden), first.mtp_logits(states), last.mtp_logits(further)
    for ours, theirs in zip(found, (tiny.logits, tiny.draft_logits, tiny.chained), strict=True):
        assert relative(np.array(ours[0]), theirs) < 1e-4


@pytest.mark.parametrize("name", [PLAINEST, ODD])
def test_rows_are_the_same_bits_and_go_back_to_any_number(opened, name):
    """All convolutions too, in trunk and head; a count may be the device's alone."""
    tiny, engine = opened(name)
    model, tokens = engine.parts.model, tiny.tokens[:25]

    def run(block, caches):
        return model.logits(model.forward(mx.array([block]), caches))

    whole = run(tokens, model.make_caches())
    for kept in range(5):
        for count in (kept, RowCount(mx.array([kept], dtype=mx.int32), 4)):
            caches = model.make_caches()
            parts = [run(tokens[:14], caches)]
            caches.commit(14)
            parts.append(run(tokens[14 : 14 + kept] + [5] * (4 - kept), caches)[:, :kept])
            caches.commit(count)
            parts.append(run(tokens[14 + kept :], caches))
            assert mx.array_equal(mx.concatenate(parts, axis=1), whole)


TEXTS = ("the fox and the fox", "abc abc abc", "1 2")


@pytest.mark.parametrize(("name", "bits", "temperature"), [(PLAINEST, 8, 0), (ODD, 16, 0.8)])
def test_words_with_the_heads_are_those_without(opened, name, bits, temperature):
    """Of three chats alone and in shared passes."""
    engine, picks = opened(name).engine, replace(PICKS, temperature=temperature)
    asked = {"max_tokens": 6, "ignore_eos": True, "sampling": picks}
    asked["cache"] = CacheOptions(bits=bits, head_bits=bits)
    truth = [engine.generate(text, draft=PLAIN, **asked).tokens for text in TEXTS]
    drafted = DraftOptions(depth=2)
    alone = [engine.generate(text, draft=drafted, **asked) for text in TEXTS]
    together = engine.generate_many(TEXTS, draft=drafted, **asked)
    for answers in (alone, together):
        assert [answer.tokens for answer in answers] == truth
        assert sum(answer.stats.drafted for answer in answers)


@pytest.mark.parametrize("reads", ["token", "hidden"])
def test_heads_that_are_right_are_accepted(opened, tmp_path, reads):
    """Layers add nothing and the text counts up; heads go by one of their inputs alone."""
    folder, width = tmp_path / "m", 64
    folder.mkdir()
    for file in opened(PLAINEST).tiny.folder.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    draw = np.random.default_rng(1)
    turn = np.linalg.qr(draw.standard_normal((width, width)))[0]
    states = [draw.standard_normal(width)]
    for _ in range(319):
        states.append(turn @ states[-1])
    halves = [turn * (reads == "hidden"), np.eye(width) * (reads == "token")]

    def right(arrays):
        last = ("wo_ud.weight", "w2_md.weight", "w2_weight")
        silent = {n: a * 0 for n, a in arrays.items() if n.endswith(last)}
        norms = {n: mx.ones_like(a) for n, a in arrays.items() if n.endswith("norm.weight")}
        joins = {n: mx.array(np.hstack(halves)) for n in arrays if n.endswith("input_proj.weight")}
        made = {
            "model.llm.embed.weight": mx.array(np.array(states)),
            "model.llm.unembed.weight": mx.array(np.roll(np.array(states), 1, axis=0)),
        }
        made = {n: a.astype(mx.float32) for n, a in (joins | made).items()}
        return arrays | silent | norms | made

    edit_tensors(folder, right)
    with mlx_engine.load(folder) as engine:
        asked = {"max_tokens": 9, "ignore_eos": True, "sampling": PICKS}
        found = engine.generate("1", draft=DraftOptions(depth=2), **asked)
        assert found.tokens == tuple(range(found.tokens[0], found.tokens[0] + 9))
        assert found.stats.drafted
        assert found.stats.accepted >= found.stats.drafted - 2


def test_names_of_an_mlx_conversion(opened, tmp_path):
    """The trunk's, as mlx-vlm has them; heads keep the published ones, in a file of their own."""
    tiny, folder = opened(PLAINEST).tiny, tmp_path / "m"
    folder.mkdir()
    for file in tiny.folder.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    names = {
        "model.llm.unembed": "language_model.lm_head",
        "model.llm.": "language_model.model.",
        ".embed.": ".embed_tokens.",
        ".attn.rel_logits_proj.proj": ".self_attn.rel_proj",
        **{f".attn.{n}": f".self_attn.{part}_proj" for n, part in PARTS.items()},
        ".attn.": ".self_attn.",
        "attn_norm": "input_layernorm",
        "mlp_norm": "post_attention_layernorm",
        "sconv.weight": "sconv.conv.weight",
        "mlp.gate.weight": "mlp.gate_weight",
        "mlp.gate.bias": "mlp.e_score_correction_bias",
        "mlp.gate.global": "mlp.global",
        "experts.shared_w2_weight": "experts.down_proj.weight",
        "experts.w2_weight": "experts.down_proj.weight",
        "mlp.w2_md": "mlp.down_proj",
        ".mlp.experts.": ".mlp.switch_mlp.",
    }

    def converted(arrays):
        made = {}
        for stored, array in arrays.items():
            name, is_head = stored, ".mtp." in stored
            for theirs, ours in names.items():
                name = name if is_head else name.replace(theirs, ours)
            base = name.partition("w13_")[0].removesuffix("shared_")
            if "w13_" in name and not is_head:
                made[f"{base}gate_proj.weight"] = array[..., ::2, :]
                made[f"{base}up_proj.weight"] = array[..., 1::2, :]
            else:
                is_taps = "sconv" in name and not is_head
                made[name] = array.swapaxes(1, 2) if is_taps else array
        return made

    edit_tensors(folder, converted)
    assert json.loads((folder / "config.json").read_text())["model_type"] == "inkling_mm_model"
    assert relative(logits(folder, tiny.tokens), tiny.logits) < 1e-4
    assert mlx_engine.inspect(folder).mtp is None
    assert "other" not in {group.name for group in mlx_engine.inspect(folder).groups}
    arrays = dict(mx.load(str(folder / "model.safetensors")))
    own = {n: a for n, a in arrays.items() if ".mtp." in n}
    short = {n.removeprefix("model.mtp."): a for n, a in own.items()}
    short["norm.weight"] = mx.ones(64)  # the trunk's, which mlx-vlm puts beside split heads
    for file, heads in (("own", own), ("short", short)):
        mx.save_safetensors(str(tmp_path / f"{file}.safetensors"), heads)
    drop_tensors(folder, ".mtp.")
    for file in ("own", "short"):
        with mlx_engine.load(folder, heads=tmp_path / f"{file}.safetensors") as engine:
            first, second = engine.draft_logits(tiny.tokens)
            assert relative(first, tiny.draft_logits) < 1e-4
            assert np.isfinite(second).any()


PARTS = {"wq_du": "q", "wk_dv": "k", "wv_dv": "v", "wr_du": "r", "wo_ud": "o"}


def test_compiled_formulas_and_slices_of_rows_take_texts_of_any_length(opened, monkeypatch):
    """As on a GPU, where elementwise operations are compiled once; of long texts a slice a time."""
    tiny, engine = opened(PLAINEST)
    monkeypatch.setattr("metal_kernels.stock.computes_on_gpu", lambda: True)
    monkeypatch.setattr("metal_kernels.stock.SCORES_BYTES", 1)
    caches = engine.parts.model.make_caches()
    for start, stop in ((0, 2), (2, 3), (3, 41)):
        hidden = engine.parts.model.forward(mx.array([tiny.tokens[start:stop]]), caches)
        caches.commit(stop - start)
    assert relative(np.array(engine.parts.model.logits(hidden)[0]), tiny.logits[3:]) < 1e-4


@pytest.mark.parametrize(
    "changes",
    [
        {"num_key_value_heads": 3},
        {"swa_num_key_value_heads": 3},
        {"num_experts_per_tok": 5},
        {"n_shared_experts": 0},
        {"unpadded_vocab_size": 321},
        {"mlp_layer_types": ["dense"]},
        {"gate_activation": "softmax"},
        {"final_logit_softcapping": 30.0},
        {"conv_kernel_size": 1},
    ],
)
def test_impossible_configs_are_refused_by_name(changes):
    with pytest.raises(mlx_engine.EngineError, match=next(iter(changes))):
        family_for("inkling", tiny_inkling.SIZES | changes, "tiny").compute_sizes()
