"""The chat on show: its turns, settings and unsent text, and the steps that change them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

from PySide6.QtCore import QObject, Signal

from app.state.answers import Answers
from app.state.drafts import NEW, Drafts
from app.state.models import ModelState
from app.state.running_answer import Growth, RunningAnswer, worth_telling
from app.state.state import State
from app.store.messages import Removed
from app.store.session_store import SessionStore
from app.values.attached_text import SaidWith
from app.values.chat_settings import ChatSettings
from app.values.chats import Branch, StoredMessage, Turn
from app.values.tools import Decision
from app.worker.replies import OldestDropped
from app.worker.requests import ChangeSettings, CloseChat, Request
from mlx_engine.values.picture import Picture
from mlx_engine.values.stats import GenerationStats
from mlx_engine.values.words import Words, join_words

NO_MODEL = Words("No model is loaded: open or drop one, then ask again.")
UNSEEN = Words(
    "This chat has pictures. {words} Load a model that sees them, delete the messages with "
    "pictures, or begin a new chat."
)
LOOKED_AT = 100
"""Messages at the end of a chat among which its last question and answer are looked for."""


class ChatState(State):
    """The selected branch of the chat on show; answers in other chats go on meanwhile.

    A new chat has no id until its first question is stored. turns: of the branch, loaded on access.
    settings, title, pinned: of the chat. found: the search text found in the message at which the
    chat was opened.

    Signals:
        opened: another chat is on show; the place to scroll to, None for its end.
        replaced: the messages from this place on are others.
        added: messages were added from this place on.
        grown: the id of an answer, and the Growth that was added to it.
        ended: the id of an answer that is complete, stopped or failed.
        changed: after each of these but `grown`, and after a change of title or pin.
        settings_changed: the chat has other settings.
        stored: id of a chat with a new message, for the list of chats.
    """

    opened = Signal(object)
    replaced = Signal(int)
    added = Signal(int)
    grown = Signal(int, object)
    ended = Signal(int)
    settings_changed = Signal()
    stored = Signal(int)

    def __init__(
        self,
        store: SessionStore,
        answers: Answers,
        models: ModelState,
        drafts: Drafts,
        request: Callable[[Request], None],
        settings: ChatSettings,
        parent: QObject | None = None,
    ) -> None:
        """Begin with a new chat with these settings."""
        super().__init__(parent)
        self._store, self._answers, self._models = store, answers, models
        self._drafts, self._request = drafts, request
        self.chat_id: int | None = None
        self.title, self.pinned, self.found = "", False, ""
        self.settings = settings
        self.turns = Branch([], lambda _: ())
        self._problems = list[str]()
        models.changed.connect(self._tell_of_a_model)
        answers.grown.connect(self._grow)
        answers.ended.connect(self._end)

    # which chat

    def begin(self, settings: ChatSettings) -> None:
        """Show a new, empty chat."""
        self.chat_id, self.settings = None, settings
        self.title, self.pinned, self.found = "", False, ""
        self.turns = Branch([], lambda _: ())
        self._tell_opened(None)

    def open(self, chat_id: int, message_id: int | None = None, found: str = "") -> None:
        """Show a stored chat, scrolled to a message if one is given, in which `found` was found."""
        with self.reporting():
            chat = self._store.open_chat(chat_id)
            if message_id is not None and message_id not in chat.turns.ids:
                self._store.messages.select(message_id)
                chat = self._store.open_chat(chat_id)
            self.chat_id, self.settings, self.turns = chat_id, chat.settings, chat.turns
            self.title, self.pinned = chat.summary.title, chat.summary.pinned
            self.found = found
            self._tell_opened(self.place(message_id) if message_id in chat.turns.ids else None)
            if chat.notes:
                self.failed.emit(join_words(chat.notes, " "))

    def look_again(self) -> None:
        """Reload title and pin of the chat on show."""
        if self.chat_id is not None:
            with self.reporting():
                self._show_summary(self.chat_id)
                self.changed.emit()

    def _show_summary(self, chat_id: int) -> None:
        summary = self._store.chats.get(chat_id)
        self.title, self.pinned = summary.title, summary.pinned

    def forget(self, chat_id: int) -> None:
        """End the answer of a deleted chat, and drop its caches."""
        self._answers.stop(chat_id)
        self._request(CloseChat(str(chat_id)))

    # what is on show

    @property
    def running(self) -> RunningAnswer | None:
        """The running answer of the chat on show."""
        return self._answers.of_chat(self.chat_id)

    @property
    def last_stats(self) -> GenerationStats | None:
        """Figures of the newest finished answer on show."""
        found = (worth_telling(message.stats) for message in self.newest)
        return next(filter(None, found), None)

    @property
    def newest(self) -> Iterator[StoredMessage]:
        """The last messages on show, newest first, at most LOOKED_AT."""
        return (turn.message for turn in islice(reversed(self.turns), LOOKED_AT))

    @property
    def last_answer(self) -> StoredMessage | None:
        """The newest answer on show."""
        return next((message for message in self.newest if message.role == "assistant"), None)

    @property
    def last_question(self) -> StoredMessage | None:
        """The newest question on show."""
        return next((message for message in self.newest if message.role == "user"), None)

    def place(self, message_id: int | None) -> int | None:
        """Return the place of a message in the branch on show, None if it is not in it."""
        return self.turns.place(message_id)

    def message(self, message_id: int) -> StoredMessage:
        """Return a message of the branch on show; raises KeyError."""
        place = self.place(message_id)
        if place is None:
            raise KeyError(message_id)
        turn: Turn = self.turns[place]
        return turn.message

    @property
    def unsent(self) -> SaidWith:
        """The unsent text of the chat, and its attachments."""
        return self._drafts.of_chat(self.chat_id or NEW)

    @unsent.setter
    def unsent(self, said: SaidWith) -> None:
        self._drafts.keep(self.chat_id or NEW, said)

    # what the user does

    def send(self, text: str, pictures: Sequence[Picture] = ()) -> bool:
        """Send a question at the end of the branch; False if that failed."""
        place, messages = len(self.turns), self._store.messages
        if self.running is not None or not self._can_answer(place):
            return False
        last = self.turns.ids[-1] if self.turns else None
        if not self._ask(place, lambda chat: messages.add(chat, last, "user", text, pictures)):
            return False
        self.added.emit(place)
        self._tell_asked()
        return True

    def regenerate(self, message_id: int | None = None) -> None:
        """Answer a question again, the last one by default; the old answer stays as a branch."""
        asked = self._question_before(message_id)
        if asked is None or self.running is not None:
            return
        place = self.turns.ids.index(asked.id)
        if self._can_answer(place + 1) and self._ask(place, lambda _: asked):
            self.replaced.emit(place + 1)
            self._tell_asked()

    def edit(self, message_id: int, text: str, pictures: Sequence[Picture] | None = None) -> None:
        """Change the text of a question and ask it, or of an answer; the old one stays as a
        branch. pictures: of a question, None for the old ones.
        """
        old = self.message(message_id)
        kept = old.pictures if pictures is None else pictures
        place = self.turns.ids.index(message_id)
        is_answer = old.role == "assistant"
        if self.running is not None:
            keep = Words("Stop the answer that is being written, then keep this again.")
            send = Words("Stop the answer that is being written, then send this again.")
            self.failed.emit(keep if is_answer else send)
        elif is_answer:
            self._rewrite(place, old, text)
        elif self._can_answer(place + bool(kept)) and self._ask(
            place, lambda _: self._store.messages.edit(message_id, text, kept)
        ):
            self._drafts.drop_edit(message_id)
            self.replaced.emit(place)
            self._tell_asked()

    def _rewrite(self, place: int, old: StoredMessage, text: str) -> None:
        is_news = text != old.text
        with self.reporting():
            if is_news:
                self._store.messages.rewrite(old.id, text)
                self.turns = self._store.messages.path(self._number)
            self._drafts.drop_edit(old.id)
            self._tell_replaced(place)
            if is_news:
                self.stored.emit(old.chat_id)

    def continue_answer(self, message_id: int | None = None, *, drops_oldest: bool = False) -> None:
        """Continue the last answer where it was cut, even before its first word.

        drops_oldest: leave out the oldest turns, as many as free half of the context.
        """
        last = self.last_answer
        is_named = last is not None and message_id in (None, last.id)
        is_last = last is not None and self.turns.ids[-1] == last.id
        place = len(self.turns) - 1
        if last is None or not is_named or not is_last or self.running:
            return
        if not self._can_answer(place):
            return
        with self.reporting():
            past = self._store.messages.conversation(self._read_before(place))
            self._answers.go_on(last, past, self.settings, drops_oldest=drops_oldest)
            self._tell_replaced(place)

    def drop_oldest(self, message_id: int) -> None:
        """Continue or begin the last answer without the oldest turns."""
        if self.can_drop:
            self.continue_answer(message_id, drops_oldest=True)

    def keep_dropped(self, dropped: OldestDropped) -> None:
        """Leave the dropped turns out of a chat's later questions too."""
        chat_id = int(dropped.chat_id)
        with self.reporting():
            turns = self.turns if chat_id == self.chat_id else self._store.messages.path(chat_id)
            if turns.place(int(dropped.message_id)) is None:
                return  # another branch is on show
            settings = self._store.chats.settings(chat_id).value
            first, count = turns.place(settings.read_from) or 0, dropped.count
            while count > 0:
                count -= len(self._store.messages.conversation(turns.ids[first : first + 1]))
                first += 1
            read_from = turns.ids[first]
            self._store.chats.set_settings(chat_id, replace(settings, read_from=read_from))
            if chat_id == self.chat_id:
                before, self.settings = self.first_read, replace(self.settings, read_from=read_from)
                self._tell_replaced(before)

    def delete(self, message_id: int) -> Callable[[], None] | None:
        """Remove a question and its answers from the chat; later messages stay.

        Return a function that undoes it, None if it failed.
        """
        asked = self._question_before(message_id)
        if self.running is not None:
            self.failed.emit(Words("Stop the answer that is being written, then delete this."))
        elif asked is not None:
            place = self.turns.ids.index(asked.id)
            with self.reporting():
                removed = self._store.messages.remove(asked.id)
                self._show_from(place)
                return lambda: self._put_back(place, removed)
        return None

    def _put_back(self, place: int, removed: Removed) -> None:
        with self.reporting():
            self._store.messages.put_back(removed)
            if self.chat_id == removed.chat_id:
                self._show_from(place)

    def _show_from(self, place: int) -> None:
        """Reload the branch, which has changed from this place on."""
        self.turns = self._store.messages.path(self._number)
        self._tell_replaced(place)
        self.stored.emit(self._number)

    def show_branch(self, message_id: int, step: int) -> None:
        """Show the next (1) or previous (-1) version of a message, in its place."""
        place = self.place(message_id)
        if self.running is not None:
            words = Words("Stop the answer that is being written, then show another version.")
            self.failed.emit(words)
        if self.running is not None or place is None:
            return
        versions = self.turns[place].siblings
        version = versions.index(message_id) + step
        with self.reporting():
            self._store.messages.select(versions[min(max(version, 0), len(versions) - 1)])
            self.turns = self._store.messages.path(self._number)
            self._tell_replaced(place)

    def stop(self) -> None:
        """Stop the running answer of the chat on show; its text is kept."""
        if self.chat_id is not None:
            self._answers.stop(self.chat_id)

    def decide_call(self, decision: Decision) -> None:
        """Allow or refuse the tool call that the chat on show waits for."""
        answer = self.running
        place = None if answer is None else answer.next_use
        if answer is None or place is None:
            return
        tool = answer.tool_of(answer.uses[place])
        if decision == "chat" and tool is not None:
            allowed = (*self.settings.allowed_tools, tool.permission)
            self.change_settings(replace(self.settings, allowed_tools=allowed))
        is_allowed = decision != "deny"
        self._answers.decide(answer.message_id, self.settings, is_allowed=is_allowed)

    def change_settings(self, settings: ChatSettings) -> None:
        """Change the chat's settings, from the next round on."""
        with self.reporting():
            self._set_settings(settings)
            if self.chat_id is not None:
                self._request(ChangeSettings(str(self.chat_id), settings))
            self.settings_changed.emit()

    def _set_settings(self, settings: ChatSettings) -> None:
        if self.chat_id is not None:
            self._store.chats.set_settings(self.chat_id, settings)
        self.settings = settings

    def rename_preset(self, name: str, new: str) -> None:
        """Rename a preset in all chats that began with it."""
        with self.reporting():
            self._store.chats.rename_preset(name, new)
            if self.settings.preset == name:
                self.settings = replace(self.settings, preset=new)
            self.settings_changed.emit()

    # how it is done

    def _ask(self, place: int, question_of: Callable[[int], StoredMessage]) -> bool:
        """Store a question at `place` with an empty answer, both or neither, and send it.

        Return False if it could not be stored.
        """
        current = self._models.loading or self._models.in_use
        settings = replace(self.settings, model_path=current.path if current else None)
        messages, is_new = self._store.messages, self.chat_id is None
        with self.reporting():
            with self._store.database.transaction():
                chat_id = self._store.chats.create(settings) if is_new else self._number
                if not is_new and settings != self.settings:
                    self._store.chats.set_settings(chat_id, settings)
                question = question_of(chat_id)
                answer = messages.get(messages.begin_answer(chat_id, question.id))
                past = messages.conversation((*self._read_before(place), question.id))
            if is_new:
                self._drafts.move(NEW, chat_id)
            self.chat_id, self.settings = chat_id, settings
            self._put(place, question, answer)
            self._answers.begin(RunningAnswer(chat_id, answer.id), past, settings)
            self._show_summary(chat_id)
            return True
        return False

    @property
    def _number(self) -> int:
        assert self.chat_id is not None
        return self.chat_id

    def _put(self, place: int, question: StoredMessage, answer: StoredMessage) -> None:
        """Show a question at a place, and its answer after it."""
        if question.id not in self.turns.ids[place : place + 1]:
            asked = Turn(question, (*self._versions(place), question.id))
            self.turns.replace_from(place, asked)
        self.turns.replace_from(place + 1, Turn(answer, (*self._versions(place + 1), answer.id)))

    def _versions(self, place: int) -> tuple[int, ...]:
        """Return the ids of all versions of the message at a place."""
        return self.turns[place].siblings if place < len(self.turns) else ()

    def _question_before(self, message_id: int | None) -> StoredMessage | None:
        """Return the question that a message answers, or is; the last question for None."""
        if message_id is None:
            return self.last_question
        place = self.place(message_id)
        before = () if place is None else reversed(self.turns[: place + 1])
        return next((turn.message for turn in before if turn.message.role == "user"), None)

    def _can_answer(self, place: int) -> bool:
        """Check that the model can read the messages before a place; report why it cannot."""
        problem = self.why_unseen(place) if self._models.wake() else NO_MODEL
        if problem is not None:
            self._problems.append(problem)
            self.failed.emit(problem)
        return problem is None

    def why_unseen(self, place: int) -> Words | None:
        """Why the model cannot read the messages before a place, of which one has pictures."""
        model = self._models.description
        if model is None or model.vision is None or self.chat_id is None:
            return None
        with self.reporting():
            shown = self._store.messages.ids_with_pictures(self.chat_id)
            if shown and not shown.isdisjoint(self._read_before(place)):
                return Words(UNSEEN.template, words=model.vision.words)
        return None

    def _tell_of_a_model(self) -> None:
        while self._models.can_answer and self._problems:
            self.mended.emit(self._problems.pop())

    def _tell_opened(self, first: int | None) -> None:
        self.opened.emit(first)
        self.settings_changed.emit()
        self.changed.emit()

    def _tell_asked(self) -> None:
        self.changed.emit()
        self.stored.emit(self._number)

    def _tell_replaced(self, place: int) -> None:
        self.replaced.emit(place)
        self.changed.emit()

    def _grow(self, answer: RunningAnswer, growth: Growth) -> None:
        if answer.chat_id == self.chat_id and self.place(answer.message_id) is not None:
            self.grown.emit(answer.message_id, growth)

    def _end(self, answer: RunningAnswer) -> None:
        self.stored.emit(answer.chat_id)
        if answer.chat_id != self.chat_id:
            return
        place = self.place(answer.message_id)
        if place is not None and answer.ended is not None:
            self.turns.put_message(place, answer.ended.of(self.turns[place].message))
            self.ended.emit(answer.message_id)
        self.changed.emit()

    # a context that is full

    @property
    def first_read(self) -> int:
        """Place of the first message that the model reads; 0 if no turns were dropped."""
        return self.place(self.settings.read_from) or 0

    def _read_before(self, place: int) -> Sequence[int]:
        """Return the ids of the messages that the model reads before the one at a place."""
        first = self.first_read
        return self.turns.ids[first if place >= first else 0 : place]

    @property
    def can_drop(self) -> bool:
        """Whether the model still reads a turn before the last one."""
        later = islice(self.newest, max(0, len(self.turns) - 1 - self.first_read))
        return any(message.role == "user" for message in later)
