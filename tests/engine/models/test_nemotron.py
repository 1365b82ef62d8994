"""Nemotron 3's MTP head, two layers that are run as one block, against the same in PyTorch."""

import json
import shutil

import mlx.core as mx
import pytest
from compared import relative
from model_edits import edit_config
from session_runs import PICKS, PLAIN
from tiny_nemotron import publish
from tiny_nextn import assert_as_published

import mlx_engine
from mlx_engine.models.registry import family_for
from mlx_engine.values.options import CacheOptions, DraftOptions

pytestmark = pytest.mark.usefixtures("rows_compared")

UNREAD = {"attention_bias": True, "tie_word_embeddings": True}
"""Fields that transformers' class knows and does nothing about."""
VARIANTS = {
    "plain": {},
    "latent experts in groups": {"moe_latent_size": 32, "n_routed_experts": 8, "n_group": 2}
    | UNREAD,
    "biases, wide heads": {"use_bias": True, "head_dim": 64, "norm_topk_prob": False},
}


@pytest.fixture(scope="module", params=VARIANTS)
def tiny(request, tmp_path_factory):
    return publish(tmp_path_factory.mktemp("nemotron") / "m", **VARIANTS[request.param])


def assert_folder_as_published(folder, tiny):
    engine = mlx_engine.load(folder)
    assert_as_published(engine, tiny)
    engine.close()


def test_logits_and_draft_logits(tiny):
    assert_folder_as_published(tiny.folder, tiny)


def test_another_reading_of_the_head_is_seen(tiny):
    """Its norms, the order of its join, and which layer's norm is which."""
    assert relative(swapped(tiny, "enorm", "hnorm"), tiny.draft_logits) > 1e-2
    first, second = "layers.0.norm", "layers.1.norm"
    assert relative(swapped(tiny, first, second), tiny.draft_logits) > 1e-2


def swapped(tiny, first, second):
    """Draft logits with two of the head's tensors in each other's place."""
    arrays = dict(mx.load(str(tiny.folder / "model.safetensors")))
    mx.eval(arrays)
    names = {n: n.replace(first, second) for n in arrays if n.startswith("mtp.") and first in n}
    names |= {theirs: ours for ours, theirs in names.items()}
    mx.save_safetensors(
        str(tiny.folder / "model.safetensors"), {names.get(n, n): a for n, a in arrays.items()}
    )
    try:
        engine = mlx_engine.load(tiny.folder)
        found = engine.draft_logits(tiny.tokens)[0]
        engine.close()
        return found
    finally:
        mx.save_safetensors(str(tiny.folder / "model.safetensors"), arrays)


TEXTS = ("the fox and the fox", "abc abc abc", "1 2 3 1 2 3")


@pytest.mark.parametrize("bits", [16, 8])
def test_words_with_the_head_are_those_without(tiny, bits):
    """Of three chats alone and in shared passes, at every depth, some drafts being right."""
    engine = mlx_engine.load(tiny.folder)
    asked = {"max_tokens": 16, "sampling": PICKS, "ignore_eos": True}
    asked |= {"cache": CacheOptions(bits=bits, head_bits=bits)}
    truth = [engine.generate(text, draft=PLAIN, **asked).tokens for text in TEXTS]
    accepted = 0
    for depth in (1, 2, 4):
        drafted = DraftOptions(depth=depth)
        for answers in (
            [engine.generate(text, draft=drafted, **asked) for text in TEXTS],
            engine.generate_many(TEXTS, draft=drafted, **asked),
        ):
            assert [answer.tokens for answer in answers] == truth
            accepted += sum(answer.stats.accepted for answer in answers)
    assert accepted
    engine.close()


def test_dropped_and_separate_heads(tiny, tmp_path):
    """Conversions of mlx-lm lack them; their file beside the model is found."""
    arrays = mx.load(str(tiny.folder / "model.safetensors"))
    mx.eval(arrays)
    place = tmp_path / "m"
    place.mkdir()
    for file in tiny.folder.iterdir():
        if file.suffix != ".safetensors":
            (place / file.name).write_bytes(file.read_bytes())
    trunk = {n: a for n, a in arrays.items() if not n.startswith("mtp.")}
    mx.save_safetensors(str(place / "model.safetensors"), trunk)
    assert mlx_engine.inspect(place).mtp.code == "heads-dropped"
    heads = {n.removeprefix("mtp."): a for n, a in arrays.items() if n.startswith("mtp.")}
    mx.save_safetensors(str(place / "mtp.safetensors"), heads)
    assert_folder_as_published(place, tiny)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"layers_block_type": ["mlp", "moe"]}, "layers_block_type"),
        ({"layers_block_type": ["mamba", "wind"]}, "layers_block_type"),
        ({"n_routed_experts": 0}, "n_routed_experts"),
        ({"mamba_num_heads": 7}, "mamba_n_groups"),
        ({"moe_latent_size": -1}, "moe_latent_size"),
    ],
)
def test_impossible_configs_are_refused_by_name(tiny, tmp_path, changes, named):
    (tmp_path / "config.json").write_text((tiny.folder / "config.json").read_text())
    edit_config(tmp_path, **changes)
    config = json.loads((tmp_path / "config.json").read_text())
    with pytest.raises(mlx_engine.BadModelFile, match=named):
        family_for("nemotron_h", config, "tiny").compute_sizes()


def test_a_head_of_other_layers_is_not_run(tiny, tmp_path):
    """And the model says so, and answers without it."""
    place = shutil.copytree(tiny.folder, tmp_path / "m")
    edit_config(place, mtp_layers_block_type=["moe", "attention"])
    engine = mlx_engine.load(place)
    assert (engine.description.mtp_heads, engine.description.mtp.code) == (0, "heads-not-run")
    assert relative(engine.logits(tiny.tokens), tiny.logits) < 1e-4
    engine.close()
