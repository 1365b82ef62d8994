"""Ask the held-out questions: facts right, and drafts accepted at each depth."""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import torch
from pocket import Pocket
from shipped_weights import load_shipped
from tokenizers import Tokenizer
from tokens import IM_END, asked
from torch import Tensor

DRAFTS, LONGEST_ANSWER = 3, 90


@dataclass(frozen=True, slots=True)
class Picker:
    """Greedy at temperature 0, else Gumbel noise shared by model and head at each position."""

    temperature: float
    seed: int

    def pick(self, logits: Tensor, position: int) -> int:
        """logits [V] of the token that will stand at `position`."""
        if self.temperature == 0:
            return int(logits.argmax())
        source = torch.Generator().manual_seed(self.seed * 100_003 + position)
        uniform = torch.rand(logits.shape, generator=source).clamp_min(1e-20)
        noise = -torch.log(-torch.log(uniform))
        return int((logits / self.temperature + noise).argmax())


@dataclass(slots=True)
class Tally:
    """Drafts made and accepted, by depth."""

    drafted: list[int] = field(default_factory=lambda: [0] * DRAFTS)
    accepted: list[int] = field(default_factory=lambda: [0] * DRAFTS)
    passes: int = 0
    tokens: int = 0

    def shares(self) -> list[float]:
        """Accepted / drafted at each depth."""
        pairs = zip(self.accepted, self.drafted, strict=True)
        return [round(a / max(d, 1), 3) for a, d in pairs]


def draft(model: Pocket, tokens: list[int], hidden: Tensor, picker: Picker) -> list[int]:
    """DRAFTS tokens after `tokens`; hidden [1, len(tokens) - 1, H] are true states.

    The chain is rebuilt from the true states on every call: slow, plain, and what an engine's
    caches amount to.
    """
    out: list[int] = []
    for step in range(1, DRAFTS + 1):
        row = torch.tensor([tokens + out])
        # States of drafted tokens are never read: the chain puts its own there.
        states = torch.cat([hidden, hidden.new_zeros(1, step - 1, hidden.shape[2])], 1)
        last = model.mtp.chain(model.embed(row)[:, 1:], states, step)[-1][0, -1]
        out.append(picker.pick(model.logits(last), len(tokens) + step - 1))
    return out


def respond(model: Pocket, prompt: list[int], end: int, picker: Picker, tally: Tally) -> list[int]:
    """The answer's tokens, generated in rounds of draft and verify."""
    hidden = model.trunk(torch.tensor([prompt]))
    answer = [picker.pick(model.logits(hidden[0, -1]), len(prompt))]
    while answer[-1] != end and len(answer) < LONGEST_ANSWER:
        tokens = prompt + answer
        guesses = draft(model, tokens, hidden, picker)
        seen = model.trunk(torch.tensor([tokens + guesses]))
        logits = model.logits(seen[0, len(tokens) - 1 :])
        tally.passes += 1
        for depth in range(DRAFTS + 1):
            answer.append(picker.pick(logits[depth], len(tokens) + depth))
            tally.tokens += 1
            right = depth < DRAFTS and guesses[depth] == answer[-1]
            if depth < DRAFTS:
                tally.drafted[depth] += 1
                tally.accepted[depth] += right
            if answer[-1] == end or not right:
                break
        # A draft after a refused one counts as drafted and not accepted; after the end, not at all.
        if answer[-1] != end:
            for later in range(depth + 1, DRAFTS):
                tally.drafted[later] += 1
        hidden = seen[:, : len(prompt) + len(answer) - 1]
    return answer


def squeezed(text: str) -> str:
    """Text with every run of white space made one space."""
    return " ".join(text.split())


def main() -> None:
    """Print figures and write them with every answer."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="the exported MLX folder, with held_out.json")
    parser.add_argument("out", type=Path, help="gets the figures and every answer, as JSON")
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--every", type=int, default=1, help="ask only every n-th question")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.set_grad_enabled(False)
    model, picker = load_shipped(args.folder), Picker(args.temperature, 1)
    tokenizer = Tokenizer.from_file(str(args.folder / "tokenizer.json"))
    end = tokenizer.token_to_id(IM_END)
    tally, right, answers = Tally(), defaultdict(list), []
    for row in json.loads((args.folder / "held_out.json").read_text(encoding="utf-8"))[
        :: args.every
    ]:
        prompt = tokenizer.encode(asked(row["question"])).ids
        told = tokenizer.decode(respond(model, prompt, end, picker, tally))
        good = all(squeezed(part) in squeezed(told) for part in row["expected"])
        right[row["kind"]].append(good)
        answers.append({**row, "answer": told, "right": good})
        if row["kind"] == "set-aside name":
            right["set-aside name declined"].append("I do not know" in told)
    figures = {
        "temperature": args.temperature,
        "right": {kind: f"{sum(hits)}/{len(hits)}" for kind, hits in right.items()},
        "acceptance_by_depth": tally.shares(),
        "drafted": tally.drafted,
        "accepted": tally.accepted,
        "tokens_per_pass": round(tally.tokens / max(tally.passes, 1), 2),
        "tokens": tally.tokens,
    }
    text = json.dumps({"figures": figures, "answers": answers}, indent=1)
    args.out.write_text(text + "\n", encoding="utf-8")
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
