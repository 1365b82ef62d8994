"""Published-like folders rewritten in fp8, and beside each its twin dequantised by torch."""

import json
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors.torch import load_file, save_file

Tensors = dict[str, torch.Tensor]

_LINEAR = re.compile(
    r".*\.((q|k|v|o|q_a|q_b|kv_b|gate|up|down|gate_up)_proj|kv_a_proj_with_mqa|in_proj_(qkvz?|z|ba)"
    r"|out_proj|fc|eh_proj)(\.weight)?"
)


class Pair(NamedTuple):
    """The model in fp8, and in float32 with the same values."""

    fp8: Path
    twin: Path


class Packed(NamedTuple):
    """A matrix in fp8, its scales as a file has them, and the values of both in float32."""

    codes: torch.Tensor
    scales: torch.Tensor
    values: torch.Tensor


def pair_of(
    source: Path, place: Path, block: Sequence[int] = (128, 128), *, told: bool = True
) -> Pair:
    """Every linear layer of `source` with a scale for each block; told: the config has its size."""
    packing: dict[str, object] = {"quant_method": "fp8", "fmt": "e4m3"}
    packing["modules_to_not_convert"] = ["lm_head"]
    if told:
        packing["weight_block_size"] = list(block)
    return pair_by(source, place, lambda weight: by_blocks(weight, block), "_scale_inv", packing)


def pair_by(
    source: Path,
    place: Path,
    pack: Callable[[torch.Tensor], Packed],
    ending: str,
    packing: dict[str, object],
) -> Pair:
    """Linear layers as `pack` makes them; ending: of the scales' names, after the weight's."""
    pair = Pair(place / "fp8", place / "twin")
    for folder in pair:
        shutil.copytree(source, folder)
    for file in source.glob("*.safetensors"):
        stored: Tensors = {}
        twin: Tensors = {}
        for name, weight in load_file(file).items():
            stored[name] = twin[name] = weight
            if _LINEAR.fullmatch(name):
                packed = pack(weight.float())
                stored |= {name: packed.codes, name + ending: packed.scales}
                twin[name] = packed.values
        save_file(stored, pair.fp8 / file.name)
        save_file(twin, pair.twin / file.name)
    config = json.loads((source / "config.json").read_text())
    (pair.fp8 / "config.json").write_text(json.dumps(config | {"quantization_config": packing}))
    return pair


def by_blocks(weight: torch.Tensor, block: Sequence[int]) -> Packed:
    """Block after block, each by its own largest value."""
    rows, columns = weight.shape[-2:]
    down, across = -(-rows // block[0]), -(-columns // block[1])
    scales = torch.empty(*weight.shape[:-2], down, across)
    whole = torch.empty_like(weight)
    for i in range(down):
        for j in range(across):
            part = (
                ...,
                slice(i * block[0], (i + 1) * block[0]),
                slice(j * block[1], (j + 1) * block[1]),
            )
            largest = weight[part].abs().amax((-2, -1)) / 448
            scales[..., i, j] = largest
            whole[part] = largest[..., None, None]
    return _packed(weight, whole, scales)


def by_rows(weight: torch.Tensor) -> Packed:
    """A scale for each row, in bfloat16 as compressed-tensors writes them."""
    scales = (weight.abs().amax(-1, keepdim=True) / 448).bfloat16()
    return _packed(weight, scales.float().expand_as(weight), scales)


def by_matrix(weight: torch.Tensor) -> Packed:
    """One scale."""
    scale = weight.abs().max() / 448
    return _packed(weight, scale.expand_as(weight), scale)


def by_powers(weight: torch.Tensor) -> Packed:
    """A power of two for 32 columns of a row, as the byte of its exponent; values by float64."""
    groups = weight.double().unflatten(-1, (-1, 32))
    exponents = groups.abs().amax(-1, keepdim=True).clamp(min=1e-30).log2().floor() - 7
    codes = (groups / 2**exponents).to(torch.float8_e4m3fn)
    values = (codes.double() * 2**exponents).flatten(-2)
    return Packed(codes.flatten(-2), (exponents.squeeze(-1) + 127).byte(), values.float())


def change(folder: Path, edit: Callable[[Tensors], Tensors], name: str = "model") -> None:
    """Rewrites the tensors of a file of the folder."""
    file = folder / f"{name}.safetensors"
    save_file(edit(load_file(file)), file)


def _packed(weight: torch.Tensor, scales: torch.Tensor, stored: torch.Tensor) -> Packed:
    codes = (weight / scales).clamp(-448, 448).to(torch.float8_e4m3fn)
    return Packed(codes, stored.contiguous(), codes.float() * scales)
