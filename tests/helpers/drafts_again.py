"""Drafts that are asked for more than once, as when rounds are begun ahead and dropped."""

import mlx.core as mx

from mlx_engine.drafting.contract import Draft, DraftSource, Proposal
from mlx_engine.sampling.sampler import Sampler


def propose_again(source: DraftSource, wanted: Proposal, sampler: Sampler) -> Draft:
    """What a source drafts: drafts that are withdrawn do not change it."""
    source.propose(wanted._replace(last=mx.zeros_like(wanted.last)), sampler)
    source.withdraw()
    twice = []
    for depth in (wanted.depth, wanted.depth + 1):
        twice.append(source.propose(wanted._replace(depth=depth), sampler))
        source.withdraw()
    draft = source.propose(wanted, sampler)
    for other in twice:
        assert other.tokens[: draft.depth].tolist() == draft.tokens.tolist()
    return draft
