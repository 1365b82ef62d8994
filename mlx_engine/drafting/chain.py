"""Drafts token after token from a model's states: lazy, no host sync but for min_probability."""

from dataclasses import dataclass
from typing import Protocol

import mlx.core as mx

from mlx_engine.drafting.contract import Draft, Proposal, empty_draft
from mlx_engine.sampling.sampler import Sampler
from mlx_engine.values.options import DraftRule


@dataclass(slots=True)
class Picking:
    """How a drafting model picks its own tokens; may change between rounds.

    min_probability: a draft ends before the first token the model finds less likely (one host sync
    a token, only when set).
    """

    rule: DraftRule = "shared-noise"
    min_probability: float = 0.0


class Drafter(Protocol):
    """A model that drafts."""

    def draft_logits(self, state: mx.array) -> mx.array:
        """A state [1, 1, H] -> float32 logits [1, V] of the target's vocabulary."""

    def read_drafted(self, token: mx.array, state: mx.array) -> mx.array:
        """The state after one more token int32 [1]."""


def draft_chain(
    drafter: Drafter, state: mx.array, wanted: Proposal, sampler: Sampler, picking: Picking
) -> Draft:
    """At most `wanted.depth` tokens from the state [1, 1, H] after `wanted.last`.

    The pass that made `state` counts as the first.
    """
    drafted: list[mx.array] = []
    passes = 1
    while True:
        prefix = mx.concatenate(drafted) if drafted else empty_draft().tokens
        position = wanted.position + len(drafted)
        token = _choose(drafter.draft_logits(state), position, prefix, sampler, picking)
        if token is None:
            break
        drafted.append(token)
        if len(drafted) == wanted.depth:
            break
        state = drafter.read_drafted(token, state)
        passes += 1
    return Draft(mx.concatenate(drafted), passes) if drafted else empty_draft(passes)


def _choose(
    logits: mx.array, position: int, prefix: mx.array, sampler: Sampler, picking: Picking
) -> mx.array | None:
    """The next token, int32 [1]; None when it is too unlikely."""
    pick = sampler.pick if picking.rule == "shared-noise" else sampler.pick_greedy
    token = pick(logits, position, prefix)
    if picking.min_probability > 0:
        likely = sampler.probability(logits, token, prefix) >= picking.min_probability
        if not likely.item():
            return None
    return token
