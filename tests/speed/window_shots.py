"""Draws pictures of the window's views, from the real window on the built-in model.

`PYTHONPATH=. python tests/speed/window_shots.py FOLDER [light|dark]`; README.md shows
window_chat_light.png.
"""

import contextlib
import os
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
from PySide6.QtCore import Qt
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QApplication
from whole_window import rest, until, whole_window

from app.app import App
from app.values.chat_settings import ChatSettings, SamplingChoice
from app.window.look import Scheme
from app.window.main_window import Page
from app.worker.replies import Reply
from mlx_engine.values.options import DraftOptions

FONTS = """<fontconfig><include>/etc/fonts/fonts.conf</include>
<match><test name="family"><string>sans-serif</string></test><edit name="family" mode="prepend"
binding="strong"><string>Inter</string></edit></match>
<match><test name="family"><string>Sans Serif</string></test><edit name="family" mode="prepend"
binding="strong"><string>Inter</string></edit></match>
<match><test name="family"><string>monospace</string></test><edit name="family" mode="prepend"
binding="strong"><string>JetBrains Mono</string></edit></match></fontconfig>"""
"""Where there is no Mac, fonts that are as quiet as the Mac's own, if they are installed."""

ROOT = Path(__file__).resolve().parents[2]
SIZE = (1180, 760)
FIRST = "How does drafting work?"
SECOND = "How do I read a file line by line?"
OLDER = ("Which files can I load?", "What does os.path.join do?", "What is the pocket model?")
SETTINGS = ChatSettings(
    sampling=SamplingChoice(temperature=0.3, seed=1), draft=DraftOptions(depth=3)
)


class Photographer:
    """Drives one window and keeps pictures of it."""

    def __init__(self, app: App, scheme: Scheme, out: Path) -> None:
        self.app, self.widgets = app, app.widgets
        self._scheme, self._out = scheme, out
        self._held: list[Reply] | None = None
        app.worker.replied.disconnect(app.route)
        app.worker.replied.connect(self._route)
        settings = app.settings
        settings.change(replace(settings.value, theme=scheme, show_drafted=True, new_chat=SETTINGS))
        self.widgets.window.resize(*SIZE)
        app.start()
        until(lambda: app.models.description is not None)
        rest(2.5)

    def ask(self, question: str) -> None:
        """Ask and wait for the whole answer."""
        self.app.chat.send(question)
        until(lambda: self.app.chat.running is None)
        rest()

    def ask_until(self, question: str, characters: int) -> None:
        """Ask and wait for the beginning of the answer."""
        self.app.chat.send(question)

        def is_far_enough() -> bool:
            running = self.app.chat.running
            return running is None or len(running.answer.text) >= characters

        until(is_far_enough)

    def take_held(self, name: str) -> None:
        """A picture in the middle of an answer, which waits for it."""
        self._held = []
        rest(0.2)
        self.take(name)
        held, self._held = self._held, None
        for reply in held:
            self.app.route(reply)

    def _route(self, reply: Reply) -> None:
        """Taken to the app, or held: what is on its way at a `disconnect` would be lost."""
        if self._held is None:
            self.app.route(reply)
        else:
            self._held.append(reply)

    def take(self, name: str) -> None:
        """Keep a picture, in 256 colours to be small."""
        picture = self.widgets.window.grab().toImage()
        path = self._out / f"window_{name}_{self._scheme}.png"
        in_few_colours(picture).save(str(path))
        print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB")


def in_few_colours(picture: QImage) -> QImage:
    """The picture in the 256 colours it has most of."""
    plain = picture.convertToFormat(QImage.Format.Format_RGB32)
    pixels = np.frombuffer(plain.constBits(), np.uint32)
    colours, counts = np.unique(pixels, return_counts=True)
    table = [int(colour) for colour in colours[np.argsort(-counts)[:256]]]
    flags = Qt.ImageConversionFlag.ThresholdDither | Qt.ImageConversionFlag.AvoidDither
    return plain.convertToFormat(QImage.Format.Format_Indexed8, table, flags)


def main() -> None:
    out = Path(sys.argv[1]).resolve()
    wanted = sys.argv[2:] or ["light", "dark"]
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", suffix=".conf", delete=False) as fonts:
        fonts.write(FONTS)
    os.environ.setdefault("QT_SCALE_FACTOR", "1.5")
    os.environ.setdefault("FONTCONFIG_FILE", fonts.name)
    QApplication.setApplicationName("Headstart")
    for scheme in ("light", "dark"):
        if scheme in wanted:
            with (
                tempfile.TemporaryDirectory() as data,
                contextlib.chdir(data),
                whole_window() as app,
            ):
                shoot(Photographer(app, scheme, out))


def shoot(camera: Photographer) -> None:
    """Every picture of one scheme."""
    app, widgets = camera.app, camera.widgets
    camera.take("empty")
    for question in OLDER:
        camera.ask(question)
        app.chats.begin()
    camera.ask(FIRST)
    camera.ask_until(SECOND, 100)
    camera.take_held("chat")
    until(lambda: app.chat.running is None)
    app.chat.change_settings(replace(SETTINGS, draft=DraftOptions(depth=0)))
    camera.ask("What can you do?")
    app.chat.change_settings(SETTINGS)
    camera.ask("Which files can I load?")
    widgets.window.show_panel("drafting")
    rest()
    camera.take("drafting")
    widgets.window.show_panel("session")
    app.actions["compare"].trigger()
    widgets.compare.show_prompt(FIRST)
    app.compare.run(FIRST)
    until(lambda: not app.compare.is_running)
    rest()
    camera.take("compare")
    pages: tuple[Page, ...] = ("settings", "library")
    for page in pages:
        widgets.window.show_page(page)
        rest()
        camera.take(page)
    widgets.window.show_page("chat")
    model = str(ROOT / "assets" / "pocket_model")
    app.drops.hover([model])
    rest()
    camera.take("drop")
    app.drops.leave()
    app.offered.offer(model)
    rest()
    camera.take("card")
    damaged = Path("Qwen3.5-9B-MTP-4bit")
    damaged.mkdir()
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        content = (ROOT / "assets" / "pocket_model" / name).read_bytes()
        (damaged / name).write_bytes(content[:1_000_000])
    app.offered.offer(str(damaged))
    rest()
    camera.take("error")
    widgets.window.close()


if __name__ == "__main__":
    main()
