"""Conversations: turns, regenerating, editing, continuing, and the limits of an answer."""

from dataclasses import replace

import pytest
from session_runs import FEW_WORDS, PICKS, alone, listen, session_of, tiny_folder

import mlx_engine
from mlx_engine.values.conversation import Message
from mlx_engine.values.errors import BadOption, BadPrompt, EngineMisuse, PromptTooLong
from mlx_engine.values.options import GenerationOptions, LoadOptions, SamplingOptions


@pytest.fixture(scope="module")
def narrow(folder):
    return mlx_engine.load(folder, options=LoadOptions(context_length=64))


def fresh_answer(engine, history, text, **how):
    """What a new session with this history answers: everything read from the start."""
    session = alone(session_of(engine, **how))
    session.load_messages(history)
    said = listen(session, session.send(text))
    assert said.finished.stats.reused_tokens == 0
    return said


def test_a_turn_on_reused_caches_equals_a_fresh_one(engine):
    session = session_of(engine)
    for text in ("The quick fox", "And the dog?", "你好 😀"):
        history = session.messages
        said = listen(session, session.send(text))
        fresh = fresh_answer(engine, history, text)
        assert (said.text, said.tokens) == (fresh.text, fresh.tokens)
        assert said.finished.stats.prompt_tokens == fresh.finished.stats.prompt_tokens
        assert bool(said.finished.stats.reused_tokens) == bool(history)
        assert session.messages == (
            *history,
            Message("user", text),
            Message("assistant", said.text),
        )
        assert said.shown() == said.text


def test_reuse_reaches_to_the_end_of_the_last_question(engine):
    session = session_of(engine)
    first = listen(session, session.send("one " * 20)).finished.stats
    second = listen(session, session.send("two")).finished.stats
    assert second.reused_tokens >= first.prompt_tokens - 24


def test_regenerate_with_a_seed_says_the_same(engine):
    session = session_of(engine)
    session.system = "You are a fox."
    first = listen(session, session.send("Who?"))
    before = session.messages
    again = listen(session, session.regenerate())
    assert (again.text, again.tokens, session.messages) == (first.text, first.tokens, before)
    assert again.finished.stats.reused_tokens > 0


def test_regenerate_without_a_seed_draws_a_new_one(engine):
    session = session_of(engine, SamplingOptions(temperature=1.0))
    answers = [listen(session, session.send("Who?"))]
    answers += [listen(session, session.regenerate()) for _ in range(3)]
    assert len({said.finished.stats.seed for said in answers}) == 4
    assert len({said.tokens for said in answers}) > 1
    repeat = session_of(
        engine, SamplingOptions(temperature=1.0, seed=answers[2].finished.stats.seed)
    )
    assert listen(repeat, repeat.send("Who?")).tokens == answers[2].tokens


def test_regenerate_answers_a_loaded_question(engine):
    session = session_of(engine)
    session.load_messages([Message("user", "Who?")])
    assert session.messages == (Message("user", "Who?"),)
    said = listen(session, session.regenerate())
    assert said.tokens == fresh_answer(engine, (), "Who?").tokens


def test_a_system_message_that_is_loaded_is_the_system_prompt(engine):
    truth = session_of(engine, system="Rhyme.")
    said = listen(truth, truth.send("Who?"))
    loaded = session_of(engine, system="Another.")
    loaded.load_messages([Message("system", "Rhyme."), Message("user", "Who?")])
    assert (loaded.system, loaded.messages) == ("Rhyme.", (Message("user", "Who?"),))
    assert listen(loaded, loaded.regenerate()).tokens == said.tokens
    with pytest.raises(BadOption, match="system message"):
        loaded.load_messages([Message("user", "Who?"), Message("system", "Rhyme.")])
    assert loaded.messages == truth.messages, "nothing has changed"
    loaded.load_messages([])
    assert (loaded.system, loaded.messages) == ("Rhyme.", ())


@pytest.mark.parametrize("index", [0, 2, 4])
def test_edit_forgets_what_came_after(engine, index):
    session = session_of(engine)
    for text in ("first question", "second one", "the third"):
        listen(session, session.send(text))
    kept = session.messages[:index]
    said = listen(session, session.edit(index, "another"))
    fresh = fresh_answer(engine, kept, "another")
    assert (said.text, said.tokens) == (fresh.text, fresh.tokens)
    assert session.messages == (*kept, Message("user", "another"), Message("assistant", said.text))
    assert bool(said.finished.stats.reused_tokens) == (index > 0)


@pytest.mark.parametrize("index", [-1, 1, 2, 99])
def test_only_questions_can_be_edited(engine, index):
    session = session_of(engine)
    listen(session, session.send("Who?"))
    before = session.messages
    with pytest.raises(EngineMisuse, match="not a question"):
        next(session.edit(index, "x"))
    assert session.messages == before


PENALISED = replace(PICKS, frequency_penalty=1.5, presence_penalty=0.5, repetition_penalty=1.2)


@pytest.mark.parametrize("sampling", [PICKS, SamplingOptions(temperature=1.1, seed=5), PENALISED])
@pytest.mark.parametrize("depth", [0, 4])
def test_a_continued_answer_equals_the_uncut_one(engine, sampling, depth):
    """Also where the cut goes through a character, and with penalties that count the answer."""
    whole = session_of(engine, sampling, depth, max_tokens=24)
    uncut = listen(whole, whole.send("Füchse 😀"))
    for cut in (1, 6, 7, 10):
        session = session_of(engine, sampling, depth, max_tokens=cut)
        first = listen(session, session.send("Füchse 😀"))
        assert (first.reason, len(first.tokens)) == ("max-tokens", cut)
        session.generation = GenerationOptions(max_tokens=24 - cut)
        second = listen(session, session.continue_answer())
        assert second.tokens == uncut.tokens, cut
        assert second.text == uncut.text
        assert session.messages == whole.messages
        assert second.finished.stats.reused_tokens == second.finished.stats.prompt_tokens - 1


def test_a_continued_answer_sees_a_stop_string_across_the_cut(engine):
    text = listen(*started(engine, max_tokens=16)).text
    stop = text[5:9]
    end = text.index(stop)
    tokens = listen(*started(engine, max_tokens=16, stop=(stop,)))
    assert tokens.text == text[:end]
    for cut in range(1, len(tokens.tokens)):
        session, events = started(engine, max_tokens=cut, stop=(stop,))
        listen(session, events)
        session.generation = GenerationOptions(max_tokens=16, stop=(stop,))
        said = listen(session, session.continue_answer())
        assert (said.text, said.reason) == (text[:end], "stop-string")


def started(engine, **how):
    session = session_of(engine, **how)
    return session, session.send("Tell me.")


def test_continuing_twice_and_after_loading(engine):
    whole = listen(*started(engine, max_tokens=15))
    session, events = started(engine, max_tokens=5)
    listen(session, events)
    listen(session, session.continue_answer())
    said = listen(session, session.continue_answer())
    assert (said.text, said.tokens) == (whole.text, whole.tokens)
    loaded = session_of(engine, max_tokens=5)
    loaded.load_messages(session.messages)
    more = listen(loaded, loaded.continue_answer())
    assert more.text.startswith(whole.text)
    again = listen(loaded, loaded.continue_answer())
    assert again.text.startswith(more.text)
    assert loaded.messages[-1].text == again.text


IN_TURNS = (
    "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('roles must alternate') }}{% endif %}<|im_start|>{{ m.role }}\n"
    "{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def test_a_chat_goes_on_after_an_answer_without_words(tmp_path):
    """Also where questions and answers have to alternate: questions in a row are sent as one."""
    strict = mlx_engine.load(tiny_folder(tmp_path / "m", IN_TURNS))
    (end,) = strict.tokenize("<|im_end|>")
    ends = replace(PICKS, logit_bias={end: 1000.0})
    session = alone(session_of(strict, ends, max_tokens=6))
    assert listen(session, session.send("one fox")).text == ""
    session.sampling = PICKS
    events = session.send("two")
    session.stop()
    assert listen(session, events).reason == "stopped"
    said = listen(session, session.send("three"))
    asked = [Message("user", text) for text in ("one fox", "two", "three")]
    assert session.messages == (*asked, Message("assistant", said.text))
    joined = fresh_answer(strict, (), "one fox\n\ntwo\n\nthree", max_tokens=6)
    assert said.tokens == joined.tokens
    empty = Message("assistant", "")
    saved = [asked[0], empty, asked[1], empty]
    assert fresh_answer(strict, saved, "three", max_tokens=6).tokens == said.tokens
    loaded = alone(session_of(strict, max_tokens=6))
    loaded.load_messages([*saved[:3], asked[2], empty])
    assert listen(loaded, loaded.continue_answer()).tokens == said.tokens
    loaded.load_messages([Message("assistant", "Yes?"), asked[0]])
    assert listen(loaded, loaded.regenerate()).tokens
    again = listen(loaded, loaded.edit(1, "another"))
    assert loaded.messages[-1].text == again.text


def test_nothing_to_continue(engine):
    session = session_of(engine)
    with pytest.raises(EngineMisuse, match="no answer"):
        next(session.continue_answer())
    with pytest.raises(EngineMisuse, match="no question"):
        next(session.regenerate())


def test_a_new_system_prompt_counts_from_the_next_message(engine):
    session = session_of(engine)
    listen(session, session.send("one"))
    history = session.messages
    session.system = "Be brief, fox."
    said = listen(session, session.send("two"))
    other = session_of(engine, system="Be brief, fox.")
    other.load_messages(history)
    fresh = listen(other, other.send("two"))
    assert said.tokens == fresh.tokens
    assert said.tokens != fresh_answer(engine, history, "two").tokens


@pytest.mark.parametrize("text", ["", " ", "\n\t ", " "])
def test_empty_messages_are_refused(engine, text):
    session = session_of(engine)
    listen(session, session.send("Who?"))
    before = session.messages
    for refused in (session.send(text), session.edit(0, text)):
        with pytest.raises(BadPrompt, match="empty"):
            next(refused)
    assert session.messages == before


def test_lone_surrogates_are_refused(engine):
    session = session_of(engine)
    for attempt in ("a\ud800b", "\udfff"):
        with pytest.raises(BadPrompt, match="Unicode"):
            next(session.send(attempt))
    assert session.messages == ()
    session.system = "\ud800"
    with pytest.raises(BadPrompt, match="Unicode"):
        next(session.send("fine"))
    session.system = None
    assert listen(session, session.send("fine")).tokens


@pytest.mark.parametrize("text", ["fox " * 25_000, "a" * 100_000, "<|im_end|>" * 10_000])
def test_a_message_of_100_000_characters(engine, text):
    session = session_of(engine)
    words = r"has \d{1,3}(,\d{3})+ tokens, the context holds 512.*[Ss]horten"
    with pytest.raises(PromptTooLong, match=words):
        next(session.send(text))
    assert session.messages == ()


def test_a_long_prompt_is_refused_and_nothing_changes(narrow):
    session = session_of(narrow)
    listen(session, session.send("hi"))
    before = session.messages
    for refused in (session.send("dog " * 60), session.edit(0, "dog " * 60)):
        with pytest.raises(PromptTooLong, match="64"):
            next(refused)
        assert session.messages == before
    assert listen(session, session.regenerate()).tokens


@pytest.mark.parametrize("depth", [0, 1, 3, 8])
def test_an_answer_fills_the_context_exactly(narrow, depth):
    session = session_of(narrow, depth=depth, max_tokens=None)
    session.generation = GenerationOptions(ignore_eos=True)
    said = listen(session, session.send("go on"))
    assert said.reason == "context-full"
    assert said.finished.stats.prompt_tokens + len(said.tokens) == 64
    with pytest.raises(PromptTooLong):
        next(session.continue_answer())
    assert session.messages[-1].text == said.text


@pytest.mark.parametrize("depth", [0, 1, 8])
def test_one_token(engine, depth):
    session = session_of(engine, depth=depth, max_tokens=1)
    said = listen(session, session.send("hi"))
    assert (len(said.tokens), said.reason, said.finished.stats.drafted) == (1, "max-tokens", 0)


@pytest.mark.parametrize("depth", [0, 2, 8])
def test_end_tokens_end_unless_ignored(engine, folder, depth):
    end = min(end_ids(engine))
    often = replace(PICKS, logit_bias={**FEW_WORDS, end: 5.5})
    session = session_of(engine, often, depth, max_tokens=40)
    said = listen(session, session.send("hi"))
    assert said.reason == "end"
    assert end not in said.tokens
    session.generation = GenerationOptions(max_tokens=40, ignore_eos=True)
    longer = listen(session, session.regenerate())
    assert longer.reason == "max-tokens"
    assert longer.tokens[: len(said.tokens) + 1] == (*said.tokens, end)
    assert "im_end" not in longer.text


def end_ids(engine):
    return set(engine.tokenize("<|im_end|>"))


def test_a_bias_to_no_token_is_refused_before_anything_changes(engine):
    session = session_of(engine)
    listen(session, session.send("hi"))
    before = session.messages
    session.sampling = SamplingOptions(logit_bias={300: 1.0})
    with pytest.raises(BadOption, match="300"):
        next(session.send("two"))
    assert session.messages == before
    session.sampling = PICKS
    assert listen(session, session.send("two")).tokens


@pytest.mark.parametrize("length", [*range(27, 36), 63, 64, 65, 66])
def test_prompts_around_chunk_borders(engine, length):
    """Chunks have 32 tokens here; every prompt length near a multiple of it."""
    prompt = [(7 * n + 3) % 256 for n in range(length)]
    plain = engine.generate(prompt, 6, PICKS, mlx_engine.DraftOptions(source="none"))
    drafted = engine.generate(prompt, 6, PICKS, mlx_engine.DraftOptions(depth=4))
    assert plain.tokens == drafted.tokens
    assert plain.stats.prompt_tokens == length
    logits = engine.logits([*prompt, *plain.tokens])
    greedy = engine.generate(prompt, 6, replace(PICKS, temperature=0, logit_bias={}))
    assert greedy.tokens[0] == logits[length - 1].argmax()


def test_where_the_context_is_full_the_oldest_turns_can_be_dropped(folder):
    """The rest of the conversation is answered as if it had been all; nothing leaves the record."""
    engine = mlx_engine.load(folder, options=LoadOptions(context_length=180))
    session = session_of(engine, max_tokens=20)
    for text in ("One fox", "Two foxes", "Three foxes"):
        listen(session, session.send(text))
    session.generation = GenerationOptions(ignore_eos=True)
    cut = listen(session, session.send("And so on?"))
    assert cut.reason == "context-full"
    before = session.messages
    assert session.drop_oldest() == session.unread >= 2
    assert session.messages == before
    assert before[session.unread].role == "user"
    session.generation = GenerationOptions(max_tokens=9)
    later = alone(session_of(engine, max_tokens=9))
    later.load_messages(before[session.unread :])
    said = [listen(one, one.continue_answer()) for one in (session, later)]
    assert said[0].text == said[1].text
    assert said[0].text.startswith(cut.text)
    assert said[0].finished.stats.prompt_tokens < 180
    assert session.messages == (*before[:-1], Message("assistant", said[0].text))
    listen(session, session.edit(session.unread, "Other foxes"))
    assert session.unread > 0
    whole = listen(session, session.edit(0, "No fox"))
    assert (session.unread, whole.finished.stats.prompt_tokens < 30) == (0, True)
    with pytest.raises(EngineMisuse, match="no older turn"):
        session.drop_oldest()


def test_a_question_too_long_for_what_is_left_can_be_asked_when_turns_are_dropped(narrow):
    session = session_of(narrow, max_tokens=10)
    with pytest.raises(PromptTooLong, match="oldest turns"):
        for number in range(9):
            listen(session, session.send(f"{number} foxes"))
    asked = len(session.messages)
    session.drop_oldest()
    assert listen(session, session.send("9 foxes")).tokens
    assert len(session.messages) == asked + 2
