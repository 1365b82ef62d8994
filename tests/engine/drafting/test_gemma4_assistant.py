"""Gemma 4's assistant drafts what transformers' does; what does not fit is told in words."""

from functools import cache

import mlx.core as mx
import numpy as np
import pytest
import torch
from drafter_gguf import convert_assistant
from drafts_again import tell
from looked_into import opened
from model_edits import edit_config
from tiny_gemma4 import CLUSTERS, VOCABULARY, WINDOW, change_tensors, drafted, write_pair
from tiny_published import publish

import mlx_engine
from mlx_engine.drafting.drafters import FeatureDraft
from mlx_engine.models.decoder import Decoder
from mlx_engine.values.errors import BadModelFile
from mlx_engine.values.options import DraftOptions, LoadOptions, SamplingOptions

pytestmark = pytest.mark.usefixtures("rows_compared")

TOKENS = [int(t) for t in np.random.default_rng(2).integers(0, VOCABULARY, 3 * WINDOW)]
AFTER = (7, 200)
FORMS = {
    "ordered": {},
    "plain output": {"ordered": False},
    "no shared layers, older config": {"shared": 0, "old": True},
}


def found(assistant, tokens, after=AFTER, chunk=5):
    """Logits of a draft after the target has read all tokens but the newest, in chunks."""
    source = FeatureDraft(assistant, DraftOptions(rule="greedy"))
    caches = assistant.target.make_caches()
    for start in range(0, len(tokens) - 1, chunk):
        part = mx.array(tokens[start : min(start + chunk, len(tokens) - 1)])
        hidden = assistant.target.forward(part[None], caches)
        caches.commit(part.shape[0])
        tell(source, part, hidden)
    source.snapshot()  # remembers what waits
    (caches,) = source.caches
    state = assistant.first_state(mx.array(tokens[-1:]), source._newest, caches)
    said = [assistant.logits(state)]
    for token in after:
        state = assistant.next_state(mx.array([token]), state, caches)
        said.append(assistant.logits(state))
    return np.array(mx.concatenate(said))


def relative(one, other):
    """Where `one` looks into tokens; transformers gives the others one low value."""
    known = np.isfinite(one)
    low = other.min(axis=-1, keepdims=True)
    assert (known == (other > low)).all() or known.all()
    return float(np.abs(one[known] - other[known]).max() / np.abs(other[known]).max())


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    @cache
    def get(form):
        pair = write_pair(tmp_path_factory.mktemp("pair"), **FORMS[form])
        return pair, mlx_engine.load(pair.target)

    return get


@pytest.mark.parametrize("form", FORMS)
def test_the_target_equals_transformers(pairs, form):
    pair, engine = pairs(form)
    with torch.no_grad():
        wanted = pair.model(torch.tensor([TOKENS])).logits[0].numpy()
    assert np.abs(engine.logits(TOKENS) - wanted).max() < 1e-4 * np.abs(wanted).max()
    assert engine.description.numerics == "exact"
    assert engine.parts.model.hidden_size == 64


@pytest.mark.parametrize("form", FORMS)
def test_draft_logits_equal_transformers(pairs, form):
    pair, engine = pairs(form)
    assistant = opened(pair.assistant, engine.parts.model)
    for length in (3, WINDOW, WINDOW + 1, 3 * WINDOW):  # also past the point where windows fill
        wanted = drafted(pair, TOKENS[:length], AFTER)
        assert relative(found(assistant, TOKENS[:length]), wanted) < 1e-4


@pytest.mark.parametrize("form", ["plain output", "ordered"])
def test_a_gguf_drafts_what_its_folder_drafts(pairs, tmp_path, form):
    """Of all tokens, where the folder looks into clusters of them."""
    pair, engine = pairs(form)
    assistant = opened(convert_assistant(pair.assistant, tmp_path / "a.gguf"), engine.parts.model)
    made, wanted = found(assistant, TOKENS), drafted(pair, TOKENS, AFTER)
    known = wanted > wanted.min(axis=-1, keepdims=True)
    assert np.isfinite(made).all()
    assert np.abs(made - wanted)[known].max() < 1e-4 * np.abs(wanted[known]).max()


def test_nothing_is_copied_while_it_rests(pairs):
    """The first draft copies what waits, all of it at once."""
    pair, engine = pairs("ordered")
    assistant = opened(pair.assistant, engine.parts.model)
    source = FeatureDraft(assistant, DraftOptions(rule="greedy"))
    source.is_paused = True
    hidden = assistant.target.forward(mx.array([TOKENS[:9]]), assistant.target.make_caches())
    for row, token in enumerate(TOKENS[:9]):
        tell(source, mx.array([token]), hidden[:, row : row + 1])
    assert (source.length, source.caches[0].length) == (9, 0)
    source.snapshot()
    assert source.caches[0].length == 9


def test_chats_at_once_share_the_targets_passes(pairs, monkeypatch):
    """And say what each says alone, with the same drafts."""
    pair, _ = pairs("plain output")
    engine = mlx_engine.load(pair.target, options=LoadOptions(draft_model=pair.assistant))
    biased = SamplingOptions(temperature=1.0, seed=3, logit_bias={78: 6.0, 110: 6.0})
    given = {"sampling": biased, "draft": DraftOptions(source="model", depth=3)}
    prompts = ["The fox", "A dog", "Once upon a time"]
    alone = [engine.generate(text, max_tokens=20, ignore_eos=True, **given) for text in prompts]
    chats, forward = [], Decoder.forward

    def noted(self, tokens, caches, **more):
        first = caches.layers[0]
        chats.append(len(first) if isinstance(first, tuple) else 1)
        return forward(self, tokens, caches, **more)

    monkeypatch.setattr(Decoder, "forward", noted)
    many = engine.generate_many(prompts, max_tokens=20, ignore_eos=True, **given)
    for one, other in zip(alone, many, strict=True):
        assert one.tokens == other.tokens
        assert one.stats.accepted_by_depth == other.stats.accepted_by_depth
    assert sum(one.stats.accepted for one in many) > 0
    assert max(chats) == 3
    engine.close()


def test_the_comparison_sees_what_is_wrong(pairs, tmp_path):
    """Halves of the input swapped, the norm left out, other keys, another position."""
    pair, engine = pairs("plain output")
    model, wanted = engine.parts.model, drafted(pair, TOKENS, AFTER)
    assistant = opened(pair.assistant, model)
    tensors = dict(pair.drafter.state_dict())
    spoilt = {
        "pre_projection.weight": tensors["pre_projection.weight"].roll(64, dims=1),
        "model.norm.weight": torch.ones(48),
        "post_projection.weight": tensors["post_projection.weight"].flip(0),
        "model.layers.1.layer_scalar": torch.ones(1) * 3,
    }
    for name, value in spoilt.items():
        folder = tmp_path / name
        pair.drafter.save_pretrained(folder)
        change_tensors(folder, **{name: value.contiguous()})
        assert relative(found(opened(folder, model), TOKENS), wanted) > 0.001, name
    assert relative(found(assistant, [*TOKENS[:3], *TOKENS[4:]]), wanted) > 0.001
    assert relative(found(assistant, TOKENS, (8, 200)), wanted) > 0.001


BAD = {
    "another target": ({"backbone_hidden_size": 32}, {}, "hidden states are 32 wide; here it is"),
    "no projection": ({}, {"pre_projection.weight": None}, "pre_projection.weight is missing"),
    "no ordering": ({}, {"masked_embedding.token_ordering": None}, "token_ordering \\[300\\]"),
    "false ordering": (
        {},
        {"masked_embedding.token_ordering": torch.zeros(300, dtype=torch.long)},
        "does not name every token once",
    ),
    "clusters": ({"num_centroids": 7}, {}, "7 centroids"),
    "kinds": ({"layer_types": ["full_attention"]}, {}, "layer_types"),
    "more": ({}, {"model.layers.7.x.weight": torch.ones(2)}, "no place for layers.7"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_does_not_fit_is_told(pairs, tmp_path, name):
    config, tensors, words = BAD[name]
    pair, engine = pairs("ordered")
    pair.drafter.save_pretrained(tmp_path / "d")
    edit_config(tmp_path / "d", **{**CLUSTERS, **config})
    if "layer_types" in config:
        edit_config(tmp_path / "d", text_config={**pair.drafter.config.to_dict()["text_config"],
                                                 **config})  # fmt: skip
    change_tensors(tmp_path / "d", **tensors)
    with pytest.raises(BadModelFile, match=words):
        opened(tmp_path / "d", engine.parts.model)


def test_targets_of_other_families(pairs, tmp_path):
    other = mlx_engine.load(publish("llama", tmp_path / "llama").folder)
    with pytest.raises(BadModelFile, match="assistant of a Gemma 4 model"):
        opened(pairs("ordered")[0].assistant, other.parts.model)
