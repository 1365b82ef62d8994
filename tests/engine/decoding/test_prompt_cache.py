"""What a conversation has read no other reads again, up to a place that was kept: words are equal.

So are drafts while heads hold all their rows. They read long prompts in part, and a head that goes
on from before an edit knows older rows than one that reads afresh (mtp.py): it may draft otherwise.
"""

import gc
import itertools

import mlx.core as mx
import numpy as np
import pytest
from in_step import assert_in_step
from plain_run import run
from session_runs import PICKS, drafts, listen, session_of
from tiny_model import TinySizes, tiny_model

import mlx_engine
from mlx_engine.cache.contract import CachesSnapshot
from mlx_engine.decoding.prompt_cache import PromptCache
from mlx_engine.decoding.state import (
    MIN_CHECKPOINT_DISTANCE,
    Checkpoint,
    shared_prefix,
    thin_out_checkpoints,
)
from mlx_engine.drafting.contract import ROWS_OF_A_PROMPT
from mlx_engine.drafting.drafter import HeadMemory, NoDraft
from mlx_engine.drafting.mtp import MtpDraft
from mlx_engine.values.conversation import RoundFinished
from mlx_engine.values.model_description import CHECKPOINTS
from mlx_engine.values.options import DraftOptions, LoadOptions, SamplingOptions

SYSTEM = "You answer in rhymes, briefly, and never mention the fox. " * 4
KINDS = ("recurrent", "windowed", "attention")
WAYS = {"greedy": SamplingOptions(temperature=0, logit_bias=PICKS.logit_bias), "warm": PICKS}
TEXT = [int(t) for t in np.random.default_rng(8).integers(0, 250, 1400)]


@pytest.fixture(scope="module")
def engines(folders):
    """Of each kind one that shares, and one that reads everything at every answer."""
    made = {}

    def get(kind):
        if kind not in made:
            never = LoadOptions(prompt_cache_bytes=0)
            both = mlx_engine.load(folders[kind]), mlx_engine.load(folders[kind], options=never)
            made[kind] = both
        made[kind][0].forget_conversations()
        return made[kind]

    yield get
    for engine in itertools.chain(*made.values()):
        engine.close()


def test_hidden_states_far_before_an_answer_are_not_computed(engines, monkeypatch):
    """Those of a small model's last layer take a good part of the time it is read in."""
    rows, commit = [], MtpDraft.commit

    def counted(self, read, count):
        rows.append(count)
        commit(self, read, count)

    monkeypatch.setattr(MtpDraft, "commit", counted)
    draft = DraftOptions(depth=2)
    engines("recurrent")[0].generate(TEXT[:480], 1, WAYS["greedy"], draft, ignore_eos=True)
    assert sum(rows) == ROWS_OF_A_PROMPT + 2, "the newest of the prompt, and that of the round"


@pytest.mark.parametrize("kind", KINDS)
def test_of_a_long_prompt_heads_read_little_and_a_change_in_its_middle_is_all_that_is_read(
    engines, kind
):
    """The same words, and told how many rows heads have read in what share of the time."""
    engine, _ = engines(kind)
    ways = {
        "drafted": DraftOptions(depth=2),
        "plain": DraftOptions(source="none"),
    }
    found = {
        name: [
            engine.generate(prompt, 9, WAYS["greedy"], draft, ignore_eos=True)
            for prompt in (TEXT[:480], [*TEXT[:400], 8, 3, 1])
        ]
        for name, draft in ways.items()
    }
    for drafted, plain in zip(*found.values(), strict=True):
        assert drafted.tokens == plain.tokens
    first, changed = (its.stats for its in found["drafted"])
    assert first.head_rows == ROWS_OF_A_PROMPT
    assert 0 < first.head_share < 1
    if kind == "attention":
        assert (changed.reused_tokens, changed.head_rows) == (399, 2)
    assert found["plain"][0].stats.head_rows == 0


PAIRS = [
    (kind, depth, tuple(WAYS)[number % 2])
    for number, (kind, depth) in enumerate(itertools.product(KINDS, (0, 1, 4)))
]
"""Each kind at every depth, and at every depth both ways."""


@pytest.mark.parametrize(("kind", "depth", "way"), PAIRS)
def test_calls_with_a_shared_beginning(engines, kind, depth, way):
    """The same words and the same drafts as without any cache, wherever the second goes on."""
    shared, never = engines(kind)
    draft = DraftOptions(depth=depth) if depth else DraftOptions(source="none")
    first = TEXT[:90]
    told = [shared.generate(first, 9, WAYS[way], draft, ignore_eos=True)]
    prompts = [first]
    longer = [*first, *told[0].tokens]
    for prompt in ([*longer, 5, 6, 7], [*longer, 8, 9], [*first, 8, 3, 1]):
        told.append(shared.generate(prompt, 9, WAYS[way], draft, ignore_eos=True))
        prompts.append(prompt)
    for prompt, its in zip(prompts, told, strict=True):
        truth = never.generate(prompt, 9, WAYS[way], draft, ignore_eos=True)
        assert its.tokens == truth.tokens
        figures = [(s.drafted_by_depth, s.accepted_by_depth) for s in (its.stats, truth.stats)]
        assert figures[0] == figures[1]
        assert truth.stats.reused_tokens == 0
    reused = [its.stats.reused_tokens for its in told]
    assert reused[:2] == [0, len(longer) - 1]
    assert len(first) - 2 <= reused[3] <= len(first)
    if kind == "attention":
        assert reused[2] >= len(longer) - 2  # any place can be gone back to, or the token before
    else:
        assert reused[2] >= len(first) - 1  # the checkpoint at the end of a prompt


@pytest.mark.parametrize("kind", ["recurrent", "windowed"])
def test_a_long_prompt_leaves_checkpoints_on_the_way(engines, kind):
    model = engines(kind)[0].parts.model
    cache, owners, (first, second) = sequences(model, 2)
    read(first, model, TEXT[:1300], chunk=32)
    other = [*TEXT[:1200], *TEXT[:20]]
    its = run(model, other, None, 0, max_tokens=9, sequence=second)
    assert its.tokens == run(model, other, NoDraft(), 0, max_tokens=9, chunk=64).tokens
    assert 1200 - MIN_CHECKPOINT_DISTANCE <= its.stats.reused_tokens <= 1200
    del cache, owners


def test_behind_an_edit_a_head_reads_the_same_newest_rows(engines, monkeypatch):
    """Drafts may differ all the same: one that went on from before it keeps older rows, too."""
    read, flush = [], HeadMemory.read_unread_rows

    def noted(self):
        tokens = [token for rows in self.waiting for token in rows.tokens.tolist()]
        states = [state for rows in self.waiting for state in rows.hidden.squeeze(0).tolist()]
        held = self.caches.length
        if flush(self) == ROWS_OF_A_PROMPT:
            read.append((held, tokens[-ROWS_OF_A_PROMPT:], states[-ROWS_OF_A_PROMPT:]))

    monkeypatch.setattr(HeadMemory, "read_unread_rows", noted)
    for engine in engines("attention"):
        for prompt in (TEXT[:200], [*TEXT[:180], *TEXT[700:990]]):
            engine.generate(prompt, 2, WAYS["greedy"], DraftOptions(depth=2), ignore_eos=True)
    (held, *rows), (held_anew, *rows_anew) = read
    assert (held, held_anew) == (179, 0)
    assert rows == rows_anew


@pytest.mark.parametrize("depth", [0, 2])
def test_another_chat_with_the_same_system_prompt(engines, depth):
    shared, never = engines("recurrent")
    read = []
    for text in ("The quick fox", "Füchse?", "The quick fox runs"):
        said = {}
        for engine in (shared, never):
            session = session_of(engine, depth=depth, system=SYSTEM)
            said[engine] = listen(session, session.send(text))
        assert said[shared].tokens == said[never].tokens
        assert drafts(said[shared]) == drafts(said[never])
        stats = said[shared].finished.stats
        read.append(stats.prompt_tokens - stats.reused_tokens)
    assert read[0] > 100
    assert max(read[1:]) < 40


def test_chats_that_share_a_beginning_go_on_by_themselves(engines):
    """A branch, an edit in the middle, and the first chat after both of them."""
    shared, never = engines("recurrent")
    said = {}
    for engine in (shared, never):
        chat = session_of(engine)
        answers = [listen(chat, chat.send(text)) for text in ("One two", "Three four", "Five")]
        branch = session_of(engine)
        branch.load_messages(chat.messages[:4])
        answers.append(listen(branch, branch.send("Six seven")))
        answers.append(listen(chat, chat.send("Eight")))
        answers.append(listen(branch, branch.edit(2, "Nine ten")))
        answers.append(listen(chat, chat.send("Eleven")))
        said[engine] = answers
    for its, truth in zip(said[shared], said[never], strict=True):
        assert (its.tokens, drafts(its)) == (truth.tokens, drafts(truth))
    read = [s.finished.stats.prompt_tokens - s.finished.stats.reused_tokens for s in said[shared]]
    new = read[1]  # what a message adds
    assert all(count < new + 14 for count in read[1:]), "each goes on at the end of a turn"


def test_a_chat_that_begins_while_another_answers_shares_what_that_has_read(engines):
    shared, never = engines("recurrent")
    truth = session_of(never, system=SYSTEM)
    words = [listen(truth, truth.send("The quick fox")).tokens]
    first, second = (session_of(shared, system=SYSTEM) for _ in range(2))
    running = first.send("The quick fox")
    next(event for event in running if isinstance(event, RoundFinished))
    said = listen(second, second.send("Why?"))
    assert said.finished.stats.reused_tokens > 100
    for _ in running:
        pass
    assert first.tokens == words[0]
    truth = session_of(never, system=SYSTEM)
    assert said.tokens == listen(truth, truth.send("Why?")).tokens


def test_other_sources_share_the_trunk_where_they_can(engines):
    """One that lives on hidden states reads them itself; all others are told the tokens."""
    shared, never = engines("attention")
    prompt = TEXT[:200]
    shared.generate(prompt, 5, PICKS, DraftOptions(depth=2))
    for source, reused in (("none", 198), ("prompt-lookup", 199), ("prompt-lookup+mtp", 0)):
        draft = DraftOptions(source=source, depth=2)
        its, truth = (engine.generate(prompt, 9, PICKS, draft) for engine in (shared, never))
        assert its.tokens == truth.tokens
        assert its.stats.reused_tokens == reused
        again = shared.generate([*prompt, *its.tokens, 4], 9, PICKS, draft)
        truth = never.generate([*prompt, *its.tokens, 4], 9, PICKS, draft)
        assert again.stats.reused_tokens >= 200
        assert (again.tokens, again.stats.accepted) == (truth.tokens, truth.stats.accepted)


def sequences(model, count, most_bytes=2**30):
    cache = PromptCache(model, most_bytes)
    owners = [Owner() for _ in range(count)]
    return cache, owners, [cache.new_sequence(owner) for owner in owners]


class Owner:
    pass


def read(sequence, model, tokens, **more):
    return run(model, tokens, None, 0, max_tokens=2, sequence=sequence, **more).stats


def test_the_least_recently_used_goes_first_and_the_newest_stays():
    model = tiny_model(3, TinySizes(layers=2))
    cache, owners, held = sequences(model, 3)
    for number, sequence in enumerate(held):
        read(sequence, model, [number] * 20)
    one = held[0].nbytes
    assert cache.nbytes == sum(sequence.nbytes for sequence in held)
    cache.most_bytes = int(2.5 * one)
    read(held[0], model, [*held[0].tokens, 4, 5])
    assert [len(sequence.tokens) > 0 for sequence in held] == [True, False, True]
    cache.most_bytes = 1
    read(held[1], model, [9] * 20)
    assert [len(sequence.tokens) > 0 for sequence in held] == [False, True, False]
    for sequence in held:
        assert_in_step(sequence)
    assert read(held[2], model, [2] * 20).reused_tokens == 0, "what was dropped is read again"
    cache.most_bytes = 0
    read(held[2], model, [2] * 20)
    assert cache.nbytes == 0
    del owners


def test_one_that_answers_is_not_dropped():
    model = tiny_model(3, TinySizes(layers=2))
    cache, owners, (first, second) = sequences(model, 2)
    read(first, model, [1] * 20)
    with first.during_answer():
        cache.most_bytes = 1
        read(second, model, [2] * 20)
        cache.drop_idle_chats()
        assert len(first.tokens) > 0
        assert not second.tokens
    assert cache.nbytes == first.nbytes > 0
    del owners


def test_a_branch_copies_once_and_later_rounds_not_at_all():
    """Peak memory, in buffers of one layer's keys; the beginning of a long chat is taken alone."""
    sizes = TinySizes(layers=2, interval=1, hidden=16, inner=16, heads=1, kv_heads=1)
    model = tiny_model(3, sizes)
    _, owners, (first, second) = sequences(model, 2)
    for sequence in (first, second):
        sequence.replace_drafter(MtpDraft(model.heads, DraftOptions()))
    prompt = [token % 61 for token in range(7000)]
    read(first, model, prompt, chunk=1300, context_length=9000)
    buffer = first.caches.layers[0].nbytes / 2
    before = mx.get_active_memory()
    more = {"chunk": 1300, "context_length": 9000}
    stats = read(second, model, [*prompt[:3000], 5, 6, 7], **more)
    assert 2999 <= stats.reused_tokens <= 3000
    assert second.caches.layers[0].nbytes / 2 < 0.5 * buffer
    assert mx.get_active_memory() - before < 1.1 * (second.nbytes + buffer / 10)
    for sequence in (first, second):
        buffer = sequence.caches.layers[0].nbytes / 2
        before = mx.get_active_memory()
        stats = run(model, [*sequence.tokens, 5], None, 2, max_tokens=40, sequence=sequence, **more)
        assert stats.stats.peak_memory_bytes - before < 0.8 * buffer
    del owners


def test_what_nobody_owns_any_more_is_taken_over_whole():
    model = tiny_model(3, TinySizes(layers=2))
    cache, owners, (first, second) = sequences(model, 2)
    read(first, model, [1] * 40)
    owners.clear()
    gc.collect()
    assert read(second, model, [*first.tokens, 1, 2]).reused_tokens == len(first.tokens)
    assert cache.nbytes == second.nbytes


def test_checkpoints_that_are_shared_count_once(engines):
    shared, _ = engines("recurrent")
    assert shared.conversations_nbytes == 0
    sessions = [session_of(shared, system=SYSTEM) for _ in range(2)]
    for session in sessions:
        listen(session, session.send("hi"))
    both = sum(session.nbytes for session in sessions)
    assert both / 2 < shared.conversations_nbytes < both
    sessions[0].forget()
    assert sessions[0].nbytes < sessions[1].nbytes <= shared.conversations_nbytes
    shared.forget_conversations()
    assert shared.conversations_nbytes == 0
    assert listen(sessions[0], sessions[0].send("again")).finished.stats.reused_tokens == 0


def test_a_call_that_fails_is_nobodys_beginning(engines):
    model = tiny_model(3, TinySizes(layers=2))
    cache, owners, (first, second) = sequences(model, 2)
    with pytest.raises(ZeroDivisionError), first.during_answer():
        cache.reuse_prefix(first, [1] * 30)
        first.append_prompt_rows([1] * 30, model.forward(mx.array([[1] * 30]), first.caches))
        raise ZeroDivisionError
    assert read(second, model, [1] * 40).reused_tokens == 0
    del owners


def test_checkpoints_are_thinned_where_they_are_missed_least():
    def lengths(count):
        kept = []
        for n in range(1, count + 1):
            kept = thin_out_checkpoints(
                [*kept, Checkpoint(100 * n, CachesSnapshot(100 * n, ()), None)]
            )
        return [place.length // 100 for place in kept]

    for count in (CHECKPOINTS, CHECKPOINTS + 1, 40, 200):
        kept = lengths(count)
        assert len(kept) == CHECKPOINTS
        assert kept[0] == 1
        assert kept[-2:] == [count - 1, count]
    way = [
        Checkpoint(100 * n, CachesSnapshot(100 * n, ()), None, is_on_the_way=n not in (1, 9, 20))
        for n in range(1, 21)
    ]
    assert 900 in [place.length for place in thin_out_checkpoints(way)], "the end of a turn"
    gaps = np.diff(lengths(200))
    assert list(gaps) == sorted(gaps, reverse=True), "closer together the nearer they are"


def test_a_source_of_its_own_follows_a_branch():
    """Acceptance figures of heads after a branch are those of a chat that read it all."""
    model = tiny_model(3, TinySizes(layers=2, interval=1))
    cache, owners, (first, second) = sequences(model, 2)
    for sequence in (first, second):
        sequence.replace_drafter(MtpDraft(model.heads, DraftOptions()))
    read(first, model, TEXT_61)
    prompt = [*TEXT_61[:50], 3, 4]
    ran = run(model, prompt, None, 3, max_tokens=30, sequence=second)
    assert ran.stats.reused_tokens in (49, 50)
    truth = run(model, prompt, MtpDraft(model.heads, DraftOptions()), 3, max_tokens=30)
    assert ran.tokens == truth.tokens
    assert ran.stats.accepted_by_depth == truth.stats.accepted_by_depth
    assert ran.tokens == run(model, prompt, NoDraft(), 0, max_tokens=30).tokens
    del owners, cache


TEXT_61 = [token % 61 for token in TEXT[:80]]


def test_shared_prefix():
    assert shared_prefix([1, 2, 3], [1, 2, 4]) == 2
    assert shared_prefix([1, 2], [1, 2, 4]) == 2
