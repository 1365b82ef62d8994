"""Asks Metal's compiler to unroll the loops that walk arrays in registers."""

import re

_LOOP = re.compile(
    r"for \(int (\w+) = [01]; \1 < (?:R|R / 2|M|[48]|EACH|KEY_EACH|VALUE_EACH|BITS|RUNS); \1\+\+\)"
)
_ASK = '_Pragma("clang loop unroll(full)")'


def unrolled(text: str) -> str:
    """MSL with every loop over a count that is known when it is compiled marked, line by line.

    An array whose index is not known then lies in memory and not in registers; verify kernels were
    seen to lose most of their speed so. Compilers that do not know the pragma pass over it.
    """
    return _LOOP.sub(rf"{_ASK} \g<0>", text)
