"""MLX's own Metal kernels, read from the installed wheel and never copied."""

import re
from pathlib import Path

import mlx.core as mx

_CONSTANT = re.compile(r"constant (\w+) (\w+) \[\[function_constant\(\d+\)\]\];")
_INCLUDE = re.compile(r"^\s*#\s*(include|pragma once).*$", re.MULTILINE)


def kernels_folder() -> Path:
    """Where the wheel keeps them. Raises FileNotFoundError."""
    package = Path(mx.__file__).parent
    folder = package / "include" / "mlx" / "backend" / "metal" / "kernels"
    if not folder.is_dir():
        raise FileNotFoundError(f"this wheel of MLX has no Metal kernels at {folder}")
    return folder


def quantized_vector_kernels() -> str:
    """quantized.h as far as the matrix-vector kernels go; what follows needs the matrix headers."""
    text = (kernels_folder() / "quantized.h").read_text(encoding="utf-8")
    end = text.index("METAL_FUNC void qvm_impl(")
    return _INCLUDE.sub("", text[: text.rindex("template <", 0, end)])


def attention_kernels(**constants: int | bool) -> str:
    """sdpa_vector.h with its function constants set; those not named are 0."""
    text = (kernels_folder() / "sdpa_vector.h").read_text(encoding="utf-8")

    def fixed(match: re.Match[str]) -> str:
        value = int(constants.get(match.group(2), 0))
        return f"static constexpr {match.group(1)} {match.group(2)} = {value};"

    return _CONSTANT.sub(fixed, _INCLUDE.sub("", text))
