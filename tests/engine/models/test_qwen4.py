"""Qwen3.8-Flash-Next: trunk and MTP head against transformers, and a table that stays on disk."""

import json
import resource
import shutil

import mlx.core as mx
import pytest
from compared import relative
from family_checks import Opened, assert_compiled_for_any_length
from model_edits import edit_config, edit_tensors, logits
from session_runs import PICKS, PLAIN
from tiny_nextn import assert_as_published
from tiny_qwen4 import END, SIZES, publish

import mlx_engine
from metal_kernels.stock_on_cpu import CpuStockOperations
from mlx_engine.cache.prompt_format import (
    CacheState,
    FileContents,
    can_be_saved,
    collect_arrays,
    fill_caches,
)
from mlx_engine.models.registry import family_for
from mlx_engine.values.options import CacheOptions, DraftOptions, SamplingOptions

VARIANTS = {
    "plain, few blocks": {"indexer_budget": 16},
    "three streams, two layers with 4-grams": {
        "hc_count": 3,
        "hc_lowrank": 7,
        "rope_parameters": None,
        "indexer_budget": 12,
        "indexer_compress_ratio": 3,
        "ngram_size": 4,
        "heads_per_ngram": 2,
        "ple_embed_dim": 48,
        "ple_layer_ids": [1, 3],
        "output_gate_type": None,
        "eos_token_id": [END, 5],
    },
    "single tokens, wide heads": {
        "hc_count": 2,
        "head_dim": 64,
        "indexer_n_heads": 8,
        "indexer_compress_ratio": 1,
        "indexer_budget": 9,
        "tie_word_embeddings": True,
        "norm_topk_prob": False,
        "num_key_value_heads": 1,
        "seed": 7,
        "ple_conv_kernel_size": 2,
        "ngram_size": 2,
    },
}


@pytest.fixture(scope="module", params=VARIANTS)
def tiny(request, tmp_path_factory):
    return publish(tmp_path_factory.mktemp("qwen4") / "m", **VARIANTS[request.param])


def test_an_idle_gpu_begins_while_a_pass_is_written(tiny, monkeypatch):
    """The rows of the table are read before the pass is written, so nothing is queued by then."""
    begun, model = [], mlx_engine.load(tiny.folder).parts.model

    def begin(stock, x, *, has_idle_gpu):
        begun.append(has_idle_gpu)

    monkeypatch.setattr(CpuStockOperations, "start_evaluation", begin)
    model.forward(mx.array([[1, 2, 3]]), model.make_caches())
    assert begun == [False, False, False, True]


@pytest.fixture(scope="module")
def engine(tiny):
    made = mlx_engine.load(tiny.folder)
    yield made
    made.close()


def test_logits_and_draft_logits(engine, tiny):
    assert_as_published(engine, tiny)


def test_rows_are_the_same_bits_at_every_accepted_count(engine, tiny):
    """Whatever rows stood beside a row, and however many wrong ones were rolled back behind it."""
    model, found, prompt, end = engine.parts.model, [], 15, 27
    for size, accepted in ((1, 1), (4, 1), (4, 2), (4, 3), (4, 4), (12, 12)):
        caches, made = model.make_caches(), []
        model.forward(mx.array([tiny.tokens[:prompt]]), caches)
        caches.commit(prompt)
        for start in range(prompt, end, accepted):
            right = tiny.tokens[start : start + accepted]
            wrong = [7, END, 9, 3][: size - accepted]
            rows = model.forward(mx.array([[*right, *wrong]]), caches)
            made.append(model.logits(rows[:, : len(right)]))
            caches.commit(len(right))
        found.append(mx.concatenate(made, axis=1))
    for other in found[1:]:
        assert mx.array_equal(other, found[0]).item()


@pytest.mark.parametrize("length", [6, 24])
def test_a_text_goes_on_otherwise_from_an_earlier_place(engine, tiny, length):
    """Nothing stays of what was read behind it: selected blocks, n-grams, recurrent states."""
    model, tokens = engine.parts.model, mx.array([tiny.tokens])
    caches, found = model.make_caches(), []
    model.forward(tokens[:, :length], caches)
    caches.commit(length)
    place = caches.snapshot()
    for others in (tokens[:, ::-1], tokens):
        for part in (others[:, length : length + 8], others[:, length + 8 : 55]):
            found.append(model.forward(part, caches))
            caches.commit(part.shape[1])
        mx.eval(caches.arrays())
        caches.restore(place)
    fresh, whole = model.make_caches(), []
    for part in (tokens[:, :length], tokens[:, length : length + 8], tokens[:, length + 8 : 55]):
        whole.append(model.forward(part, fresh))
        fresh.commit(part.shape[1])
    assert mx.array_equal(mx.concatenate(found[2:], axis=1), mx.concatenate(whole[1:], axis=1))


def test_compiled_formulas_take_texts_of_any_length(engine, tiny, monkeypatch):
    """As on a GPU, where elementwise operations are compiled once for all shapes."""
    assert_compiled_for_any_length(Opened(tiny, engine), monkeypatch)


def test_what_is_saved_of_a_prompt(engine, tiny, tmp_path):
    """The last tokens, the rows of convolutions and the indexer's keys, but no keys of blocks."""
    model, start = engine.parts.model, 25
    whole, filled = model.make_caches(), model.make_caches()
    model.forward(mx.array([tiny.tokens[:start]]), whole)
    whole.commit(start)
    assert can_be_saved(whole)
    rows, ends = collect_arrays([whole], CacheState(start, (whole.snapshot(),), None), 0)
    mx.save_safetensors(str(tmp_path / "saved.safetensors"), rows | ends)
    saved = mx.load(str(tmp_path / "saved.safetensors"))
    fill_caches([filled], [FileContents(saved, {"lengths": json.dumps([start])})])
    rest = mx.array([tiny.tokens[start:]])
    assert mx.array_equal(model.forward(rest, filled), model.forward(rest, whole)).item()


TEXTS = ("the fox and the fox", "abc abc abc", "1 2 3 1 2 3")


@pytest.mark.parametrize(
    ("sampling", "bits", "depth"), [(PICKS, 8, 3), (SamplingOptions(temperature=0), 16, 1)]
)
def test_words_with_the_head_are_those_without(engine, sampling, bits, depth):
    """Of three chats alone and in shared passes."""
    asked = {"max_tokens": 8, "sampling": sampling, "ignore_eos": True}
    asked |= {"cache": CacheOptions(bits=bits, head_bits=bits)}
    truth = [engine.generate(text, draft=PLAIN, **asked).tokens for text in TEXTS]
    drafted = DraftOptions(depth=depth)
    single = engine.generate(TEXTS[0], draft=drafted, **asked)
    for answers in ([single], engine.generate_many(TEXTS, draft=drafted, **asked)):
        assert [answer.tokens for answer in answers] == truth[: len(answers)]
        assert all(answer.stats.drafted for answer in answers)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """Two layers, and table rows that can be packed."""
    changes = {"num_hidden_layers": 2, "layer_types": ["linear_attention", "full_attention"]}
    changes |= {"ple_layer_ids": [1], "ple_embed_dim": 256, "heads_per_ngram": 4}
    return publish(tmp_path_factory.mktemp("qwen4") / "small", **changes)


def test_a_head_that_reads_what_the_trunk_reads_is_right(small, tmp_path):
    """Where blocks add nothing, the next token follows from one alone, for trunk and head alike."""
    place = shutil.copytree(small.folder, tmp_path / "m")
    adding = (
        "out_proj.weight",
        "o_proj.weight",
        "down_proj.weight",
        "down_proj",
        "value_proj.weight",
    )

    def arrange(arrays):
        made = {n: a * 0 if n.endswith(adding) else a for n, a in arrays.items()}
        for part in ("hc_norm", "input_mix_weight_down", "input_mix_weight_up"):
            name = f"hyper_connection_mixer.{part}.weight"
            made[f"mtp.{name}"] = made[f"model.{name}"]
        made["mtp.fc_embedding.weight"] = mx.eye(len(made["mtp.fc_embedding.weight"]))
        return made | {n: made[n] * 0 for n in made if "fc_hidden" in n or "fc_norm_emb" in n}

    edit_tensors(place, arrange)
    engine = mlx_engine.load(place)
    asked = {"max_tokens": 20, "sampling": PICKS, "ignore_eos": True}
    drafted = engine.generate(TEXTS[0], draft=DraftOptions(depth=2), **asked)
    assert drafted.tokens == engine.generate(TEXTS[0], draft=PLAIN, **asked).tokens
    assert drafted.stats.accepted > 0.8 * drafted.stats.drafted > 8
    engine.close()


@pytest.mark.parametrize("prefix", ["mtp.", ""])
def test_a_head_in_a_file_of_its_own(small, tmp_path, prefix):
    """With the names of the published files, and as converters split it off."""
    place = shutil.copytree(small.folder, tmp_path / "m")
    arrays = mx.load(str(small.folder / "model.safetensors"))
    heads = {n.replace("mtp.", prefix): a for n, a in arrays.items() if n.startswith("mtp.")}
    edit_tensors(place, lambda a: {n: t for n, t in a.items() if not n.startswith("mtp.")})
    assert mlx_engine.inspect(place).mtp.code == "heads-dropped"
    mx.save_safetensors(str(place / "mtp.safetensors"), heads)
    engine = mlx_engine.load(place)
    assert relative(engine.draft_logits(small.tokens)[0], small.draft_logits) < 1e-4
    engine.close()


def test_what_is_said_of_a_table_on_disk(small):
    """None of it counts as loaded, and that passes wait for tokens is told."""
    engine = mlx_engine.load(small.folder)
    described = engine.description
    groups = {group.name: group for group in described.groups}
    table = groups["tables on disk"]
    assert table.words.startswith("not loaded: single rows are read")
    assert described.nbytes == sum(group.nbytes for group in described.groups if not group.why_not)
    assert described.parameters > table.parameters > 8 * 101 * 32
    assert "waits-for-tokens" in {reason.code for reason in described.declined}
    engine.close()


@pytest.mark.parametrize(
    "changes",
    [{"seed": 5}, {"eos_token_id": 5}, {"output_gate_type": None}, {"indexer_budget": 32}],
)
def test_another_reading_is_seen(small, tmp_path, changes):
    """Of the hashes, where n-grams end, the gate, and how many blocks are selected."""
    place = shutil.copytree(small.folder, tmp_path / "m")
    assert relative(logits(place, small.tokens), small.logits) < 1e-4
    edit_config(place, **changes)
    assert relative(logits(place, small.tokens), small.logits) > 1e-2


def packed(rows):
    weight, scales, biases = mx.quantize(rows, 32, 4)
    return {"weight": weight, "scales": scales, "biases": biases}


def in_fp8(rows):
    return {"weight": mx.to_fp8(rows * 4)}


FORMS = {
    "whole": lambda rows: {"weight": rows},
    "packed": packed,
    "bfloat16": lambda rows: {"weight": rows.astype(mx.bfloat16)},
    "fp8": in_fp8,
}


def test_a_table_of_4_gigabytes_takes_no_memory(small, tmp_path):
    """Neither does a file of it, which is empty here."""
    place = shutil.copytree(small.folder, tmp_path / "m")
    edit_tensors(place, lambda arrays: {n: a for n, a in arrays.items() if ".shard_" not in n})
    edit_config(place, ngram_vocab_size_base=4_000_000)
    (place / "model.safetensors").rename(place / "model-00001-of-00002.safetensors")
    config = json.loads((place / "config.json").read_text())
    (ngrams,) = (b.ngrams for b in family_for("qwen4_exp", config, "m").spec.blocks if b.ngrams)
    rows, width = ngrams.table_shape
    told = {"dtype": "F32", "shape": [rows, width], "data_offsets": [0, rows * width * 4]}
    text = json.dumps({"model.layers.0.ple.ple_embedding.ngram_embedding.weight": told}).encode()
    with (place / "model-00002-of-00002.safetensors").open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + rows * width * 4)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    engine = mlx_engine.load(place)
    assert engine.description.parameters > 1e9
    assert engine.description.nbytes < 1e7
    engine.logits(small.tokens)
    engine.close()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # kB


@pytest.mark.parametrize("form", FORMS)
def test_a_table_on_disk_in_every_form(small, tmp_path, form):
    """Its rows are those of the same table stored dense, whole or in shards."""
    stored = FORMS[form]

    def values(rows):
        if form == "packed":
            return mx.dequantize(*mx.quantize(rows, 32, 4), group_size=32, bits=4)
        dense = mx.from_fp8(mx.to_fp8(rows * 4), mx.float32) * 0.25 if form == "fp8" else rows
        return dense.astype(mx.bfloat16).astype(mx.float32) if form == "bfloat16" else dense

    def rewritten(arrays, change):
        names = sorted(n for n in arrays if ".shard_" in n)
        base = names[0].partition(".shard_")[0]
        rest = {n: a for n, a in arrays.items() if n not in names}
        shards = [change(arrays[name]) for name in names]
        if form == "whole":
            shards = [{"weight": mx.concatenate([shard["weight"] for shard in shards])}]
            return rest | {f"{base}.{kind}": a for kind, a in shards[0].items()}
        made = {
            f"{base}.shards.{n}.{kind}": a for n, s in enumerate(shards) for kind, a in s.items()
        }
        return rest | made

    places = [shutil.copytree(small.folder, tmp_path / name) for name in ("dense", "stored")]
    edit_tensors(places[0], lambda arrays: rewritten(arrays, lambda a: {"weight": values(a)}))
    edit_tensors(places[1], lambda arrays: rewritten(arrays, stored))
    if form == "fp8":
        mark_fp8(places[1])
    assert relative(logits(places[1], small.tokens), logits(places[0], small.tokens)) < 1e-6


def mark_fp8(place):
    """MLX saves fp8 as bytes: the header is told what they are, and the scale is added."""
    file = place / "model.safetensors"
    name = next(n for n in mx.load(str(file)) if ".shards.0" in n).partition(".shards.")[0]
    edit_tensors(place, lambda arrays: arrays | {f"{name}.weight_scale": mx.array([0.25])})
    raw = file.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + length])
    for key, entry in header.items():
        if ".shards." in key:
            entry["dtype"] = "F8_E4M3"
    text = json.dumps(header).encode()
    file.write_bytes(len(text).to_bytes(8, "little") + text + raw[8 + length :])


def test_a_table_that_lacks_a_shard_is_refused(small, tmp_path):
    place = shutil.copytree(small.folder, tmp_path / "m")
    edit_tensors(place, lambda arrays: {n: a for n, a in arrays.items() if ".shard_1" not in n})
    with pytest.raises(mlx_engine.BadModelFile, match="ngram_embedding, shard 1"):
        mlx_engine.load(place)
    edit_tensors(place, lambda arrays: {n: a for n, a in arrays.items() if ".shard_2" not in n})
    with pytest.raises(mlx_engine.BadModelFile, match="ngram_embedding has the shape"):
        mlx_engine.load(place)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"ple_layer_ids": [4]}, "ple_layer_ids"),
        ({"ple_embed_dim": 50}, "ple_embed_dim"),
        ({"hc_count": 1}, "hc_count"),
        ({"output_gate_type": "tanh"}, "output_gate_type"),
        ({"indexer_head_dim": 4}, "indexer_head_dim"),
        ({"indexer_budget": 13}, "indexer_budget"),
        ({"eos_token_id": "end"}, "eos_token_id"),
        ({"layer_types": ["wind"] * 4}, "layer_types"),
    ],
)
def test_impossible_configs_are_refused_by_name(tmp_path, changes, named):
    config = SIZES | {"indexer_compress_ratio": 4, "model_type": "qwen4_exp_text"} | changes
    with pytest.raises(mlx_engine.BadModelFile, match=named):
        family_for("qwen4_exp", config, "tiny").compute_sizes()
