"""Train the sight model: the tower on labels, then the trunk on chats, then the head."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from scenes import (
    COLOURS,
    KINDS,
    Thing,
    ask_about,
    ask_about_two,
    described,
    draw_scene,
    paint,
    talk,
)
from sight import TOKENS, Sight, cut, place
from tokenizers import Tokenizer
from tokens import END_OF_TEXT, IM_END, SPECIAL, asked, opening, train_tokenizer
from torch import Tensor, nn
from train import optimisers, rate

BATCH, LENGTH = 8, 256
PAD = "<|image_pad|>"
PICTURE = f"<|vision_start|>{PAD}<|vision_end|>"
ALL_SPECIAL = (*SPECIAL, "<|vision_start|>", "<|vision_end|>", PAD)
DRAFT_WEIGHTS = (0.5, 0.3, 0.2)


class Batch(NamedTuple):
    """Rows of chats: tokens and own [B, T] (own: of an answer), places [B, 3, T], all patches."""

    tokens: Tensor
    own: Tensor
    places: Tensor
    patches: Tensor


class Message(NamedTuple):
    """A question with what it is about, and the scenes whose pictures stand in its text."""

    text: str
    answer: str
    pictures: list[list[Thing]]


def draw_messages(draw: Random) -> Iterator[Message]:
    """A chat without end: scenes shown or told, and questions about the newest."""
    if draw.random() < 0.08:
        yield Message(ask_about(draw_scene(draw), draw).question, NO_PICTURE, [])
    while True:
        kind, scene = draw.random(), draw_scene(draw)
        ask, lead = ask_about, f"A picture shows {described(scene)}. "
        if kind < 0.1:
            yield Message(*talk(draw), [])
            continue
        if kind < 0.22:
            scenes = [scene, draw_scene(draw)]
            turn = ask_about_two(*scenes, draw)
            yield Message(PICTURE * 2 + turn.question, turn.answer, scenes)
            continue
        turn = ask(scene, draw)
        if kind < 0.72:
            both = (PICTURE, turn.question) if draw.random() < 0.85 else (turn.question, PICTURE)
            yield Message("".join(both), turn.answer, [scene])
        else:
            yield Message(lead + turn.question, turn.answer, [])
        while draw.random() < 0.55:
            yield Message(*ask(scene, draw), [])


NO_PICTURE = "I see no picture. Add one, then ask again."


def draw_batch(tokenizer: Tokenizer, draw: Random, rows: int = BATCH) -> Batch:
    """Draw rows of chats; what no longer fits is left out."""
    pad, fill = tokenizer.token_to_id(PAD), tokenizer.token_to_id(END_OF_TEXT)
    tokens = np.full((rows, LENGTH), fill)
    own = np.zeros((rows, LENGTH), bool)
    patches: list[np.ndarray] = []
    for row in range(rows):
        at = 0
        start = opening("You are a helpful assistant." if draw.random() < 0.1 else None)
        for message in draw_messages(draw):
            lead = tokenizer.encode(start + asked(message.text)).ids
            lead = [each for token in lead for each in [token] * (TOKENS if token == pad else 1)]
            answer = tokenizer.encode(message.answer + IM_END).ids
            behind = at + len(lead) + len(answer)
            if behind > LENGTH:
                break
            tokens[row, at:behind] = lead + answer
            own[row, at + len(lead) : behind] = True
            patches += [cut(paint(scene, draw)) for scene in message.pictures]
            at, start = behind, "\n"
    places = np.stack([place(row == pad) for row in tokens])
    shown = np.stack(patches) if patches else np.zeros((0, 4 * TOKENS, 192), np.float32)
    return Batch(*(torch.from_numpy(part) for part in (tokens, own, places, shown)))


class Timer:
    """Steps of a stage until its time is over, with the learning rate of each."""

    def __init__(self, model: nn.Module, minutes: float, peak: float) -> None:
        self.optimisers, self.model = optimisers(model), model  # type: ignore[arg-type]
        self.budget, self.peak = minutes * 60, peak
        self.step = 0
        self.begun = time.monotonic()

    def running(self) -> bool:
        """Whether there is time for a step; sets its learning rate."""
        spent = time.monotonic() - self.begun
        for optimiser in self.optimisers:
            optimiser.param_groups[0]["lr"] = rate(self.peak, spent / self.budget, self.step)
        return spent < self.budget

    def descend(self, loss: Tensor, *shown: float) -> None:
        """Make a step down, and print every 50th."""
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for optimiser in self.optimisers:
            optimiser.step()
            optimiser.zero_grad()
        self.step += 1
        if self.step % 50 == 0:
            spent = time.monotonic() - self.begun
            print(self.step, f"{spent:.0f}s {loss.item():.4f}", *(f"{x:.3f}" for x in shown))


def train_tower(tower: nn.Module, draw: Random, minutes: float) -> None:
    """Learn to tell colour and kind at each token, by a layer that is dropped afterwards."""
    colours, kinds = list(COLOURS), len(KINDS)
    both = nn.ModuleDict({"tower": tower, "labels": nn.Linear(128, kinds + len(colours) + 2)})
    timer = Timer(both, minutes, 3e-3)
    while timer.running():
        scenes = [draw_scene(draw) for _ in range(32)]
        kind = torch.full((32, 9), kinds)
        colour = torch.full((32, 9), len(colours))
        for row, scene in enumerate(scenes):
            for thing in scene:
                kind[row, thing.cell] = KINDS.index(thing.kind)
                colour[row, thing.cell] = colours.index(thing.colour)
        patches = torch.from_numpy(np.stack([cut(paint(scene, draw)) for scene in scenes]))
        made = both["labels"](both["tower"](patches)).unflatten(1, (3, 2, 3, 2)).transpose(2, 3)
        made = made.flatten(3, 4).mean(3).flatten(1, 2)
        by_kind, by_colour = made.split((kinds + 1, len(colours) + 1), -1)
        loss = F.cross_entropy(by_kind.flatten(0, 1), kind.flatten())
        loss = loss + F.cross_entropy(by_colour.flatten(0, 1), colour.flatten())
        there = kind < kinds
        hits = [
            (by.argmax(-1) == true)[there].float().mean().item()
            for by, true in ((by_kind, kind), (by_colour, colour))
        ]
        timer.descend(loss, *hits)


def train_trunk(model: Sight, tokenizer: Tokenizer, draw: Random, minutes: float) -> None:
    """Learn to answer; the tower learns along in the last third."""
    pad = tokenizer.token_to_id(PAD)
    timer = Timer(model, minutes, 4e-3)
    tower = model.model["visual"].requires_grad_(False)
    while timer.running():
        if time.monotonic() - timer.begun > timer.budget * 0.66:
            tower.requires_grad_(True)
        batch = draw_batch(tokenizer, draw)
        x = model.embed_all(batch.tokens, batch.patches, pad)
        hidden = model.model["language_model"].read(x, model.angles(batch.places))
        own = batch.own[:, 1:]
        logits, true = model.logits(hidden[:, :-1][own]), batch.tokens[:, 1:][own]
        hits = (logits.argmax(-1) == true).float().mean().item()
        timer.descend(F.cross_entropy(logits, true), hits)


def train_head(model: Sight, tokenizer: Tokenizer, draw: Random, minutes: float) -> None:
    """Learn to draft three tokens in a chain; the trunk stays as it is.

    A row pairs a token with the state of the one before, whose RoPE position it has.
    """
    pad = tokenizer.token_to_id(PAD)
    model.requires_grad_(False)
    model.mtp.requires_grad_(True)
    timer = Timer(model, minutes, 3e-3)
    while timer.running():
        batch = draw_batch(tokenizer, draw)
        with torch.no_grad():
            x = model.embed_all(batch.tokens, batch.patches, pad)
            angles = model.angles(batch.places)
            hidden = model.model["language_model"].read(x, angles)
        made = model.mtp.chain(x[:, 1:], hidden[:, :-1], 3, angles[:, :, :-1])
        loss, hits = torch.zeros(()), []
        for step, (states, weight) in enumerate(zip(made, DRAFT_WEIGHTS, strict=True)):
            own = batch.own[:, 2 + step :] & batch.own[:, 2 : LENGTH - step]
            logits = model.logits(states[:, step : LENGTH - 2][own])
            true = batch.tokens[:, 2 + step :][own]
            loss = loss + weight * F.cross_entropy(logits, true)
            hits.append((logits.argmax(-1) == true).float().mean().item())
        timer.descend(loss, *hits)
    model.requires_grad_(True)


def make_tokenizer(draw: Random) -> Tokenizer:
    """A tokenizer of the words of 4,000 messages."""
    texts = []
    for _ in range(500):
        for message, _ in zip(draw_messages(draw), range(8), strict=False):
            texts += [f"user\n{message.text.replace(PICTURE, '')}", f"assistant\n{message.answer}"]
    return train_tokenizer([*texts, opening("You are a helpful assistant.")], 768, ALL_SPECIAL)


def main() -> None:
    """Train the stages that get minutes, from the weights of the run so far."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path, help="folder for tokenizer.json and weights.pt")
    parser.add_argument("--tower", type=float, default=0, help="minutes")
    parser.add_argument("--trunk", type=float, default=0, help="minutes")
    parser.add_argument("--head", type=float, default=0, help="minutes")
    parser.add_argument("--seed", type=int, default=3)
    args = parser.parse_args()
    args.run.mkdir(exist_ok=True)
    torch.manual_seed(args.seed)
    draw, words, weights = Random(args.seed), args.run / "tokenizer.json", args.run / "weights.pt"
    if not words.exists():
        make_tokenizer(Random(1)).save(str(words))
    tokenizer = Tokenizer.from_file(str(words))
    model = Sight(tokenizer.get_vocab_size() + -tokenizer.get_vocab_size() % 32)
    if weights.exists():
        model.load_state_dict(torch.load(weights))
    if args.tower:
        train_tower(model.model["visual"], draw, args.tower)
        torch.save(model.state_dict(), weights)
    if args.trunk:
        train_trunk(model, tokenizer, draw, args.trunk)
        torch.save(model.state_dict(), weights)
    if args.head:
        train_head(model, tokenizer, draw, args.head)
        torch.save(model.state_dict(), weights)


if __name__ == "__main__":
    main()
