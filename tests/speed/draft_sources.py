"""Prints tokens per pass, passes per draft and bytes per drafted token of every draft source.

The first table is measured on the built-in model, which is also its own draft model there: the
figures of that row are an upper bound. Run: python tests/speed/draft_sources.py [TOKENS].
The second is a model of real shapes (their published configs): weights read per drafted token. The
third is the same for draft models published apart, which tiny copies could say nothing of.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import mlx_engine
from mlx_engine.built_in_model import built_in_model
from mlx_engine.values.conversation import RoundFinished
from mlx_engine.values.options import (
    DraftOptions,
    GenerationOptions,
    LoadOptions,
    SamplingOptions,
)

QUESTIONS = {
    "new text": "Write a Python function that counts the words of a text.",
    "copy-edit": "Repeat this with fox for dog: the dog sat on the mat, the dog ran to the door, "
    "the dog sat on the mat, the dog ran to the door, the dog sat on the mat.",
}
ARMS = {
    "plain": DraftOptions(source="none"),
    "mtp 3": DraftOptions(depth=3),
    "mtp auto": DraftOptions(),
    "mtp 3, 4-bit output": DraftOptions(depth=3, output="4-bit"),
    "mtp 3, 3-bit output": DraftOptions(depth=3, output="3-bit"),
    "mtp 3, 512 tokens": DraftOptions(depth=3, output="frequent", vocabulary=512),
    "prompt-lookup 8": DraftOptions(source="prompt-lookup", depth=8),
    "prompt-lookup auto": DraftOptions(source="prompt-lookup"),
    "prompt-lookup+mtp auto": DraftOptions(source="prompt-lookup+mtp"),
    "model 3": DraftOptions(source="model", depth=3),
    "prompt-lookup+model 3": DraftOptions(source="prompt-lookup+model", depth=3),
}
FREQUENT = 32768


@dataclass(frozen=True)
class Shape:
    """A published model: one head's block, active weights of it, and the output head."""

    name: str
    block: float
    hidden: int
    vocabulary: int

    @property
    def output(self) -> float:
        return float(self.hidden * self.vocabulary)


SHAPES = (
    # fc 2H*H, gated attention (24 query heads, 4 of keys, 256 wide), feed-forward of 17408
    Shape(
        "Qwen3.6-27B",
        2 * 5120**2 + 5120 * 256 * (3 * 24 + 2 * 4) + 3 * 5120 * 17408,
        5120,
        248320,
    ),
    # fc, attention (16 and 2 heads), 8 of 256 experts and the shared one, 512 wide
    Shape(
        "Qwen3.6-35B-A3B",
        2 * 2048**2 + 2048 * 256 * (3 * 16 + 2 * 2) + 9 * 3 * 2048 * 512,
        2048,
        248320,
    ),
    # eh_proj, attention (96 and 8 heads, 128 wide), 8 of 128 experts and the shared one, 1408 wide
    Shape(
        "GLM-4.5-Air",
        2 * 4096**2 + 4096 * 128 * (2 * 96 + 2 * 8) + 9 * 3 * 4096 * 1408,
        4096,
        151552,
    ),
)
DEPTH = 3


@dataclass(frozen=True)
class Apart:
    """A draft model that reads its target: weights read once a round, and for every token."""

    name: str
    once: float
    each: float
    output: float

    def per_token(self, kind: str) -> float:
        return (self.once / DEPTH + self.each + self.output) * BYTES[kind] / 1e6


def attention(hidden: int, heads: int, kept: int, size: int, inputs: int = 1) -> float:
    """Weights of q, k, v (which read so many times the width) and o."""
    return float(hidden * size * (inputs * (heads + 2 * kept) + heads))


APART = (
    # fc 3H*H; one layer that reads 2H, 32 and 8 heads, feed-forward of 14336; 32000 of the tokens
    Apart(
        "EAGLE-3, Llama-3.1-8B",
        3 * 4096**2,
        attention(4096, 32, 8, 128, inputs=2) + 3 * 4096 * 14336,
        4096 * 32000,
    ),
    # fc 5H*H and five layers of Qwen3-8B's shape, all once a block; the target's output head,
    # read once for all rows of the block
    Apart(
        "DFlash, Qwen3-8B",
        5 * 4096**2 + 5 * (attention(4096, 32, 8, 128) + 3 * 4096 * 12288) + 4096 * 151936,
        0,
        0,
    ),
    # sizes presumed, not read from its config: 256 wide, four layers, target 1536 wide;
    # 2048 centroids and the tokens of 32 of them
    Apart(
        "assistant, Gemma 4 E2B",
        0,
        3 * 1536 * 256 + 4 * (2 * 256 * 4 * 256 + 3 * 256 * 2048),
        256 * (2048 + 32 * 262144 / 2048),
    ),
)
BYTES = {"16-bit": 2.0, "8-bit": 1.0625, "4-bit": 0.5625, "3-bit": 0.4375}


def measured(tokens: int) -> None:
    """The built-in model with every source."""
    engine = mlx_engine.load(options=LoadOptions(draft_model=built_in_model()))
    print(f"{'':<26}{'text':<11}{'tok/pass':>9}{'passes/round':>14}{'acceptance':>12}{'tok/s':>8}")
    for question, text in QUESTIONS.items():
        for name, draft in ARMS.items():
            session = engine.session(
                sampling=SamplingOptions(temperature=0.7, seed=1),
                draft=draft,
                generation=GenerationOptions(max_tokens=tokens, ignore_eos=True),
            )
            events = list(session.send(text))
            rounds = [event.stats for event in events if isinstance(event, RoundFinished)]
            drafted = [r for r in rounds if r.drafted]
            passes = sum(r.draft_passes for r in drafted) / max(1, len(drafted))
            stats = session.stats
            print(
                f"{name:<26}{question:<11}{stats.tokens_per_pass:>9.2f}{passes:>14.2f}"
                f"{stats.acceptance:>12.0%}{stats.tokens_per_second:>8.1f}"
            )
    engine.close()


def modelled() -> None:
    """Megabytes of weights that one drafted token reads; a copied one reads none."""
    kinds = ("16-bit", "8-bit", "4-bit", "3-bit")
    print("\nMB read per drafted token; block of the head in 4 bits, output head in ...")
    print(
        " " * 18
        + "".join(f"{kind:>10}" for kind in kinds)
        + f"{'32k, 4-bit':>12}{'output/all':>12}"
    )
    for shape in SHAPES:
        block = shape.block * BYTES["4-bit"]
        cells = [(block + shape.output * BYTES[kind]) / 1e6 for kind in kinds]
        few = (block + FREQUENT * shape.hidden * BYTES["4-bit"]) / 1e6
        share = shape.output * BYTES["4-bit"] / 1e6 / cells[2]
        row = "".join(f"{cell:>10.0f}" for cell in cells)
        print(f"{shape.name:<18}{row}{few:>12.0f}{share:>12.0%}")


def modelled_apart() -> None:
    """Megabytes that one of DEPTH drafted tokens reads."""
    kinds = ("16-bit", "8-bit", "4-bit")
    print(f"\nMB read per drafted token at depth {DEPTH}; draft model published apart, in ...")
    print(" " * 24 + "".join(f"{kind:>10}" for kind in kinds) + f"{'passes':>10}")
    for model in APART:
        row = "".join(f"{model.per_token(kind):>10.0f}" for kind in kinds)
        print(f"{model.name:<24}{row}{DEPTH if model.each else 1:>10}")


if __name__ == "__main__":
    measured(int(sys.argv[1]) if sys.argv[1:] else 96)
    modelled()
    modelled_apart()
