"""The chat on show: joins the transcript with the store and the engine."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from PySide6.QtCore import QObject, Signal

from app.control.answers import CLOSED, WITHDRAWN, Answers, Growth, RunningAnswer, worth_telling
from app.control.models import ModelController
from app.control.open_chat import OpenChat
from app.values.chat_settings import ChatSettings
from app.values.chats import LazySequence, StoredMessage, Turn
from app.values.errors import StoreError
from app.window.language import said, tr
from app.window.transcript.shown_message import ShownMessage, State
from app.window.transcript.transcript_view import TranscriptView
from app.worker.replies import Problem
from app.worker.requests import ChangeSettings, CloseChat, Request
from mlx_engine.values.stats import GenerationStats
from mlx_engine.values.words import Words, joined

ENDINGS = {
    "stopped": Words("Stopped."),
    "max-tokens": Words("Ended at this chat's limit of tokens."),
    "context-full": Words("The context is full. Edit an earlier message or start a new chat."),
    "memory-full": Words(
        "Memory is full. Close other programs or chats and continue, or start a new chat."
    ),
}
EDITED = Words("Edited.")
INTERRUPTED = Words("Interrupted reply.")


def shown_turn(turn: Turn, *, is_last: bool, can_drop: bool) -> ShownMessage:
    """A message that is not being written; can_drop: there are turns to go on without."""
    message = turn.message
    is_last_answer = is_last and message.role == "assistant"
    is_full = message.finish_reason in ("context-full", "memory-full")
    drops = is_last_answer and can_drop and is_full
    was_cut = message.state == "stopped" or message.finish_reason in ("max-tokens", "memory-full")
    return ShownMessage(
        id=message.id,
        role="assistant" if message.role == "assistant" else "user",
        text=message.text,
        thinking=message.thinking,
        thinking_seconds=message.thinking_seconds,
        spans=message.spans,
        stats=worth_telling(message.stats),
        state=_state(message),
        branch_index=turn.number - 1,
        branch_count=len(turn.siblings),
        notice=_notice(message),
        can_continue=is_last_answer and (was_cut or message.edited) and not drops,
        can_drop=drops,
    )


def shown_answer(answer: RunningAnswer, turn: Turn) -> ShownMessage:
    """The answer that is being written in the place of `turn`."""
    return ShownMessage(
        id=answer.message_id,
        role="assistant",
        text=answer.answer.text,
        thinking=answer.thinking.text,
        thinking_seconds=answer.thinking_seconds,
        spans=tuple(answer.answer.spans),
        thinking_spans=tuple(answer.thinking.spans),
        state="live",
        branch_index=turn.number - 1,
        branch_count=len(turn.siblings),
    )


def _state(message: StoredMessage) -> State:
    if message.interrupted and message.problem not in (CLOSED, WITHDRAWN):
        return "failed"
    return "stopped" if message.state == "stopped" else "done"


def _notice(message: StoredMessage) -> str:
    if message.interrupted:
        return tr(message.problem or INTERRUPTED)
    return said(EDITED if message.edited else ENDINGS.get(message.finish_reason or "", ""))


class ChatController(QObject):
    """One chat is on show at a time; answers in others go on.

    Signals:
        opened: another chat is on show, or this one has got a number.
        stored: a chat in which something was said, which the list of chats shows.
        settings_shown: the ChatSettings of the chat on show.
        failed: why something could not be done, in words, and details or "".
    """

    opened = Signal()
    stored = Signal(int)
    settings_shown = Signal(object)
    failed = Signal(object, str)

    def __init__(
        self,
        chat: OpenChat,
        answers: Answers,
        models: ModelController,
        transcript: TranscriptView,
        request: Callable[[Request], None],
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self.chat = chat
        self._answers = answers
        self._models = models
        self._transcript = transcript
        self._request = request
        answers.grown.connect(self._grow)
        answers.ended.connect(self._end)

    # which chat

    def begin(self, settings: ChatSettings) -> None:
        """Show a new, empty chat."""
        self.chat.begin(settings)
        self._show()

    def open(self, chat_id: int, message_id: int | None = None) -> None:
        """Show a stored chat, at a message of it if one is named."""
        if self._try(lambda: self._open(chat_id, message_id)):
            ids = self.chat.turns.ids
            self._show(ids.index(message_id) if message_id in ids else None)
            if self.chat.notes:
                self.failed.emit(joined(self.chat.notes, " "), "")

    def _open(self, chat_id: int, message_id: int | None) -> None:
        self.chat.open(chat_id)
        if message_id is not None and message_id not in self.chat.turns.ids:
            self.chat.select(message_id)

    def look_again(self) -> None:
        """The chat on show may have another name."""
        self._try(self.chat.reload)

    def forget(self, chat_id: int) -> None:
        """A chat was thrown away: end its answer, and let go what was read of it."""
        self._answers.stop(chat_id)
        self._request(CloseChat(str(chat_id)))

    @property
    def running(self) -> RunningAnswer | None:
        """The answer the chat on show waits for."""
        return self._answers.of_chat(self.chat.chat_id)

    @property
    def last_stats(self) -> GenerationStats | None:
        """Figures of the newest finished answer on show."""
        found = (worth_telling(message.stats) for message in self.chat.newest)
        return next(filter(None, found), None)

    # what the user does

    def send(self, text: str) -> bool:
        """Ask; False when it could not be asked."""
        if self.running is not None or not self._has_model():
            return False
        before = len(self.chat.turns)
        if not self._try(lambda: self._ask(lambda: self.chat.add_question(text))):
            return False
        for message in self._shown()[before:]:
            self._transcript.add_message(message)
        self._tell_opened()
        return True

    def regenerate(self, message_id: int | None = None) -> None:
        """Answer a question again, the last one by default; the old answer stays as a branch."""
        last = self.chat.last_question
        asked = last if message_id is None else self.chat.question_before(message_id)
        if asked is None or self.running is not None or not self._has_model():
            return
        if self._try(lambda: self._ask(lambda: asked)):
            self._show()

    def edit(self, message_id: int, text: str) -> None:
        """Ask a question in other words, or keep an answer in them; the old one stays a branch."""
        is_answer = self.chat.turn(message_id).message.role == "assistant"
        if self.running is not None:
            keep = Words("Stop the answer that is being written, then keep this again.")
            send = Words("Stop the answer that is being written, then send this again.")
            self.failed.emit(keep if is_answer else send, "")
        elif is_answer:
            self._rewrite(message_id, text)
        elif self._has_model() and self._try(
            lambda: self._ask(lambda: self.chat.edit(message_id, text))
        ):
            self._transcript.reader.unsent.pop(message_id, None)
            self._show()

    def _rewrite(self, message_id: int, text: str) -> None:
        turn, place = self.chat.turn(message_id), self.chat.place(message_id)
        is_news = text != turn.message.text
        if is_news and not self._try(lambda: self.chat.rewrite(message_id, text)):
            return
        self._transcript.reader.unsent.pop(message_id, None)
        self._transcript.replace_from(message_id, self._shown()[place:])
        self._tell_opened()
        if is_news:
            self.stored.emit(turn.message.chat_id)

    def continue_answer(self, message_id: int | None = None) -> None:
        """Go on with the last answer, where it was cut."""
        last = self.chat.last_answer
        named = message_id is None or (last is not None and last.id == message_id)
        is_last = last is not None and self.chat.turns.ids[-1] == last.id
        if last is None or not named or not is_last or self.running or not self._has_model():
            return
        chat = self.chat
        if self._try(lambda: self._answers.go_on(last, chat.past(last.id), chat.settings)):
            self._show()

    def drop_oldest(self, message_id: int) -> None:
        """Go on with the last answer, or begin it, without the oldest turns."""
        last = self.chat.last_answer
        is_named = last is not None and last.id == message_id
        if not is_named or self.running is not None or not self.chat.can_drop:
            return
        if self._has_model() and self._try(self.chat.drop_oldest):
            (self.continue_answer if last and last.text else self.regenerate)(message_id)

    def show_branch(self, message_id: int, step: int) -> None:
        """Show the next (1) or previous (-1) version of a message, in its place."""
        if self.running is not None:
            return
        place = self.chat.place(message_id)
        if self._try(lambda: self.chat.show_branch(message_id, step)):
            self._transcript.replace_from(message_id, self._shown()[place:])
            self._tell_opened()

    def stop(self) -> None:
        """End the answer on show; what there is of it stays."""
        if self.chat.chat_id is not None:
            self._answers.stop(self.chat.chat_id)

    def change_settings(self, settings: ChatSettings) -> None:
        """From the next round on, for this chat only; another way of loading loads anew."""
        if not self._try(lambda: self.chat.change_settings(settings)):
            return
        self.settings_shown.emit(settings)
        if self.chat.chat_id is not None:
            self._request(ChangeSettings(str(self.chat.chat_id), settings))
        self._models.use_options(settings.load)

    def rename_preset(self, name: str, new: str) -> None:
        """In all chats that began with it."""
        if self._try(lambda: self.chat.rename_preset(name, new)):
            self.settings_shown.emit(self.chat.settings)

    # how it is done

    def _ask(self, question_of: Callable[[], StoredMessage]) -> None:
        """Store a question and its empty answer, both or neither; then have it answered."""
        chat = self.chat
        self._models.use_options(chat.settings.load)
        self._remember_model()
        with chat.all_or_nothing():
            question = question_of()
            answer = self._answers.add(question, self._models.model_name)
            chat.reload()
            past = chat.past(question.id)
        self._answers.begin(answer, past, chat.settings)
        self.stored.emit(question.chat_id)

    def _remember_model(self) -> None:
        """Which model answers from now on, so that it can be offered when it is not in use."""
        current = self._models.loading or self._models.in_use
        path = current.path if current else None
        if self.chat.settings.model_path != path:
            self.chat.change_settings(replace(self.chat.settings, model_path=path))

    def _has_model(self) -> bool:
        if not self._models.wake():
            self.failed.emit(Words("No model is loaded: open or drop one, then ask again."), "")
            return False
        return True

    def _show(self, first: int | None = None) -> None:
        """From the message at the place `first` on or, None, from the end."""
        self._transcript.show_messages(self._shown(), first)
        self._tell_opened()

    def _tell_opened(self) -> None:
        self.settings_shown.emit(self.chat.settings)
        self.opened.emit()

    def _shown(self) -> Sequence[ShownMessage]:
        """The turns of the chat as they are now, each made when it is first looked at."""
        turns, running = self.chat.turns, self.running

        def shown(places: range) -> list[ShownMessage]:
            turn = turns[places.start]
            if running is not None and turn.message.id == running.message_id:
                return [shown_answer(running, turn)]
            return [self._shown_turn(turn, turns.ids)]

        return LazySequence(len(turns), shown)

    def _shown_turn(self, turn: Turn, ids: Sequence[int]) -> ShownMessage:
        """ids: of the branch."""
        message_id, chat = turn.message.id, self.chat
        is_last = message_id == ids[-1]
        shown = shown_turn(turn, is_last=is_last, can_drop=is_last and chat.can_drop)
        is_first_read = message_id == chat.settings.read_from and message_id != ids[0]
        return replace(shown, is_first_read=True) if is_first_read else shown

    def _shown_end(self, answer: RunningAnswer) -> ShownMessage:
        """All that was shown stays on show, also when a full disk took only some of it."""
        return replace(
            self._shown_turn(self.chat.turn(answer.message_id), self.chat.turns.ids),
            text=answer.answer.text,
            thinking=answer.thinking.text,
            spans=tuple(answer.answer.spans),
        )

    def _grow(self, answer: RunningAnswer, growth: Growth) -> None:
        if answer.chat_id == self.chat.chat_id:
            if growth.pieces:
                self._transcript.append_pieces(answer.message_id, growth.pieces)
            if growth.ends_thinking:
                seconds = answer.thinking_seconds
                self._transcript.finish_thinking(answer.message_id, seconds)

    def _end(self, answer: RunningAnswer, problem: Problem | None) -> None:
        self.stored.emit(answer.chat_id)
        if problem is not None and problem.kind == "bug":
            self.failed.emit(problem.words, problem.details)
        if answer.chat_id == self.chat.chat_id and self._try(self.chat.reload):
            self._transcript.finish(self._shown_end(answer))

    def _try(self, action: Callable[[], object]) -> bool:
        """Run what may fail in the store; False when it did."""
        try:
            action()
        except StoreError as error:
            self.failed.emit(str(error), "")
            return False
        return True
