import pytest
from shown_transcript import settle

from app.window.theme import TypeSizes, load_theme
from app.window.transcript.transcript_view import TranscriptView


@pytest.fixture
def view(qtbot) -> TranscriptView:
    made = TranscriptView(load_theme("light"), TypeSizes(), "while-thinking")
    qtbot.addWidget(made)
    made.resize(700, 500)
    made.show()
    settle()
    return made
