"""NaN is an error where a row counts, and none in rows that a wrong draft has asked for."""

import mlx.core as mx
import pytest
from plain_run import run
from tiny_model import TinySizes, tiny_model

from mlx_engine.drafting.contract import Draft, DraftOffer
from mlx_engine.drafting.drafter import NoDraft
from mlx_engine.values.errors import NumericsError
from mlx_engine.values.options import SamplingOptions

POISON = 36


class Poisoned:
    """A model whose states behind the token POISON are no numbers."""

    def __init__(self, model):
        self._model = model

    def __getattr__(self, name):
        return getattr(self._model, name)

    def forward(self, tokens, caches):
        hidden = self._model.forward(tokens, caches)
        return mx.where((tokens == POISON)[..., None], mx.nan, hidden)


class DraftsPoison(NoDraft):
    """Right tokens first, then POISON."""

    def __init__(self, truth, right):
        super().__init__()
        self._truth, self._right = truth, right

    def draft_offers(self, newest, forced=0):
        del newest
        return (DraftOffer("model"),)

    def draft(self, wanted, sampler):
        del sampler
        known = self._truth[wanted.position : wanted.position + self._right]
        tokens = [*known, *[POISON] * wanted.depth][: wanted.depth]
        return Draft(mx.array(tokens, dtype=mx.int32))


@pytest.mark.parametrize("right", [0, 2])
@pytest.mark.parametrize("looks_ahead", [False, True])
def test_what_follows_a_token_that_is_not_accepted_need_not_be_a_number(right, looks_ahead):
    model = Poisoned(tiny_model(3, TinySizes(layers=2, vocabulary=37)))
    prompt = [5, 1, 30, 17, 2]
    options = SamplingOptions(temperature=0.8, logit_bias={POISON: -1000})
    plain = run(model, prompt, NoDraft(), 0, options=options)
    truth = [*prompt, *plain.tokens]
    source = DraftsPoison(truth, right)
    drafted = run(model, prompt, source, 4, options=options, looks_ahead=looks_ahead)
    assert drafted.tokens == plain.tokens
    assert drafted.stats.drafted > drafted.stats.accepted >= right
    certain = SamplingOptions(temperature=0, logit_bias={POISON: 1000})
    for depth in (0, 4):
        with pytest.raises(NumericsError, match="position 6"):
            run(model, prompt, DraftsPoison(truth, 0), depth, options=certain)
