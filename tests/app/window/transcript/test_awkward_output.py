"""Whatever a model or a clipboard brings is shown, quickly, and nothing of it is fetched."""

import time

import pytest
from PySide6.QtNetwork import QHostAddress, QTcpServer
from shown_transcript import begin, of, settle, show, shown_text, stream

from app.window.transcript.shown_message import ShownMessage
from app.window.transcript.transcript_view import TranscriptView


def test_no_picture_style_or_frame_is_fetched(view: TranscriptView) -> None:
    server = QTcpServer()
    assert server.listen(QHostAddress.SpecialAddress.LocalHost)
    place = f"http://127.0.0.1:{server.serverPort()}/a.png"
    source = (
        f'![words for it]({place}) <img src="{place}"> <iframe src="{place}"></iframe>\n\n'
        f'<link rel="stylesheet" href="{place}">\n\n[![in a link]({place})]({place})\n'
    )
    show(view, ShownMessage(3, "assistant", source, source), ShownMessage(2, "user", source))
    of(view, 3).answer.thinking.head.setChecked(True)
    begin(view)
    stream(view, source)
    server.waitForNewConnection(300)
    assert not server.hasPendingConnections()
    text = shown_text(view, 3)
    assert "words for it" in text and '<img src="http://127' in text and "<iframe" in text
    server.close()


@pytest.mark.parametrize(
    "text",
    ["word " * 400_000, "x" * 2_000_000, "line\n" * 400_000],
    ids=["words", "one word", "lines"],
)
def test_a_paste_of_two_megabytes_is_shown_at_once(view: TranscriptView, text: str) -> None:
    began = time.thread_time()
    show(view, ShownMessage(1, "user", text))
    assert time.thread_time() - began < 1.0
    assert of(view, 1).message.text == text
    view.open_find()
    view.find_bar.field.setText("o")
    settle()
