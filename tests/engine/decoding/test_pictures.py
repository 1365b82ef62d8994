"""Chats with pictures: same words with drafts, nothing read twice, clear errors before a change."""

import gc
from dataclasses import replace
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
from session_runs import listen, tiny_folder
from tiny_dflash import TinyDFlash, write_tiny_dflash
from tiny_eagle3 import TinyEagle, write_tiny_eagle
from tiny_gemma4 import draw_assistant
from tiny_gemma_vision import write_gemma
from tiny_vision import PLACEHOLDER, picture, reference_logits, write_tiny_vision

from mlx_engine import inspect
from mlx_engine.decoding.prompt import EMPTY_ANSWER, ChatPrompts
from mlx_engine.engine import Engine, open_engine
from mlx_engine.values.conversation import TURN_ENDS, GenerationFinished, Message, PromptProgress
from mlx_engine.values.errors import BadChatTemplate, BadPicture, PromptTooLong
from mlx_engine.values.options import (
    DraftOptions,
    GenerationOptions,
    LoadOptions,
    SamplingOptions,
)
from mlx_engine.values.picture import read_picture

FIRST, SECOND, OTHER = (read_picture(picture(seed, 40, 24)) for seed in range(3))
LARGE = read_picture(picture(3, 48, 48))
FEW = dict.fromkeys((75, 78, 110, 220, 257, 263, 270, 281), 6.0)
DRAWN = SamplingOptions(temperature=0.8, seed=3, logit_bias=FEW)
LONG = GenerationOptions(max_tokens=10, ignore_eos=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_vision(tmp_path_factory.mktemp("seeing") / "m")


@pytest.fixture(scope="module")
def engine(folder: Path):
    with open_engine(folder, LoadOptions()) as opened:
        yield opened


def tokens_of(engine: Engine, draft: DraftOptions, **settings: object) -> tuple[int, ...]:
    """Two turns with pictures, then a third without."""
    engine.forget_conversations()
    session = engine.session(sampling=DRAWN, draft=draft, generation=LONG, **settings)
    said = listen(session, session.send("Hello fox", images=[FIRST, SECOND])).tokens
    said += listen(session, session.send("and this?", images=[picture(9, 20, 50)])).tokens
    drafted = session.stats.drafted
    said += listen(session, session.send("dog?")).tokens
    assert drafted if draft.source != "none" else not drafted
    return said


def test_same_words_with_every_draft(engine: Engine) -> None:
    wanted = tokens_of(engine, DraftOptions(source="none"))
    for draft in (DraftOptions(depth=4), DraftOptions(depth=3, source="prompt-lookup+mtp")):
        assert tokens_of(engine, draft) == wanted


def test_same_words_with_draft_models(engine: Engine, folder: Path, tmp_path: Path) -> None:
    """Those that read the target's inner states see pictures by them, a small model sees none."""
    wanted = tokens_of(engine, DraftOptions(source="none"))
    made = {
        "eagle": write_tiny_eagle(tmp_path / "eagle", TinyEagle(64, 300)),
        "dflash": write_tiny_dflash(tmp_path / "dflash", TinyDFlash(64, 300)),
        "small": folder,
    }
    for name, place in made.items():
        with open_engine(folder, LoadOptions(draft_model=place)) as other:
            assert tokens_of(other, DraftOptions(depth=2, source="model")) == wanted, name


def test_same_words_of_gemmas(tmp_path: Path) -> None:
    """With an assistant and with a small model, and in whatever chunks the prompt is read."""
    target = write_gemma(tmp_path / "gemma4", "gemma4")
    draw_assistant(32, ordered=True).save_pretrained(tmp_path / "assistant")
    small = write_gemma(tmp_path / "gemma3", "gemma3")
    for place, drafter in ((target, tmp_path / "assistant"), (small, small)):
        with open_engine(place, LoadOptions(draft_model=drafter)) as engine:
            wanted = tokens_of(engine, DraftOptions(source="none"))
            engine._parts = replace(engine.parts, chunk=13)
            assert tokens_of(engine, DraftOptions(depth=2, source="model")) == wanted, place


def test_gemmas_read_a_picture_once(tmp_path: Path) -> None:
    """Rows of a picture see all of it, so none is read without the others."""
    folder = write_gemma(tmp_path / "m", "gemma3")
    options = LoadOptions(prompt_files=tmp_path / "files")
    limits = GenerationOptions(max_tokens=3, ignore_eos=True)
    with open_engine(folder, options) as engine:
        engine._parts = replace(engine.parts, chunk=16)
        session = engine.session(generation=limits, name="chat")
        list(session.send("Hello there, how are you today?", images=[FIRST, SECOND]))
        read = len(session._sequence.tokens)
        list(session.send("and this?"))
        assert session.stats.reused_tokens > read - 12
        other = engine.session(generation=limits)
        list(other.send("Hello there, how are you today?", images=[FIRST, OTHER]))
        assert engine.parts.pictures.encoded == 3
        assert other.stats.reused_tokens < read / 2
        messages = session.messages
        engine.parts.prompts.save_prompts()
    with open_engine(folder, options) as engine:
        session = engine.session(generation=limits, name="chat")
        session.load_messages(messages)
        list(session.send("once more"))
        assert engine.parts.pictures.encoded == 0
        assert session.stats.reused_tokens > read - 12


def test_decoded_rows_equal_transformers(engine: Engine, folder: Path) -> None:
    options = GenerationOptions(max_tokens=12, ignore_eos=True, logprobs=1)
    session = engine.session(generation=options, draft=DraftOptions(depth=2), sampling=DRAWN)
    finished = listen(session, session.send("Hello fox", images=[FIRST, SECOND])).finished
    prompt = ChatPrompts(engine.parts, session._settings).make_prompt(
        session.messages[:1], EMPTY_ANSWER
    )
    rows = reference_logits(
        folder, [*prompt.ids_with_placeholders, *session.tokens], [FIRST, SECOND]
    )
    rows = rows[len(prompt.ids) - 1 :]
    scores = rows - np.log(np.exp(rows).sum(axis=-1, keepdims=True))
    wanted = [scores[n, token] for n, token in enumerate(session.tokens)]
    assert np.abs(np.array([found.logprob for found in finished.logprobs]) - wanted).max() < 2e-4


def test_chats_with_and_without_pictures_share_passes(engine: Engine) -> None:
    asked = (("Hello", [FIRST]), ("Hello", []), ("The dog", [OTHER, SECOND]))

    def new() -> list:
        engine.forget_conversations()
        draft = DraftOptions(depth=2)
        return [engine.session(sampling=DRAWN, draft=draft, generation=LONG) for _ in asked]

    wanted = []
    for session, (text, images) in zip(new(), asked, strict=True):
        wanted.append(listen(session, session.send(text, images=images)).tokens)
    sessions, shared = new(), engine.parts.batch.shared
    running = [
        s.send(text, images=images) for s, (text, images) in zip(sessions, asked, strict=True)
    ]
    while running:
        running = [each for each in running if any(isinstance(e, TURN_ENDS) for e in each)]
    assert [session.tokens for session in sessions] == wanted
    assert engine.parts.batch.shared > shared


def test_a_picture_is_encoded_and_read_once(folder: Path, tmp_path: Path) -> None:
    options = LoadOptions(prompt_files=tmp_path / "files")
    limits = GenerationOptions(max_tokens=3)
    with open_engine(folder, options) as engine:
        encoder = engine.parts.pictures
        session = engine.session(generation=limits, name="chat")
        list(session.send("Hello there, how are you today?", images=[FIRST, SECOND]))
        assert encoder.encoded == 2
        list(session.send("and this?"))
        assert session.stats.reused_tokens > 2 * 15
        list(session.regenerate())
        other = engine.session(generation=limits)
        list(other.send("Hello there, how are you today?", images=[FIRST, SECOND]))
        assert encoder.encoded == 2
        assert other.stats.reused_tokens > 2 * 15
        third = engine.session(generation=limits)
        list(third.send("Hello there, how are you today?", images=[FIRST, OTHER]))
        assert encoder.encoded == 3  # of the same size, but another picture
        assert third.stats.reused_tokens < 2 * 15
        messages = session.messages
        engine.parts.prompts.save_prompts()
    with open_engine(folder, options) as engine:
        session = engine.session(generation=limits, name="chat")
        session.load_messages(messages)
        list(session.send("once more"))
        assert engine.parts.pictures.encoded == 0
        assert session.stats.reused_tokens > 2 * 15


def test_memory_for_pictures(folder: Path) -> None:
    """The tower is read with the first picture, and takes what headers tell."""
    told = inspect(folder).with_machine(has_metal=False).pictures
    plan = inspect(folder).memory_plan(100)
    assert told is not None
    assert plan.pictures > told.tower // 2
    with open_engine(folder, LoadOptions()) as engine:
        encoder, session = engine.parts.pictures, engine.session(generation=LONG)
        assert engine.description.pictures == told
        list(session.send("Hello there"))
        gc.collect()
        mx.clear_cache()
        before = mx.get_active_memory()
        *_, last = encoder.encode(FIRST)
        assert last.embeddings is not None
        grown = mx.get_active_memory() - before - last.embeddings.nbytes
        assert abs(grown - told.tower) < told.tower // 10
        mx.reset_peak_memory()
        list(encoder.encode(LARGE))
        peak = mx.get_peak_memory() - mx.get_active_memory()
        assert told.most_tokens == engine.picture_tokens(LARGE)
        assert peak / 2 < told.work_bytes(told.most_tokens) < 3 * peak
        assert engine.conversations_nbytes > encoder.nbytes > last.embeddings.nbytes

        encoder.memory = encoder.memory._replace(kept_bytes=last.embeddings.nbytes)
        list(encoder.encode(SECOND))
        assert encoder.nbytes == last.embeddings.nbytes
        held = session.nbytes
        encoder.memory = encoder.memory._replace(most_bytes=1)
        list(encoder.encode(OTHER))  # lets go of conversations at rest
        assert session.nbytes < held
        engine.forget_conversations()
        assert not encoder.nbytes


def test_a_picture_too_large_for_the_memory_is_refused(engine: Engine) -> None:
    encoder, session = engine.parts.pictures, engine.session(generation=LONG)
    before, memory = encoder.encoded, encoder.memory
    assert memory.sizes is not None
    small = memory.sizes.tower + memory.sizes.work_bytes(15)
    encoder.memory = memory._replace(most_bytes=memory.model_bytes + small)
    try:
        with pytest.raises(BadPicture, match=r"48 x 48 pixels takes .* smaller"):
            next(session.send("Hello", images=[FIRST, LARGE]))
        assert session.messages == ()
        assert encoder.encoded == before
        list(session.send("Hello", images=[FIRST]))
    finally:
        encoder.memory = memory


def test_after_a_picture_is_edited_away(engine: Engine) -> None:
    engine.forget_conversations()
    limits = GenerationOptions(max_tokens=10, ignore_eos=True, logprobs=0)
    settings = {"sampling": DRAWN, "generation": limits, "system": "The quick brown fox. " * 9}
    session = engine.session(**settings)
    list(session.send("Hello", images=[FIRST]))
    session.load_messages([Message("system", settings["system"])])
    said = listen(session, session.send("Hello")).finished
    assert session.stats.reused_tokens
    engine.forget_conversations()
    fresh = engine.session(**settings)
    wanted = listen(fresh, fresh.send("Hello")).finished
    assert wanted.tokens == said.tokens
    scores = zip(said.logprobs, wanted.logprobs, strict=True)
    assert max(abs(found.logprob - score.logprob) for found, score in scores) < 1e-4
    list(fresh.send("Hello", images=[FIRST]))
    list(fresh.edit(2, "another"))
    assert fresh.messages[2].images == (FIRST,)
    list(fresh.continue_answer())


def test_stopped_while_encoding(engine: Engine) -> None:
    engine.forget_conversations()
    session, encoder = engine.session(generation=LONG), engine.parts.pictures
    before, layers = encoder.encoded, encoder.require_tower().steps
    events = session.send("Hello", images=[FIRST, SECOND])
    assert next(events) == PromptProgress(0, 54)
    for step in (*range(1 + layers), layers, 1 + layers):
        assert isinstance(told := next(events), PromptProgress)
        assert (told.pictures, told.encoded) == (2, pytest.approx(step / layers))
    session.stop()
    assert isinstance(last := list(events)[-1], GenerationFinished)
    assert last.reason == "stopped"
    assert encoder.encoded == before + 1
    told = listen(session, session.continue_answer()).progress
    assert [step.encoded for step in told if step.pictures] == [
        pytest.approx(1 + step / layers) for step in range(1 + layers)
    ]
    assert {step.pictures for step in told} == {0, 2}


def test_what_cannot_be_asked_changes_nothing(engine: Engine, tmp_path: Path) -> None:
    session = engine.session(generation=LONG)
    list(session.send("Hello"))
    before = session.messages
    for images, error, words in (
        ([FIRST, b"none"], BadPicture, r"images\[1\]"),
        ("photo.png", BadPicture, "list"),
        ([tmp_path / "none.png"], BadPicture, "none.png"),
        ([FIRST] * 50, PromptTooLong, "tokens"),
    ):
        with pytest.raises(error, match=words):
            next(session.send("and?", images=images))
        assert session.messages == before
    (tmp_path / "m").mkdir()
    with open_engine(tiny_folder(tmp_path / "m"), LoadOptions()) as blind:
        assert blind.description.vision is not None
        with pytest.raises(BadPicture, match="text alone"):
            next(blind.session().send("and?", images=[FIRST]))
        session = blind.session()
        session.load_messages([Message("user", "Hello", images=(FIRST,))])
        with pytest.raises(BadPicture, match="text alone"):
            next(session.regenerate())


def test_a_placeholder_in_the_text_is_text(engine: Engine) -> None:
    asked = [Message("user", "what is <|image_pad|>?", images=(FIRST,))]
    prompt = ChatPrompts(engine.parts, engine.session()._settings).make_prompt(asked, EMPTY_ANSWER)
    assert prompt.ids_with_placeholders.count(PLACEHOLDER) == 15
    assert max(prompt.ids) < PLACEHOLDER


def test_a_template_without_place(tmp_path: Path) -> None:
    folder = write_tiny_vision(tmp_path / "m")
    (folder / "chat_template.jinja").write_text("{% for m in messages %}{{ m.role }}{% endfor %}")
    with (
        open_engine(folder, LoadOptions()) as engine,
        pytest.raises(BadChatTemplate, match="no place for pictures"),
    ):
        next(engine.session().send("and?", images=[FIRST]))
