"""The blocks of GGUF files that kernels read as they lie, by name."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Literal

from metal_kernels.weight_formats.contract import WeightFormat
from metal_kernels.weight_formats.iq4 import iq4_nl, iq4_xs
from metal_kernels.weight_formats.k_quants import q2_k, q3_k, q6_k

BlockName = Literal["q6_k", "q3_k", "q2_k", "iq4_nl", "iq4_xs"]

BLOCK_FORMS: Mapping[str, Callable[[], WeightFormat]] = MappingProxyType(
    {"q6_k": q6_k, "q3_k": q3_k, "q2_k": q2_k, "iq4_nl": iq4_nl, "iq4_xs": iq4_xs}
)

_NAMES: Mapping[int, BlockName] = MappingProxyType(
    {210: "q6_k", 110: "q3_k", 84: "q2_k", 144: "iq4_nl", 136: "iq4_xs"}
)


def blocks_in(nbytes: int, inputs: int) -> BlockName | None:
    """The blocks that keep a row of so many values in so many bytes; None: there are none such."""
    each, rest = divmod(nbytes * 256, max(1, inputs))
    return None if rest else _NAMES.get(each)
