import pytest


@pytest.fixture
def view(qtbot):
    from shown_transcript import settle

    from app.state.drafts import Drafts
    from app.store.session_store import open_passing_store
    from app.window.transcript.transcript_view import TranscriptView

    made = TranscriptView()
    store = open_passing_store("")
    made.reader.drafts = Drafts(store)
    made.reader.edits = made.reader.drafts.edits
    qtbot.addWidget(made)
    made.resize(700, 500)
    made.show()
    settle()
    yield made
    made.reader.drafts.close()
    store.close()
