"""One message of the transcript; its widgets are built when it comes near the viewport."""

import sys
from collections.abc import Sequence
from dataclasses import replace

from PySide6.QtCore import QEvent, QMimeData, Qt, Signal
from PySide6.QtGui import QEnterEvent, QGuiApplication, QKeyEvent, QTextCursor
from PySide6.QtWidgets import QMenu, QPushButton, QWidget
from typing_extensions import override

from app.start.threads import LatestTask
from app.values.attached_text import AttachedText, said_with, with_attachments
from app.window.attachments import PictureChip, PictureRows
from app.window.controls.fields import TOO_LONG, Lines, is_composing, on_key
from app.window.controls.labels import label, paragraph, say, set_tip
from app.window.controls.layouts import SPARE, Wide, column, row
from app.window.language import tr
from app.window.look import Look, look
from app.window.pictures import mime_of
from app.window.transcript.answer_view import AnswerView, ThinkingSegment
from app.window.transcript.markdown_text import copied
from app.window.transcript.message_foot import MessageActions, MessageFooter
from app.window.transcript.reader import Reader, keeps_height
from app.window.transcript.segment_column import TextWidget
from app.window.transcript.selection import Part
from app.window.transcript.shown_message import ShownMessage
from app.window.transcript.user_bubble import PICTURE_HEIGHT, UserBubble
from mlx_engine.values.conversation import TextPiece
from mlx_engine.values.picture import Picture
from mlx_engine.values.words import Words


class EditedText(Lines):
    """A text editor. Signal `accepted`: Return was pressed without Shift."""

    accepted = Signal()

    # Qt

    @override
    def keyPressEvent(self, event: QKeyEvent) -> None:
        is_return = event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter)
        if not is_return or is_composing(self):
            super().keyPressEvent(event)
        elif event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
            self.insertPlainText("\n")
        else:
            self.accepted.emit()


class MessageEditor(QWidget):
    """Edits a message in its place; `send` and `cancel` are its buttons."""

    def __init__(
        self,
        text: str,
        name: str,
        verb: str,
        attachments: Sequence[AttachedText],
        pictures: Sequence[Picture],
    ) -> None:
        """verb: text of the button `send`. attachments: kept, and named below the text. pictures:
        kept as long as they are not removed.
        """
        super().__init__()
        self.field = EditedText(_lines_for(text))
        self.field.setAccessibleName(name)
        self.field.setPlaceholderText(tr("Return: {verb}. Shift-Return: a new line.", verb=verb))
        set_tip(self.field, self.field.placeholderText())
        self.field.setFont(look().text_font())
        self.field.fit()
        self.field.setPlainText(text)
        self.field.moveCursor(QTextCursor.MoveOperation.End)
        self._problem = paragraph("", "problem")
        say(self._problem, "")
        self.send = QPushButton(verb)
        self.send.setProperty("role", "primary")
        self.cancel = QPushButton(tr("Cancel"))
        foot = row(Wide(self._problem), SPARE, self.cancel, self.send)
        names = ", ".join(attachment.name for attachment in attachments)
        kept = [paragraph(tr("With {names}", names=names), "muted")] if names else []
        self._pictures, self._seen, disk = list[PictureChip](), PictureRows(), LatestTask(self)
        for number, picture in enumerate(pictures, 1):
            self._add(PictureChip(picture, number, disk, None))
        self._seen.place()
        self._seen.setVisible(bool(pictures))
        column(self._seen, self.field, *kept, foot, of=self, spacing=8)
        self.field.refused.connect(lambda: say(self._problem, TOO_LONG))
        self.field.accepted.connect(self.send.click)
        self.field.textChanged.connect(lambda: self.field.show_lines(_lines_for(self.text)))
        on_key(self, Qt.Key.Key_Escape, self.cancel.click)

    @property
    def text(self) -> str:
        """The edited text."""
        return self.field.toPlainText()

    @property
    def pictures(self) -> tuple[Picture, ...]:
        """The pictures that were not removed."""
        return tuple(chip.picture for chip in self._pictures)

    def _add(self, chip: PictureChip) -> None:
        chip.remove.clicked.connect(lambda: self._remove(chip))
        self._pictures.append(chip)
        self._seen.add(chip)

    def _remove(self, chip: PictureChip) -> None:
        self._pictures.remove(chip)
        self._seen.drop(chip)
        self._seen.place()
        self._seen.setVisible(bool(self._pictures))
        self.field.setFocus()

    # Qt

    @override
    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange:
            self.field.setFont(look().text_font())


def _lines_for(text: str) -> int:
    """Lines on show of the editor of a text."""
    beginning = text[:4000]
    return min(16, max(3, beginning.count("\n") + 1 + len(beginning) // 80))


ROOM = 44
"""Height of the parts around a message's text."""
LARGEST = 0xFFFFFF
BRANCH = Words("branch", "of a chat, behind its title")
NOT_READ = Words("The model no longer reads the messages above: the context was full.")


class MessageView(QWidget):
    """A message; until `build` an empty widget of estimated height for the look `now`."""

    def __init__(self, message: ShownMessage, reader: Reader, now: Look) -> None:
        super().__init__()
        keeps_height(self)
        self.message = message
        self._reader = reader
        self._body: AnswerView | UserBubble | None = None
        self._waiting: list[TextPiece] = []
        self._is_last = False
        self.buttons: MessageActions | None = None
        self.footer: MessageFooter | None = None
        self.editor: MessageEditor | None = None
        self.setAccessibleName(tr("You") if message.role == "user" else tr("Answer"))
        self.guess_height(now)

    @property
    def is_built(self) -> bool:
        """Whether `build` was called."""
        return self._body is not None

    @property
    def answer(self) -> AnswerView | None:
        """The widgets of an answer, None for the user's messages and before `build`."""
        return self._body if isinstance(self._body, AnswerView) else None

    def build(self, width: int) -> None:
        """Make the widgets for a column of this width, once."""
        if self.is_built:
            return
        try:
            body = self._make_body(width)
        except Exception:  # else the messages around it are not shown either
            sys.excepthook(*sys.exc_info())
            for begun in self.findChildren(
                QWidget, options=Qt.FindChildOption.FindDirectChildrenOnly
            ):
                begun.setParent(None)
            body = self._make_plain_body(width)
        if isinstance(body, AnswerView):
            body.append(self._waiting)
        # Qt shows what is added to a visible widget only later, and until then a layout would take
        # it for empty and the page would jump
        self.hide()
        self.setMinimumHeight(0)
        self.setMaximumHeight(LARGEST)
        self.buttons, self.footer, self._body = MessageActions(), MessageFooter(), body
        foot = row(Wide(self.footer), SPARE, self.buttons, spacing=8)
        above = [label(NOT_READ, "note")] if self.message.is_first_read else []
        self._column = column(*above, body, foot, of=self, spacing=2)
        body.show()
        self._connect(self.buttons)
        self.show_as_last(self._is_last)
        self.show_state()
        if self.message.id in self._reader.edits:
            self._open_editor(body)
        self.resize(width, self.sizeHint().height())
        self.show()

    def _make_body(self, width: int) -> AnswerView | UserBubble:
        if self.message.role == "user":
            return UserBubble(self._reader, self.message.text, width, self.message.pictures)
        body = AnswerView(self._reader, width)
        body.setParent(self)
        body.show_message(self.message)
        return body

    def _make_plain_body(self, width: int) -> AnswerView:
        body = AnswerView(self._reader, width)
        body.show_plain(self.message)
        return body

    def append(self, pieces: Sequence[TextPiece]) -> None:
        """Append pieces to a running answer, built or not."""
        if self.answer is not None:
            self.answer.append(pieces)
        else:
            self._waiting += pieces

    def show_uses(self, message: ShownMessage) -> None:
        """Update the tool calls of a running answer."""
        if self.answer is not None:
            self.answer.show_uses(message.uses)
        else:
            self.message = message
            self._waiting.clear()

    def finish(self, message: ShownMessage) -> bool:
        """Show the finished message; False if it must be rebuilt, because its text differs."""
        self.message = message
        self._waiting.clear()
        if not isinstance(self._body, AnswerView):
            return not self.is_built
        if not self._body.is_of(message):
            return False
        self._body.finish(message)
        self.show_state()
        return True

    def end_being_last(self) -> None:
        """Hide the offer to continue, since another message follows."""
        self.message = replace(self.message, can_continue=False, can_drop=False)
        self.show_state()

    def texts(self) -> list[TextWidget]:
        """The widgets that can be searched, from the top."""
        if isinstance(self._body, UserBubble):
            return [self._body.prose]
        return self._body.texts() if self._body else []

    @property
    def _thinking(self) -> list[ThinkingSegment]:
        return self.answer.all_thinking if self.answer is not None else []

    def thoughts(self) -> str:
        """Text of all thinking so far."""
        return self.answer.thoughts() if self.answer is not None else self.message.thinking

    @property
    def shows_thoughts(self) -> bool:
        """Whether all thinking is on show."""
        return bool(self._thinking) and all(thinking.is_open for thinking in self._thinking)

    def open_thoughts(self) -> None:
        """Open the thinking."""
        for thinking in self._thinking:
            thinking.head.setChecked(True)

    def parts(self) -> list[Part]:
        """Return the selectable parts, from the top."""
        if isinstance(self._body, UserBubble):
            prose = self._body.prose
            return [Part(prose, prose.text(), prose.selected_words)]
        return self._body.parts() if self._body else []

    def copy(self) -> None:
        """Copy the text and the pictures, if there are any."""
        text = self.markdown()
        if self.message.pictures:
            QGuiApplication.clipboard().setMimeData(mime_of(self.message.pictures, text))
        elif self.message.role == "user":
            self.copy_markdown()
        elif text:
            words, data = copied(text), QMimeData()
            data.setText(words.text)
            data.setHtml(words.html)
            QGuiApplication.clipboard().setMimeData(data)

    def copy_markdown(self) -> None:
        """Copy the Markdown, if there is any."""
        if text := self.markdown():
            QGuiApplication.clipboard().setText(text)

    def edit(self) -> None:
        """Open an editor for the message; its text is kept until it is sent, saved or cancelled."""
        if self._body is not None:
            self._reader.edit_begun.emit()
            self._reader.edits.setdefault(self.message.id, self._words(self.markdown()))
            self._open_editor(self._body).field.setFocus()

    def _words(self, text: str) -> str:
        """Return the editable text of a message: without attachments."""
        return said_with(text).text if self.message.role == "user" else text

    def _open_editor(self, body: QWidget) -> MessageEditor:
        if self.editor is None:
            reader, message_id = self._reader, self.message.id
            is_question = self.message.role == "user"
            words = (
                (tr("Edit your message"), tr("Send again"))
                if is_question
                else (tr("Edit the answer"), tr("Keep"))
            )
            attached = said_with(self.message.text).attachments if is_question else ()
            self.editor = editor = MessageEditor(
                self._words(self._reader.edits[message_id]),
                *words,
                attached,
                self.message.pictures,
            )

            def send() -> None:
                if editor.text.strip():
                    text = with_attachments(editor.text, attached)
                    reader.chat.edit(message_id, text, editor.pictures)

            editor.field.textChanged.connect(
                lambda: reader.drafts.keep_edit(message_id, editor.text)
            )
            editor.send.clicked.connect(send)
            editor.cancel.clicked.connect(lambda: self._close_editor(body))
            self._column.insertWidget(0, editor)
            body.hide()
            self.show_state()
        return self.editor

    def _close_editor(self, body: QWidget) -> None:
        self._reader.drafts.drop_edit(self.message.id)
        if self.editor is not None:
            self.editor.hide()
            self.editor.deleteLater()
            self.editor = None
        body.show()
        self.show_state()
        self.window().setFocus()

    def markdown(self) -> str:
        """Return the Markdown of the message so far."""
        return self._body.text() if isinstance(self._body, AnswerView) else self.message.text

    def _connect(self, buttons: MessageActions) -> None:
        reader, message_id = self._reader, self.message.id
        buttons.copy.clicked.connect(self.copy)
        buttons.copy.setContextMenuPolicy(Qt.ContextMenuPolicy.ActionsContextMenu)
        buttons.copy.addAction(tr("Copy"), self.copy)
        buttons.copy.addAction(tr("Copy with Formatting Marks (Markdown)"), self.copy_markdown)
        buttons.edit.clicked.connect(self.edit)
        buttons.more.clicked.connect(self._show_menu)
        buttons.regenerate.clicked.connect(lambda: reader.chat.regenerate(message_id))
        buttons.go_on.clicked.connect(lambda: reader.chat.continue_answer(message_id))
        buttons.drop.clicked.connect(lambda: reader.chat.drop_oldest(message_id))
        buttons.previous.clicked.connect(lambda: reader.chat.show_branch(message_id, -1))
        buttons.next.clicked.connect(lambda: reader.chat.show_branch(message_id, 1))

    def _show_menu(self) -> None:
        reader, message_id, menu = self._reader, self.message.id, QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.addAction(tr("Copy with Formatting Marks (Markdown)"), self.copy_markdown)
        menu.addAction(
            tr("New Chat from Here"), lambda: reader.chats.branch_off(message_id, tr(BRANCH))
        )
        menu.addSeparator()
        delete = tr("Delete Question and Answer")
        menu.addAction(delete, lambda: reader.chats.delete_message(message_id))
        if self.buttons is not None:
            corner = self.buttons.more.rect().bottomLeft()
            menu.popup(self.buttons.more.mapToGlobal(corner))

    def show_as_last(self, is_last: bool) -> None:
        """Paint all buttons of the last message always, those of others on hover."""
        self._is_last = is_last
        if self.buttons is not None:
            self.buttons.paint_all(is_last or self.underMouse())

    def show_state(self) -> None:
        """Show figures and buttons if the message is complete and not being edited."""
        if self.buttons is None or self.footer is None:
            return
        self.buttons.show_message(self.message)
        self.buttons.setVisible(self.message.state != "live" and self.editor is None)
        self.footer.setVisible(self.message.stats is not None)
        if self.message.stats is not None:
            is_other = self.message.model != self._reader.model
            self.footer.show_stats(self.message.stats, self.message.model if is_other else "")

    def guess_height(self, now: Look) -> None:
        """Set the estimated height, unless the message is built."""
        if self.is_built:
            return
        line, pictures = round(now.sizes.transcript * 1.55), len(self.message.pictures)
        text = self.message.text
        if self.message.role == "user":
            text = said_with(text).text[:2000]
        of_pictures = round(PICTURE_HEIGHT * now.zoom) * -(-pictures // 4)
        lines = text.count("\n") // 2 + len(text) // 90 + 1
        self.setFixedHeight(ROOM + of_pictures + line * lines)

    # Qt

    @override
    def enterEvent(self, event: QEnterEvent) -> None:
        if self.buttons is not None:
            self.buttons.paint_all(True)
        super().enterEvent(event)

    @override
    def leaveEvent(self, event: QEvent) -> None:
        if self.buttons is not None:
            self.buttons.paint_all(self._is_last)
        super().leaveEvent(event)
