"""Translate the window's texts and format numbers in its language."""

from PySide6.QtCore import QCoreApplication, QLibraryInfo, QLocale, QTranslator

from app.start.folders import asset_path
from app.values.app_settings import Language
from mlx_engine.values.words import Words

DRAFTING = Words(
    "Drafting: a small part of the model guesses the next few words, and the whole model checks "
    "them in one go. The text stays the same; it only comes faster."
)
DRAFTING_HEADS = Words("Drafting heads are the small part of a model that guesses the next words.")
TOKEN = Words("A token is a word or a piece of one: 100 tokens are about 75 words.")
STEP = Words("A step is one check by the whole model; each right guess saves one.")
PARAMETERS = Words(
    "Parameters are the numbers a model is made of: more of them means it knows more but runs "
    "slower."
)
"""Technical words of the window, explained."""

QT_TRANSLATIONS = QLibraryInfo.path(QLibraryInfo.LibraryPath.TranslationsPath)
"""Folder of the translations of Qt's own texts, such as those of dialogs."""


def tr(text: str, comment: str = "", n: int = -1, /, **fields: object) -> str:
    """Translate `text` and fill in its fields.

    For a count n, `text` is the English plural ("{n:,} chats") and `comment` the singular;
    otherwise `comment` helps translators. Numbers have the language's separators, and Words among
    the fields are translated too.
    """
    if isinstance(text, Words):
        return tr(text.template, text.comment, text.n, **text.fields, **fields)
    said = QCoreApplication.translate("", text, comment, n)
    if n == 1 and said == text:
        said = comment
    if not fields and n < 0:
        return said
    return said.format(**{name: _shown(value) for name, value in {"n": n, **fields}.items()})


def said(text: str) -> str:
    """Translate Words; any other text is returned unchanged."""
    return tr(text) if isinstance(text, Words) else text


def in_a_sentence(text: str) -> str:
    """Translate a text for the middle of a sentence: lower case, except for German nouns."""
    words = said(text)
    return words[:1].lower() + words[1:]


class _Figure:
    """A number with the language's format for str.format."""

    def __init__(self, value: float) -> None:
        self._value = value

    def __format__(self, form: str) -> str:
        return number(self._value, form)


def _shown(value: object) -> object:
    if isinstance(value, int | float):
        return _Figure(value)
    return said(value) if isinstance(value, str) else value


def number(value: float, form: str = ",") -> str:
    """Format a number by a Python format, with the language's separators."""
    locale = QLocale()
    marks = str.maketrans(",.", locale.groupSeparator() + locale.decimalPoint())
    return format(value, form).translate(marks)


def decimal(value: float) -> str:
    """Format a number with all its digits and no more: "1", "0.7", "18446744073709551615"."""
    text = str(int(value)) if float(value).is_integer() else repr(value)
    return text.replace(".", QLocale().decimalPoint())


def percent(share: float) -> str:
    """Format a share as the language writes it: "82%" for 0.82."""
    return tr("{percent:.0f}%", percent=100 * share)


def speak(application: QCoreApplication, wish: Language) -> None:
    """Set the language of the application; "system" takes the first available one of the user's.

    Number formats then are those of the system.
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
