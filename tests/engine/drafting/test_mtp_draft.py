"""The head always sees true hidden states, whatever was drafted, accepted or waited before."""

import mlx.core as mx
import numpy as np
import pytest
from drafts_again import propose_again, tell
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_model import TinySizes, tiny_model

from mlx_engine.cache.contract import RowCount
from mlx_engine.drafting.contract import (
    ROWS_AFTER_PAUSE,
    ROWS_OF_A_PROMPT,
    DraftRequest,
    TargetRows,
)
from mlx_engine.drafting.drafter import FLUSH_ROWS
from mlx_engine.drafting.lookup import PromptLookup
from mlx_engine.drafting.mtp import DraftJob, MtpDraft, draft_all
from mlx_engine.models.decoder import DecoderHead
from mlx_engine.sampling.sampler import DraftPicks, Sampler
from mlx_engine.values.options import DraftOptions, SamplingOptions

VOCABULARY = 61
TEXT = [int(t) for t in np.random.default_rng(4).integers(0, VOCABULARY, 2 * FLUSH_ROWS + 30)]


@pytest.fixture(scope="module")
def model():
    return tiny_model(6, TinySizes(layers=2))


@pytest.fixture(scope="module")
def hidden(model):
    return model.forward(mx.array([TEXT]), model.make_caches())


def with_lookup(drafter):
    drafter.lookup = PromptLookup()
    return drafter


def greedy():
    return Sampler(SamplingOptions(temperature=0), VOCABULARY, 0)


def chain(model, hidden, length, depth):
    """The draft after TEXT[:length], each step by one pass over everything, no memory."""
    tokens, states = TEXT[1 : length + 1], hidden[:, :length]
    drafted = []
    for _ in range(depth):
        (head,) = model.heads
        out = head.mtp_forward(mx.array([tokens]), states, head.make_head_caches())
        drafted.append(int(mx.argmax(head.mtp_logits(out)[0, -1]).item()))
        tokens = [*tokens, drafted[-1]]
        states = mx.concatenate([states, out[:, -1:]], axis=1)
    return drafted


def propose(source, length, depth):
    wanted = DraftRequest(depth, mx.array(TEXT[length : length + 1]), length + 1)
    return propose_again(source, wanted, greedy()).tokens.tolist()


@settings(max_examples=25)
@given(steps=st.lists(st.tuples(st.integers(1, 9), st.integers(0, 4)), min_size=1, max_size=10))
def test_drafts_after_any_history(model, hidden, steps):
    """Rounds of any size, with and without drafts between them."""
    source = MtpDraft(model.heads, DraftOptions(rule="greedy"))
    for rows, depth in steps:
        start = source.length
        block = slice(start, start + rows)
        tell(source, mx.array(TEXT[block]), hidden[:, block])
        assert source.length == start + rows
        if depth:
            wanted = chain(model, hidden, source.length, depth)
            assert propose(source, source.length, depth) == wanted


def test_rows_that_wait_are_read_in_one_go(model, hidden):
    """Nothing is read before it is needed, neither by a draft nor by a place to come back to."""
    source = MtpDraft(model.heads, DraftOptions(rule="greedy"))
    for n in range(FLUSH_ROWS + 5):
        tell(source, mx.array(TEXT[n : n + 1]), hidden[:, n : n + 1])
    length = source.length
    assert source.nbytes == hidden[:, :length].nbytes, "what waits, and nothing that a head made"
    assert source.read_unread_rows() == length - 1
    assert source.nbytes > hidden[:, :length].nbytes, "keys and values"
    assert source.read_unread_rows() == 0
    assert propose(source, length, 3) == chain(model, hidden, length, 3)


LONG = 2 * ROWS_OF_A_PROMPT + 90
"""Tokens of a long prompt, of which TEXT is repeated."""


def long_prompt(hidden):
    """Its tokens, and states that fit them as well as any."""
    times = -(-LONG // len(TEXT))
    return mx.array((TEXT * times)[:LONG]), mx.concatenate([hidden] * times, axis=1)[:, :LONG]


def read_in_chunks(source, text, states, chunk=32):
    held = []
    for start in range(0, text.shape[0], chunk):
        tell(source, text[start : start + chunk], states[:, start : start + chunk])
        held.append(source.nbytes)
    return held


def test_of_a_long_prompt_a_head_reads_the_newest_rows(model, hidden):
    """And holds few of the others meanwhile."""
    text, states = long_prompt(hidden)
    source, newest = (MtpDraft(model.heads, DraftOptions(rule="greedy")) for _ in range(2))
    held = read_in_chunks(source, text, states)
    assert max(held) <= (2 * ROWS_OF_A_PROMPT + 32) * states[:, :1].nbytes
    assert source.read_unread_rows() == ROWS_OF_A_PROMPT
    tell(newest, text[-ROWS_OF_A_PROMPT - 1 :], states[:, -ROWS_OF_A_PROMPT - 1 :])
    assert propose(source, 5, 3) == propose(newest, 5, 3)


@pytest.mark.parametrize("kind", [MtpDraft, lambda *given: with_lookup(MtpDraft(*given))])
def test_tokens_that_are_passed_over_leave_no_rows(model, hidden, kind):
    source, newest = (kind(model.heads, DraftOptions(rule="greedy")) for _ in range(2))
    tell(source, mx.array(TEXT[:20]), hidden[:, :20])
    source.skip_prompt_rows(TargetRows(mx.array(TEXT[20:60]), hidden[:, 20:60]))
    for one in (source, newest):
        tell(one, mx.array(TEXT[60:90]), hidden[:, 60:90])
    assert (source.length, source.read_unread_rows()) == (90, 29)
    kept, anew = source.restorable_length(80), source.restorable_length(40)
    assert (kept.length, kept.caches[0].length) == (79, 19)
    assert (anew.length, anew.caches[0].length) == (39, 0)
    for one in (source, newest):
        one.draft_offers(TEXT[0])
    wanted = DraftRequest(3, mx.array(TEXT[:1]), 91, "mtp")
    found = [propose_again(one, wanted, greedy()).tokens.tolist() for one in (source, newest)]
    assert found[0] == found[1]


def test_a_place_on_the_way_keeps_the_rows_that_wait_there(model, hidden):
    text, states = long_prompt(hidden)
    source, again = (MtpDraft(model.heads, DraftOptions(rule="greedy")) for _ in range(2))
    read_in_chunks(source, text[:300], states[:, :300])
    place = source.snapshot()
    kept = states[:, : ROWS_OF_A_PROMPT + 1].nbytes
    assert place.nbytes == kept, "the newest rows, and the state that waits for its token"
    read_in_chunks(source, text[300:], states[:, 300:])
    source.read_unread_rows()
    source.restore(place)
    assert source.length == 300
    read_in_chunks(again, text[:300], states[:, :300])
    for one in (source, again):
        tell(one, text[300:305], states[:, 300:305])
    assert propose(source, 9, 3) == propose(again, 9, 3)


@pytest.mark.parametrize("back", [9, 30, 200, LONG - 20])
def test_going_back_behind_or_before_rows_that_were_left_out(model, hidden, back):
    """A head that has the rows right before goes on from them, else it begins anew."""
    text, states = long_prompt(hidden)
    source, other = (MtpDraft(model.heads, DraftOptions(rule="greedy")) for _ in range(2))
    read_in_chunks(source, text, states)
    source.read_unread_rows()
    tell(source, mx.array(TEXT[:40]), hidden[:, :40])
    source.read_unread_rows()
    whole = mx.concatenate([text, mx.array(TEXT[:40])])
    every = mx.concatenate([states, hidden[:, :40]], axis=1)
    place = source.restorable_length(LONG + 40 - back)
    assert place.length == LONG + 40 - back - 1
    source.restore(place)
    has_rows = place.length > LONG - ROWS_OF_A_PROMPT
    first = LONG - ROWS_OF_A_PROMPT - 1 if has_rows else place.length
    rest = slice(place.length, place.length + 6)
    tell(source, whole[rest], every[:, rest])
    tell(other, whole[first : rest.stop], every[:, first : rest.stop])
    assert source.length == rest.stop
    assert propose(source, 7, 3) == propose(other, 7, 3)


def test_nothing_before_the_first_token(model):
    source = MtpDraft(model.heads, DraftOptions(rule="greedy"))
    assert propose(source, 0, 3) == []


@pytest.mark.parametrize("cut", [1, 5, FLUSH_ROWS + 3])
def test_restore(model, hidden, cut):
    source = MtpDraft(model.heads, DraftOptions(rule="greedy"))
    tell(source, mx.array(TEXT[:cut]), hidden[:, :cut])
    boundary = source.snapshot()
    tell(source, mx.array([1, 2, 3]), hidden[:, 40:43])
    source.draft(DraftRequest(2, mx.array([9]), cut + 4), greedy())
    source.restore(boundary)
    assert source.length == cut
    assert propose(source, cut, 3) == chain(model, hidden, cut, 3)


def test_head_passes_in_a_round(model, hidden):
    """k head passes for k tokens: reading the accepted rows is part of the first."""
    passes = []

    class Counting(DecoderHead):
        def mtp_forward(self, tokens, hidden, caches):
            passes.append(tokens.shape[1])
            return super().mtp_forward(tokens, hidden, caches)

    counting = Counting.__new__(Counting)
    counting.__dict__.update(model.heads[0].__dict__)
    source = MtpDraft([counting], DraftOptions(rule="greedy"))
    tell(source, mx.array(TEXT[:10]), hidden[:, :10])
    source.draft(DraftRequest(3, mx.array(TEXT[10:11]), 11), greedy())
    assert passes == [10, 1, 1]
    tell(source, mx.array(TEXT[10:13]), hidden[:, 10:13])
    source.draft(DraftRequest(2, mx.array(TEXT[13:14]), 14), greedy())
    assert passes == [10, 1, 1, 3, 1]


def test_min_probability_ends_a_draft(model, hidden):
    source = MtpDraft(model.heads, DraftOptions(rule="greedy"))
    tell(source, mx.array(TEXT[:9]), hidden[:, :9])
    wanted = DraftRequest(4, mx.array(TEXT[9:10]), 10)
    tokens = chain(model, hidden, 9, 4)
    for least, drafted in ((0.999, 0), (1e-6, 4)):
        source.adopt_options(DraftOptions(rule="greedy", min_probability=least))
        draft = source.draft(wanted, greedy())
        assert (draft.tokens.tolist(), draft.passes) == (tokens[:drafted], 4)


def test_a_draft_ends_before_its_first_unlikely_token():
    """However likely those behind it are."""
    likely = mx.array([[9.0, 0.0], [0.1, 0.0], [9.0, 0.0]])
    options = DraftOptions(rule="greedy", min_probability=0.9)
    picks = DraftPicks(greedy(), 1, 3, options)
    for logits in likely:
        picks.pick(logits[None])
    assert picks.tokens().tolist() == [0]


def test_beside_prompt_lookup_the_head_sees_every_token(model, hidden):
    """Rounds that copy teach the head as rounds that it drafts do."""
    source = with_lookup(MtpDraft(model.heads, DraftOptions(rule="greedy")))
    rounds = ["mtp", "prompt-lookup", "prompt-lookup", "mtp", "prompt-lookup", "mtp"]
    for by in rounds:
        length = source.length
        source.draft_offers(TEXT[length])
        if length:
            wanted = DraftRequest(2, mx.array(TEXT[length : length + 1]), length + 1, by)
            (draft,) = draft_all([DraftJob(source, wanted, greedy())])
            if by == "mtp":
                assert draft.tokens.tolist() == chain(model, hidden, length, 2)
        block = slice(length, length + 3)
        if by == "mtp" and length and source.can_follow:
            picked = mx.array(TEXT[length + 1 : length + 4])
            count = RowCount(mx.array([3]), 3)
            source.commit(TargetRows(mx.array(TEXT[block]), hidden[:, block], picked), count)
            count.known = 3
        else:
            tell(source, mx.array(TEXT[block]), hidden[:, block])
        source.append(TEXT[block])
    boundary = source.snapshot()
    tell(source, mx.array(TEXT[:4]), hidden[:, :4])
    source.append(TEXT[:4])
    source.restore(boundary)
    assert source.length == source.lookup.length == 3 * len(rounds)
    wanted = DraftRequest(3, mx.array([TEXT[source.length]]), source.length + 1, "mtp")
    assert source.draft(wanted, greedy()).tokens.tolist() == chain(model, hidden, source.length, 3)


def test_a_head_that_rests_is_not_touched_before_it_drafts(model, hidden):
    """It then knows all that came before."""
    source = MtpDraft(model.heads, DraftOptions(rule="greedy"))
    source.is_paused = True
    for start in range(0, 30, 10):
        tell(source, mx.array(TEXT[start : start + 10]), hidden[:, start : start + 10])
    boundary = source.snapshot()
    assert source.nbytes == hidden[:, :30].nbytes, "what waits, and nothing that a head has made"
    for _ in range(2):
        assert propose(source, 30, 3) == chain(model, hidden, 30, 3)
        source.restore(boundary)


def test_after_a_long_rest_a_head_knows_the_newest_rows(model, hidden):
    rested, anew = (MtpDraft(model.heads, DraftOptions(rule="greedy")) for _ in range(2))
    rested.is_paused = True
    count = 3 * ROWS_AFTER_PAUSE
    states = mx.concatenate([hidden[:, :90]] * 3, axis=1)[:, :count]
    text = mx.array((list(TEXT[:90]) * 3)[:count])
    held = []
    for start in range(0, count, 16):
        tell(rested, text[start : start + 16], states[:, start : start + 16])
        held.append(rested.nbytes)
    assert max(held) <= 2 * ROWS_AFTER_PAUSE * states[:, :1].nbytes
    left = sum(rows.tokens.shape[0] for rows in rested.snapshot().waiting[0])
    assert ROWS_AFTER_PAUSE <= left < 2 * ROWS_AFTER_PAUSE
    tell(anew, text[count - left - 1 :], states[:, count - left - 1 :])
    assert propose(rested, 5, 3) == propose(anew, 5, 3)


def test_a_token_that_waits_is_no_work(model, hidden):
    """A plain round of a chat whose source rests: nothing is made of what the target computed."""
    source = MtpDraft(model.heads, DraftOptions(rule="greedy"))
    tell(source, mx.array(TEXT[:9]), hidden[:, :9])
    source.is_paused = True
    rows = [mx.contiguous(hidden[:, n : n + 1]) for n in range(9, 2 * ROWS_AFTER_PAUSE)]
    for n, row in enumerate(rows, 9):
        tell(source, mx.array(TEXT[n : n + 1]), row)
    (waiting,) = source.snapshot().waiting
    assert all(part.hidden is row for part, row in zip(waiting[2:], rows[:-1], strict=True))
    length = source.length
    assert propose(source, length, 3) == chain(model, hidden, length, 3)
