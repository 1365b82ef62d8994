"""Config and weights -> an adapter, tried out as far as that goes without computing anything."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple, TypeVar

import mlx.core as mx

from mlx_engine.cache.window import WindowCache
from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.contract import Adapter
from mlx_engine.models.mlx_lm_trunk.adapters import MakeCaches, TrunkAdapter, WholeAdapter
from mlx_engine.models.mlx_lm_trunk.build import Named, build_module, parameters_of, told
from mlx_engine.models.mlx_lm_trunk.caches import kept_caches, whole_caches
from mlx_engine.models.mlx_lm_trunk.few_row_linear import use_kernels
from mlx_engine.models.mlx_lm_trunk.gemma4 import GEMMA4, gemma4_adapter, with_head_sizes
from mlx_engine.models.mlx_lm_trunk.latent_attention import attend_by_rows
from mlx_engine.models.mlx_lm_trunk.latent_forms import in_form_of_class
from mlx_engine.models.mlx_lm_trunk.listed_rotation import listed_rotation, rotate_as_listed
from mlx_engine.models.mlx_lm_trunk.text_config import flat_config, with_rotation
from mlx_engine.models.mlx_lm_trunk.trunk import Trunk, take_apart
from mlx_engine.models.mlx_lm_trunk.windows import Windows, windows_of
from mlx_engine.models.weights import WeightTable
from mlx_engine.values.errors import BadModelFile, UnsupportedModel

A = TypeVar("A", bound=Adapter)


class OpenTrunk(NamedTuple):
    """A trunk in its parts and what makes empty caches for it."""

    trunk: Trunk
    make_caches: MakeCaches


def open_trunk(model_type: str, config: Mapping[str, object], table: WeightTable) -> OpenTrunk:
    """The trunk of a STRUCTURED type with all tensors of the table, none missing or left over."""
    origin = table.origin
    flat = flat_config(model_type, config, origin)
    fields = ConfigFields(flat, origin)
    if "tie_word_embeddings" not in flat:
        flat["tie_word_embeddings"] = "lm_head.weight" not in table
    tied = ConfigFields(flat, origin).flag("tie_word_embeddings", default=False)
    listed = listed_rotation(flat)
    if listed is not None:
        flat["rope_scaling"] = None
    arrays = in_form_of_class(model_type, table.take_all(), fields, origin)
    model = build_module(model_type, flat, Named(arrays, origin), tied=tied)
    table.hold(parameters_of(model).values())
    use_kernels(model, table.kernels)
    if listed is not None:
        rotate_as_listed(model, listed)
    attend_by_rows(model_type, model)
    make_caches = partial(kept_caches, model)
    _check_windows(make_caches, windows_of(model_type, fields), origin)
    return OpenTrunk(take_apart(model), make_caches)


def trunk_adapter(model_type: str, config: Mapping[str, object], table: WeightTable) -> Adapter:
    """A STRUCTURED type without heads."""
    opened = open_trunk(model_type, config, table)
    return tried(lambda: TrunkAdapter(opened.trunk, opened.make_caches), table.origin)


def whole_adapter(model_type: str, config: Mapping[str, object], table: WeightTable) -> Adapter:
    """Any other type mlx-lm has: with our caches where they do, else with its own."""
    weights = Named(table.take_all(), table.origin)
    flat = with_rotation(config, table.origin)
    if model_type in GEMMA4:
        flat = with_head_sizes(flat)
    model = build_module(model_type, flat, weights)
    table.hold(parameters_of(model).values())
    use_kernels(model, table.kernels)
    if model_type in GEMMA4:
        return tried(lambda: gemma4_adapter(model), table.origin)
    try:
        return tried(lambda: WholeAdapter(model, partial(kept_caches, model)), table.origin)
    except BadModelFile:
        return tried(lambda: WholeAdapter(model, partial(whole_caches, model)), table.origin)


def tried(make: Callable[[], A], origin: str) -> A:
    """The adapter after a block and a single row were led through it, lazily.

    BadModelFile when the class stumbles: sizes in the config that do not go together.
    """
    try:
        adapter = make()
        caches = adapter.make_caches()
        for rows in (3, 1):
            adapter.logits(adapter.forward(mx.zeros((1, rows), dtype=mx.int32), caches))
            caches.keep(rows)
    except Exception as error:
        raise BadModelFile(
            f"{origin}: the sizes in the config do not go together, or this variant is not one "
            f"mlx-lm runs ({told(error)}). Get the config again from where the weights come from."
        ) from error
    return adapter


def _check_windows(make_caches: MakeCaches, windows: Windows, origin: str) -> None:
    """UnsupportedModel when the class would show layers more than the config says."""
    made = [cache for cache in make_caches().layers if isinstance(cache, WindowCache)]
    if len(made) != windows.layers:
        raise UnsupportedModel(
            f"{origin}: {windows.layers} of its layers see the last {windows.size} tokens only, "
            "in a way this version does not run."
        )
