"""Draft models that read their target keep its words: whole conversations, cut at every count."""

from dataclasses import replace
from functools import partial

import pytest
from drafter_gguf import convert_drafter
from in_step import assert_in_step
from plain_run import CyclingDepth, run
from session_runs import PICKS, four_answers, listen, session_of, words_of
from tiny_dflash import TinyDFlash, write_tiny_dflash
from tiny_eagle3 import TinyEagle, write_tiny_eagle
from tiny_gemma4 import write_pair
from tiny_published import publish
from tiny_qwen3_5 import write_tiny_qwen3_5
from waits import check, watched

import mlx_engine
from mlx_engine.drafting.depth import DepthPolicy
from mlx_engine.drafting.drafter import Drafter, NoDraft
from mlx_engine.drafting.record import PassCosts, RoundCosts
from mlx_engine.models.drafters.dflash import DFlash
from mlx_engine.models.drafters.target import FeatureModel
from mlx_engine.values.options import DraftOptions, LoadOptions, SamplingOptions

LENGTH = 10
GREEDY = replace(PICKS, temperature=0.0)
WAYS = {"greedy": GREEDY, "warm": replace(PICKS, temperature=1.0, top_k=9, presence_penalty=0.3)}
PROMPT = [5, 78, 30, 110, 2, 9, 9, 257, 4]
BIASED = {78: 30.0, 110: 28.0}
"""A choice of two tokens nearly always: drafts stand for as long as luck has it."""
NONE = DraftOptions(source="none")
HOPELESS = PassCosts(tuple(10.0 * row for row in range(1, 10)), 5.0)
CHEAP = PassCosts((10.0,) * 9, 0.0)
SLIDING, LATTICE = partial(TinyDFlash, window=7), partial(TinyDFlash, kind="lilicorr", window=7)
TWO, SPARK = (partial(TinyDFlash, kind=kind, candidates=256) for kind in ("dflash2", "dspark"))


def drafter(folder, name, write, sizes):
    """A target of this architecture and a draft model of its sizes."""
    if name == "qwen3_5":
        write_tiny_qwen3_5(folder / "t")
    else:
        publish(name, folder / "t")
    model = mlx_engine.load(folder / "t").parts.model
    return write(folder / "d", sizes(model.hidden_size, model.vocabulary))


def write_tiny_gguf(folder, sizes):
    return convert_drafter(write_tiny_dflash(folder, sizes), folder.parent / "d.gguf")


MADE = {
    "eagle3 on llama": lambda folder: drafter(folder, "llama", write_tiny_eagle, TinyEagle),
    "eagle3 on qwen3.5": lambda folder: drafter(folder, "qwen3_5", write_tiny_eagle, TinyEagle),
    "assistant": lambda folder: write_pair(folder, ordered=False).assistant,
    "dflash on gpt-oss": lambda folder: drafter(folder, "gpt_oss", write_tiny_dflash, SLIDING),
    "dflash 2 on qwen3.5": lambda folder: drafter(folder, "qwen3_5", write_tiny_dflash, TWO),
    "dspark on nemotron": lambda folder: drafter(folder, "nemotron_h", write_tiny_gguf, SPARK),
}


@pytest.fixture(scope="module", params=MADE)
def pair(request, tmp_path_factory):
    """The folders of a target and of its draft model."""
    folder = tmp_path_factory.mktemp("pair")
    return folder / "t", MADE[request.param](folder)


@pytest.fixture(scope="module")
def engine(pair):
    target, given = pair
    return mlx_engine.load(target, options=LoadOptions(draft_model=given))


def passes_of(engine, drafted):
    """Of a draft of so many tokens."""
    return 1 if isinstance(engine.parts.drafting.small.loaded_model, DFlash) else drafted


@pytest.mark.parametrize("way", WAYS)
def test_conversations_keep_their_words(engine, way):
    plain = words_of(four_answers(engine, WAYS[way], NONE))
    for depth in (3,) if way == "greedy" else (2, 4, "auto"):
        source = "prompt-lookup+model" if depth == 3 else "model"
        answers = four_answers(engine, WAYS[way], DraftOptions(source=source, depth=depth))
        assert words_of(answers) == plain, depth
        rounds = [r for a in answers for r in a.rounds if r.drafted and r.source == "model"]
        assert rounds or depth == "auto"
        assert all(r.draft_passes == passes_of(engine, r.drafted) for r in rounds)


def test_a_lattice_of_candidates_keeps_the_words(tmp_path):
    given = drafter(tmp_path, "llama", write_tiny_dflash, LATTICE)
    engine = mlx_engine.load(tmp_path / "t", options=LoadOptions(draft_model=given))
    for sampling in WAYS.values():
        answers = four_answers(engine, sampling, DraftOptions(source="model", depth=3))
        assert words_of(answers) == words_of(four_answers(engine, sampling, NONE))
        assert any(round_.drafted for answer in answers for round_ in answer.rounds)


@pytest.mark.parametrize("source", ["model", "prompt-lookup+model"])
def test_a_parked_target_computes_nothing_for_drafts(engine, monkeypatch, source):
    """It is read as it is, and again for them when drafts pay; the words stay the same."""
    made, forward = [], FeatureModel.forward

    def noted(*of, **begin):
        made.append(1)
        return forward(*of, **begin)

    monkeypatch.setattr(FeatureModel, "forward", noted)
    monkeypatch.setattr(DepthPolicy, "learn_round", lambda *of: None)  # whatever this machine does
    monkeypatch.setattr(RoundCosts, "wants_plain", lambda *of: False)
    engine._draft_records.clear()
    session, plain = (session_of(engine, GREEDY, depth=0, max_tokens=LENGTH) for _ in range(2))
    session.draft = DraftOptions(source=source)
    for costs, drafts in ((HOPELESS, False), (HOPELESS, False), (CHEAP, True)):
        engine._self_check._meter._costs, engine._self_check._meter._is_done = costs, True
        made.clear()
        said = listen(session, session.send("The fox"))
        assert said.tokens == listen(plain, plain.send("The fox")).tokens
        by = {r.source for r in said.rounds if r.drafted} - {"prompt-lookup"}
        assert (bool(made), bool(by)) == (drafts, drafts)


def test_the_host_waits_for_no_drafted_token(engine):
    session = session_of(engine, GREEDY, depth=0, max_tokens=30)
    session.draft = DraftOptions(source="model", depth=3)
    listen(session, session.send("The fox"))
    with watched() as found:
        listen(session, session.send("and the hen"))
    check(found)
    session.draft = DraftOptions(source="model", depth=3, min_probability=0.2)
    with watched() as found:
        listen(session, session.send("and the dog"))
    check(found, waits=1)


def test_what_waits_while_a_source_rests_is_there_for_the_next_draft(engine, monkeypatch):
    """Rounds that drafted nothing in between change no draft."""
    kit = engine.parts.drafting
    sampling = SamplingOptions(temperature=0.9, logit_bias=BIASED)
    accepted = []
    for _ in range(2):
        source = kit.make_drafter(DraftOptions(source="model", depth=4), uses_draft_model=True)
        depths = CyclingDepth([2, *[0] * 5, 3, 0, 2])
        ran = run(kit.model, PROMPT, source, depths, options=sampling, max_tokens=40)
        accepted.append((ran.tokens, ran.stats.accepted_by_depth))
        never = property(lambda drafter: False, lambda drafter, is_paused: None)
        monkeypatch.setattr(Drafter, "is_paused", never, raising=False)
    assert accepted[0] == accepted[1]


def test_cut_at_every_count(engine):
    """Answers of every length, with drafts of which every number of tokens stood."""
    options = SamplingOptions(temperature=0.9, logit_bias=BIASED)
    kit = engine.parts.drafting
    wanted = run(kit.model, PROMPT, NoDraft(), 0, options=options, max_tokens=30).tokens
    stood = set()
    for length in (*range(1, 12), 30):
        source = kit.make_drafter(DraftOptions(source="model", depth=4), uses_draft_model=True)
        ran = run(
            kit.model, PROMPT, source, CyclingDepth([4, 2, 0, 4, 1]), options=options,
            max_tokens=length,
        )  # fmt: skip
        assert ran.tokens == wanted[:length]
        stood |= {n for n, count in enumerate(ran.stats.accepted_by_depth, 1) if count}
    assert stood == {1, 2, 3, 4}


def test_nothing_is_read_before_it_drafts(pair):
    target, given = pair
    engine = mlx_engine.load(target, options=LoadOptions(draft_model=given))
    small = engine.parts.drafting.small
    session = session_of(engine, depth=0, max_tokens=2)
    for draft, is_read in ((DraftOptions(source="model", depth=0), False), (NONE, False),
                           (DraftOptions(source="model", depth=1), True)):  # fmt: skip
        session.draft = draft
        listen(session, session.send("hi"))
        assert ("loaded_model" in vars(small)) == is_read


def test_sources_change_in_a_conversation(engine):
    """To another source, to none and back: the same words as without any."""
    plain = session_of(engine, GREEDY, depth=0, max_tokens=6)
    session = session_of(engine, GREEDY, depth=0, max_tokens=6)
    for source, depth in (("model", 2), ("prompt-lookup", 2), ("mtp", 2), ("model", 0),
                          ("model", 3), ("none", 0), ("prompt-lookup+model", 2)):  # fmt: skip
        session.draft = DraftOptions(source=source, depth=depth)
        said = listen(session, session.send("And the fox?"))
        assert said.tokens == listen(plain, plain.send("And the fox?")).tokens
        assert_in_step(session._sequence)
        if (source, depth) == ("model", 3):
            assert any(r.source == "model" for r in said.rounds)
