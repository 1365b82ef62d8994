"""Prints the acceptance of drafts through reduced vocabularies, by token number and by count.

python tests/speed/frequent_vocabulary.py [MODEL]: tokens drafted and accepted at depth 2, greedy,
for prose, code and a third language; and what counting costs.
"""

import sys
from collections import deque
from dataclasses import replace
from time import perf_counter

import mlx_engine
from mlx_engine.decoding.opening import ModelParts, Settings
from mlx_engine.decoding.raw_generation import raw_answer
from mlx_engine.drafting.depth.choice import Learned
from mlx_engine.drafting.depth.costs import PassCosts
from mlx_engine.drafting.output_head import OutputShelf, count_tokens
from mlx_engine.values.options import DraftOptions, GenerationOptions, SamplingOptions

PROMPTS = (
    "<|im_start|>user\nTell me a short story about a fox.<|im_end|>\n<|im_start|>assistant\n",
    "def fibonacci(n):\n",
    "Der Fuchs und der Hund",
)
GREEDY = SamplingOptions(temperature=0, seed=1)


def acceptance(model: ModelParts, costs: PassCosts, draft: DraftOptions) -> str:
    """Accepted of drafted over all prompts."""
    drafted = accepted = 0
    for prompt in PROMPTS:
        tokens = model.tokenizer.encode(prompt)
        settings = Settings(GREEDY, draft, GenerationOptions(120, ignore_eos=True))
        answer = raw_answer(model, settings, tokens, Learned(lambda: costs))
        deque(answer.events(), maxlen=0)
        drafted += answer.tally.stats().drafted
        accepted += answer.tally.stats().accepted
    return f"{accepted}/{drafted} ({100 * accepted / max(1, drafted):.1f} %)"


def main(path: str | None) -> None:
    """Both vocabularies at three sizes, and the whole one."""
    engine = mlx_engine.load(path)
    parts = engine.parts
    tokenizer = parts.tokenizer
    started = perf_counter()
    counted = count_tokens(tokenizer.encode_plain)
    milliseconds = 1000 * (perf_counter() - started)
    print(f"counting: {milliseconds:.0f} ms, {len(counted)} of {parts.model.vocabulary} tokens")
    costs = engine.pass_costs
    print(f"full: {acceptance(parts, costs, DraftOptions(depth=2))}")
    shelves = {
        "by number": OutputShelf(parts.model, tokenizer.special_ids, lambda text: []),
        "by count": parts.drafting.outputs,
    }
    for size in (256, 512, 1024):
        for name, shelf in shelves.items():
            draft = DraftOptions(depth=2, output="frequent", vocabulary=size)
            model = replace(parts, drafting=replace(parts.drafting, outputs=shelf))
            print(f"{size} {name}: {acceptance(model, costs, draft)}")


if __name__ == "__main__":
    main(sys.argv[1] if sys.argv[1:] else None)
