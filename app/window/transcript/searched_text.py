"""What a message will show once it is made of widgets, as text to search."""

from PySide6.QtGui import QTextDocument

from app.window.transcript.rendered_html import MarkdownHtml
from app.window.transcript.segment_column import link_definitions
from app.window.transcript.shown_message import ShownMessage
from app.window.transcript.streaming_markdown import StreamingMarkdown
from app.window.transcript.user_bubble import beginning_of


def searched_text(
    message: ShownMessage, renderer: MarkdownHtml, with_thinking: bool
) -> tuple[str, ...]:
    """A text for each of its text widgets, from the top; with_thinking: as if that were open."""
    if message.role == "user":
        return (beginning_of(message.text),)
    thinking = _shown(message.thinking, renderer) if with_thinking and message.thinking else ()
    return (*thinking, *_shown(message.text, renderer))


def _shown(source: str, renderer: MarkdownHtml) -> tuple[str, ...]:
    stream = StreamingMarkdown()
    stream.append(source)
    stream.finish()
    definitions, document, found = link_definitions(source), QTextDocument(), []
    for segment in stream.segments:
        if segment.kind == "code":
            found.append(segment.code)
        else:
            document.setHtml(renderer.html(segment.source, definitions))
            found.append(document.toPlainText())
    return tuple(found)
