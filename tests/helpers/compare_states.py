"""A comparison whose engine is the test."""

from chat_states import StatedChat

from app.state.compare import CHAT_IDS, Comparison, Side
from app.store.session_store import SessionStore, open_passing_store
from app.values.chat_settings import ChatSettings
from app.worker.replies import AnswerEvents, AnswerFailed, Problem
from mlx_engine.values.conversation import Event, FinishReason, GenerationFinished, TextPiece
from mlx_engine.values.stats import GenerationStats

ON = GenerationStats(
    generated_tokens=212, drafted=260, accepted=174, tokens_per_pass=2.9, tokens_per_second=41.3
)
OFF = GenerationStats(generated_tokens=212, tokens_per_pass=1.0, tokens_per_second=22.1)
STATS: dict[Side, GenerationStats] = {"on": ON, "off": OFF}


class StatedComparison:
    """The comparison of a chat, by a clock that stands at `now`."""

    def __init__(
        self, settings: ChatSettings | None = None, store: SessionStore | None = None
    ) -> None:
        self.store = store or open_passing_store("")
        self.stated = StatedChat(self.store, settings)
        self.requests = self.stated.requests
        self.now = 0.0
        self.comparison = Comparison(
            self.stated.chat, self.stated.models, self.requests.append, clock=lambda: self.now
        )

    def say(self, side: Side, *events: Event) -> None:
        assert self.comparison.take(AnswerEvents(CHAT_IDS[side], side, events))

    def end(
        self,
        side: Side,
        text: str = "three",
        thought: str = "",
        reason: FinishReason = "end",
        stats: GenerationStats | None = None,
    ) -> None:
        """All of an answer, and its end."""
        thinking = (TextPiece(thought, "thinking"),) if thought else ()
        finished = GenerationFinished(reason, stats or STATS[side], text, thought)
        self.say(side, *thinking, TextPiece(text), finished)

    def run(self, on: str = "Because of it.", off: str = "Because of it.") -> None:
        """Both sides to their end."""
        self.comparison.run("Why?")
        self.end("on", on)
        self.end("off", off)

    def fail(self, side: Side, words: str) -> None:
        problem = Problem("known", "OutOfMemory", words)
        self.comparison.take(AnswerFailed(CHAT_IDS[side], side, problem))
