"""The account of the hub: signed in to where a model needs it, kept where its library looks."""

from pathlib import Path

import pytest
from fake_hub import FakeHub, serving
from model_states import MACHINE
from windows import PATIENCE_MS

from app.state.downloads import Downloads
from app.state.hub import HubState
from app.state.settings import KeptSettings
from mlx_engine.hub.client import Hub

TOKEN = "hf_secret"


@pytest.fixture
def fake():
    hub = FakeHub({"org/gated": {"m-Q8_0.gguf": b"GGUF"}, "org/open": {"m-Q8_0.gguf": b"GGUF"}})
    hub.gated.add("org/gated")
    hub.tokens = frozenset((TOKEN,))
    with serving(hub) as made:
        yield made


@pytest.fixture
def token_file(tmp_path, fake, monkeypatch):
    """Where huggingface_hub keeps the token of this user, who is asked nowhere but at the fake."""
    from huggingface_hub import constants, hf_api

    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    monkeypatch.setattr(constants, "HF_STORED_TOKENS_PATH", str(tmp_path / "stored_tokens"))
    monkeypatch.setattr(hf_api.api, "endpoint", fake.endpoint)
    return tmp_path / "token"


@pytest.fixture
def hub(qtbot, tmp_path, fake, token_file):
    settings = KeptSettings(tmp_path / "settings.json")
    made = HubState(Downloads(Hub(tmp_path / "hub", fake.endpoint), settings), MACHINE)
    yield made
    made.close()


def test_a_gated_model_is_shown_once_its_user_has_signed_in(qtbot, hub, token_file):
    hub.look_up_account()
    qtbot.waitUntil(lambda: hub.is_signed_in is False, timeout=PATIENCE_MS)
    hub.show("org/gated")
    qtbot.waitUntil(lambda: hub.needs_sign_in, timeout=PATIENCE_MS)
    assert hub.status == "", "the page asks for a token instead"
    hub.sign_in("hf_wrong")
    qtbot.waitUntil(lambda: "does not know this token" in hub.status, timeout=PATIENCE_MS)
    assert hub.needs_sign_in and not token_file.exists()
    hub.sign_in(f" {TOKEN} ")
    qtbot.waitUntil(lambda: bool(hub.offers), timeout=PATIENCE_MS)
    assert hub.is_signed_in and not hub.needs_sign_in
    assert token_file.read_text() == TOKEN
    assert token_file.stat().st_mode & 0o077 == 0, "nobody else reads it"
    hub.sign_out()
    assert not hub.is_signed_in and not token_file.exists()
    assert not Path(token_file.with_name("stored_tokens")).exists()


def test_nobody_is_asked_to_sign_in_for_other_models(qtbot, hub):
    hub.show("org/open")
    qtbot.waitUntil(lambda: bool(hub.offers), timeout=PATIENCE_MS)
    assert not hub.needs_sign_in
    hub.show("org/unknown")
    qtbot.waitUntil(lambda: hub.is_problem, timeout=PATIENCE_MS)
    assert "no such model" in hub.status and not hub.needs_sign_in


def test_a_search_that_fails_shows_nothing_of_the_one_before(qtbot, hub, fake):
    hub.search("open")
    qtbot.waitUntil(lambda: [find.hub_id for find in hub.finds] == ["org/open"])
    fake.nonsense = b"<html>Please sign in to this network"
    hub.search("gated")
    qtbot.waitUntil(lambda: hub.is_problem, timeout=PATIENCE_MS)
    assert hub.finds == ()


def test_a_download_that_needs_an_account_leads_to_the_sign_in(qtbot, hub):
    wanted = []
    hub.wanted.connect(lambda: wanted.append(hub.words))
    downloads = hub._downloads
    downloads.resume("org/gated")
    qtbot.waitUntil(lambda: downloads.figures[0].phase == "failed", timeout=PATIENCE_MS)
    assert downloads.figures[0].needs_sign_in
    hub.ask_sign_in("org/gated")
    assert wanted == ["org/gated"] and hub.needs_sign_in
    downloads.close()
