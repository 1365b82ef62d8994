"""Keys and values in 16, 8 and 4 bits: the same words with drafting on and off under each."""

import itertools

import pytest
from dialled_draft import DialledDraft
from plain_run import CyclingDepth, run
from session_runs import PICKS, listen, session_of, tiny_folder
from tiny_dflash import TinyDFlash, write_tiny_dflash
from tiny_eagle3 import TinyEagle, write_tiny_eagle
from tiny_published import WHOLE_GROUPS, publish

import mlx_engine
from mlx_engine import BadOption, CacheOptions, DraftOptions, LoadOptions, SamplingOptions
from mlx_engine.drafting.drafter import NoDraft
from mlx_engine.values.memory_plan import GROWTH

PROMPT = [5, 78, 30, 110, 2, 9, 9, 257, 4, 78, 30]
LENGTH = 14
GREEDY = SamplingOptions(temperature=0)
WARM = SamplingOptions(temperature=0.9, seed=5, logit_bias={78: 4.0, 110: 4.0, 30: 4.0})
WAYS = {"greedy": GREEDY, "warm": WARM}
FORMATS = (16, 8, 4)


@pytest.fixture(scope="module")
def recurrent(tmp_path_factory):
    """Recurrent layers, attention and a head."""
    return mlx_engine.load(tiny_folder(tmp_path_factory.mktemp("recurrent")))


@pytest.fixture(scope="module")
def windowed(tmp_path_factory):
    """Windows, attention and sinks; its draft model is one that reads its layers."""
    folder = tmp_path_factory.mktemp("windowed")
    publish("gpt_oss", folder / "t")
    model = mlx_engine.load(folder / "t").parts.model
    sizes = TinyEagle(model.hidden_size, model.vocabulary, size=32)
    options = LoadOptions(draft_model=write_tiny_eagle(folder / "d", sizes))
    return mlx_engine.load(folder / "t", options=options)


@pytest.fixture(scope="module")
def latent(tmp_path_factory):
    """Latents, and what is rotated beside them, of whole groups."""
    folder = tmp_path_factory.mktemp("latent") / "t"
    publish("deepseek_v3", folder, changes=WHOLE_GROUPS)
    return mlx_engine.load(folder)


def tokens_of(engine, way, depth, cache, source="mtp"):
    """Rounds of an even depth are begun before the outcome of the last is known."""
    engine.parts.batch.looks_ahead = depth % 2 == 0
    draft = DraftOptions(source if depth else "none", depth=depth)
    made = engine.generate(PROMPT, LENGTH, WAYS[way], draft, ignore_eos=True, cache=cache)
    assert (made.stats.drafted > 0) == (depth > 0)
    return made.tokens


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("bits", FORMATS)
def test_heads_of_any_format_keep_the_words(recurrent, bits, way):
    """Depths and formats of heads in pairs."""
    plain = tokens_of(recurrent, way, 0, CacheOptions(bits))
    for depth, head_bits in zip(range(1, 5), itertools.cycle(FORMATS), strict=False):
        cache = CacheOptions(bits, head_bits)
        assert tokens_of(recurrent, way, depth, cache) == plain, (depth, head_bits)


@pytest.mark.parametrize(("bits", "head_bits"), [(16, 4), (8, 8), (4, 16)])
def test_windows_keep_the_words(windowed, bits, head_bits):
    cache = CacheOptions(bits, head_bits)
    for way, depth in (("greedy", 2), ("warm", 4), ("warm", 1)):
        plain = tokens_of(windowed, way, 0, cache)
        assert tokens_of(windowed, way, depth, cache, "model") == plain


@pytest.mark.parametrize("bits", FORMATS)
@pytest.mark.parametrize("kind", ["recurrent", "windowed", "latent"])
def test_right_and_wrong_drafts_in_any_order(request, kind, bits):
    model, cache = request.getfixturevalue(kind).parts.model, CacheOptions(bits)
    plain = run(model, PROMPT, NoDraft(), 0, options=WARM, max_tokens=LENGTH, cache=cache)
    known = DialledDraft([*PROMPT, *plain.tokens], itertools.cycle([2, 0, 4, 1]), model.vocabulary)
    depths = CyclingDepth([3, 1, 4, 2])
    ran = run(model, PROMPT, known, depths, options=WARM, max_tokens=LENGTH, cache=cache)
    assert ran.tokens == plain.tokens
    assert ran.stats.accepted > 0


def test_a_draft_model_that_cannot_says_so(recurrent, tmp_path):
    """The text is the same without it, so the chat goes on, and its rounds tell why."""
    model = recurrent.parts.model
    given = write_tiny_dflash(
        tmp_path / "d", TinyDFlash(model.hidden_size, model.vocabulary, layers=(0, 1))
    )
    options = LoadOptions(draft_model=given)
    engine = mlx_engine.load(recurrent.description.path, options=options)
    cache = CacheOptions(8, 8)
    session = session_of(engine, GREEDY, 0, cache=cache)
    session.draft = DraftOptions("model", depth=2)
    said = listen(session, session.send("The fox"))
    assert {stats.why.code for stats in said.rounds} == {"draft-unreadable"}
    assert "cache of 8 bits" in said.rounds[0].why.words
    session.cache = CacheOptions(8)
    said = listen(session, session.send("The fox"))
    assert said.finished.stats.drafted > 0


def test_formats_are_not_the_same(recurrent, windowed, latent):
    """Fewer bits are other words and fewer bytes: what is asked for is what is in effect."""
    for engine in (recurrent, windowed, latent):
        held = []
        for bits in FORMATS:
            session = session_of(engine, PICKS, 0, cache=CacheOptions(bits))
            listen(session, session.send("The fox " * 40))
            held.append(session._sequence.caches.nbytes)
            if engine is latent:
                assert held[-1] == GROWTH * engine.description.cache_bytes(CacheOptions(bits))
        assert held[0] > held[1] > held[2]
        logits = [engine.logits(PROMPT, CacheOptions(bits)) for bits in FORMATS]
        apart = [abs(one - logits[0]).max() for one in logits]
        assert 0 == apart[0] < apart[1] < apart[2]


def test_another_format_reads_the_conversation_again(recurrent):
    session = session_of(recurrent, PICKS, 2, cache=CacheOptions(8, 4))
    listen(session, session.send("The fox"))
    session.cache = CacheOptions(4, 8)
    said = listen(session, session.send("And then?"))
    assert said.progress[0].reused == 0
    fresh = session_of(recurrent, PICKS, 0, cache=CacheOptions(4))
    fresh.load_messages(session.messages[:2])
    assert listen(fresh, fresh.send("And then?")).tokens == said.tokens
    again = listen(session, session.send("Again?"))
    assert again.progress[0].reused > 0
    assert session.cache == CacheOptions(4, 8)


@pytest.mark.parametrize(
    ("kind", "code"),
    [("llama", "cache-head-size"), ("deepseek_v3", "cache-head-size")],
)
def test_what_a_family_cannot_have_is_refused_with_a_reason(tmp_path, kind, code):
    publish(kind, tmp_path / kind)
    assert mlx_engine.inspect(tmp_path / kind).packed_cache.code == code
    engine = mlx_engine.load(tmp_path / kind)
    assert engine.description.packed_cache.code == code
    with pytest.raises(BadOption, match="stays in 16 bits"):
        engine.session(cache=CacheOptions(bits=8))
    with pytest.raises(BadOption, match="stays in 16 bits"):
        engine.generate(PROMPT, 3, cache=CacheOptions(head_bits=4))
    session = engine.session()
    with pytest.raises(BadOption, match="stays in 16 bits"):
        session.cache = CacheOptions(bits=4)
    assert session.cache == CacheOptions()


@pytest.mark.parametrize("bits", [5, 0, 32, None, "8", 8.0, True])
def test_bits_there_are_not(bits):
    with pytest.raises(BadOption, match="16, 8 or 4"):
        CacheOptions(bits=bits)
    with pytest.raises(BadOption, match="head_bits"):
        CacheOptions(head_bits=bits)
