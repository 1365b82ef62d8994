"""Tiny quantised Qwens in memory whose sizes all kernels take, with or without the kernels."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Literal

import mlx.core as mx
import pytest
from tiny_qwen3_5 import is_shifted_norm, our_names, tiny_config, tiny_values
from tiny_qwen_experts import experts_config

from metal_kernels.choice import ALL_ROWS, NO_KERNELS, Kernels, Verdict
from metal_kernels.kernel import Launcher
from mlx_engine.models.decoder import Decoder, build_decoder
from mlx_engine.models.families.qwen3_5 import Qwen35
from mlx_engine.models.weights import WeightTable

Kind = Literal["dense", "experts"]
VOCABULARY = 96
FASTER = Verdict(faster=ALL_ROWS)


def every_kernel(launcher: Launcher, *, exact: bool = True, off: Mapping[str, str] = {}) -> Kernels:
    """All kernels on for all work they can do, but those of `off`, by kernel or trial."""
    return Kernels(launcher, exact=exact, verdicts=Off(off), presumed=FASTER)


class Off(dict[str, Verdict]):
    """Verdicts by trial, or by kernel whatever the format."""

    def __init__(self, off: Mapping[str, str]) -> None:
        super().__init__({name: Verdict(why) for name, why in off.items()})

    def get(self, trial: str, default: Verdict | None = None) -> Verdict | None:
        kernel = trial.partition(" ")[0]
        return super().get(trial) or super().get(kernel, default)


@contextmanager
def always_faster(rows: frozenset[int] = ALL_ROWS) -> Iterator[None]:
    """No kernel is timed: all are found to be faster at these counts of rows at once."""
    with pytest.MonkeyPatch.context() as patch:
        where = "mlx_engine.self_check.kernel_trials.trial_against_stock"
        patch.setattr(where, lambda work, make: Verdict("", rows))
        yield


def kernel_model(
    kind: Kind,
    kernels: Kernels = NO_KERNELS,
    *,
    layers: int = 2,
    every: int = 2,
    bits: int = 4,
    group: int = 32,
    seed: int = 3,
    vocabulary: int = VOCABULARY,
    halves: bool = False,
) -> Decoder:
    """A layer of so many attends, others recur; the weights depend on kind, bits, group and seed
    alone. Matrices that are not whole groups wide stay plain. halves: in bfloat16, all but norms
    that are stored less one.
    """
    config = tiny_config(tied=False) if kind == "dense" else experts_config("qwen3_5_moe")
    text = config["text_config"]
    assert isinstance(text, dict)
    text |= {
        "vocab_size": vocabulary,
        "hidden_size": max(64, group),
        "intermediate_size": -(-96 // group) * group,
        "num_hidden_layers": layers,
        "full_attention_interval": every,
        "head_dim": 64,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
    }
    values = tiny_values(config, seed)
    trunk, head = (
        WeightTable(
            _packed(part, bits, group, halves),
            "tiny",
            kernels=kernels,
            compute_dtype=mx.bfloat16 if halves else None,
        )
        for part in (values.trunk, our_names(values.head))
    )
    return build_decoder(Qwen35(kind, config, "tiny").spec, trunk, head)


def _packed(values: Mapping, bits: int, group: int, halves: bool) -> dict[str, mx.array]:
    packed = {}
    for name, value in values.items():
        array = mx.array(value)
        if halves and not is_shifted_norm(name):
            array = array.astype(mx.bfloat16)
        if array.ndim < 2 or "conv1d" in name or array.shape[-1] % group:
            packed[name] = array + 1 if is_shifted_norm(name) else array
            continue
        base = name.removesuffix(".weight")
        parts = mx.quantize(array, group_size=group, bits=bits)
        names = (name, f"{base}.scales", f"{base}.biases")
        packed |= dict(zip(names, parts, strict=True))
    return packed
