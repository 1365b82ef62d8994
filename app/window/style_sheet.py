"""The style sheet of the application, by theme and text zoom.

Widgets choose a look by the dynamic property `role`. Labels: title, heading, error-heading, muted,
note, effect, problem, warning. Push buttons: primary, quiet, disclosure, link, row,
segment. Tool buttons: group, primary. Frames: side, card, composer, chip, drop. Editors: field,
message.
"""

from dataclasses import asdict, replace
from functools import cache
from string import Template

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtWidgets import QApplication

from app.state.settings import KeptSettings
from app.values.app_settings import Theme as Wish
from app.values.app_settings import zoomed
from app.window.controls.scroll_bar import SYSTEM_HAS_THEM
from app.window.look import Look, Scheme, TypeSizes, load_theme, look, mixed, palette_of
from mlx_engine.values.words import Words

LABELS = """
QLabel { background: transparent; }
QLabel[role="title"] { font-size: ${title}px; font-weight: 600; }
QLabel[role="heading"] { font-weight: 600; }
QLabel[role="error-heading"] { color: $error; font-weight: 600; }
QLabel[role="muted"] { color: $muted; font-size: ${small}px; }
QLabel[role="note"] { color: $text; font-size: ${small}px; }
QLabel[role="problem"] { color: $error; font-size: ${small}px; }
QLabel[role="warning"] { color: $warning; font-size: ${small}px; }
QLabel[role="effect"] { color: $text; font-size: ${small}px; }
QLabel:disabled { color: $muted; }
QToolTip { color: $text; background: $bubble; border: 1px solid $line; padding: 4px 8px; }
QMenu {
  background: $page; color: $text; border: 1px solid $line; padding: 4px;
  font-size: ${interface}px; menu-scrollable: 1;
}
QMenu::item { padding: 5px 24px 5px 12px; border-radius: 5px; }
QMenu::item:selected { background: $hover; }
QMenu::item:disabled { color: $muted; }
QMenu::separator { background: $line; height: 1px; margin: 4px 8px; }
QMenuBar { background: $side; color: $text; font-size: ${interface}px; }
QMenuBar::item { padding: 4px 10px; background: transparent; border-radius: 5px; }
QMenuBar::item:selected { background: $hover; }
"""

BUTTONS = """
QAbstractButton { icon-size: ${icon}px; outline: none; }
QPushButton {
  background: $page; color: $text; border: 1px solid $line; border-radius: 6px; padding: 4px 12px;
  min-height: ${line_height}px;
}
QPushButton:hover { background: $hover; }
QPushButton:pressed { background: $selected; }
QPushButton:focus { border-color: $accent; }
QPushButton:disabled { color: $muted; background: transparent; }
QPushButton[role="primary"] {
  background: $accent; color: $on_accent; border-color: $accent; font-weight: 600;
}
QPushButton[role="primary"]:hover, QPushButton[role="primary"]:pressed {
  background: $accent_over; border-color: $accent_over;
}
QPushButton[role="primary"]:focus { border-color: $text; }
QPushButton[role="primary"]:disabled {
  background: $hover; color: $muted; border-color: $hover; font-weight: 400;
}
QToolButton {
  background: transparent; color: $text; border: 1px solid transparent; border-radius: 6px;
  padding: 4px;
}
QToolButton:hover { background: $hover; }
QToolButton:pressed, QToolButton:checked { background: $selected; }
QToolButton:focus { border-color: $accent; }
QToolButton:disabled { color: $muted; }
QToolButton::menu-indicator, QPushButton[role="quiet"]::menu-indicator { image: none; }
QToolButton[role="primary"] { background: $accent; border-radius: 8px; padding: 5px; }
QToolButton[role="primary"]:hover { background: $accent_over; }
QToolButton[role="primary"]:focus { border-color: $text; }
QToolButton[role="primary"]:disabled { background: $hover; }
"""

BARS = """
QFrame[role="notice"] { background: $bubble; border: none; border-bottom: 1px solid $line; }
QFrame[role="undo-bar"] {
  background: $bubble; border: 1px solid $line; border-radius: 8px; margin: 0 8px;
}
QPushButton[role="quiet"] { background: transparent; border-color: transparent; }
QPushButton[role="quiet"]:hover { background: $hover; }
QPushButton[role="quiet"]:focus { border-color: $accent; }
QPushButton[role="link"] {
  background: transparent; border: 1px solid transparent; color: $accent; font-weight: 600;
  padding: 2px 8px;
}
QPushButton[role="link"]:hover { background: $hover; }
QPushButton[role="link"]:focus { border-color: $accent; }
"""

GROUPS = """
QPushButton[role="disclosure"] {
  background: transparent; border: none; border-radius: 0; color: $accent; padding: 0;
  font-size: ${small}px; text-align: left;
}
QPushButton[role="disclosure"]:hover, QPushButton[role="disclosure"]:focus {
  text-decoration: underline;
}
QToolButton[role="group"] { font-weight: 600; padding: 6px 4px 6px 0; margin-left: -4px; }
QToolButton[role="group"]:checked, QToolButton[role="group"]:hover { background: transparent; }
QToolButton[role="group"]:focus { border-color: transparent; text-decoration: underline; }
QPushButton[role="segment"] {
  background: $page; border: 1px solid $line; border-right: none; border-radius: 0;
  padding: 4px 5px; min-height: ${line_height}px;
}
QPushButton[role="segment"][edge="first"] {
  border-top-left-radius: 6px; border-bottom-left-radius: 6px;
}
QPushButton[role="segment"][edge="last"] {
  border-right: 1px solid $line; border-top-right-radius: 6px; border-bottom-right-radius: 6px;
}
QPushButton[role="segment"]:hover { background: $hover; }
QPushButton[role="segment"]:checked { background: $selected; color: $text; font-weight: 600; }
QPushButton[role="segment"]:focus { border: 1px solid $accent; }
QPushButton[role="segment"]:disabled { background: transparent; color: $muted; font-weight: 400; }
QPushButton[role="segment"]:checked:disabled { background: $hover; }
"""

FIELDS = """
QLineEdit, QPlainTextEdit { placeholder-text-color: $muted; }
QTextBrowser, QPlainTextEdit { selection-background-color: $marked; selection-color: $text; }
QLineEdit, QPlainTextEdit[role="field"], QComboBox, QDoubleSpinBox {
  background: $page; color: $text; border: 1px solid $line; border-radius: 6px;
  padding: 4px 7px; min-height: ${line_height}px;
  selection-background-color: $accent; selection-color: $on_accent;
}
QPlainTextEdit[role="field"] { padding: 2px 3px; }
QDoubleSpinBox::up-button, QDoubleSpinBox::down-button { width: 1px; border: none; }
QDoubleSpinBox { padding: 3px 0 2px 0; }
QDoubleSpinBox QLineEdit { border: none; min-height: 0; background: transparent; }
QDoubleSpinBox[unset="true"] { color: $muted; }
QLineEdit:hover, QPlainTextEdit[role="field"]:hover, QComboBox:hover, QDoubleSpinBox:hover {
  border-color: $outline;
}
QLineEdit:focus, QPlainTextEdit[role="field"]:focus, QComboBox:focus, QDoubleSpinBox:focus {
  border-color: $accent;
}
QLineEdit[bad="true"], QDoubleSpinBox[bad="true"], QPlainTextEdit[role="field"][bad="true"] {
  border-color: $error;
}
QLineEdit:disabled, QComboBox:disabled, QPlainTextEdit[role="field"]:disabled,
QDoubleSpinBox:disabled {
  background: transparent; color: $muted;
}
QLineEdit[role="title"] { background: transparent; border-color: transparent; font-weight: 600; }
QLineEdit[role="title"]:hover { border-color: $line; }
QLineEdit[role="title"]:focus { background: $page; border-color: $accent; }
QLineEdit[role="title"]:disabled { border-color: transparent; }
QPlainTextEdit[role="message"] {
  background: transparent; border: none; font-size: ${transcript}px;
  selection-background-color: $accent; selection-color: $on_accent;
}
QPlainTextEdit[role="details"] {
  background: $code; border: 1px solid $line; border-radius: 8px; padding: 8px;
  font-size: ${small}px;
}
"""

CHOICES = """
QSlider { min-height: 18px; }
QSlider::groove:horizontal { height: 4px; border-radius: 2px; background: $line; }
QSlider::sub-page:horizontal { height: 4px; border-radius: 2px; background: $accent; }
QSlider::handle:horizontal {
  width: 12px; margin: -5px 0; border: 1px solid $muted; border-radius: 7px; background: $page;
}
QSlider::handle:horizontal:hover { border-color: $accent; }
QComboBox { padding-right: 26px; }
QComboBox::drop-down { border: none; width: 24px; }
QComboBox::down-arrow { image: none; }
QComboBox QAbstractItemView {
  background: $page; color: $text; border: 1px solid $line; padding: 4px; outline: none;
  selection-background-color: $selected; selection-color: $text;
}
QCheckBox { spacing: 8px; }
QCheckBox::indicator {
  width: ${box}px; height: ${box}px; border: 1px solid $outline; border-radius: 4px;
  background: $page;
}
QCheckBox::indicator:checked { background: $accent; border-color: $accent; }
QCheckBox::indicator:focus { border-color: $accent; }
QCheckBox::indicator:checked:focus { border-color: $text; }
"""

TABS = """
QTabBar::tab {
  background: transparent; color: $text; border: 1px solid transparent; border-radius: 6px;
  padding: 4px 14px; margin: 0 2px; min-height: ${line_height}px;
}
QTabBar::tab:hover { background: $hover; }
QTabBar::tab:selected { background: $selected; }
QTabBar::tab:focus:selected { border-color: $accent; }
"""

FRAMES = """
QTreeView { background: transparent; border: none; outline: none; icon-size: ${icon}px; }
QTreeView::item { padding: 4px 4px; border: none; }
QTreeView::item:hover { background: $hover; }
QTreeView::item:selected { background: $selected; color: $text; }
QHeaderView { background: transparent; }
QHeaderView::section {
  background: transparent; color: $muted; border: none; border-bottom: 1px solid $line;
  padding: 4px; font-size: ${small}px;
}
QDialog[role="palette"] { border: 1px solid $outline; }
QDialog[role="palette"] QTreeWidget::item { padding: 5px 8px; }
QDialog[role="palette"] QTreeWidget::item:selected { background: $selected; color: $text; }
QProgressBar { background: $line; border: none; border-radius: 2px; max-height: 4px; }
QProgressBar::chunk { background: $accent; border-radius: 2px; }
QWidget[role="side"] { background: $side; }
QFrame[role="right"] { background: $side; border: none; border-left: 1px solid $line; }
QFrame[role="card"] { background: $page; border: 1px solid $line; border-radius: 10px; }
QFrame[role="composer"] { background: $page; border: 1px solid $outline; border-radius: 14px; }
QFrame[role="composer"][focused="true"] { border-color: $accent; }
QFrame[role="chip"] { background: $bubble; border: 1px solid $line; border-radius: 8px; }
QFrame[role="chip"][bad="true"] { border-color: $error; }
QFrame[role="drop"] { border: 2px dashed $line; border-radius: 12px; }
QScrollArea { background: transparent; border: none; }
QFrame[role="head"] { background: $page; }
QFrame[role="foot"] { background: $side; border: none; border-top: 1px solid $line; }
"""

SCROLL_BARS = """
QScrollBar { background: transparent; border: none; }
QScrollBar:vertical { width: 10px; }
QScrollBar:horizontal { height: 10px; }
QPlainTextEdit QScrollBar:horizontal { margin: 0 8px; }
QScrollBar::handle { background: $thumb; border-radius: 3px; margin: 2px; }
QScrollBar::handle:vertical { min-height: 32px; }
QScrollBar::handle:horizontal { min-width: 32px; }
QScrollBar::handle:hover { background: $muted; }
QScrollBar::add-line, QScrollBar::sub-line { width: 0; height: 0; }
QScrollBar::add-page, QScrollBar::sub-page { background: transparent; }
QAbstractScrollArea::corner { background: transparent; border: none; }
"""

SIDEBAR = """
QFrame[role="sidebar"] { background: $side; border: none; border-right: 1px solid $line; }
QListView[role="chat-list"] { background: transparent; border: none; outline: none; }
QFrame[role="sidebar"] QLineEdit { background: $page; border-radius: 8px; }
QPushButton[role="row"] {
  background: transparent; border: 1px solid transparent; border-radius: 6px; text-align: left;
  padding: 5px 9px;
}
QPushButton[role="row"]:hover { background: $hover; }
QPushButton[role="row"]:checked { background: $selected; }
QPushButton[role="row"]:focus { border-color: $accent; }
"""

RULES = LABELS + BUTTONS + BARS + GROUPS + FIELDS + CHOICES + TABS + FRAMES + SIDEBAR
if not SYSTEM_HAS_THEM:
    RULES += SCROLL_BARS


def apply_theme(application: QApplication, scheme: Scheme, zoom: float) -> None:
    """Give the application the palette, font and style sheet of a scheme at a text zoom."""
    application.setStyleSheet("")  # under a style sheet each step styles every widget anew
    application.setPalette(palette_of(load_theme(scheme)))
    font = application.font()
    font.setPixelSize(TypeSizes().zoomed(zoom).interface)
    application.setFont(font)
    application.setStyleSheet(style_sheet(look()))
    for widget in application.allWidgets():  # Qt tells those alone that were shown before
        application.sendEvent(widget, QEvent(QEvent.Type.StyleChange))


@cache
def style_sheet(wanted: Look) -> str:
    """Return the style sheet of a look."""
    theme, sizes = wanted.theme, wanted.sizes
    names = {
        **asdict(theme),
        **asdict(sizes),
        "icon": wanted.icon_size,
        "box": round(sizes.interface * 1.15),
        "line_height": round(sizes.interface * 1.4),
        "accent_over": mixed(theme.accent, theme.text, 0.14),
        "marked": mixed(theme.page, theme.accent, 0.25),  # formulas keep their colour on it
        "thumb": mixed(theme.line, theme.muted, 0.5),
        "outline": mixed(theme.line, theme.muted, 0.3),
    }
    return Template(RULES).substitute(names)


THEMES: dict[Wish, str] = {
    "system": Words("System"),
    "light": Words("Light"),
    "dark": Words("Dark"),
}
COLOURS: dict[Wish, Qt.ColorScheme] = {
    "system": Qt.ColorScheme.Unknown,
    "light": Qt.ColorScheme.Light,
    "dark": Qt.ColorScheme.Dark,
}


class LookController(QObject):
    """Applies the theme and text zoom that the settings and the system ask for."""

    def __init__(
        self, application: QApplication, settings: KeptSettings, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._application = application
        self._settings = settings
        self._applied: tuple[Scheme, float] | None = None
        application.styleHints().colorSchemeChanged.connect(self.refresh)
        settings.changed.connect(self.refresh)
        self.refresh()

    @property
    def scheme(self) -> Scheme:
        """The scheme in use: light or dark."""
        return scheme_for(self._settings.value.theme, self._application.styleHints().colorScheme())

    def zoom(self, steps: int) -> None:
        """Change the text zoom by tenths; 0 resets it."""
        self._settings.change(zoomed(self._settings.value, steps))

    def choose(self, wish: Wish) -> None:
        """Set the wished theme: light, dark, or the system's."""
        self._settings.change(replace(self._settings.value, theme=wish))

    def refresh(self) -> None:
        """Apply the theme and text zoom where they have changed."""
        self._application.styleHints().setColorScheme(COLOURS[self._settings.value.theme])
        wanted = self.scheme, self._settings.value.text_zoom
        if wanted != self._applied:
            self._applied = wanted
            apply_theme(self._application, *wanted)


def scheme_for(wish: Wish, system: Qt.ColorScheme) -> Scheme:
    """Return the scheme of a wish; light if the system's is unknown."""
    if wish != "system":
        return wish
    return "dark" if system == Qt.ColorScheme.Dark else "light"
