"""What a turn of a long chat reads of it: at once, after a restart, after an edit.

    python tests/speed/second_turns.py [MODEL] [--turns 12] [--tokens 24]

A chat of so many turns with the built-in model, or another, a paragraph each. Then one question
more, put in several ways; beside each the tokens it reads and the seconds until its first word, and
whether its words are those of an engine that keeps nothing.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import mlx_engine
from mlx_engine import GenerationOptions, LoadOptions, Message, SamplingOptions, Session

PARAGRAPH = (
    "Report {n}. The survey of the northern shore began at dawn with two boats and a crew of nine. "
    "By noon they had measured {n} bays, drawn the reefs that lie before them, and left a lamp on "
    "each of the headlands. The pilot holds that ships of more than four metres should keep to the "
    "east of the island until the channel has been marked. Nothing was lost but an anchor, which "
    "the fishermen of the village may still find, since its buoy was seen in the evening. What "
    "should be done next, in your opinion, and who has to be asked before it is?"
)
QUESTION = "And then?"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?")
    parser.add_argument("--turns", type=int, default=12)
    parser.add_argument("--tokens", type=int, default=24, help="of an answer")
    asked = parser.parse_args()
    limits = GenerationOptions(max_tokens=asked.tokens, ignore_eos=True)

    def chat(engine: mlx_engine.Engine, messages: Sequence[Message] = ()) -> Session:
        its = engine.session(sampling=SamplingOptions(temperature=0), generation=limits)
        its.load_messages(list(messages))
        return its

    def ask(name: str, its: Session, question: str = QUESTION) -> None:
        before = its.messages
        said, stats = _answer(its, question), its.stats
        truth = chat(nothing, before)
        same, whole = _answer(truth, question) == said, truth.stats
        print(
            f"{name:44}{stats.prompt_tokens - stats.reused_tokens:6} of {stats.prompt_tokens} "
            f"tokens read, {stats.time_to_first_token_s:6.2f} s ({whole.time_to_first_token_s:.2f} "
            f"with nothing kept), words {'equal' if same else 'DIFFER'}",
            flush=True,
        )

    with TemporaryDirectory() as folder:
        files = LoadOptions(prompt_files=Path(folder) / "read")
        engine = mlx_engine.load(asked.model, options=files)
        nothing = mlx_engine.load(asked.model, options=LoadOptions(prompt_cache_bytes=0))
        first = chat(engine)
        for number in range(asked.turns):
            _answer(first, PARAGRAPH.format(n=number + 1))
        history = first.messages
        half = len(history) // 4 * 2
        edited = [*history[:half], Message("user", "Forget the boats. " + history[half].text)]
        ask("next turn", first)
        ask("a branch of the middle", chat(engine, history[:half]))
        ask("an edit in the middle", chat(engine, edited[:-1]), edited[-1].text)

        def restarted() -> mlx_engine.Engine:
            engine.close()
            return mlx_engine.load(asked.model, options=files)

        for name, messages, question in (
            ("after a restart, next turn", history, QUESTION),
            ("after a restart, the last question anew", history[:-2], QUESTION),
            ("after a restart, a question of the middle", history[:half], QUESTION),
        ):
            engine = restarted()
            ask(name, chat(engine, messages), question)
        engine.close()


def _answer(its: Session, question: str) -> str:
    for _ in its.send(question):
        pass
    return its.messages[-1].text


if __name__ == "__main__":
    main()
