"""What a message will show once it is made of widgets, as text to search."""

from PySide6.QtGui import QTextDocument

from app.window.transcript.rendered_html import markdown_html
from app.window.transcript.segment_column import link_definitions
from app.window.transcript.shown_message import ShownMessage
from app.window.transcript.streaming_markdown import StreamingMarkdown
from app.window.transcript.user_bubble import beginning_of


def searched_text(message: ShownMessage) -> tuple[str, ...]:
    """A text for each of its text widgets, from the top; its thinking will be closed."""
    if message.role == "user":
        return (beginning_of(message.text),)
    source = message.text
    stream = StreamingMarkdown()
    stream.append(source)
    stream.finish()
    definitions, document, found = link_definitions(source), QTextDocument(), []
    for segment in stream.segments:
        if segment.kind == "code":
            found.append(segment.code)
        else:
            document.setHtml(markdown_html(segment.source, definitions))
            found.append(document.toPlainText())
    return tuple(found)
