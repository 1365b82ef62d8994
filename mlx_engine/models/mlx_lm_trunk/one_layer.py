"""One decoder layer of an mlx-lm class, by itself, with weights from a file of heads."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import mlx.core as mx
from mlx.nn.layers.linear import Identity

from mlx_engine.models.mlx_lm_trunk.build import Named, build_module, parameters_of
from mlx_engine.models.mlx_lm_trunk.caches import kept_caches
from mlx_engine.models.mlx_lm_trunk.latent_attention import attend_by_rows
from mlx_engine.models.mlx_lm_trunk.make_adapter import OpenTrunk
from mlx_engine.models.mlx_lm_trunk.trunk import take_apart
from mlx_engine.models.weights import WeightTable

_NOTHING_DENSE = {"num_hidden_layers": 1, "first_k_dense_replace": 0, "vocab_size": 1}


def open_layer(
    model_type: str, flat: Mapping[str, object], table: WeightTable, name: str
) -> OpenTrunk:
    """All tensors left in the table, `name`.*, as the only layer of a model.

    Its `residual` takes hidden states [1, T, H] in the place of tokens. The class's own `sanitize`
    sees to stacks of experts and split projections; embedding and final norm are blanks that are
    taken out again. flat: the config of the whole model.
    """
    blank = mx.ones((1, int(str(flat["hidden_size"]))))
    named = {
        f"model.layers.0.{stored.removeprefix(f'{name}.')}": array
        for stored, array in table.take_all().items()
    }
    around = {"model.embed_tokens.weight": blank, "model.norm.weight": blank[0]}
    model = build_module(
        model_type, {**flat, **_NOTHING_DENSE}, Named(named | around, table.origin), tied=True
    )
    attend_by_rows(model_type, model)
    inner = model["model"]
    make_caches = partial(kept_caches, model)
    parts = take_apart(model)
    inner.embed_tokens = Identity()
    table.hold(parameters_of(model).values())
    return OpenTrunk(replace(parts, embed=Identity()), make_caches)
