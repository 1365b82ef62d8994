"""Drafts of several conversations at the same time: each as if alone, in passes they share."""

import mlx.core as mx
import numpy as np
import pytest
from drafts_again import tell
from tiny_eagle3 import TinyEagle, write_tiny_eagle
from tiny_model import TinySizes, tiny_model
from tiny_published import publish
from tiny_stacks import write_stack

import mlx_engine
from mlx_engine.drafting.contract import DraftRequest
from mlx_engine.drafting.drafter import FEW_WAITING
from mlx_engine.drafting.drafters import SmallModelDraft, draft_with
from mlx_engine.drafting.lookup import PromptLookup
from mlx_engine.drafting.mtp import DraftJob, MtpDraft, draft_all
from mlx_engine.models.decoder import DecoderHead
from mlx_engine.sampling.sampler import Sampler
from mlx_engine.values.options import DraftOptions, LoadOptions, SamplingOptions

TEXTS = [[int(t) for t in np.random.default_rng(n).integers(0, 37, 90)] for n in range(4)]
SAMPLING = SamplingOptions(temperature=0.9, top_k=9, repetition_penalty=1.2)


def head(folder):
    del folder
    model = tiny_model(6, TinySizes(layers=2, vocabulary=37))
    return model, lambda options: MtpDraft(model.heads, options)


def heads_in_turns(folder):
    engine = mlx_engine.load(write_stack(folder / "stack", "mimo_v2_flash"))
    engine.draft_logits(TEXTS[0][:4])  # the heads are read
    model = engine.parts.model
    return model, lambda options: MtpDraft(model.heads, options)


def head_beside_copies(folder):
    model, make = head(folder)

    def with_lookup(options):
        drafter = make(options)
        drafter.lookup = PromptLookup()
        return drafter

    return model, with_lookup


def small_model(folder):
    model, _ = head(folder)
    small = tiny_model(8, TinySizes(layers=2, vocabulary=37), with_head=False)
    return model, lambda options: SmallModelDraft(small, 37, options)


def eagle(folder):
    publish("gpt_oss", folder / "target")
    its = mlx_engine.inspect(folder / "target")
    sizes = TinyEagle(its.hidden_size, its.vocabulary, size=32)
    path = write_tiny_eagle(folder / "drafter", sizes)
    options = LoadOptions(draft_model=path, check_heads=False)
    engine = mlx_engine.load(folder / "target", options=options)
    drafter, model = engine.parts.drafting.small.loaded_model, engine.parts.model
    return drafter.target, lambda options: draft_with(drafter, options, model.vocabulary)


@pytest.mark.parametrize(
    "make",
    [head, heads_in_turns, head_beside_copies, small_model, eagle],
    ids=lambda it: it.__name__,
)
@pytest.mark.parametrize("hesitant", [False, True])
def test_each_draft_is_what_it_is_alone(tmp_path, make, hesitant):
    """Whatever each has read, rests included, and of any depth."""
    model, new_source = make(tmp_path)
    options = DraftOptions(min_probability=0.04 if hesitant else 0.0)

    def conversations():
        for number, text in enumerate(TEXTS):
            source, caches, place = new_source(options), model.make_caches(), 0
            sampler = Sampler(SAMPLING, model.vocabulary, number)
            sampler.begin(text[:9])
            rests = [FEW_WAITING + 3] if number == 3 else []
            for rows in (9, *rests, 1 + number, 2):
                tokens = mx.array(text[place : place + rows], dtype=mx.int32)
                hidden = model.forward(tokens[None], caches)
                caches.commit(rows)
                tell(source, tokens, hidden)
                source.append(text[place : place + rows])
                place += rows
                if rows != 2:  # the draft before is not the first
                    last = mx.array(text[place : place + 1], dtype=mx.int32)
                    source.draft_offers(text[place])
                    source.draft(DraftRequest(2, last, place + 1), sampler)
            last = mx.array(text[place : place + 1], dtype=mx.int32)
            source.draft_offers(text[place])
            yield source, DraftRequest(1 + number % 3, last, place + 1), sampler

    alone = [source.draft(wanted, sampler) for source, wanted, sampler in conversations()]
    together = draft_all([DraftJob(*asked) for asked in conversations()])
    assert [draft.tokens.tolist() for draft in together] == [its.tokens.tolist() for its in alone]
    assert [draft.passes for draft in together] == [draft.passes for draft in alone]
    assert [draft.passes for draft in together] == [1, 2, 3, 1]
    depths = [draft.tokens.size for draft in together]
    assert hesitant or depths == [1, 2, 3, 1]


class CountingHead(DecoderHead):
    """Notes the rows of each of its passes, and of each product with its output matrix."""

    def mtp_forward(self, tokens, hidden, caches):
        self.passes.append(tokens.shape[1])
        return super().mtp_forward(tokens, hidden, caches)

    def mtp_logits(self, hidden, output=None):
        self.products.append(hidden.shape[1])
        return super().mtp_logits(hidden, output)


def test_passes_over_the_same_weights_are_one():
    model, _ = head(None)
    counting = CountingHead.__new__(CountingHead)
    counting.__dict__.update(model.heads[0].__dict__)
    counting.passes, counting.products = [], []
    requests = []
    for number, depth in enumerate((3, 1, 2)):
        rows = number + 4
        source = MtpDraft([counting], DraftOptions())
        tell(source, mx.array(TEXTS[0][:rows]), mx.ones((1, rows, model.hidden_size)))
        wanted = DraftRequest(depth, mx.array(TEXTS[0][rows : rows + 1]), rows + 1)
        requests.append(DraftJob(source, wanted, Sampler(SAMPLING, model.vocabulary, number)))
    draft_all(requests)
    assert counting.passes == [4 + 5 + 6, 2, 1], "the newest row of each is among them"
    assert counting.products == [3, 2, 1]
    assert draft_all([]) == []
