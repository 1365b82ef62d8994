"""Drafters told of rows, and asked for drafts by themselves, also more than once."""

import mlx.core as mx

from mlx_engine.drafting.contract import Draft, DraftRequest, TargetRows
from mlx_engine.drafting.drafter import Drafter
from mlx_engine.sampling.sampler import Sampler


def tell(drafter: Drafter, tokens: mx.array, hidden: mx.array) -> None:
    """Commit rows: tokens int [T] and the target's hidden states [1, T, H]."""
    drafter.commit(TargetRows(tokens, hidden), tokens.shape[0])


def propose_again(drafter: Drafter, wanted: DraftRequest, sampler: Sampler) -> Draft:
    """What a drafter drafts: drafts of which nothing was committed do not change it."""
    drafter.draft(wanted._replace(last=mx.zeros_like(wanted.last)), sampler)
    twice = [
        drafter.draft(wanted._replace(depth=depth), sampler)
        for depth in (wanted.depth, wanted.depth + 1)
    ]
    draft = drafter.draft(wanted, sampler)
    for other in twice:
        assert other.tokens[: draft.tokens.size].tolist() == draft.tokens.tolist()
    return draft
