"""Models: loaded at the start, dropped, refused, used with other heads, compared, remembered."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from model_states import StatedModels
from PIL import Image
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QAbstractButton, QFileDialog, QPlainTextEdit
from scripted_engine import Answer
from scripted_models import MISFIT, Doubting, ScriptedModels, WorkerEngine, described
from seen import button, find, press, words_on
from windows import Driven, close, folders_in, running, scripted

from app.app import App
from app.state.models import model_name
from app.state.settings import save_settings
from app.values.app_settings import BUILT_IN, AppSettings, ModelSettings
from app.values.chat_settings import ChatSettings
from app.window.controls.labels import ShortLabel
from app.window.pictures import Thumbnail
from app.window.transcript.user_bubble import UserBubble
from app.worker.replies import DraftOutputInUse, ModelChanged, ModelLoaded
from app.worker.requests import LoadModel
from mlx_engine.values.errors import BadModelFile, Reason
from mlx_engine.values.options import CacheOptions, LoadOptions


@pytest.fixture
def source(model):
    made = scripted()
    made.engines[str(model)] = WorkerEngine(description=described("Small-4bit", 10**9))
    return made


def test_the_built_in_model_is_loaded_first_and_the_last_one_after(
    qapp, qtbot, tmp_path, source, model
):
    with running(qapp, qtbot, tmp_path, source) as first:
        assert first.app.settings.value.recent_models == (BUILT_IN,)
        first.app.models.load(str(model))
        first.until(lambda: first.app.models.model_name == "Small-4bit")
        path = first.app.settings.value.recent_models[0]
    source.engines[path] = source.engines[str(model)]
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).touch()
    with running(qapp, qtbot, tmp_path, source) as again:
        assert again.app.models.model_name == "Small-4bit"
    Path(path).unlink()
    with running(qapp, qtbot, tmp_path, source) as without:
        assert without.app.models.model_name == "Pocket model"
        assert "no longer there" in without.widgets.notice.words()


def test_a_start_loads_once_as_is_remembered_of_the_model(qapp, qtbot, tmp_path, source):
    fast = LoadOptions(numerics="fast")
    models = {BUILT_IN: ModelSettings(fast, cache=CacheOptions(8))}
    save_settings(folders_in(tmp_path).settings_file, AppSettings(models=models))
    with running(qapp, qtbot, tmp_path, source) as driven:
        driven.ask("Hello")
        assert source.loaded == ["None"]
        assert driven.app.models.in_use == LoadModel(None, fast, CacheOptions(8))


def test_load_options_of_an_older_version_are_taken_over_once(qapp, qtbot, tmp_path, source, model):
    """It kept them with chats, which go before, and as the default of new chats."""
    file = folders_in(tmp_path).settings_file
    save_settings(file, AppSettings(recent_models=(BUILT_IN, str(model), "/gone")))
    old = json.loads(file.read_text())
    old["new_chat"] |= {"load": {"numerics": "fast"}, "cache": {"bits": None, "head_bits": 4}}
    old["models"] = {"/gone": {"keep": True, "cache": {"bits": None, "head_bits": None}}}
    file.write_text(json.dumps(old))
    with running(qapp, qtbot, tmp_path, source) as driven:
        assert driven.app.settings.notes == ()
        default = ModelSettings(LoadOptions(numerics="fast"), cache=CacheOptions(16, 4))
        known = {BUILT_IN: default, str(model): default, "/gone": ModelSettings(keep=True)}
        assert driven.app.settings.value.models == known
        chat = driven.app.store.chats.create(ChatSettings(model_path="/mine"))
        small = {"draft_model": "org/small", "draft_misfit": "plain"}
        content = json.dumps({"model_path": "/mine", "load": small, "cache": {"bits": None}})
        driven.app.store.database.write("UPDATE chat SET settings = ? WHERE id = ?", content, chat)
    with running(qapp, qtbot, tmp_path, source) as driven:
        small = ModelSettings(LoadOptions(draft_model="org/small", draft_misfit="plain"))
        assert driven.app.settings.value.models == known | {"/mine": small}
        assert driven.app.store.chats.take_load_options() == {}
        driven.app.settings.change(replace(driven.app.settings.value, models={}))
    with running(qapp, qtbot, tmp_path, source) as driven:
        assert driven.app.settings.value.models == {}, "once"


def test_a_start_with_a_model_loads_that_one_alone(qapp, qtbot, tmp_path, source, model):
    app = App(qapp, folders_in(tmp_path / "home"), source)
    try:
        app.start([str(model)])
        Driven(app, qtbot).until(lambda: app.models.model_name == "Small-4bit")
        assert source.loaded == [str(model)]
    finally:
        close(app)


def test_a_start_with_a_text_loads_the_last_model_too(qapp, qtbot, tmp_path, source):
    note = tmp_path / "note.txt"
    note.write_text("words")
    app = App(qapp, folders_in(tmp_path / "home"), source)
    try:
        app.start([str(note)])
        Driven(app, qtbot).until(lambda: app.models.model_name == "Pocket model")
        assert [text.name for text in app.widgets.composer.attachments()] == ["note.txt"]
    finally:
        close(app)


def test_loads_in_quick_succession_end_with_the_last(driven, source, model, tmp_path):
    names = [str(tmp_path / name) for name in ("one", "two")]
    for name in names:
        source.engines[name] = WorkerEngine(description=described(name, 10**9))
    source.pause_s = 0.05
    models = driven.app.models
    for name in names:
        models.load(name)
    wanted = LoadModel(str(model), LoadOptions(heads=Path("/heads")))
    models.load(wanted.path, own=ModelSettings(wanted.options))
    driven.until(lambda: models.model_name == "Small-4bit")
    assert models.loading is None
    assert models.in_use == wanted


def test_a_draft_model_that_is_fetched_shows_how_much_of_it_is_here(driven, source, model):
    source.fetched_bytes, source.pause_s = 2 * 10**9, 0.05
    driven.app.models.load(str(model))
    seen: set[str] = set()

    def says_so() -> bool:
        labels = driven.widgets.head.findChildren(ShortLabel)
        seen.update(label.accessibleName() for label in labels)
        return any(text.startswith("Downloading · ") for text in seen)

    driven.until(says_so)
    assert any(text.startswith("Loading · ") for text in seen)
    find(driven.widgets.head, QAbstractButton, "Cancel loading").click()
    driven.until(lambda: driven.app.models.loading is None)
    assert driven.app.models.model_name == "Pocket model"


def test_a_load_can_be_cancelled(driven, source, model):
    source.pause_s = 0.2
    driven.app.drops.take([str(model)])
    driven.until(driven.widgets.layer.isVisible)
    driven.app.offered.load()
    press(driven.widgets.head, "Cancel loading")
    driven.until(lambda: driven.app.models.loading is None)
    assert driven.app.models.model_name == "Pocket model"
    assert str(model) not in source.loaded


def test_a_load_that_was_given_up_can_be_begun_again_at_once(driven, source, model):
    source.pause_s = 0.05
    models = driven.app.models
    models.load(str(model))
    models.cancel()
    models.load(str(model))
    driven.until(lambda: models.loading is None)
    assert models.model_name == "Small-4bit"


def test_a_model_is_loaded_once_however_often_it_is_asked_for(driven, source, model):
    models, before = driven.app.models, len(source.loaded)
    source.pause_s = 0.05
    for _ in range(3):
        models.load(str(model))
    driven.until(lambda: models.loading is None)
    models.load(str(model))
    assert models.loading is None and source.loaded[before:] == [str(model)]


def label_texts(driven: Driven) -> list[str]:
    return words_on(driven.widgets.composer)


def test_a_load_that_waits_for_an_answer_says_so_and_can_be_given_up(driven, source, model):
    card, head = driven.widgets.card, driven.widgets.head
    source.engines["None"].answers = [Answer("word " * 4000, pause_s=0.01)]
    driven.send("Tell me")
    driven.app.offered.offer(str(model))
    driven.until(lambda: driven.widgets.layer.isVisible() and button(card, "Load").isEnabled())
    press(card, "Load")
    waits = "Waiting for the current answer to finish"
    assert driven.widgets.layer.isHidden(), "the answer can be stopped"
    assert waits in words_on(head)
    press(head, "Cancel loading")
    driven.until(lambda: driven.app.models.loading is None)
    assert waits not in words_on(head)
    assert driven.app.chat.running is not None
    driven.app.chat.stop()
    driven.until_answered()


def test_texts_are_attached_and_sent_with_the_message(driven, tmp_path):
    note = tmp_path / "note.py"
    note.write_text("print('hello')\n")
    driven.app.drops.take([str(note)])
    driven.until(lambda: bool(driven.widgets.composer.attachments()))
    assert [a.name for a in driven.widgets.composer.attachments()] == ["note.py"]
    driven.until(lambda: any("5 tok" in text for text in label_texts(driven)))
    driven.send("What does it print?")
    driven.until_answered()
    assert (
        driven.shown[0]
        == "What does it print?\n\nAttachment note.py:\n\n```py\nprint('hello')\n```"
    )
    assert driven.app.chat.title == "What does it print?"
    assert driven.widgets.composer.attachments() == ()
    bubble = driven.widgets.transcript.column.views[0].findChild(UserBubble)
    assert bubble.prose.text() == "What does it print?"


def test_pictures_are_sent_shown_and_kept_with_the_message(driven, source, tmp_path):
    for name, side in (("a.png", 30), ("b.webp", 40)):
        Image.new("RGB", (side, 20), "red").save(tmp_path / name)
    (tmp_path / "torn.jpg").write_bytes(b"\xff\xd8\xff\xe0 torn")
    driven.app.drops.take([str(tmp_path / name) for name in ("a.png", "torn.jpg", "b.webp")])
    composer, chat = driven.widgets.composer, driven.app.chat
    driven.until(lambda: len(composer.pictures()) == 2)
    assert any("torn.jpg: the picture is damaged" in words for words in label_texts(driven))
    driven.send("What is it?")
    assert any("sees no pictures" in words for words in label_texts(driven))
    assert len(composer.pictures()) == 2 and composer.text() == "What is it?"
    models = driven.app.models
    models.description = replace(models.description, vision=None)
    driven.send("")
    driven.until_answered()
    assert composer.pictures() == ()
    bubble = driven.widgets.transcript.column.views[0].findChild(UserBubble)
    shown = [one.accessibleDescription() for one in bubble.findChildren(Thumbnail)]
    assert shown == ["30 × 20 pixels", "40 × 20 pixels"]
    chat.open(chat.chat_id)
    driven.send("And now?")
    driven.until_answered()
    asked = source.engines["None"].sessions[-1].messages
    assert [image.width for image in asked[0].images] == [30, 40] and not asked[2].images


def test_an_attachment_longer_than_the_context_is_red_before_it_is_sent(driven, tmp_path):
    long = tmp_path / "long.txt"
    long.write_text("word " * 300_000)
    driven.app.drops.take([str(long)])
    driven.until(lambda: any("longer than this model" in text for text in label_texts(driven)))
    driven.send("What does it say?")
    assert driven.app.chat.running is None
    assert driven.widgets.composer.text() == "What does it say?"


def test_other_load_options_are_one_click_from_the_panel(driven, source):
    press(driven.widgets.session, "Load Options…")
    driven.until(driven.widgets.card.load_fields.isVisible)
    driven.widgets.card.load_fields.open(True)
    press(driven.widgets.card, "Precision: Fast")
    press(driven.widgets.card, "Load")
    fast = LoadModel(None, LoadOptions(numerics="fast"))
    driven.until(lambda: driven.app.models.in_use == fast)
    assert source.loaded == ["None", "None"]


def test_comparing_runs_both_ways_and_keeps_nothing(driven, source):
    source.engines["None"].answers.extend([Answer("Same words here"), Answer("Same words here")])
    driven.app.actions["compare"].trigger()
    assert driven.widgets.window.page == "compare"
    driven.app.compare.run("Why?")
    driven.until(lambda: not driven.app.compare.is_running)
    on, off = source.engines["None"].sessions[-2:]
    assert on.draft.source == "mtp"
    assert off.draft.source == "none"
    assert on.sampling.seed == off.sampling.seed is not None
    assert driven.app.store.chats.listed() == ()
    assert driven.ask("And the chat?") == "You said: And the chat?"


def test_compare_begins_with_the_question_of_the_chat_on_show(driven, qtbot):
    actions, compare = driven.app.actions, driven.widgets.compare
    box = compare.focusProxy()
    assert isinstance(box, QPlainTextEdit)
    driven.ask("Why?")
    actions["compare"].trigger()
    assert (box.toPlainText(), box.textCursor().position()) == ("Why?", 4)
    box.setPlainText("Why indeed?")
    qtbot.keyClick(box, Qt.Key.Key_Escape)
    assert driven.widgets.window.page == "chat"
    actions["compare"].trigger()
    assert box.toPlainText() == "Why indeed?", "what was typed there stays"
    driven.app.chats.begin()
    actions["compare"].trigger()
    assert box.toPlainText() == "", "a new chat has asked nothing"


def test_a_card_of_a_failed_load_offers_another_model(driven, source, model, monkeypatch):
    asked: list[str] = []
    monkeypatch.setattr(
        QFileDialog, "getOpenFileNames", lambda *_: (asked.append("asked"), ([], ""))[1]
    )
    source.broken[str(model)] = BadModelFile("model.safetensors: ends too early.")
    driven.app.models.load(str(model))
    driven.until(lambda: "model.safetensors: ends too early." in words_on(driven.widgets.card))
    driven.until(lambda: driven.app.offered.phase != "reading")
    press(driven.widgets.card, "Choose another…")
    assert asked == ["asked"]


def test_costs_are_measured_for_the_drafting_view(driven):
    driven.widgets.window.show_panel("drafting")
    driven.until(lambda: bool(driven.app.figures.costs))
    assert driven.app.figures.costs == (10.0, 11.0, 12.5)


def test_heads_that_turn_out_not_to_fit_are_said_everywhere(qapp, qtbot, tmp_path):
    doubting = Doubting([], described("pocket_model", 7_000_000))
    with running(qapp, qtbot, tmp_path, ScriptedModels({"None": doubting})) as driven:
        panel, notice = driven.widgets.session, driven.widgets.notice
        driven.widgets.window.show_panel("drafting")
        driven.ask("Why?")
        assert notice.words() == MISFIT.words
        assert MISFIT.words in words_on(driven.widgets.drafting)
        assert "With drafting (1 drafting head, seemingly of another model)" in words_on(panel)
        assert driven.app.models.model_name == "Pocket model"
        notice.hide()
        driven.ask("And?")
        assert notice.words() == "", "it is said once"


def test_the_output_head_in_use_is_said(driven, source):
    driven.ask("Why?")
    driven.app.route(DraftOutputInUse(str(driven.app.chat.chat_id), "4-bit"))
    assert "In effect: all tokens, less exact." in words_on(driven.widgets.session)
    driven.app.chats.begin()
    assert "In effect: all tokens, less exact." not in words_on(driven.widgets.session)


def test_prompts_of_an_earlier_version_are_read_again_without_a_word(qtbot):
    models, heard = StatedModels().models, []
    models.noticed.connect(heard.append)
    description = described("Small", 10**6)
    models.take(ModelLoaded(None, description))
    other = Reason("prompt-file-other", "It was computed differently.")
    models.take(ModelChanged(replace(description, declined=(other,))))
    assert not heard
    models.take(ModelChanged(replace(description, declined=(other, MISFIT))))
    assert heard == [MISFIT.words]


def test_a_model_has_its_name_before_it_was_looked_at():
    assert model_name("/hub/models--org--small/snapshots/c0ffee") == "org/small"
    assert model_name("/models/Qwen/mlx") == "Qwen"
    assert model_name("/models/qwen-Q4_K_M.gguf") == "qwen-Q4_K_M"
    assert model_name(None) == "Pocket model"
