"""Import and export chats by file dialogs, and open links and the log."""

import os
from collections.abc import Iterator, Sequence
from errno import ENOSPC
from itertools import count
from pathlib import Path

from markdown_it import MarkdownIt
from PySide6.QtCore import QLocale, QMarginsF, QObject, QUrl
from PySide6.QtGui import QDesktopServices, QPageLayout, QPageSize, QPdfWriter, QTextDocument
from PySide6.QtWidgets import QMessageBox
from typing_extensions import override

from app.control.notices import TroubleController
from app.start.threads import IdleQueue, LatestTask
from app.state.chat import ChatState
from app.state.chat_list import ChatListState
from app.state.settings import KeptSettings
from app.store.session_store import SessionStore
from app.store.transfer import (
    NewChat,
    chat_text,
    export_chat,
    insert_in_steps,
    not_written,
    read_chats,
)
from app.values import VERSION
from app.values.chat_settings import ChatSettings
from app.values.errors import StoreError
from app.window.controls.dialogs import choose_files, choose_folder, choose_target, inform
from app.window.controls.icons import app_icon
from app.window.language import tr
from app.window.pictures import scaled
from app.window.widgets import Widgets
from mlx_engine.values.errors import BadPicture
from mlx_engine.values.picture import Picture
from mlx_engine.values.words import Words, join_words

ENDINGS = (".md", ".pdf", ".json")
CHATS = Words("Markdown (*.md);;PDF (*.pdf);;JSON with everything (*.json)")
LONGEST_NAME = 60
"""Characters of a file name; most file systems allow 255 bytes."""
SAID_EVERY = 25
QUICKLY_READ = 2_000_000
"""Bytes of files that are imported without a progress notice."""
MOST_ERRORS = 3
"""Errors of an import that are shown."""
ABOUT = Words(
    "Chat with language models on your Mac. A model's own drafting heads guess a few tokens ahead, "
    "and the model checks them all at once: the same answer, sooner."
)
ABOUT_ICON = 64
LINKS = {
    Words("Apache License 2.0"): "https://www.apache.org/licenses/LICENSE-2.0",
    Words("Models on Hugging Face"): "https://huggingface.co/models",
}


class FileController(QObject):
    """Exports and imports chats, and opens links and the log in other programs."""

    def __init__(
        self,
        widgets: Widgets,
        store: SessionStore,
        chat: ChatState,
        chats: ChatListState,
        troubles: TroubleController,
        log_file: Path,
        settings: KeptSettings,
        parent: QObject | None = None,
    ) -> None:
        """settings: of new chats, for what an imported file does not contain."""
        super().__init__(parent)
        self._window, self._notice = widgets.window, widgets.notice
        self._store, self._chat, self._chats = store, chat, chats
        self._fail, self._log_file, self._settings = troubles.tell, log_file, settings
        self._is_closed, self._refused = False, ""
        self._disk, self._turns = LatestTask(self), IdleQueue(self)

    def export(self, chat_ids: Sequence[int], ending: str = "") -> None:
        """Ask where to write chats, and write them. ending: file extension, "" to ask for it."""
        if len(chat_ids) == 1:
            self._export_one(chat_ids[0], ending)
            return
        title = tr("Export {n:,} Chats", "Export 1 Chat", len(chat_ids))
        folder = choose_folder(self._window, title, self._settings)
        if folder:
            self.export_into(chat_ids, Path(folder), ending or ".json")

    def _export_one(self, chat_id: int, ending: str) -> None:
        name = self._file_name(chat_id) + (ending or ".md")
        path, kind = choose_target(self._window, tr("Export chat"), name, tr(CHATS), self._settings)
        if path:
            target = _with_ending(Path(path), kind)
            if target == Path(path) or self._may_replace(target):
                self.export_to(chat_id, target)

    def _may_replace(self, target: Path) -> bool:
        """Ask before replacing a file whose name the dialog did not ask about."""
        if not target.exists():
            return True
        words = tr("“{name}” already exists. Do you want to replace it?", name=target.name)
        box = QMessageBox(QMessageBox.Icon.Warning, tr("Export chat"), words, parent=self._window)
        replace = box.addButton(tr("Replace"), QMessageBox.ButtonRole.DestructiveRole)
        box.addButton(QMessageBox.StandardButton.Cancel)
        box.exec()
        return box.clickedButton() is replace

    def export_to(self, chat_id: int, path: Path) -> None:
        """Write a chat as .md, .json or .pdf; a PDF is set in a background thread."""
        is_pdf, pictures = path.suffix.lower() == ".pdf", list[Picture]()

        def named(picture: Picture) -> str:
            pictures.append(picture)
            return f"![picture]({PICTURE_NAME}{len(pictures) - 1})"

        try:
            if is_pdf:
                markdown = chat_text(self._store, chat_id, ".md", named)
                title = self._store.chats.get(chat_id).title
            else:
                export_chat(self._store, chat_id, path)
        except (StoreError, BadPicture) as error:
            self._fail(str(error))
            return
        if is_pdf:
            self._disk.run_each(
                lambda: _write_pdf(markdown, title, path, pictures),
                lambda why: self._exported(path, why),
            )
        else:
            self._exported(path, None)

    def _exported(self, path: Path, why_not: StoreError | None) -> None:
        if why_not is None:
            self._notice.mention(tr("The chat was written to {path}.", path=path))
        else:
            self._fail(str(why_not))

    def export_into(self, chat_ids: Sequence[int], folder: Path, ending: str) -> None:
        """Write each chat into a new file of a folder, one in each turn of the event loop."""
        self._turns.do_steps(self._write_each(chat_ids, folder, ending))

    def _write_each(self, chat_ids: Sequence[int], folder: Path, ending: str) -> Iterator[None]:
        total = len(chat_ids)
        for done, chat_id in enumerate(chat_ids):
            if self._is_closed:
                return
            so_far = {"done": done, "total": total}
            path = free_path(folder, self._file_name(chat_id), ending)
            try:
                export_chat(self._store, chat_id, path)
            except (StoreError, BadPicture) as error:
                self._fail(
                    Words(
                        "{error} {done:,} of {total:,} chats were written.",
                        error=str(error),
                        **so_far,
                    )
                )
                return
            if done % SAID_EVERY == 0:
                self._notice.say(
                    tr(
                        "Writing {total:,} chats to {folder}: {done:,} are done.",
                        folder=folder,
                        **so_far,
                    )
                )
            yield
        self._notice.mention(
            tr(
                "{n:,} chats were written to {folder}.",
                "1 chat was written to {folder}.",
                total,
                folder=folder,
            )
        )

    def close(self) -> None:
        """Stop exporting and importing when the program ends."""
        self._is_closed = True
        self._turns.stop()

    def import_chat(self) -> None:
        """Ask for files, and import the chats in them."""
        kinds = tr("Chats (*.md *.json *.jsonl)")
        paths = choose_files(self._window, tr("Import chats"), kinds, self._settings)
        self.import_from(*map(Path, paths))

    def import_from(self, *paths: Path) -> None:
        """Import the chats in these files, also those of other programs.

        Files are read in a background thread; chats are stored one in each turn of the event loop.
        """
        defaults = self._settings.value.new_chat

        def read_all() -> list[NewChat | StoreError]:
            chats = [chat for path in paths for chat in _read(path, defaults)]
            for chat in chats:
                for message in () if isinstance(chat, StoreError) else chat.messages:
                    for picture in message.pictures:
                        self._store.pictures.write_ahead(picture)
            return chats

        if sum(map(_nbytes, paths)) > QUICKLY_READ:
            self._notice.say(tr("Reading {names}…", names=", ".join(path.name for path in paths)))
        self._disk.run_each(read_all, lambda chats: self._turns.do_steps(self._add_each(chats)))

    def _add_each(self, chats: Sequence[NewChat | StoreError]) -> Iterator[None]:
        self._notice.withdraw(self._refused)
        last, notes, errors, total = None, list[str](), list[str](), len(chats)
        for done, chat in enumerate(chats):
            if self._is_closed:
                return
            if done % SAID_EVERY == 0 and total > 1:
                self._notice.say(
                    tr("Importing {total:,} chats: {done:,} are done.", total=total, done=done)
                )
            try:
                if isinstance(chat, StoreError):
                    raise chat
                last = yield from insert_in_steps(self._store, chat)
                notes += chat.notes
            except StoreError as error:
                errors.append(str(error))
            yield
        if last is not None:
            done = total - len(errors)
            self._notice.mention(tr("{n:,} chats imported.", "1 chat imported.", done))
            if notes:
                self._notice.say(join_words(notes, " "))
            self._chats.refresh()
            self._chat.open(last)
        if errors:
            self._refused = "\n".join(dict.fromkeys(errors[:MOST_ERRORS]))
            self._fail(self._refused, stays=True)

    def open_link(self, link: str) -> None:
        """Open a web or mail link in its program; never a local file."""
        url = QUrl(link, QUrl.ParsingMode.StrictMode)
        if url.isValid() and url.scheme() in ("http", "https", "mailto"):
            QDesktopServices.openUrl(url)
        else:
            self._notice.mention(tr("This link is not opened: {link}", link=link[:200]))

    def show_log(self) -> None:
        """Open the log in the text editor."""
        if self._log_file.exists():
            QDesktopServices.openUrl(QUrl.fromLocalFile(str(self._log_file)))
        else:
            self._notice.mention(
                tr(
                    "Nothing has been logged yet; it will be in {log_file}.",
                    log_file=self._log_file,
                )
            )

    def show_about(self) -> None:
        """Show icon, version, description and links."""
        version = tr("Version {version}", version=VERSION)
        links = " · ".join(f'<a href="{link}">{tr(words)}</a>' for words, link in LINKS.items())
        html = f"<p>{version}</p><p>{tr(ABOUT)}</p><p>{links}</p>"
        icon = app_icon().pixmap(ABOUT_ICON)
        inform(self._window, tr("About Headstart"), "Headstart", html, icon)

    def _file_name(self, chat_id: int) -> str:
        try:
            title = self._store.chats.get(chat_id).title or tr("Chat")
        except StoreError:
            title = tr("Chat")
        kept = "".join(c if c.isalnum() or c in " -_" else " " for c in title)
        return " ".join(kept.split())[:LONGEST_NAME].strip() or tr("Chat")


def _nbytes(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _read(path: Path, defaults: ChatSettings) -> Sequence[NewChat | StoreError]:
    try:
        return read_chats(path, defaults)
    except StoreError as error:
        return [error]


def _write_pdf(
    markdown: str, title: str, path: Path, pictures: Sequence[Picture]
) -> StoreError | None:
    try:
        write_pdf(markdown, title, path, pictures)
    except OSError as error:
        return not_written(path, error)
    return None


def free_path(folder: Path, name: str, ending: str) -> Path:
    """Return a path for `name` in `folder` that does not exist, with a number if needed."""
    names = (name if number == 1 else f"{name} {number}" for number in count(1))
    paths = (folder / (name + ending) for name in names)
    return next(path for path in paths if not os.path.lexists(path))


def _with_ending(path: Path, kind: str) -> Path:
    """Add the extension of the chosen file type to a path typed without one."""
    if path.suffix.lower() in ENDINGS:
        return path
    return path.with_name(path.name + next((end for end in ENDINGS if end in kind), ".md"))


PDF_END = b"%%EOF"
MARGIN_MM = 18.0
POINTS = 10
STYLE = "table { border-collapse: collapse; } td, th { border: 1px solid #999; padding: 3px; }"


PICTURE_NAME = "headstart-picture:"
"""Prefix of addresses of a chat's pictures in its Markdown; the picture's index follows."""
LARGEST_SHOWN, SHARPNESS = 400, 3
"""Longest side of a picture in a PDF, in hundredths of an inch, and pixels of each."""


def write_pdf(markdown: str, title: str, path: Path, pictures: Sequence[Picture] = ()) -> None:
    """Write Markdown as a PDF of Letter or A4 pages, as the locale has them, over what is there.

    Formulas stand as their source, and pictures but the chat's own are left out: nothing is loaded
    from the web. pictures: those that the Markdown names. Raises OSError if the file cannot be
    written.
    """
    part = path.with_name(path.name + ".part")
    part.write_bytes(b"")  # raises what is in the way; Qt only says that it failed
    document = _Document(pictures)
    document.setDefaultStyleSheet(STYLE)
    font = document.defaultFont()
    font.setPointSize(POINTS)
    document.setDefaultFont(font)
    document.setMarkdown(_with_line_breaks(markdown))
    document.setMetaInformation(QTextDocument.MetaInformation.DocumentTitle, title)
    try:
        writer = QPdfWriter(str(part))
        writer.setTitle(title)
        writer.setPageLayout(_page())
        document.print_(writer)
        del writer  # closes the file
        if not part.read_bytes().rstrip().endswith(PDF_END):  # Qt does not tell of a full disk
            raise OSError(ENOSPC, os.strerror(ENOSPC))
        part.replace(path)
    except OSError:
        part.unlink(missing_ok=True)
        raise


def _with_line_breaks(markdown: str) -> str:
    """Keep the line breaks of paragraphs, as the window does."""
    lines = markdown.split("\n")
    for token in MarkdownIt("commonmark").enable("table").parse(markdown):
        if token.type == "inline" and token.map is not None:
            for at in range(token.map[0], min(token.map[1] - 1, len(lines))):
                lines[at] += "  "
    return "\n".join(lines)


class _Document(QTextDocument):
    """A text document that shows these pictures, and loads no other resources."""

    def __init__(self, pictures: Sequence[Picture]) -> None:
        super().__init__()
        self._pictures = pictures

    @override
    def loadResource(self, kind: int, name: object) -> object:
        place = name.toString().removeprefix(PICTURE_NAME) if isinstance(name, QUrl) else ""
        if not place.isdecimal() or int(place) >= len(self._pictures):
            return None
        most = LARGEST_SHOWN * SHARPNESS
        image = scaled(self._pictures[int(place)], most, most)
        image.setDevicePixelRatio(SHARPNESS)
        return image


def _page() -> QPageLayout:
    """Return the page size that is usual in the locale's country."""
    is_imperial = QLocale().measurementSystem() == QLocale.MeasurementSystem.ImperialUSSystem
    size = QPageSize.PageSizeId.Letter if is_imperial else QPageSize.PageSizeId.A4
    margins = QMarginsF(MARGIN_MM, MARGIN_MM, MARGIN_MM, MARGIN_MM)
    return QPageLayout(
        QPageSize(size),
        QPageLayout.Orientation.Portrait,
        margins,
        QPageLayout.Unit.Millimeter,
    )
