"""A chat at a terminal: its settings, answers that Ctrl-C stops, and the slash commands."""

import difflib
import json
import shlex
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from rich.table import Table

from mlx_engine.command_line.options import (
    DRAFT_WORDS,
    SAMPLING_WORDS,
    change_cache_bits,
    change_draft_options,
    change_options,
    option_words,
    template_arguments,
)
from mlx_engine.command_line.screen import NOTE, WARNING, Screen, status_line
from mlx_engine.values.conversation import Event, Message
from mlx_engine.values.errors import BadOption, EngineError
from mlx_engine.values.options import (
    MAX_DEPTH,
    UNQUANTISED,
    DraftOutput,
    template_value_text,
)
from mlx_engine.values.picture import Picture, read_picture
from mlx_engine.values.saved_chat import (
    SavedChat,
    chat_as_content,
    chat_as_markdown,
    chat_from_content,
)
from mlx_engine.values.stats import GenerationStats
from mlx_engine.values.words import count_words, percent_words, size_words

if TYPE_CHECKING:
    from mlx_engine import Engine, Session


@contextmanager
def stopped_by_interrupt(stop: Callable[[], None]) -> Iterator[None]:
    """Have the first Ctrl-C in this context call `stop`, and the next raise KeyboardInterrupt.

    For the main thread only, where Python handles signals.
    """
    presses = 0

    def on_interrupt(_signal: int, _frame: FrameType | None) -> None:
        nonlocal presses
        presses += 1
        if presses > 1:
            raise KeyboardInterrupt
        stop()

    before = signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@dataclass(slots=True)
class Chat:
    """A conversation at a terminal: session, screen, and what is saved.

    is_open: the user has not left. saved: the messages that the last file holds. pictures: go with
    the next message.
    """

    engine: "Engine"
    session: "Session"
    screen: Screen
    is_open: bool = True
    saved: tuple[Message, ...] = ()
    pictures: tuple[Picture, ...] = ()

    @property
    def is_unsaved(self) -> bool:
        """Whether leaving the chat would lose messages that no file holds."""
        return self.session.messages not in ((), self.saved)

    def show_answer_of(self, begin_answer: Callable[[], Iterator[Event]]) -> bool:
        """Show an answer that Ctrl-C can stop; return True, or print an error and return False."""
        try:
            with stopped_by_interrupt(self.session.stop), self.screen.keys_unechoed():
                self.screen.show_answer(begin_answer())
        except EngineError as error:
            self.screen.print_note(str(error), WARNING)
            return False
        return True

    def send(self, text: str) -> bool:
        """Send a message with the pictures that wait for it, which stay if there is an error."""
        pictures = self.pictures
        is_answered = self.show_answer_of(lambda: self.session.send(text, pictures))
        if is_answered:
            self.pictures = ()
        return is_answered

    def add_pictures(self, pictures: tuple[Picture, ...]) -> None:
        """Add pictures to the next message. Raises BadOption if the model sees none."""
        why_not = self.engine.description.vision
        if pictures and why_not is not None:
            raise BadOption("{words}", words=why_not.words)
        self.pictures += pictures

    def print_greeting(self, machine: str) -> None:
        """Print the model, the machine, settings in effect, and why something is off."""
        model = self.engine.description
        heads = f"{model.mtp_heads} MTP head{'s' if model.mtp_heads != 1 else ''}"
        self.screen.print_note(
            f"{model.name} · {count_words(model.parameters)} parameters · {model.quantisation} · "
            f"{heads if model.mtp_heads else 'no MTP heads'} · numerics {model.numerics} · "
            f"{model.activations} · "
            f"{machine}",
            "bold",
        )
        for reason in model.declined:
            self.screen.print_note(reason.words, WARNING)
        if self.session.cache != UNQUANTISED:
            self.screen.print_note(f"Keys and values: {self.session.cache.words}")
        self.explain_drafting()

    def explain_colours(self) -> None:
        """Print what the colours of drafted words mean, where there are colours and drafts."""
        if self.screen.answers.color_system and self.session.why_not_drafting is None:
            depth = self.session.draft.depth
            self.screen.print_colour_legend(MAX_DEPTH if depth == "auto" else depth)

    def explain_drafting(self) -> None:
        """Print why this chat will draft nothing, if so."""
        reason = self.session.why_not_drafting
        if reason is not None:
            self.screen.print_note(reason.words, WARNING)
        elif self.session.draft.depth == 0:
            self.screen.print_note("Drafting is off: the depth is set to 0.", WARNING)


@dataclass(frozen=True, slots=True)
class ChatCommand:
    """A slash command of the terminal's chat.

    usage: arguments as /help shows them. run: takes the text after the command's name. words: for
    completion of that text. takes_file: the text is a file name.
    """

    usage: str
    help: str
    run: Callable[[Chat, str], None]
    words: tuple[str, ...] = ()
    takes_file: bool = False


def run_line(chat: Chat, line: str) -> None:
    """Send a line to the model, or run it as a slash command "/name arguments"; prints errors.

    A line that begins with two slashes is sent with one. Blank lines do nothing.
    """
    if line.startswith("//") or (line and not line.startswith("/")):
        chat.send(line.removeprefix("/"))
    elif line:
        _run_command(chat, line)


def _run_command(chat: Chat, line: str) -> None:
    name, _, rest = line[1:].partition(" ")
    command = COMMANDS.get(name.lower())
    if command is None:
        near = difflib.get_close_matches(name.lower(), COMMANDS, n=1)
        hint = f"did you mean /{near[0]}?" if near else "/help lists the commands."
        chat.screen.print_note(f"There is no command /{name}: {hint}", WARNING)
        return
    if rest.strip() and not command.usage:
        chat.screen.print_note(f"Write /{name} alone: it takes nothing more.", WARNING)
        return
    try:
        command.run(chat, rest.strip())
    except EngineError as error:
        chat.screen.print_note(str(error), WARNING)


def _help_command(chat: Chat, _rest: str) -> None:
    table = Table.grid(padding=(0, 2, 0, 0))
    for name, command in COMMANDS.items():
        table.add_row(f"/{name} {command.usage}".strip(), command.help, style=NOTE)
    chat.screen.notes.print(table, width=chat.screen.line_width)
    chat.screen.print_note("To send a message that starts with /, type two: //etc/hosts", "")


def _system_command(chat: Chat, argument: str) -> None:
    if argument:
        chat.session.system = None if argument == "off" else argument
    chat.screen.print_note(f"System prompt: {chat.session.system or 'none'}")


def _template_command(chat: Chat, argument: str) -> None:
    session = chat.session
    if argument:
        given = template_arguments(argument.split())
        session.template_arguments = dict(session.template_arguments) | given
    asked = ", ".join(chat.engine.description.template_arguments) or "none"
    values = session.template_arguments.items()
    words = " ".join(f"{name}={template_value_text(value)}" for name, value in values)
    chat.screen.print_note(f"Template: {words or 'nothing set'} (it takes: {asked})")


def _draft_command(chat: Chat, argument: str) -> None:
    chat.session.draft = change_draft_options(chat.session.draft, argument.split())
    chat.screen.print_note(f"Drafting: {option_words(chat.session.draft)}")
    chat.explain_drafting()


def _cache_command(chat: Chat, argument: str) -> None:
    session = chat.session
    before, session.cache = session.cache, change_cache_bits(session.cache, argument.split())
    is_read = session.cache != before and session.messages
    again = " (the next message reads the conversation again)" if is_read else ""
    chat.screen.print_note(f"Keys and values: {session.cache.words}{again}")


def _sampling_command(chat: Chat, argument: str) -> None:
    chat.session.sampling = change_options(chat.session.sampling, argument.split())
    chat.screen.print_note(f"Sampling: {option_words(chat.session.sampling)}")


def _stats_command(chat: Chat, _rest: str) -> None:
    if not chat.session.stats.passes:
        chat.screen.print_note("There are no figures yet: send a message first.", WARNING)
        return
    figures = stats_figures(chat.session.stats, chat.session.draft_output)
    chat.screen.notes.print(figures, style=NOTE, width=chat.screen.line_width)


def stats_figures(stats: GenerationStats, output: DraftOutput | None) -> Table:
    """Figures of an answer: sums, draft sources, acceptance by depth, time by stage.

    output: the output matrix that MTP heads draft with.
    """
    table = Table.grid(padding=(0, 2, 0, 0))
    reused = f", {stats.reused_tokens} of them reused" if stats.reused_tokens else ""
    heads = f"; heads read {stats.head_rows} tok, {100 * stats.head_share:.1f} % of the time"
    table.add_row(
        "prompt",
        f"{stats.prompt_tokens} tok{reused}, {stats.prompt_tokens_per_second:.0f} tok/s"
        f"{heads if stats.head_rows else ''}",
    )
    table.add_row("answer", f"{stats.passes} passes; {status_line(stats)}")
    table.add_row("memory", f"{size_words(stats.peak_memory_bytes)} at the peak")
    table.add_row("seed", f"{stats.seed}")
    for part in stats.by_source:
        matrix = f", output head {output}" if output and part.source == "mtp" else ""
        table.add_row(
            f"by {part.source}", f"{_acceptance_text(part.accepted, part.drafted)}{matrix}"
        )
    for depth, (accepted, drafted) in enumerate(
        zip_longest(stats.accepted_by_depth, stats.drafted_by_depth, fillvalue=0), 1
    ):
        table.add_row(f"depth {depth}", _acceptance_text(accepted, drafted))
    stages = {
        "draft": stats.draft_ms,
        "verify": stats.verify_ms,
        "accept": stats.accept_ms,
        "host": stats.host_ms,
    }
    for name, ms in stages.items():
        share = percent_words(ms, sum(stages.values()))
        table.add_row(name, f"{ms / max(stats.passes, 1):.2f} ms a pass ({share})")
    return table


def _acceptance_text(accepted: int, drafted: int) -> str:
    return f"accepted {accepted}/{drafted} ({percent_words(accepted, drafted)})"


def _regenerate_command(chat: Chat, _rest: str) -> None:
    chat.show_answer_of(chat.session.regenerate)


def _continue_command(chat: Chat, _rest: str) -> None:
    before = chat.session.messages
    if chat.show_answer_of(chat.session.continue_answer) and chat.session.messages == before:
        chat.screen.print_note("The answer is complete; /regenerate gives another.", WARNING)


def _drop_command(chat: Chat, _rest: str) -> None:
    unread = chat.session.drop_oldest()
    chat.screen.print_note(f"Messages 1 to {unread} are not read any more; /continue goes on.")


def _messages_command(chat: Chat, _rest: str) -> None:
    if not chat.session.messages:
        chat.screen.print_note("There are no messages yet.")
    for number, message in enumerate(chat.session.messages, 1):
        first, *more = message.text.splitlines() or [""]
        first = f"{f'({len(message.images)} pictures) ' if message.images else ''}{first}"
        unread = "(not read) " if number <= chat.session.unread else ""
        chat.screen.print_note(
            f"{number:>3} {message.role:<9} {unread}{first}{' …' if more else ''}"
        )


def _edit_command(chat: Chat, argument: str) -> None:
    number, _, text = argument.partition(" ")
    if not number.isdecimal() or not text.strip():
        raise BadOption("Write /edit N TEXT; /messages shows the numbers.")
    messages = enumerate(chat.session.messages)
    mine = {str(index + 1): index for index, message in messages if message.role == "user"}
    index = mine.get(number)
    if index is None:
        raise BadOption(f"Message {number} is not one of yours: /messages shows the numbers.")
    chat.show_answer_of(lambda: chat.session.edit(index, text.strip()))


def _image_command(chat: Chat, argument: str) -> None:
    if argument == "off":
        chat.pictures = ()
    elif argument:
        chat.add_pictures((read_picture(_path_from_argument(argument, "/image FILE")),))
    sizes = ", ".join(f"{one.width} x {one.height}" for one in chat.pictures)
    chat.screen.print_note(f"Pictures with the next message: {sizes or 'none'}")


def _save_command(chat: Chat, argument: str) -> None:
    path = _path_from_argument(argument, "/save FILE, ending in .md or .json")
    session, model = chat.session, chat.engine.description.name
    write_chat(path, SavedChat(model, session.system, session.messages))
    chat.saved = session.messages
    chat.screen.print_note(f"Saved {len(session.messages)} messages to {path}")


PICTURES_UNSEEN = (
    "This chat has pictures, so that it cannot go on with this model: /clear begins another, or "
    "start with a model that sees them."
)


def _load_command(chat: Chat, argument: str) -> None:
    saved = read_chat(_path_from_argument(argument, "/load FILE, a .json that /save made"))
    chat.session.system = saved.system
    chat.session.load_messages(saved.messages)
    chat.saved = chat.session.messages
    chat.screen.print_note(f"Loaded {len(saved.messages)} messages; /messages shows them.")
    why_not = chat.engine.description.vision
    if why_not is not None and any(message.images for message in saved.messages):
        chat.screen.print_note(f"{PICTURES_UNSEEN} {why_not.words}", WARNING)


def _path_from_argument(argument: str, usage: str) -> Path:
    """Read a path as it is written, or quoted or escaped, as a file that is dropped into a
    terminal.
    """
    if not argument:
        raise BadOption(f"Write {usage}.")
    try:
        path, words = Path(argument).expanduser(), list[str]()
        with suppress(OSError, ValueError):  # a name too long, a single quotation mark
            words = [] if path.exists() else shlex.split(argument)
        return Path(words[0]).expanduser() if len(words) == 1 else path
    except RuntimeError as error:
        raise BadOption(f"{argument} is not possible: {error}") from None


def _clear_command(chat: Chat, _rest: str) -> None:
    chat.session.load_messages(())
    chat.screen.print_note("A new chat; settings stay as they are.")


def _quit_command(chat: Chat, _rest: str) -> None:
    chat.is_open = False


_DRAFT_USAGE = "[SOURCE] [DEPTH | auto | off] [KEY=VALUE]"
_CACHE_USAGE = "[BITS [HEAD-BITS]]"
COMMANDS = {
    "help": ChatCommand("", "this list", _help_command),
    "system": ChatCommand(
        "[TEXT | off]", "show or set the system prompt", _system_command, ("off",)
    ),
    "template": ChatCommand(
        "[NAME=VALUE ...]", "show or set template arguments", _template_command
    ),
    "draft": ChatCommand(_DRAFT_USAGE, "show or set the drafting", _draft_command, DRAFT_WORDS),
    "cache": ChatCommand(
        _CACHE_USAGE, "show or set bits of keys and values", _cache_command, ("16", "8", "4")
    ),
    "sampling": ChatCommand(
        "[KEY=VALUE ...]", "show or set how tokens are picked", _sampling_command, SAMPLING_WORDS
    ),
    "image": ChatCommand(
        "[FILE | off]", "show or add pictures of the next message", _image_command, (), True
    ),
    "stats": ChatCommand("", "figures of the last answer", _stats_command),
    "messages": ChatCommand("", "the conversation with its numbers", _messages_command),
    "regenerate": ChatCommand("", "answer the last message again", _regenerate_command),
    "edit": ChatCommand("N TEXT", "replace your message N and answer from there", _edit_command),
    "continue": ChatCommand("", "go on with the last answer", _continue_command),
    "drop": ChatCommand("", "skip the oldest turns when the context is full", _drop_command),
    "save": ChatCommand(
        "FILE.md | FILE.json", "write the chat to a new file", _save_command, (), True
    ),
    "load": ChatCommand("FILE.json", "go on with a saved chat", _load_command, (), True),
    "clear": ChatCommand("", "start a new chat", _clear_command),
    "quit": ChatCommand("", "leave, as Ctrl-D and Ctrl-C do on an empty line", _quit_command),
}


def write_chat(path: Path, chat: SavedChat) -> None:
    """Write a chat to a new .md or .json file; raises BadOption, also where the file exists."""
    match path.suffix.lower():
        case ".md":
            text = chat_as_markdown(chat)
        case ".json":
            text = json.dumps(chat_as_content(chat), ensure_ascii=False, indent=2) + "\n"
        case _:
            raise BadOption(f"{path.name!r} is not possible: use a name ending in .md or .json.")
    try:
        content = text.encode()
        with path.open("xb") as file:
            file.write(content)
    except FileExistsError:
        raise BadOption(f"{path} is there already: choose another name.") from None
    except OSError as error:
        raise BadOption(f"{path} cannot be written: {error.strerror}.") from None
    except ValueError as error:
        raise BadOption(f"{path.name!r} could not be written: {error}.") from None


def read_chat(path: Path) -> SavedChat:
    """Read a chat from a .json file of `write_chat`; raises BadOption for any other file."""
    try:
        return chat_from_content(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise BadOption(f"{path} cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError):
        raise BadOption(f"{path} is not a chat that /save wrote as .json.") from None
