"""Times the store on 10,000 chats with 10,000 messages, and one chat of 200 long messages."""

import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from chat_stores import finish_answer  # noqa: E402

from app.store.session_store import SessionStore, open_store  # noqa: E402
from app.store.transfer import NewChat, insert_chat  # noqa: E402
from app.values.chat_settings import ChatSettings  # noqa: E402
from app.values.chats import AnswerSoFar, DraftedSpan, StoredMessage  # noqa: E402
from mlx_engine.values.conversation import GenerationFinished  # noqa: E402
from mlx_engine.values.stats import GenerationStats  # noqa: E402

CHATS = 10_000
WORDS = 170
LONG_CHAT = 200


def words(chance: random.Random) -> list[str]:
    """20,000 invented words, to be drawn as often as words are (Zipf)."""
    letters = "etaoinshrdlucmfwypvbgkqjxz"
    weights = range(len(letters), 0, -1)
    return [
        "".join(chance.choices(letters, weights, k=chance.randint(2, 10))) for _ in range(20_000)
    ]


def fill(store: SessionStore, chance: random.Random, vocabulary: list[str]) -> int:
    """CHATS chats of one message each, then a long one; the id of the long one."""
    zipf = [1 / rank for rank in range(1, len(vocabulary) + 1)]

    def text(count: int) -> str:
        return " ".join(chance.choices(vocabulary, zipf, k=count))

    with store.database.transaction():
        for _ in range(CHATS):
            chat = store.chats.create(ChatSettings(), text(5))
            store.messages._insert(chat, None, "user", text(WORDS), "", "done")
    spans = tuple(DraftedSpan(at, at + 9, 1 + at % 3) for at in range(0, 900, 10))
    stats = GenerationStats(drafted_by_depth=(90, 60), accepted_by_depth=(70, 30))
    rows = []
    for place in range(0, LONG_CHAT, 2):
        rows.append(StoredMessage(place, 0, place - 1 if place else None, "user", text(100)))
        answer = StoredMessage(place + 1, 0, place, "assistant", text(400), text(50))
        rows.append(replace(answer, stats=stats, spans=spans))
    return insert_chat(store, NewChat("A long chat", ChatSettings(), rows, LONG_CHAT - 1))


def measure(name: str, call: Callable[[], object], times: int = 60) -> None:
    """One line: median and 95th percentile in milliseconds."""
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        call()
        taken.append((time.perf_counter() - start) * 1e3)
    taken.sort()
    p95 = taken[min(len(taken) - 1, int(len(taken) * 0.95))]
    print(f"{name:44} median {statistics.median(taken):8.2f} ms   p95 {p95:8.2f} ms")


def measure_all(path: Path) -> None:
    chance = random.Random(1)
    vocabulary = words(chance)
    store = open_store(path)
    long_chat = fill(store, chance, vocabulary)
    store.close()
    print(f"{path.stat().st_size / 1e6:.0f} MB")
    measure("open the store", lambda: open_store(path).close(), 10)
    store = open_store(path)
    for name, query in (
        ("the commonest word", vocabulary[0]),
        ("a common word", vocabulary[50]),
        ("a rare word", vocabulary[15_000]),
        ("one letter", "e"),
        ("two words", f"{vocabulary[3]} {vocabulary[200]}"),
        ("nothing to be found", "zzzzqqq"),
    ):
        measure(f"search: {name}", lambda query=query: store.search.find(query))
    measure(f"open a chat of {LONG_CHAT} messages", lambda: store.open_chat(long_chat))
    measure(f"list {CHATS} chats", store.chats.listed, 20)
    measure("rename", lambda: store.chats.rename(long_chat, "Another name"))
    for count in (200, 2000, 20_000):
        answer = store.messages.begin_answer(long_chat, None, "Tiny")
        text = "word " * count
        spans = [DraftedSpan(at, at + 9, 1) for at in range(0, len(text), 50)]
        measure(
            f"save {count} words of an answer, {len(spans)} spans",
            lambda answer=answer, text=text, spans=spans: store.messages.save_partial(
                answer, AnswerSoFar(text, "", spans)
            ),
        )
        event = GenerationFinished("end", GenerationStats(), text)
        measure(
            f"finish an answer of {count} words",
            lambda answer=answer, event=event: finish_answer(store.messages, answer, event),
            10,
        )
    measure("copy the long chat", lambda: store.chats.duplicate(long_chat), 10)
    store.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        measure_all(Path(folder, "chats.db"))
