"""Runs a model class of mlx-lm as the engine's Model, with the engine's KV caches where possible.

Bits, group size and mode of each quantised layer follow from its tensors' shapes. mlx-lm is
imported on use, since it imports transformers and torch.
"""

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import NamedTuple, TypeVar

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx.nn.layers.quantized import quantize
from mlx.utils import tree_flatten

from mlx_engine.cache.by_length import CacheByLength
from mlx_engine.cache.contract import LayerCaches
from mlx_engine.models.contract import Model, ModelWithoutMtp
from mlx_engine.models.library.caches import (
    LibraryCache,
    MakeCaches,
    caches_for_class,
    make_engine_caches,
    make_length_caches,
    make_library_caches,
)
from mlx_engine.models.library.layer_exchange import (
    LAYER_FIXES,
    MODEL_FIXES,
    add_unused_kv_weights,
    replace_layers,
    use_kernels,
)
from mlx_engine.models.library.rotation import TextLength
from mlx_engine.models.matrix import infer_packing
from mlx_engine.models.vision.contract import PictureRows
from mlx_engine.models.weights import WeightTable
from mlx_engine.values.errors import (
    BadModelFile,
    EngineError,
    Reason,
    UnsupportedModel,
    tensor_missing,
)
from mlx_engine.values.options import CacheBits
from mlx_engine.values.words import Words

A = TypeVar("A", bound=Model)

PLAIN_ONLY = Reason(
    "plain-only",
    Words("This model cannot take back wrong guesses, so it runs without drafting."),
)

OWN_CACHES = Reason(
    "cache-of-library",
    Words("Chat memory stays in 16 bits: this model can have no other."),
)

_NAMES_IN_A_MESSAGE = 6
_STACKS = {
    "gate_proj": ("switch_mlp.gate_proj", "experts.gate_proj"),
    "up_proj": ("switch_mlp.up_proj", "experts.up_proj", "switch_mlp.fc1"),
    "down_proj": ("switch_mlp.down_proj", "experts.down_proj", "switch_mlp.fc2"),
}
"""What stacks of experts are called in classes, beside the router."""


def build_class(module: str, config: Mapping[str, object], table: WeightTable) -> Module:
    """Build `mlx_lm.models.{module}`.Model from a config and the tensors of a weight table.

    Raises BadModelFile for a config the class cannot be built from and for tensors that are
    missing, misshapen or left over; UnsupportedModel for configs that the class does not support.
    """
    arrays = table.take_all()
    if module == "gemma3n":
        arrays = add_unused_kv_weights(arrays, config, table.origin)
    model = _build_module(module, config, NamedWeights(arrays, table.origin))
    table.add_taken_arrays(_parameters_of(model).values())
    try:
        replace_layers(model, LAYER_FIXES)
        if module in MODEL_FIXES:
            MODEL_FIXES[module](model)
    except Exception as error:
        raise _rejected_by_class(table.origin, _error_summary(error)) from error
    use_kernels(model, table.kernels)
    return model


def wrap_mlx_lm_model(model: Module, origin: str, text_length: TextLength | None = None) -> Model:
    """Wrap a model of mlx-lm as the engine's Model, with the engine's KV caches where they work.

    text_length: shared switch of its RoPE layers, where they depend on the text's length.
    """
    make: MakeCaches = partial(make_engine_caches, model)
    if text_length is not None:
        by_length = partial(make_length_caches, model, text_length.switch_length)
        return build_checked_model(lambda: LibraryModel(model, by_length, text_length), origin)
    try:
        return build_checked_model(lambda: LibraryModel(model, make), origin)
    except BadModelFile:
        return build_checked_model(
            lambda: LibraryModel(model, partial(make_library_caches, model)), origin
        )


class LibraryModel(ModelWithoutMtp):
    """A model of mlx-lm as the engine's Model; its "hidden states" are its logits, so H equals V.

    Logits of prompt rows that nobody reads are never computed, since MLX is lazy.
    """

    def __init__(
        self, model: Module, make_caches: MakeCaches, text_length: TextLength | None = None
    ) -> None:
        self._model, self._length = model, text_length
        self._make_caches = make_caches
        self.why_no_drafts = None if make_caches(16).keeps_any_prefix else PLAIN_ONLY
        seen = self.forward(mx.zeros((1, 1), dtype=mx.int32), make_caches(16))
        self.hidden_size = self.vocabulary = seen.shape[-1]
        self.packed_cache = cache_16bit_reason(self)

    def make_caches(self, bits: CacheBits = 16) -> LayerCaches:
        """Create empty KV caches for all layers of the model."""
        return self._make_caches(bits)

    def forward(
        self, tokens: mx.array, caches: LayerCaches, pictures: PictureRows | None = None
    ) -> mx.array:
        """Run the model on int tokens [1, T]; returns logits [1, T, V]. No pictures."""
        assert pictures is None
        first = caches.layers[0]
        if isinstance(first, CacheByLength):
            return first.read_tokens(tokens, self._run_class)
        return self._run_class(tokens, caches)

    def _run_class(
        self, tokens: mx.array, caches: LayerCaches, *, is_long: bool = False
    ) -> mx.array:
        if self._length is not None:
            self._length.is_long = is_long
        handed = caches_for_class(caches, tokens.shape[1])
        logits: mx.array = self._model(tokens, cache=handed)
        return logits

    def logits(self, hidden: mx.array) -> mx.array:
        """Convert what `forward` returned, which are logits already, to float32."""
        return hidden.astype(mx.float32)


def build_checked_model(build_model: Callable[[], A], origin: str) -> A:
    """Build a model of mlx-lm and, as a check, run 3 tokens and then 1 through it lazily.

    Raises BadModelFile when the class fails, as it does for sizes that contradict each other.
    """
    try:
        model = build_model()
        caches = model.make_caches()
        for rows in (3, 1):
            model.logits(model.forward(mx.zeros((1, rows), dtype=mx.int32), caches))
            caches.commit(rows)
    except Exception as error:
        raise _rejected_by_class(origin, _error_summary(error)) from error
    return model


def cache_16bit_reason(model: Model) -> Reason | None:
    """Reason why a model's KV cache stays in 16 bits, found by a trial pass; None if it need not.

    Some classes read keys and values before a cache quantises them, or use their own caches.
    """
    caches = model.make_caches(8)
    if any(isinstance(layer, LibraryCache) for layer in caches.layers):
        return OWN_CACHES
    try:
        model.forward(mx.zeros((1, 1), dtype=mx.int32), caches)
    except ValueError as error:  # of mx.quantize: rows that are no whole groups
        return Reason(
            "cache-head-size",
            Words("Chat memory stays in 16 bits: {told}.", told=_error_summary(error)),
        )
    return None


class NamedWeights(NamedTuple):
    """Weight arrays by tensor name, and the name of their file or folder for error messages."""

    arrays: dict[str, mx.array]
    origin: str


def _build_module(module: str, config: Mapping[str, object], weights: NamedWeights) -> Module:
    model = _construct_module(module, config, weights.origin)
    apart = _rename_for_class(weights.arrays, _parameters_of(model))
    arrays = _sanitize_weights(model, weights._replace(arrays=apart))
    _pack_leaves(model, arrays, weights.origin)
    _check_arrays(model, arrays, weights.origin)
    model.load_weights(list(arrays.items()), strict=True)
    model.eval()
    return model


def _parameters_of(model: Module) -> dict[str, mx.array]:
    parameters = model.parameters()  # type: ignore[no-untyped-call]
    flat: dict[str, mx.array] = dict(tree_flatten(parameters))
    return flat


def _construct_module(module: str, config: Mapping[str, object], origin: str) -> Module:
    try:
        found = vars(import_module(f"mlx_lm.models.{module}"))
        model = found["Model"](found["ModelArgs"].from_dict(dict(config)))
    except EngineError:
        raise
    except SystemExit as error:  # as its module of OLMo 1 does without a package of its own
        raise UnsupportedModel(
            "{origin}: the class that mlx-lm has for {module} needs a package that is not here. "
            "Take another model.",
            origin=origin,
            module=module,
        ) from error
    except Exception as error:
        raise _rejected_by_class(origin, _error_summary(error)) from error
    mx.eval(mx.random.state[0])  # type: ignore[index]  # drawn from, though no weight is computed
    assert isinstance(model, Module)
    return model


def _rename_for_class(
    arrays: Mapping[str, mx.array], expected_shapes: Mapping[str, mx.array]
) -> dict[str, mx.array]:
    """Rename and split expert stacks that transformers 5 wrote, as mlx-lm's class expects them.

    Also renames the output projection of Ling 3's linear attention.
    """
    made = dict(arrays)
    for name in arrays:
        other = name.replace(".attention.dense.", ".attention.o_proj.")
        if name not in expected_shapes and other in expected_shapes:
            made[other] = made.pop(name)
    for name, stack in arrays.items():
        block, found, part = name.rpartition("experts.")
        if not found or part not in ("gate_up_proj", "up_proj", "down_proj"):
            continue
        halves = mx.split(stack, 2, axis=1) if part == "gate_up_proj" else [stack]
        parts = ("gate_proj", "up_proj") if part == "gate_up_proj" else (part,)
        for array, its in zip(halves, parts, strict=True):
            names = (f"{block}{form}.weight" for form in _STACKS[its])
            target = next((one for one in names if one in expected_shapes), None)
            if target is not None:
                made.pop(name, None)
                made[target] = array[: expected_shapes[target].shape[0]]
    return made


def _sanitize_weights(model: Module, weights: NamedWeights) -> dict[str, mx.array]:
    method = getattr(type(model), "sanitize", None)
    if method is None:
        return weights.arrays
    try:
        arrays: dict[str, mx.array] = method(model, weights.arrays)
    except Exception as error:
        raise _rejected_by_class(weights.origin, _error_summary(error)) from error
    return arrays


def _pack_leaves(model: Module, arrays: Mapping[str, mx.array], origin: str) -> None:
    """Replace those layers of a model by quantised ones whose weights have scales in the files."""

    def layer_quantisation(path: str, leaf: Module) -> dict[str, object] | bool:
        names, weight = (
            [f"{path}.{part}" for part in ("weight", "scales", "biases")],
            leaf.get("weight"),
        )
        if names[1] not in arrays or not isinstance(weight, mx.array):
            return False
        if names[0] not in arrays:
            raise tensor_missing(origin, names[0])
        stored = [arrays[name] for name in names if name in arrays]
        return infer_packing(path, stored, weight.shape, origin)._asdict()

    try:
        quantize(model, class_predicate=layer_quantisation)
    except EngineError:
        raise
    except Exception as error:
        raise BadModelFile(
            "{origin}: is quantised in a way that this model does not support ({told}). Get "
            "it again.",
            origin=origin,
            told=_error_summary(error),
        ) from error


def _check_arrays(model: Module, arrays: Mapping[str, mx.array], origin: str) -> None:
    wanted = _parameters_of(model)
    for name, blank in wanted.items():
        if name not in arrays:
            raise _rejected_by_class(origin, Words("it misses {name}", name=name))
        if arrays[name].shape != blank.shape:
            shapes = {"shape": list(arrays[name].shape), "wanted": list(blank.shape)}
            told = Words(
                "{name} has the shape {shape}, where it wants {wanted}", name=name, **shapes
            )
            raise _rejected_by_class(origin, told)
        _check_dtype(name, arrays[name], blank, origin)
    left = sorted(set(arrays) - set(wanted))
    if left:
        more = len(left) - _NAMES_IN_A_MESSAGE
        names = ", ".join(left[:_NAMES_IN_A_MESSAGE]) + (f", {more} more" if more > 0 else "")
        raise _rejected_by_class(origin, Words("it has no place for {names}", names=names))


def _check_dtype(name: str, array: mx.array, blank: mx.array, origin: str) -> None:
    kinds = [mx.issubdtype(one.dtype, mx.floating) for one in (array, blank)]
    if kinds[0] != kinds[1]:
        raise BadModelFile(
            "{origin}: {name} holds {dtype} where "
            "{what} numbers belong. It may be packed without its "
            "scales: get the file again.",
            origin=origin,
            name=name,
            dtype=str(array.dtype),
            what=Words("floating") if kinds[1] else Words("whole"),
        )


def _rejected_by_class(origin: str, class_error: str) -> BadModelFile:
    """Make the error for model files that a class of mlx-lm does not accept."""
    return BadModelFile(
        "{origin}: the class that mlx-lm has for this architecture does not take these files "
        "({told}). Either config and weights do not belong together, or this is a variant that "
        "mlx-lm does not run: get both again from one place, or take another model.",
        origin=origin,
        told=class_error,
    )


def _error_summary(error: Exception) -> str:
    """Shorten another library's error message to one line."""
    return ascii(f"{type(error).__name__}: {error}")[1:-1][:160]
