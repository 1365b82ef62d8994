"""The one list of kernels to try: for `headstart doctor`, for a first load, and for tests."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import mlx.core as mx

from metal_kernels.choice import KernelName, Work, trial_name
from metal_kernels.key_value_formats import form_name
from metal_kernels.matrix_cases import (
    experts_case,
    gate_up_case,
    mtp_input_case,
    pick_case,
    product_add_case,
    product_case,
    prompt_experts_case,
    prompt_product_case,
)
from metal_kernels.trial_cases import (
    Case,
    attention_case,
    delta_case,
    delta_inputs_case,
    filtered_pick_case,
    long_attention_case,
    noise_case,
    norms_case,
)
from metal_kernels.weight_formats.gguf_blocks import BLOCK_FORMS


@dataclass(frozen=True, slots=True)
class Trial:
    """One kernel with one format. checked: sizes to check it at; timed: sizes to time it at.

    make: a small case of such sizes; make_timed: where that is too small to time.
    """

    kernel: KernelName
    checked: Work
    timed: tuple[Work, ...]
    make: Callable[[Work, mx.Dtype, int], Case]
    make_timed: Callable[[Work, mx.Dtype, int], Case] | None = None

    @property
    def words(self) -> str:
        """Its name in a message."""
        return trial_name(self.kernel, self.checked)


WHOLE = 512
"""Trials are as wide as a model's matrix, up to the next whole block and group of every format."""

FORMS = (*(f"affine{bits}" for bits in (2, 3, 4, 5, 6, 8)), "mxfp4", "nvfp4", "dense")
COMMON = ("affine4", "affine8", "dense")


def _trials() -> Iterator[Trial]:
    for form in FORMS:
        sizes = (Work(form, 4096, 4096), Work(form, 12288, 4096))
        yield Trial(
            "products", Work(form, 45, 192), sizes if form != "affine5" else (), product_case
        )
    for form in BLOCK_FORMS:  # untimed: stock MLX has nothing to set against them
        yield Trial("products", Work(form, 45, 512), (), product_case)
        yield Trial("prompt-products", Work(form, 45, 512), (), prompt_product_case)
    yield Trial("prompt-experts", Work("q6_k", 21, 512), (), prompt_experts_case)
    for form in COMMON:
        yield Trial("gate-up", Work(form, 46, 192), (Work(form, 24576, 4096),), gate_up_case)
        yield Trial(
            "product-add", Work(form, 43, 192), (Work(form, 4096, 12288),), product_add_case
        )
        yield Trial("experts", Work(form, 21, 192), (Work(form, 512, 2048),), experts_case)
        yield Trial("mtp-input", Work(form, 33, 256), (Work(form, 4096, 8192),), mtp_input_case)
        yield Trial("pick", Work(form, 333, 192), (Work(form, 32768, 4096),), pick_case)
    for work in (
        *(Work("", size, size, 8) for size in (64, 128, 256)),
        *(Work(form_name(bits), 128, 128, 8) for bits in (8, 4)),
        *(Work(form_name(bits, of_latents=True), 512, 64, 20) for bits in (16, 8, 4)),
    ):
        yield Trial("attention", work, (work,), attention_case, long_attention_case)
    yield Trial("delta", Work("", 40, 128), (Work("", 128, 128),), delta_case)
    yield Trial("delta-inputs", Work("", 40, 48), (Work("", 128, 128),), delta_inputs_case)
    for size in (128, 4096):
        yield Trial("norms", Work("", size, size), (Work("", size, size),), norms_case)
    yield Trial("filtered-pick", Work("", 501, 0), (Work("", 151936, 0),), filtered_pick_case)
    yield Trial("noise", Work("", 501, 0), (Work("", 151936, 0),), noise_case)


TRIALS = tuple(_trials())

_SORTS: Mapping[KernelName, Trial] = MappingProxyType({one.kernel: one for one in TRIALS})
MOST_TIMED = 2**25
"""Weights of a matrix that is timed: as long a walk as a larger one's, in a quarter of a second."""

OUTPUTS = 46
"""Of a trial: few, so that it takes no time, and no whole number of what a SIMD-group takes."""


def trial_of(kernel: KernelName, work: Work) -> Trial:
    """A check of the kernel for a model's own work, at its width; it is timed at its own size."""
    made = _SORTS[kernel]
    if kernel == "attention":
        return replace(made, checked=work, timed=(work,))
    wide = -(-work.inputs // WHOLE) * WHOLE if work.form else work.inputs
    outputs = OUTPUTS if work.form else work.outputs
    small = Work(work.form, min(outputs, 512), wide)
    whole = work._replace(outputs=max(1, min(work.outputs, MOST_TIMED // max(1, work.inputs))))
    return replace(made, checked=small, timed=() if work.form in BLOCK_FORMS else (whole,))
