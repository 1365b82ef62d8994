"""The language of the window: texts in it, with figures as it writes them."""

from string import Formatter

from PySide6.QtCore import QCoreApplication, QLibraryInfo, QLocale, QTranslator

from app.start.asset_files import asset_path
from app.values.app_settings import Language
from mlx_engine.values.words import Words

QT_TRANSLATIONS = QLibraryInfo.path(QLibraryInfo.LibraryPath.TranslationsPath)
"""What Qt's own texts, such as those of its dialogs, are in other languages."""


def tr(text: str, comment: str = "", n: int = -1, /, **fields: object) -> str:
    """`text` in the window's language, with `fields` in the place of their {names}.

    Of a count n, `text` is the English of many ("{n:,} chats") and `comment` that of one; else
    `comment` tells a translator what is meant. Figures have the language's own marks, and Words
    among the fields are translated too.
    """
    if isinstance(text, Words):
        return tr(text.template, text.comment, text.n, **text.fields, **fields)
    said = QCoreApplication.translate("", text, comment, n)
    if n == 1 and said == text:
        said = comment
    return _FILLED.vformat(said, (), {"n": n, **fields}) if fields or n >= 0 else said


def said(text: str) -> str:
    """Words in the window's language; any other text is not ours, and stays as it is."""
    return tr(text) if isinstance(text, Words) else text


def in_a_sentence(text: str) -> str:
    """What begins with a capital, after a colon; a language whose nouns keep theirs does not begin
    with one.
    """
    words = said(text)
    return words[:1].lower() + words[1:]


def number(value: float, form: str = ",") -> str:
    """A figure in a format of Python's, with the marks of the language for tens and tenths."""
    locale = QLocale()
    marks = str.maketrans(",.", locale.groupSeparator() + locale.decimalPoint())
    return format(value, form).translate(marks)


def percent(share: float) -> str:
    """ "82 %" of 0.82, as the language writes it."""
    return tr("{percent:.0f} %", percent=100 * share)


class _Filled(Formatter):
    """str.format, but that figures and Words are written in the window's language."""

    def format_field(self, value: object, form: str) -> str:
        if isinstance(value, int | float):
            return number(value, form)
        return format(said(value) if isinstance(value, str) else value, form)


_FILLED = _Filled()


def speak(application: QCoreApplication, wish: Language) -> None:
    """Make what is shown from now on in this language; "system" has the first of its user's
    languages that there is, and the marks of figures as they are set there.
    """
    locale = QLocale.system() if wish == "system" else QLocale(wish)
    QLocale.setDefault(locale)
    for name in locale.uiLanguages():
        language = QLocale(name)
        if language.language() == QLocale.Language.English:
            return
        ours, of_qt = QTranslator(application), QTranslator(application)
        if ours.load(language, "headstart", "_", str(asset_path("translations"))):
            application.installTranslator(ours)
            if of_qt.load(language, "qtbase", "_", QT_TRANSLATIONS):
                application.installTranslator(of_qt)
            return
