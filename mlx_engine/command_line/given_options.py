"""Parsed arguments to the engine's frozen options."""

from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from typing import Any

from mlx_engine.command_line.option_text import NUMBER_FIELDS, read_bias
from mlx_engine.values.options import (
    DraftOptions,
    GenerationOptions,
    LoadOptions,
    SamplingOptions,
)


def load_options(arguments: Namespace) -> LoadOptions:
    """Raises BadOption."""
    heads = Path(arguments.heads) if arguments.heads else None
    return LoadOptions(
        heads=heads,
        numerics=arguments.numerics,
        context_length=arguments.context,
        draft_model=arguments.draft_model,
        head_bits=arguments.head_bits,
        repack_cache=Path(arguments.repack_cache) if arguments.repack_cache else None,
    )


def draft_options(arguments: Namespace) -> DraftOptions:
    """Raises BadOption."""
    return DraftOptions(
        source=arguments.draft_source or ("model" if arguments.draft_model else "mtp"),
        depth=arguments.depth,
        min_probability=arguments.min_probability,
        rule=arguments.draft_rule,
        output=arguments.draft_output,
        vocabulary=arguments.draft_vocabulary,
    )


def sampling_options(arguments: Namespace, recommended: SamplingOptions) -> SamplingOptions:
    """What the model recommends, with what was given in its place. Raises BadOption."""
    wanted = vars(arguments)
    given: dict[str, Any] = {
        name: wanted[name] for name in (*NUMBER_FIELDS, "seed") if wanted[name] is not None
    }
    if arguments.logit_bias:
        given["logit_bias"] = read_bias(arguments.logit_bias)
    return replace(recommended, **given)


def generation_options(arguments: Namespace) -> GenerationOptions:
    """Raises BadOption."""
    return GenerationOptions(arguments.max_tokens, tuple(arguments.stop), arguments.ignore_eos)
