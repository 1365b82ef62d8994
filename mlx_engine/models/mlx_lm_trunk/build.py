"""An mlx-lm model with the weights of a file: its class, its layout, every tensor accounted for."""

from collections.abc import Mapping
from importlib import import_module
from typing import NamedTuple

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx.nn.layers.quantized import quantize
from mlx.utils import tree_flatten

from mlx_engine.models.mlx_lm_trunk.model_types import module_of
from mlx_engine.models.mlx_lm_trunk.packing import Packing, packing_of
from mlx_engine.values.errors import BadModelFile, EngineError, UnsupportedModel

_NAMES_IN_A_MESSAGE = 6


class Named(NamedTuple):
    """Canonical arrays of a file and where they come from, for messages."""

    arrays: dict[str, mx.array]
    origin: str


def build_module(
    model_type: str, config: Mapping[str, object], weights: Named, *, tied: bool = False
) -> Module:
    """The class's Model with these weights, lazy, after its own `sanitize`.

    tied: the output head is the embedding, also where the class has room for another.

    Bits, group size and mode of each packed leaf follow from its tensors' shapes. BadModelFile for
    a config the class cannot be built from and for tensors that are missing, misshapen or left
    over; UnsupportedModel when the library has no such class.
    """
    model = _blank_module(model_type, config, weights.origin)
    arrays = _sanitized(model, weights)
    if tied:
        model.pop("lm_head", None)
    fill_module(model, arrays, weights.origin)
    return model


def fill_module(model: Module, arrays: Mapping[str, mx.array], origin: str) -> None:
    """Exactly these weights into a module, packed leaves as their shapes tell; BadModelFile."""
    _pack_leaves(model, arrays, origin)
    _check(model, arrays, origin)
    model.load_weights(list(arrays.items()), strict=True)
    model.eval()


def parameters_of(model: Module) -> dict[str, mx.array]:
    """Every array of a model by its canonical name."""
    parameters = model.parameters()  # type: ignore[no-untyped-call]
    flat: dict[str, mx.array] = dict(tree_flatten(parameters))
    return flat


def _blank_module(model_type: str, config: Mapping[str, object], origin: str) -> Module:
    module = module_of(model_type)
    if module is None:
        raise UnsupportedModel(f"{origin}: mlx-lm has no class for model_type {model_type!r}.")
    try:
        found = vars(import_module(f"mlx_lm.models.{module}"))
        model = found["Model"](found["ModelArgs"].from_dict(dict(config)))
    except EngineError:
        raise
    except Exception as error:
        raise BadModelFile(
            f"{origin}: no {model_type} can be built from the config ({told(error)}). Get the "
            "config again from where the weights come from."
        ) from error
    mx.eval(mx.random.state[0])  # type: ignore[index]  # drawn from, though no weight is computed
    assert isinstance(model, Module)
    return model


def _sanitized(model: Module, weights: Named) -> dict[str, mx.array]:
    method = vars(type(model)).get("sanitize")
    if method is None:
        return weights.arrays
    try:
        arrays: dict[str, mx.array] = method(model, weights.arrays)
    except KeyError as error:
        raise BadModelFile(
            f"{weights.origin}: the tensor {error.args[0]} is missing. The file is incomplete or "
            "its config belongs to another model: get both again from the same place."
        ) from error
    except Exception as error:
        raise BadModelFile(
            f"{weights.origin}: its tensors do not fit its config ({told(error)}). Get both again "
            "from the same place."
        ) from error
    return arrays


def _pack_leaves(model: Module, arrays: Mapping[str, mx.array], origin: str) -> None:
    """Leaves whose weights come with scales are exchanged for their packed forms."""

    def packing(path: str, leaf: Module) -> dict[str, object] | bool:
        scales = arrays.get(f"{path}.scales")
        weight = leaf.get("weight")
        if scales is None or not isinstance(weight, mx.array):
            return False
        stored = arrays.get(f"{path}.weight")
        if stored is None:
            raise _missing(f"{path}.weight", origin)
        found: Packing = packing_of(
            path, stored, scales, f"{path}.biases" in arrays, weight.shape[-1], origin
        )
        return found._asdict()

    try:
        quantize(model, class_predicate=packing)
    except EngineError:
        raise
    except Exception as error:
        raise BadModelFile(
            f"{origin}: is packed in a way this model cannot be ({told(error)}). Get it again."
        ) from error


def _check(model: Module, arrays: Mapping[str, mx.array], origin: str) -> None:
    wanted = parameters_of(model)
    for name, blank in wanted.items():
        if name not in arrays:
            raise _missing(name, origin)
        if arrays[name].shape != blank.shape:
            raise BadModelFile(
                f"{origin}: {name} has the shape {list(arrays[name].shape)}, the config asks for "
                f"{list(blank.shape)}. The config does not belong to these weights."
            )
        _check_kind(name, arrays[name], blank, origin)
    left = sorted(set(arrays) - set(wanted))
    if left:
        more = len(left) - _NAMES_IN_A_MESSAGE
        rest = f" and {more} more" if more > 0 else ""
        raise BadModelFile(
            f"{origin}: this model has no place for {', '.join(left[:_NAMES_IN_A_MESSAGE])}{rest}. "
            "The config does not belong to these weights, or they are of a variant this version "
            "does not know."
        )


def _check_kind(name: str, array: mx.array, blank: mx.array, origin: str) -> None:
    kinds = [mx.issubdtype(one.dtype, mx.floating) for one in (array, blank)]
    if kinds[0] != kinds[1]:
        raise BadModelFile(
            f"{origin}: {name} holds {array.dtype} where "
            f"{'floating' if kinds[1] else 'whole'} numbers belong. It may be packed without its "
            "scales: get the file again."
        )


def _missing(name: str, origin: str) -> BadModelFile:
    return BadModelFile(
        f"{origin}: the tensor {name} is missing. The file is incomplete or its config belongs to "
        "another model: get both again from the same place."
    )


def told(error: Exception) -> str:
    """What another library says of its failure, short and on one line."""
    return ascii(f"{type(error).__name__}: {error}")[1:-1][:160]
