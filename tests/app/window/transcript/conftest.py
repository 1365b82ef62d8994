import pytest


@pytest.fixture
def view(qtbot):
    from shown_transcript import settle

    from app.window.transcript.transcript_view import TranscriptView

    made = TranscriptView()
    qtbot.addWidget(made)
    made.resize(700, 500)
    made.show()
    settle()
    return made
