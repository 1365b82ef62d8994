"""What the window costs the engine: tokens per second with an answer shown, and with none shown.

`python tests/speed/window_cost.py [ROUNDS] [gpu]`; both ways in turn, in one window, on the same
answer. The built-in model computes on the processor where there is no Metal, and then competes with
the window for its cores; "gpu" stands a model in that waits 10 ms a round as for a GPU.
"""

import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "helpers"))

from scripted_engine import Answer
from scripted_models import ScriptedModels, WorkerEngine, described
from whole_window import until, whole_window

from app.app import App
from app.values.chat_settings import ChatSettings, SamplingChoice
from app.worker.replies import AnswerEvents, Reply
from app.worker.requests import Ask
from mlx_engine.values.conversation import GenerationFinished, Message
from mlx_engine.values.options import DraftOptions, GenerationOptions

TOKENS = 400
SETTINGS = ChatSettings(
    sampling=SamplingChoice(temperature=0.8, seed=1),
    generation=GenerationOptions(max_tokens=TOKENS, ignore_eos=True),
    draft=DraftOptions(depth=2),
)
QUESTION = "Tell me everything you know."


def shown(app: App) -> float:
    """Tokens per second of an answer that streams into the transcript."""
    app.chat.begin(SETTINGS)
    began = time.perf_counter()
    app.chat.send(QUESTION)
    until(lambda: app.chat.running is None)
    stats = app.chat.last_stats
    assert stats is not None
    return stats.generated_tokens / (time.perf_counter() - began)


def unseen(app: App) -> float:
    """Tokens per second of the same answer that nobody looks at."""
    ends: list[GenerationFinished] = []

    def look(reply: Reply) -> None:
        if isinstance(reply, AnswerEvents) and isinstance(reply.events[-1], GenerationFinished):
            ends.append(reply.events[-1])

    worker = app.worker
    worker.replied.disconnect(app.route)
    worker.replied.connect(look)
    began = time.perf_counter()
    worker.request(Ask("x", "0", (Message("user", QUESTION),), SETTINGS))
    until(lambda: bool(ends))
    worker.replied.disconnect(look)
    worker.replied.connect(app.route)
    return ends[0].stats.generated_tokens / (time.perf_counter() - began)


def waiting_models(answers: int) -> ScriptedModels:
    """A model that waits for each round, without holding up other threads."""
    text = "\n\n".join(
        f"Paragraph {n} with *some* words, `code` and more of them to be read by somebody."
        for n in range(40)
    )
    answer = Answer(text, pause_s=0.01)
    return ScriptedModels({"None": WorkerEngine([answer] * answers, described("small", 10**7))})


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    source = waiting_models(2 * rounds + 1) if "gpu" in sys.argv else None
    with whole_window(source) as app:
        app.start()
        until(lambda: bool(app.figures.costs))
        unseen(app)
        pairs = [(unseen(app), shown(app)) for _ in range(rounds)]
    without, with_window = (statistics.median(side) for side in zip(*pairs, strict=True))
    loss = statistics.median(1 - drawn / free for free, drawn in pairs)
    print(f"{without:.1f} tok/s unseen, {with_window:.1f} shown: {100 * loss:.1f} % lost (median)")


if __name__ == "__main__":
    main()
