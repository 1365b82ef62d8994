"""Tools of a chat, and the format of its answers."""

import json
from dataclasses import replace

from PySide6.QtWidgets import QPushButton

from app.state.chat import ChatState
from app.state.settings import KeptSettings
from app.state.tools import Tools
from app.window.controls.bound import Bound
from app.window.controls.choices import Tick
from app.window.controls.fields import TextField
from app.window.controls.labels import describe, paragraph
from app.window.controls.layouts import STRETCH, Group, column, row
from app.window.language import tr
from app.window.tools_pane import state_in_words
from mlx_engine.values.errors import BadOption
from mlx_engine.values.options import GenerationOptions
from mlx_engine.values.words import Words, join_words

NONE = Words("The model can use tools, such as searching the web, once you add a tool server.")
WHAT_TOOLS = Words("What the model can use to answer in this chat. It asks you before each use.")
WHAT_FORMAT = Words(
    "The form of every answer in this chat, after any thinking. JSON is a way to write data that "
    "programs can read; a JSON schema says what the data must have. A regular expression is a "
    "pattern that text must follow. Tools are off while a format is set."
)
ANY = Words("JSON schema, or a regular expression. Empty: any text.")
STILL_BOUND = Words("Until this is corrected, answers keep the format set before.")
STILL_FREE = Words("Until this is corrected, answers can be any text.")


class ToolsGroup(Group):
    """A check box for each tool server that is on. set_up: button that opens their settings."""

    def __init__(self) -> None:
        super().__init__(Words("Tools"), what=WHAT_TOOLS)
        self.set_up = QPushButton(tr("Tool Servers…"))
        self._none = paragraph(tr(NONE), "muted")
        self._forget = QPushButton(tr("Ask Before Each Use Again"))
        describe(self.set_up, tr("Add, change and remove the programs that give models tools"))
        describe(self._forget, tr("Tools that you allowed in this chat ask you again"))
        self._ticks = dict[str, Tick]()
        self._lines = column(spacing=4)
        self._states = paragraph("", "muted")
        buttons = (row(self._forget, STRETCH), row(self.set_up, STRETCH))
        self.add(self._none, self._lines, self._states, *buttons)

    def watch(self, chat: ChatState, settings: KeptSettings, tools: Tools) -> None:
        """Show and change which tool servers the chat on show uses."""
        self._chat, self._tools = chat, tools
        self._forget.clicked.connect(
            lambda: chat.change_settings(replace(chat.settings, allowed_tools=()))
        )
        for changed in (chat.settings_changed, settings.changed, tools.changed):
            changed.connect(self._refresh)
        self._refresh()

    def _refresh(self) -> None:
        names = [server.name for server in self._tools.servers]
        if names != list(self._ticks):
            for tick in self._ticks.values():
                self._lines.removeWidget(tick)
                tick.hide()
                tick.deleteLater()
            self._ticks = {name: Tick(name) for name in names}
            for name, tick in self._ticks.items():
                self._lines.addWidget(tick)
                tick.chosen.connect(lambda is_on, name=name: self._use(name, is_on))
        used = self._chat.settings.tool_servers
        for name, tick in self._ticks.items():
            words = state_in_words(self._tools.state(name))
            tick.set_value(name in used)
            describe(tick, words)
        problems = [self._tools.state(name).problem for name in names if name in used]
        self._states.setText("\n".join(map(tr, filter(None, problems))))
        self._states.setVisible(any(problems))
        self._none.setVisible(not names)
        self._forget.setVisible(bool(self._chat.settings.allowed_tools))

    def _use(self, name: str, is_on: bool) -> None:
        settings = self._chat.settings
        others = tuple(other for other in settings.tool_servers if other != name)
        used = (*others, name) if is_on else others
        self._chat.change_settings(replace(settings, tool_servers=used))


class FormatField(TextField):
    """A field for the answer format: a JSON schema, which begins with "{", or a regular
    expression.
    """

    def __init__(self) -> None:
        name = tr("Answer format")
        super().__init__(
            name, 3, tr(ANY), self._bound, format_text, shows_name=False, what=tr(WHAT_FORMAT)
        )
        self._options = GenerationOptions()
        self.chosen.connect(self._keep)

    def _keep(self, options: GenerationOptions) -> None:
        self._options = options

    def set_value(self, value: object) -> None:
        """Show the answer format of options without emitting it."""
        assert isinstance(value, GenerationOptions)
        if format_text(value) != format_text(self._options) or not self._is_same(value):
            super().set_value(value)
        self._options = value

    def _is_same(self, value: GenerationOptions) -> bool:
        """Whether the typed text is the format of these options."""
        try:
            typed = self._bound(self.text())
        except BadOption:
            return format_text(value) == format_text(self._options)
        return (typed.schema, typed.regex) == (value.schema, value.regex)

    def _bound(self, text: str) -> GenerationOptions:
        try:
            return options_with_format(self._options, text)
        except BadOption as problem:
            kept = STILL_BOUND if format_text(self._options) else STILL_FREE
            raise BadOption(join_words((str(problem), kept), " ")) from problem


class FormatGroup(Group):
    """The group of the answer format."""

    def __init__(self, bound: Bound) -> None:
        super().__init__(Words("Answer format"), is_open=False, what=WHAT_FORMAT)
        self.field = FormatField()
        self.add(bound.bind("generation", self.field))


def format_text(options: GenerationOptions) -> str:
    """Format the answer format of options as text."""
    if options.schema is not None:
        return json.dumps(options.schema, ensure_ascii=False, indent=2)
    return options.regex or ""


def options_with_format(options: GenerationOptions, text: str) -> GenerationOptions:
    """Set the answer format from text, "" for none. Raises BadOption."""
    from llguidance import LLMatcher

    text = text.strip()
    free = replace(options, schema=None, regex=None, grammar=None)
    if not text:
        return free
    try:
        if text.startswith("{"):
            schema = json.loads(text)
            grammar = LLMatcher.grammar_from_json_schema(schema)
            bound = replace(free, schema=schema)
        else:
            grammar = LLMatcher.grammar_from_regex(text)
            bound = replace(free, regex=text)
    except (ValueError, RecursionError) as error:
        raise BadOption("This is not JSON: {error}.", error=str(error)) from error
    if problem := LLMatcher.validate_grammar(grammar, None):
        why = " ".join(problem.split())[:200]
        raise BadOption("No answer can have this format ({why}).", why=why)
    return bound
