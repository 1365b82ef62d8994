"""Weight formats of GGUF blocks, read as they are stored in the file.

K-quants are in k_blocks.py, IQ4_NL and IQ4_XS in iq4_blocks.py, IQ2_XXS, IQ2_XS and IQ2_S, whose
values are lattice points, in iq2_blocks.py. Layouts follow ggml-common.h and the gguf package,
whose bits the plain operations reproduce.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Literal, get_args

import mlx.core as mx

from metal_kernels.weight_formats import iq2_blocks, iq4_blocks, k_blocks
from metal_kernels.weight_formats.block_parts import SHARED
from metal_kernels.weight_formats.contract import WeightFormat
from metal_kernels.weight_formats.iq2_blocks import Lattice

BlockName = Literal["q6_k", "q3_k", "q2_k", "iq4_nl", "iq4_xs", "iq2_xxs", "iq2_xs", "iq2_s"]

_SIZES = (210, 110, 84, 144, 136, 66, 74, 82)
_NBYTES: Mapping[str, int] = MappingProxyType(dict(zip(get_args(BlockName), _SIZES, strict=True)))
"""Of 256 values."""


def _block_format(
    name: BlockName,
    header: str,
    values: Callable[[mx.array], mx.array],
    setup_code: str = "",
    table: Callable[[], str] = str,
) -> WeightFormat:
    return WeightFormat(
        name=name,
        buffers=("w",),
        unit=32,
        header=SHARED + header,
        parameters=(),
        dequantise=lambda arrays: values(arrays[0]),
        setup=setup_code,
        table=table,
    )


def _k_quant_format(
    name: BlockName, fetch: str, values: Callable[[mx.array], mx.array]
) -> WeightFormat:
    return _block_format(name, k_blocks.K_SHARED + fetch, values)


def _iq4_format(
    name: BlockName, fetch: str, values: Callable[[mx.array], mx.array]
) -> WeightFormat:
    return _block_format(name, iq4_blocks.IQ4_SHARED + fetch, values, iq4_blocks.SETUP)


def _iq2_format(name: Lattice, fetch: str, values: Callable[[mx.array], mx.array]) -> WeightFormat:
    header = iq2_blocks.SHARED + fetch
    return _block_format(name, header, values, table=lambda: iq2_blocks.lattice_constant(name))


_EVERY = (
    _k_quant_format("q6_k", k_blocks.Q6_K, k_blocks.q6_k),
    _k_quant_format("q3_k", k_blocks.Q3_K, k_blocks.q3_k),
    _k_quant_format("q2_k", k_blocks.Q2_K, k_blocks.q2_k),
    _iq4_format("iq4_nl", iq4_blocks.IQ4_NL, iq4_blocks.iq4_nl),
    _iq4_format("iq4_xs", iq4_blocks.IQ4_XS, iq4_blocks.iq4_xs),
    _iq2_format("iq2_xxs", iq2_blocks.IQ2_XXS, iq2_blocks.iq2_xxs),
    _iq2_format("iq2_xs", iq2_blocks.IQ2_XS, iq2_blocks.iq2_xs),
    _iq2_format("iq2_s", iq2_blocks.IQ2_S, iq2_blocks.iq2_s),
)
BLOCK_FORMS: Mapping[str, WeightFormat] = MappingProxyType({form.name: form for form in _EVERY})
"""By name; each of one buffer, uint8 w [N, bytes of a row]."""


def block_bytes(name: str, inputs: int) -> int:
    """Bytes of a row of `inputs` values in a GGUF block type; KeyError for unknown types."""
    return _NBYTES[name] * inputs // 256


def block_values(name: str, nbytes: int) -> int:
    """Values in a row of `nbytes` bytes of a GGUF block type; KeyError for unknown types."""
    return nbytes * 256 // _NBYTES[name]


def block_name_for(nbytes: int, inputs: int) -> BlockName | None:
    """GGUF block type that stores `inputs` values in `nbytes` bytes; None if there is none."""
    each, remainder = divmod(nbytes * 256, max(1, inputs))
    names: dict[int, BlockName] = {_NBYTES[name]: name for name in get_args(BlockName)}
    return None if remainder else names.get(each)
