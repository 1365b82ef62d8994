"""GGUF's own blocks, read as they lie in the file: the table of those that kernels take.

K-quants are in k_blocks.py, IQ4_NL and IQ4_XS in iq4_blocks.py, IQ2_XXS, IQ2_XS and IQ2_S, with
values from a lattice, in iq2_blocks.py.

Layouts: ggml-common.h and the gguf package, whose bits the plain ops have too.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import Literal, NamedTuple

import mlx.core as mx

from metal_kernels.weight_formats import iq2_blocks, iq4_blocks, k_blocks
from metal_kernels.weight_formats.block_parts import SHARED
from metal_kernels.weight_formats.contract import WeightFormat

BlockName = Literal["q6_k", "q3_k", "q2_k", "iq4_nl", "iq4_xs", "iq2_xxs", "iq2_xs", "iq2_s"]


class _Block(NamedTuple):
    """nbytes: of 256 values. values: whole blocks uint8 [..., bytes] -> float32 [..., K]."""

    nbytes: int
    header: Callable[[], str]
    values: Callable[[mx.array], mx.array]
    setup: str = ""


def _iq2(name: iq2_blocks.Lattice, fetch: str) -> Callable[[], str]:
    """What makes the header."""
    return lambda: SHARED + iq2_blocks.lattice_constant(name) + iq2_blocks.SHARED + fetch


_BLOCKS: Mapping[BlockName, _Block] = MappingProxyType(
    {
        "q6_k": _Block(210, lambda: k_blocks.Q6_K, k_blocks.q6_k),
        "q3_k": _Block(110, lambda: k_blocks.Q3_K, k_blocks.q3_k),
        "q2_k": _Block(84, lambda: k_blocks.Q2_K, k_blocks.q2_k),
        "iq4_nl": _Block(144, lambda: iq4_blocks.IQ4_NL, iq4_blocks.iq4_nl, iq4_blocks.SETUP),
        "iq4_xs": _Block(136, lambda: iq4_blocks.IQ4_XS, iq4_blocks.iq4_xs, iq4_blocks.SETUP),
        "iq2_xxs": _Block(66, _iq2("IQ2_XXS", iq2_blocks.IQ2_XXS), iq2_blocks.iq2_xxs),
        "iq2_xs": _Block(74, _iq2("IQ2_XS", iq2_blocks.IQ2_XS), iq2_blocks.iq2_xs),
        "iq2_s": _Block(82, _iq2("IQ2_S", iq2_blocks.IQ2_S), iq2_blocks.iq2_s),
    }
)


@cache
def _form(name: BlockName) -> WeightFormat:
    block = _BLOCKS[name]
    return WeightFormat(
        name=name,
        buffers=("w",),
        unit=32,
        header=block.header(),
        parameters=(),
        dequantise=lambda arrays: block.values(arrays[0]),
        setup=block.setup,
    )


class _Forms(Mapping[str, WeightFormat]):
    """Made when first asked for: lattices come from the gguf package, which takes a while."""

    def __getitem__(self, name: str) -> WeightFormat:
        found = next((known for known in _BLOCKS if known == name), None)
        if found is None:
            raise KeyError(name)
        return _form(found)

    def __contains__(self, name: object) -> bool:
        return name in _BLOCKS

    def __iter__(self) -> Iterator[str]:
        return iter(_BLOCKS)

    def __len__(self) -> int:
        return len(_BLOCKS)


BLOCK_FORMS: Mapping[str, WeightFormat] = _Forms()
"""By name; each of one buffer, uint8 w [N, bytes of a row]."""

_NBYTES: Mapping[str, int] = {name: block.nbytes for name, block in _BLOCKS.items()}


def block_bytes(name: str, inputs: int) -> int:
    """Bytes of a row of so many values in these blocks. Raises KeyError."""
    return _NBYTES[name] * inputs // 256


def block_values(name: str, nbytes: int) -> int:
    """Values of a row of so many bytes of these blocks. Raises KeyError."""
    return nbytes * 256 // _NBYTES[name]


def blocks_in(nbytes: int, inputs: int) -> BlockName | None:
    """The blocks that keep a row of so many values in so many bytes; None: there are none such."""
    each, rest = divmod(nbytes * 256, max(1, inputs))
    names = {block.nbytes: name for name, block in _BLOCKS.items()}
    return None if rest else names.get(each)
