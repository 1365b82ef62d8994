"""Train trunk and head together for a set number of minutes."""

from __future__ import annotations

import argparse
import json
import math
import random
import time
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from corpus import read_material, unseen_phrasings
from model import Config
from pocket import Pocket
from tokenizers import Tokenizer
from tokens import VOCABULARY, Rows, draw_rows
from torch import Tensor

BATCH, LENGTH = 6, 512
DRAFT_WEIGHTS = (0.5, 0.3, 0.2)
OTHER_WEIGHT, OTHER_SHARE = 0.1, 0.2  # tokens that are not the model's own: weight, share kept
WARM_STEPS = 20
SAVE_EVERY_S = 240


@dataclass(frozen=True, slots=True)
class Losses:
    """What one batch gave: the sum to minimise, and cross entropy and hits on answer tokens."""

    total: Tensor
    entropy: list[float]  # next token, then draft 1, 2, 3
    hits: list[float]


def losses(model: Pocket, rows: Rows, trunk: object = None, chain: object = None) -> Losses:
    """Losses of one batch; `trunk` and `chain` may be compiled versions of the model's own."""
    tokens, own = torch.from_numpy(rows.tokens), torch.from_numpy(rows.own)
    chosen = own | (torch.rand(own.shape) < OTHER_SHARE)
    weight = torch.where(own, 1.0, OTHER_WEIGHT / OTHER_SHARE)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        hidden = (trunk or model.trunk)(tokens)  # type: ignore[operator]
        # The head sees half of the rows: it learns from fewer than the trunk needs.
        half = len(tokens) // 2
        drafts = (chain or model.mtp.chain)(  # type: ignore[operator]
            model.embed(tokens[:half])[:, 1:], hidden[:half, :-1], len(DRAFT_WEIGHTS)
        )
        total = torch.zeros(())
        entropy, hits = [], []
        for i, states in enumerate([hidden, *drafts]):
            ahead = 1 if i == 0 else 2
            lead = max(0, i - 1)  # rows without a chain behind them
            rows_seen = len(states)
            keep = chosen[:rows_seen, ahead + lead :]
            logits = model.logits(states[:, lead : LENGTH - ahead][keep]).float()
            target = tokens[:rows_seen, ahead + lead :][keep]
            each = F.cross_entropy(logits, target, reduction="none")
            mine = own[:rows_seen, ahead + lead :][keep]
            worth = weight[:rows_seen, ahead + lead :][keep]
            share = 1.0 if i == 0 else DRAFT_WEIGHTS[i - 1]
            total = total + share * (each * worth).sum() / worth.sum()
            entropy.append(each.detach()[mine].mean().item())
            hits.append((logits.argmax(-1) == target)[mine].float().mean().item())
    return Losses(total, entropy, hits)


def rate(peak: float, progress: float, step: int) -> float:
    """Learning rate: a short warm-up, then linear to zero at the end of the time."""
    return peak * min(1.0, (step + 1) / WARM_STEPS) * max(1.0 - progress, 0.0)


def optimisers(model: Pocket) -> list[torch.optim.Optimizer]:
    """Muon for the matrices, AdamW for the embedding, gains and convolutions."""
    named = list(model.named_parameters())
    matrices = [w for n, w in named if w.ndim == 2 and "embed" not in n]
    rest = [w for n, w in named if w.ndim != 2 or "embed" in n]
    return [
        torch.optim.Muon(matrices, lr=0.0, weight_decay=0.05, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(rest, lr=0.0, betas=(0.9, 0.95), weight_decay=0.0, fused=True),
    ]


class Pace:
    """One thread or two, whichever is faster just now: the cores may be shared with others."""

    def __init__(self) -> None:
        self.spent = {1: 0.0, 2: float("inf")}

    def begin(self, step: int) -> int:
        """Set and return the thread count of this step; every 24th step each is tried again."""
        best = min(self.spent, key=lambda threads: self.spent[threads])
        threads = {22: 1, 23: 2}.get(step % 24, best)
        torch.set_num_threads(threads)
        return threads


def save(model: Pocket, out: Path, record: dict[str, object]) -> None:
    """Write weights and the record; a crash leaves the previous file whole."""
    torch.save({"config": asdict(model.config), "weights": model.state_dict()}, out / "new.pt")
    (out / "new.pt").replace(out / "state.pt")
    (out / "record.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    """Train until the time is over; a usable state.pt exists from the first minutes on."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="folder with tokenizer.json; gets state.pt")
    parser.add_argument("--minutes", type=float, default=75)
    parser.add_argument("--peak", type=float, default=3e-3, help="highest learning rate")
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--start-from", type=Path, help="weights of an earlier run")
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    warnings.simplefilter("ignore", DeprecationWarning)
    tokenizer = Tokenizer.from_file(str(args.out / "tokenizer.json"))
    material = read_material()
    model = Pocket(Config(vocab_size=VOCABULARY))
    if args.start_from:
        model.load_state_dict(torch.load(args.start_from)["weights"])
    unseen = draw_rows(tokenizer, unseen_phrasings(material), random.Random(7), 2 * BATCH, LENGTH)
    trunk, chain = torch.compile(model.trunk), torch.compile(model.mtp.chain)
    both = optimisers(model)
    draw, begun = random.Random(args.seed), time.monotonic()
    saved, step, budget, pace = begun, 0, args.minutes * 60, Pace()
    while (spent := time.monotonic() - begun) < budget:
        now = rate(args.peak, spent / budget, step)
        for optimiser in both:
            optimiser.param_groups[0]["lr"] = now
        rows = draw_rows(tokenizer, material, draw, BATCH, LENGTH)
        threads, started = pace.begin(step), time.monotonic()
        result = losses(model, rows, trunk, chain)
        if not math.isfinite(result.total.item()):
            raise SystemExit(f"loss is not finite at step {step}")
        result.total.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimiser in both:
            optimiser.step()
            optimiser.zero_grad()
        pace.spent[threads] = time.monotonic() - started
        step += 1
        if step % 20 == 0:
            print(f"{step:5d} {spent:6.0f}s rate {now:.1e} x{threads} {show(result)}", flush=True)
        if time.monotonic() - saved > SAVE_EVERY_S:
            saved = time.monotonic()
            save(model, args.out, report(model, unseen, step, saved - begun))
    save(model, args.out, report(model, unseen, step, time.monotonic() - begun))


def report(model: Pocket, unseen: Rows, step: int, spent: float) -> dict[str, object]:
    """Held-out figures, printed and kept beside the weights."""
    with torch.no_grad():
        result = losses(model, unseen)
    print(f"held out {show(result)}", flush=True)
    return {
        "parameters": sum(w.numel() for w in model.parameters()),
        "steps": step,
        "tokens": step * BATCH * LENGTH,
        "seconds": round(spent),
        "held_out_loss": result.entropy,
        "held_out_hits": result.hits,
    }


def show(result: Losses) -> str:
    """Loss and hit rate of the next token and of drafts 1 to 3."""
    pairs = zip(result.entropy, result.hits, strict=True)
    return "  ".join(f"{loss:.3f}/{hit:.3f}" for loss, hit in pairs)


if __name__ == "__main__":
    main()
