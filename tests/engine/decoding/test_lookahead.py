"""Rounds begun before the outcome of the last is known: the same words, drafts and state."""

import itertools
from dataclasses import replace

import mlx.core as mx
import pytest
from plain_run import CyclingDepth, opened, run
from session_runs import PICKS
from tiny_model import TinySizes, tiny_model

from metal_kernels.stock_on_cpu import CpuStockOperations
from mlx_engine.cache.contract import LayerCaches
from mlx_engine.cache.joint import combine_caches
from mlx_engine.decoding import scheduler
from mlx_engine.decoding.answer import answer_raw_prompt
from mlx_engine.decoding.round import Pass
from mlx_engine.decoding.scheduler import SHORT_OF_MEMORY, BatchScheduler
from mlx_engine.decoding.state import SequenceState
from mlx_engine.drafting.depth import DepthPolicy
from mlx_engine.drafting.drafter import NoDraft
from mlx_engine.drafting.drafters import SmallModelDraft
from mlx_engine.drafting.mtp import MtpDraft
from mlx_engine.drafting.record import PRESUMED
from mlx_engine.values.conversation import RoundFinished, Settings
from mlx_engine.values.options import DraftOptions, SamplingOptions

PROMPT = [5, 1, 30, 17, 2, 9, 9, 21, 4]
VOCABULARY = 37
WAYS = {
    "greedy": SamplingOptions(temperature=0),
    "hot": SamplingOptions(temperature=1.2),
    "penalised": SamplingOptions(
        temperature=0.9, repetition_penalty=1.2, presence_penalty=0.3, frequency_penalty=0.4
    ),
}


@pytest.fixture(scope="module")
def model():
    return tiny_model(3, TinySizes(layers=2, vocabulary=VOCABULARY))


def sources(model):
    """Right now and then: a head, and a model that is nearly its own target."""
    return {
        "none": NoDraft(),
        "head": MtpDraft(model.heads, DraftOptions()),
        "model": SmallModelDraft(model, VOCABULARY, DraftOptions(rule="greedy")),
    }


def both(model, source, depths, **more):
    """An answer without and with looking ahead; that everything but the clock is equal."""
    found = []
    for looks_ahead in (False, True):
        its = sources(model)[source]
        ran = run(model, PROMPT, its, CyclingDepth(depths), looks_ahead=looks_ahead, **more)
        found.append(ran)
    waited, looked = found
    assert looked.tokens == waited.tokens
    assert looked.sequence.tokens == waited.sequence.tokens
    counts = [
        (ran.stats.passes, ran.stats.drafted_by_depth, ran.stats.accepted_by_depth) for ran in found
    ]
    assert counts[0] == counts[1]
    return waited, looked


def go_on_alike(model, waited, looked, source):
    """What they leave behind is the same, drafts of the next turn included."""
    prompt = [*PROMPT, *waited.tokens, 8, 3]
    turns = [
        run(model, prompt, ran.sequence.drafter, 3, options=WAYS["hot"], sequence=ran.sequence)
        for ran in (waited, looked)
    ]
    assert turns[0].tokens == turns[1].tokens
    assert turns[0].stats.accepted_by_depth == turns[1].stats.accepted_by_depth, source


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("source", "depths"),
    [
        ("none", [0]),
        ("head", [3]),
        ("head", [0, 2, 0, 0, 4]),
        ("model", [2]),
        ("model", [0, 3, 0, 0, 1]),
    ],
)
def test_the_same_words_and_drafts(model, way, source, depths):
    waited, looked = both(model, source, depths, options=WAYS[way], max_tokens=20)
    go_on_alike(model, waited, looked, source)


@pytest.mark.parametrize(
    ("source", "depths", "end"),
    [
        ("none", [0], "stop"),
        ("head", [3, 0], "stop"),
        ("model", [2], "stop"),
        ("none", [0], "end token"),
        ("head", [3], "end token"),
        ("head", [3, 0], "stop string"),
        ("none", [0], "context"),
        ("head", [2], "context"),
    ],
)
def test_whatever_ends_it_the_sequence_stands_as_if_nothing_had_been_begun(
    model, source, depths, end
):
    truth = run(model, PROMPT, NoDraft(), 0, options=WAYS["hot"], max_tokens=20).tokens
    cut = next(n for n in range(6, 20) if truth[n] not in truth[:n])
    more = {
        "stop": dict,
        "end token": lambda: {"end_ids": [truth[cut]]},
        "stop string": lambda: {"stop_pairs": [(truth[cut - 1], truth[cut])]},
        "context": lambda: {"context_length": len(PROMPT) + 11},
    }[end]()
    found = []
    for looks_ahead in (False, True):
        rounds = itertools.count(-1)
        stopped = (lambda: next(rounds) >= 5) if end == "stop" else (lambda: False)  # noqa: B023
        found.append(
            run(
                model,
                PROMPT,
                sources(model)[source],
                CyclingDepth(depths),
                options=WAYS["hot"],
                stopped=stopped,
                looks_ahead=looks_ahead,
                **more,
            )
        )
    waited, looked = found
    assert 0 < len(looked.tokens) < 20
    assert looked.tokens == waited.tokens
    assert looked.sequence.tokens == waited.sequence.tokens
    go_on_alike(model, waited, looked, source)


class Counting:
    """A model whose passes are counted; `fault` is raised by the pass of that number."""

    def __init__(self, model, fault=None):
        self._model, self._fault, self.passes = model, fault, 0

    def __getattr__(self, name):
        return getattr(self._model, name)

    def forward(self, tokens, caches):
        self.passes += 1
        if self.passes == self._fault:
            raise RuntimeError("a pass that failed")
        return self._model.forward(tokens, caches)


@pytest.fixture
def passes_at_read(model, monkeypatch):
    """Runs ahead; how many passes had been begun whenever an outcome was read."""

    def at_read(source, depth, tokens, *, follows_drafts=True):
        counting, read, whole = Counting(model), [], scheduler.Round.await_outcome

        def noted(round):
            read.append(counting.passes)
            return whole(round)

        monkeypatch.setattr(scheduler.Round, "await_outcome", noted)
        more = {"follows_drafts": follows_drafts, "looks_ahead": True}
        run(counting, PROMPT, source, depth, max_tokens=tokens, chunk=64, **more)
        return read

    return at_read


def test_a_plain_round_is_queued_before_the_last_is_read_and_none_is_for_nothing(passes_at_read):
    read = passes_at_read(NoDraft(), 0, 5)
    assert read == [3, 4, 5, 6, 6], "the prompt's pass, the round's own, and that after it"


@pytest.mark.parametrize("source", ["head", "model"])
def test_a_drafted_round_is_so_too_whatever_comes_of_the_last(model, passes_at_read, source):
    read = passes_at_read(sources(model)[source], 2, 30)
    ahead_of = [passes - number for number, passes in enumerate(read)]
    may_end = 1 + 2  # rounds with which the answer may have all its tokens, at most
    assert ahead_of[:-may_end] == [3] * (len(read) - may_end)
    assert len(read) > 8


def test_no_pass_is_run_for_nothing_where_an_answer_has_all_its_tokens(model, monkeypatch):
    queued, whole = set(), Pass.queue_on_device

    def noted(its):
        queued.add(its)
        whole(its)

    monkeypatch.setattr(Pass, "queue_on_device", noted)
    for tokens in range(6, 12):
        ran = run(model, PROMPT, sources(model)["model"], 3, max_tokens=tokens, looks_ahead=True)
        assert len(queued) == ran.stats.passes > 0
        queued.clear()


def test_where_the_host_computes_only_plain_rounds_are_followed_unread(
    engine, model, passes_at_read
):
    parts, is_gpu = engine.parts, mx.default_device() == mx.gpu
    assert (parts.batch.looks_ahead, parts.batch.follows_drafts) == (True, is_gpu)
    read = passes_at_read(NoDraft(), 0, 5, follows_drafts=False)
    assert read == [3, 4, 5, 6, 6]
    depths = CyclingDepth([0, 0, 2])
    read = passes_at_read(sources(model)["model"], depths, 24, follows_drafts=False)
    beyond = [passes - number - 2 for number, passes in enumerate(read)]
    assert beyond[:9] == [1, 0, 0] * 3, "a draft waits for the plain round before it"


@pytest.mark.parametrize("depth", [0, 2])
def test_where_the_host_computes_what_is_written_down_of_a_pass_begins_at_once(
    model, monkeypatch, depth
):
    counting, begun, whole = Counting(model), [], scheduler.Round.await_outcome

    def noted(round):
        begun.append(
            (round.verified_by.began_at, round.verified_by.queued_at, round.verified_by.read_at)
        )
        return whole(round)

    monkeypatch.setattr(scheduler.Round, "await_outcome", noted)
    more = {"follows_drafts": False, "looks_ahead": True}
    source = sources(model)["model"] if depth else NoDraft()
    ran = run(counting, PROMPT, source, depth, max_tokens=12, chunk=64, **more)
    assert len(begun) == ran.stats.passes > 3
    for began, queued, ended in begun:
        assert 0 < began < queued < ended
    if depth:
        on_device = ran.stats.draft_ms + ran.stats.verify_ms
        assert on_device >= 999 * sum(ended - began for began, _, ended in begun)
        assert ran.stats.draft_ms > 0


def test_a_draft_waits_for_the_plain_round_before_it_where_the_host_computes(model):
    """Queued before, it would run in the time of that round and look cheap."""
    for follows_drafts in (False, True):
        depths = CyclingDepth([0, 0, 2])
        more = {"follows_drafts": follows_drafts, "looks_ahead": True, "max_tokens": 24}
        answer, queued = opened(model, PROMPT, sources(model)["model"], depths, **more), []
        queued += [
            any(its.queued_at for its in answer.rounds.passes)
            for event in answer.events()
            if isinstance(event, RoundFinished) and not event.stats.drafted
        ]
        assert queued[:4] == [True, follows_drafts] * 2


def test_nothing_is_begun_ahead_where_memory_is_short_of_a_second_cache(model, monkeypatch):
    """And the reason is told with each round."""
    monkeypatch.setattr(LayerCaches, "nbytes", property(lambda caches: 2**30))
    for beyond, is_ahead in ((2**31, True), (2**29, False)):
        batch = BatchScheduler(most_bytes=mx.get_active_memory() + beyond)
        answer = opened(model, PROMPT, None, 0, looks_ahead=True, batch=batch)
        whys, followed = [], []
        for event in answer.events():
            if isinstance(event, RoundFinished):
                whys.append(event.stats.why)
                followed.append(bool(answer.rounds.passes))
        assert any(followed) == is_ahead
        assert set(whys) == {None if is_ahead else SHORT_OF_MEMORY}


def test_a_round_that_fails_ahead_hides_no_token_of_the_one_before(model):
    truth = run(model, PROMPT, NoDraft(), 0, max_tokens=9).tokens
    for depth in (0, 2):
        for looks_ahead in (False, True):
            said = []
            source = MtpDraft(model.heads, DraftOptions()) if depth else NoDraft()
            counting = Counting(model, fault=6)
            with pytest.raises(RuntimeError, match="a pass that failed"):
                run(counting, PROMPT, source, depth, chunk=64, said=said, looks_ahead=looks_ahead)
        assert said == truth[: len(said)] != []


@pytest.mark.parametrize("depth", [0, 2])
def test_keys_and_values_are_written_in_place_up_to_4000_tokens(depth):
    """A copy of a buffer in any round, of trunk or head, would show in the peak."""
    sizes = TinySizes(layers=2, interval=1, hidden=16, inner=16, heads=1, kv_heads=1)
    wide = tiny_model(3, sizes)
    sequence = SequenceState(wide, MtpDraft(wide.heads, DraftOptions()) if depth else NoDraft())

    def answer(prompt, tokens):
        its = {"max_tokens": tokens, "chunk": 1300, "looks_ahead": True}
        return run(wide, prompt, None, depth, sequence=sequence, **its).stats

    answer([token % 61 for token in range(3900)], 2)
    before = mx.get_active_memory()
    stats = answer([*sequence.tokens, 5], 40)
    assert stats.passes > 30
    buffer = sequence.caches.layers[0].nbytes / 2
    assert stats.peak_memory_bytes - before < 0.5 * buffer


def test_settings_that_change_take_effect_at_the_next_round(engine):
    """The round that was begun by the old ones is dropped, drafts that its source has read too."""
    batch, found = BatchScheduler(), []
    batch.follows_drafts = True
    for looks_ahead in (False, True):
        settings = Settings(PICKS, DraftOptions(depth=3))
        prompt, policy = engine.tokenize("The quick brown fox"), DepthPolicy(lambda: PRESUMED)
        batch.looks_ahead = looks_ahead
        answer = answer_raw_prompt(replace(engine.parts, batch=batch), settings, prompt, policy)
        depths = []
        for event in answer.events():
            if isinstance(event, RoundFinished):
                its = event.stats
                depths.append((its.depth, its.accepted, its.position))
                if len(depths) == 4:
                    settings.draft = DraftOptions(depth=1)
                if len(depths) == 6:
                    settings.sampling = replace(PICKS, temperature=0.3, presence_penalty=0.5)
                if len(depths) == 8:
                    settings.draft = DraftOptions(source="none")
                if len(depths) == 12:
                    settings.draft = DraftOptions(depth=2)
                if len(depths) == 16:
                    break
        found.append((depths, answer.tokens, answer.sequence.tokens))
    assert found[0] == found[1]
    assert {depth for depth, *_ in depths} == {0, 1, 2, 3}


def test_a_cpu_begins_with_every_layer_once_it_is_written_down(model, monkeypatch):
    begun = []

    def begin(stock, x, *, has_idle_gpu=False):
        assert not has_idle_gpu  # the next pass is queued before this one ends
        begun.append(x)

    monkeypatch.setattr(CpuStockOperations, "start_evaluation", begin)
    model.forward(mx.array([PROMPT]), model.make_caches())
    caches = combine_caches([model.make_caches(), model.make_caches()], [4, 5])
    assert [x.shape for x in begun] == [(1, len(PROMPT), model.hidden_size)] * model.layers
    begun.clear()
    model.joint_forward(mx.array([PROMPT]), caches)
    assert [x.shape for x in begun] == [(1, len(PROMPT), model.hidden_size)] * model.layers
