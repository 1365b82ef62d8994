"""The engine's own methods: tokens, logits, raw generation and what it says of itself."""

import math
from itertools import chain, repeat

import mlx.core as mx
import numpy as np
import pytest
from session_runs import PICKS, PLAIN, tiny_folder

import mlx_engine
from mlx_engine.values.errors import BadOption, BadPrompt, PromptTooLong
from mlx_engine.values.options import DraftOptions, LoadOptions, SamplingOptions

pytestmark = pytest.mark.usefixtures("rows_compared")

V = 300
GREEDY = SamplingOptions(temperature=0)
BAD_IDS = [[-1], [V], [0, 2**40], [1.5], ["a"], [None], [2**70]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_folder(tmp_path_factory.mktemp("model") / "m")


@pytest.fixture(scope="module")
def engine(folder):
    return mlx_engine.load(folder)


@pytest.fixture(scope="module")
def headless(tmp_path_factory):
    return mlx_engine.load(tiny_folder(tmp_path_factory.mktemp("x") / "m", heads="none"))


@pytest.mark.parametrize("length", [1, 2, 31, 32, 33, 70])
def test_shapes_and_types(engine, length):
    tokens = [(11 * n + 5) % V for n in range(length)]
    logits, drafted = engine.logits(tokens), engine.draft_logits(tokens)
    assert (logits.shape, logits.dtype) == ((length, V), np.float32)
    assert (drafted.shape, drafted.dtype) == ((1, length - 1, V), np.float32)
    assert np.isfinite(logits).all()
    assert np.isfinite(drafted).all()


def test_logits_of_a_prefix_are_the_rows_of_the_whole(engine):
    tokens = [(11 * n + 5) % V for n in range(45)]
    whole, drafted = engine.logits(tokens), engine.draft_logits(tokens)
    for length in (1, 20, 33):
        assert np.array_equal(engine.logits(tokens[:length]), whole[:length])
        np.testing.assert_allclose(
            engine.draft_logits(tokens[:length]), drafted[:, : length - 1], atol=1e-5
        )


def test_draft_logits_look_two_ahead(engine):
    """Row t changes with token t+1 and with no token after it."""
    tokens = list(range(10, 20))
    before = engine.draft_logits(tokens)[0]
    tokens[5] += 100
    changed = (engine.draft_logits(tokens)[0] != before).any(-1)
    assert changed.tolist() == [False] * 4 + [True] * 5


def test_greedy_generation_follows_the_logits(engine):
    made = engine.generate([1, 2, 3], 10, GREEDY, DraftOptions(depth=3), ignore_eos=True)
    rows = engine.logits([1, 2, 3, *made.tokens])
    assert [*rows[2:-1].argmax(-1)] == list(made.tokens)
    assert made.finish_reason == "max-tokens"
    assert made.stats.generated_tokens == 10


@pytest.mark.parametrize("depth", [0, 3])
def test_a_generation_can_be_stopped(engine, depth):
    """In the prompt, chunk by chunk, and between rounds; what there is by then is returned."""
    draft = DraftOptions(depth=depth)
    whole = engine.generate([1] * 100, 10, GREEDY, draft, ignore_eos=True)
    for asked_before in (1, 3, 6, 8):
        should_stop = chain([False] * asked_before, repeat(True)).__next__
        made = engine.generate(
            [1] * 100, 10, GREEDY, draft, ignore_eos=True, should_stop=should_stop
        )
        assert made.finish_reason == "stopped"
        assert len(made.tokens) < len(whole.tokens)
        assert made.tokens == whole.tokens[: len(made.tokens)]
    assert made.tokens


def test_without_heads(headless):
    assert headless.draft_logits([1, 2, 3]).shape == (0, 2, V)
    assert headless.draft_logits([1]).shape == (0, 0, V)
    made = headless.generate([1, 2], 5, GREEDY)
    assert (made.stats.drafted, len(made.tokens)) == (0, 5)
    assert headless.description.mtp_heads == 0
    assert headless.description.mtp.code
    assert headless.session().why_not_drafting == headless.description.mtp


@pytest.mark.parametrize("bad", BAD_IDS)
def test_bad_ids_are_refused_everywhere(engine, headless, bad):
    for one in (engine, headless):
        for call in (one.logits, one.draft_logits, one.generate, one.detokenize):
            with pytest.raises(BadPrompt, match=r"[Tt]oken"):
                call(bad)


def test_nothing_to_read_is_refused(engine, headless):
    for one in (engine, headless):
        for call in (one.logits, one.draft_logits, one.generate):
            with pytest.raises(BadPrompt, match="empty"):
                call([])
        with pytest.raises(BadPrompt, match="empty"):
            one.generate("")
        with pytest.raises(BadPrompt, match="decode the bytes"):
            one.generate(b"text")
    assert engine.detokenize([]) == ""
    assert engine.tokenize("") == []


def test_more_than_the_context_is_refused(engine):
    for call in (engine.logits, engine.draft_logits, engine.generate):
        with pytest.raises(PromptTooLong, match="512"):
            call([1] * 512)
    assert engine.generate([1] * 511).finish_reason == "context-full"


def test_ids_may_come_as_arrays_or_tuples(engine):
    wanted = engine.logits([3, 1, 4])
    for tokens in ((3, 1, 4), np.array([3, 1, 4]), range(3)):
        assert engine.logits(tokens).shape == (3, V)
    assert np.array_equal(engine.logits(np.array([3, 1, 4], dtype=np.uint16)), wanted)
    assert (
        engine.generate(np.array([3, 1]), 3, GREEDY).tokens
        == engine.generate([3, 1], 3, GREEDY).tokens
    )


@pytest.mark.parametrize(
    "text",
    ["The quick brown fox.", "Füchse 😀 你好\n\n\tx", "<|im_start|>user\nhi<|im_end|>", " a  b "],
)
def test_tokens_and_back(engine, text):
    tokens = engine.tokenize(text)
    assert all(isinstance(token, int) for token in tokens)
    assert engine.detokenize(tokens) == text
    assert engine.generate(text, 4, PICKS).tokens == engine.generate(tokens, 4, PICKS).tokens


def test_text_that_is_no_unicode(engine):
    for call in (engine.tokenize, engine.generate):
        with pytest.raises(BadPrompt, match="Unicode"):
            call("a\ud800")


@pytest.mark.parametrize("depth", [*range(1, 9), "auto"])
@pytest.mark.parametrize("prompt", [[7], [7, 8], [5] * 32, [6] * 33])
def test_short_prompts_with_a_head_that_has_read_nothing(engine, prompt, depth):
    plain = engine.generate(prompt, 9, PICKS, PLAIN)
    drafted = engine.generate(prompt, 9, PICKS, DraftOptions(depth=depth))
    assert (plain.tokens, plain.text) == (drafted.tokens, drafted.text)
    assert plain.stats.drafted == 0
    assert drafted.stats.drafted > 0 or depth == "auto"


@pytest.mark.parametrize("depth", [0, 1, 4, 8])
def test_stop_strings_across_tokens(engine, depth):
    text = engine.generate("fox", 30, PICKS, PLAIN, ignore_eos=True).text
    for start in (3, 8, 15):
        stop = text[start : start + 3]
        made = engine.generate(
            "fox", 30, PICKS, DraftOptions(depth=depth), stop=["nowhere", stop], ignore_eos=True
        )
        assert made.finish_reason == "stop-string"
        assert made.text == text[: text.index(stop)]
        alone = engine.generate(
            "fox", 30, PICKS, DraftOptions(depth=depth), stop=stop, ignore_eos=True
        )
        assert alone.text == made.text, "one text is one stop string"


def test_generation_without_a_seed_tells_which_it_drew(engine):
    first = engine.generate("fox", 8, SamplingOptions(temperature=1.0))
    again = engine.generate("fox", 8, SamplingOptions(temperature=1.0, seed=first.stats.seed))
    assert first.tokens == again.tokens


@pytest.mark.parametrize("how", [{"max_tokens": 0}, {"stop": [""]}])
def test_bad_options_of_a_generation(engine, how):
    with pytest.raises(BadOption):
        engine.generate("fox", **how)


def test_the_description(engine, folder):
    described = engine.description
    assert described.architecture == "qwen3_5"
    assert described.path == str(folder)
    assert (described.layers, described.hidden_size, described.vocabulary) == (2, 64, V)
    assert (described.context_length, described.mtp_heads, described.mtp) == (512, 1, None)
    stored = mx.load(str(folder / "model.safetensors"))
    assert described.parameters == sum(array.size for array in stored.values())
    assert described.nbytes == sum(array.nbytes for array in stored.values())
    assert described.quantisation == "float32"
    assert described.numerics == "exact"
    assert described.declined == ()
    assert sum(group.tensors for group in described.groups) == len(stored)
    inspected = mlx_engine.inspect(folder)
    assert (inspected.parameters, inspected.mtp_heads) == (described.parameters, 1)


def test_load_options_take_effect(folder):
    engine = mlx_engine.load(folder, options=LoadOptions(context_length=40, numerics="fast"))
    assert (engine.description.context_length, engine.description.numerics) == (40, "fast")
    made = engine.generate([1] * 30, None, PICKS, ignore_eos=True)
    assert (made.finish_reason, len(made.tokens)) == ("context-full", 10)
    wide = mlx_engine.load(folder, options=LoadOptions(context_length=10**6))
    assert wide.description.context_length == 512


def test_pass_costs_are_measured_once_and_plausible(engine):
    costs = engine.pass_costs
    assert len(costs.verify_ms) == 9
    assert all(0 < ms < math.inf for ms in (*costs.verify_ms, costs.draft_ms))
    assert engine.pass_costs is costs


def test_sampling_defaults_to_what_the_model_recommends(tmp_path):
    folder = tiny_folder(tmp_path / "m")
    (folder / "generation_config.json").write_text(
        '{"do_sample": true, "temperature": 0.3, "top_k": 5}'
    )
    engine = mlx_engine.load(folder)
    assert (engine.session().sampling.temperature, engine.session().sampling.top_k) == (0.3, 5)
    same = SamplingOptions(temperature=0.3, top_k=5, seed=4)
    first = engine.generate("fox", 8)
    assert (
        engine.generate(
            "fox", 8, SamplingOptions(**{**vars_of(same), "seed": first.stats.seed})
        ).tokens
        == first.tokens
    )


def vars_of(options):
    return {name: getattr(options, name) for name in options.__slots__}


def test_measuring_costs_can_be_left_and_taken_up_again(folder):
    engine = mlx_engine.load(folder)
    asked = []
    assert engine.measure_costs(lambda: len(asked) == 5 or asked.append(1)) is None
    assert engine.generate("fox", 5, PICKS, DraftOptions()).tokens
    assert len(asked) == 5
    assert engine.measure_costs(lambda: False) is engine.pass_costs
