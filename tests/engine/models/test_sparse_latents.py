"""DeepSeek-V3.2 and GLM-5: the indexer's selection, trunk and MTP head against transformers."""

import json

import mlx.core as mx
import numpy as np
import pytest
from compared import relative
from model_edits import edit_config
from tiny_sparse import publish

import mlx_engine

pytestmark = pytest.mark.usefixtures("rows_compared")

YARN = {
    "rope_type": "yarn",
    "rope_theta": 10000.0,
    "factor": 4.0,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "original_max_position_embeddings": 16,
    "mscale": 0.7,
    "mscale_all_dim": 0.9,
}
VARIANTS = {
    "3.2": ("deepseek_v32", {"qk_rope_head_dim": 32}),
    "3.2 with YaRN, biases, few tokens": (
        "deepseek_v32",
        {"rope_parameters": YARN, "attention_bias": True, "index_topk": 7},
    ),
    "5": ("glm_moe_dsa", {"norm_topk_prob": False, "mlp_layer_types": ["sparse"] * 3}),
    "5.2, layers that share": (
        "glm_moe_dsa",
        {"indexer_types": ["full", "shared", "full"], "index_head_dim": 48, "n_group": 1},
    ),
}


@pytest.fixture(scope="module", params=VARIANTS)
def tiny(request, tmp_path_factory):
    kind, changes = VARIANTS[request.param]
    return publish(kind, tmp_path_factory.mktemp("sparse") / "m", **changes)


@pytest.fixture(scope="module")
def engine(tiny):
    made = mlx_engine.load(tiny.folder)
    yield made
    made.close()


def figures(engine, tiny):
    """Logits of trunk and head, and of one more draft from the head's own state."""
    assert (engine.description.mtp, engine.description.mtp_heads) == (None, 1)
    model = engine.parts.model
    (head,) = model.heads
    tokens, caches = mx.array([tiny.tokens]), head.make_head_caches()
    hidden = model.forward(tokens, model.make_caches())
    states = head.mtp_forward(tokens[:, 1:], hidden[:, :-1], caches)
    caches.commit(len(tiny.tokens) - 1)
    further = head.mtp_forward(mx.array([[tiny.drafted]]), states[:, -1:], caches)
    found = model.logits(hidden), head.mtp_logits(states), head.mtp_logits(further)
    return [np.array(logits[0]) for logits in found]


def assert_as_published(found, tiny):
    for ours, theirs in zip(found, (tiny.logits, tiny.draft_logits, tiny.chained), strict=True):
        assert relative(ours, theirs) < 1e-4


def test_logits_and_draft_logits_below_and_above_the_selection(engine, tiny):
    assert_as_published(figures(engine, tiny), tiny)


def test_rows_are_the_same_bits_in_blocks_of_any_size(engine, tiny):
    """On both sides of the length from which tokens are selected, and across it."""
    model, found = engine.parts.model, []
    for size in (1, 3, 9, 41):
        caches, made = model.make_caches(), []
        for start in range(0, 41, size):
            block = tiny.tokens[start : start + size]
            made.append(model.logits(model.forward(mx.array([block]), caches)))
            caches.commit(len(block))
        found.append(mx.concatenate(made, axis=1))
    for other in found[1:]:
        assert mx.array_equal(other, found[0])


def test_another_reading_is_seen(tiny):
    """Of the indexer: what it rotates, how many it selects; of the head: the order of its join."""

    def changed(**fields):
        config = json.loads((tiny.folder / "config.json").read_text())
        kept = {name: config[name] for name in fields if name in config}
        edit_config(tiny.folder, **fields)
        engine = mlx_engine.load(tiny.folder)
        found = engine.logits(tiny.tokens)
        engine.close()
        edit_config(tiny.folder, **{**dict.fromkeys(fields), **kept})
        return found

    config = json.loads((tiny.folder / "config.json").read_text())
    pairs, most = config["model_type"] == "glm_moe_dsa", config["index_topk"]
    assert relative(changed(indexer_rope_interleave=pairs), tiny.logits) < 1e-4
    for found in (changed(indexer_rope_interleave=not pairs), changed(index_topk=most - 1)):
        assert relative(found[: most - 1], tiny.logits[: most - 1]) < 1e-4
        assert relative(found, tiny.logits) > 1e-2
