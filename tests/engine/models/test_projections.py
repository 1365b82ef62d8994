"""Matrices that read the same rows: one product where they are packed alike, the same parts."""

import mlx.core as mx
import pytest

from metal_kernels.choice import NO_KERNELS
from mlx_engine.models.layers import Projections
from mlx_engine.models.matrix import Layout, columns_for_cpu, unchanged_layout
from mlx_engine.models.weights import Part, WeightTable
from mlx_engine.values.errors import BadModelFile

INPUTS = 64
ROWS = {"a": 6, "b": 3, "c": 10}
PACKED = {
    "dense": {},
    "4": {"bits": 4},
    "8": {"bits": 8},
    "mxfp4": {"mode": "mxfp4"},
}


def convert_stored(packings: str, *, biases: str = "") -> dict[str, mx.array]:
    found = {}
    for number, (name, how) in enumerate(zip(ROWS, packings.split(), strict=True)):
        key = mx.random.key(number)
        weight = mx.random.normal((ROWS[name], INPUTS), key=key)
        parts = [weight] if how == "dense" else mx.quantize(weight, **PACKED[how])
        kinds = ("weight", "scales", "biases")
        found |= {f"l.{name}.{kind}": part for kind, part in zip(kinds, parts, strict=False)}
        if name in biases:
            found[f"l.{name}.bias"] = mx.arange(ROWS[name]).astype(mx.float32) - number
    return found


def part_of(
    arrays: dict[str, mx.array], *, biases: str = "", layout: Layout = unchanged_layout
) -> Part:
    table = WeightTable(arrays, "folder/x", kernels=NO_KERNELS, layout=layout)
    shapes = {f"{name}.weight": (rows, INPUTS) for name, rows in ROWS.items()}
    shapes |= {f"{name}.bias": (ROWS[name],) for name in biases}
    return Part(table, "l.", shapes)


def truth(arrays: dict[str, mx.array], x: mx.array) -> list[mx.array]:
    made = []
    for name in ROWS:
        weight, scales = arrays[f"l.{name}.weight"], arrays.get(f"l.{name}.scales")
        if scales is not None:
            mode = "affine" if f"l.{name}.biases" in arrays else "mxfp4"
            bits = weight.shape[1] * 32 // INPUTS
            weight = mx.dequantize(
                weight, scales, arrays.get(f"l.{name}.biases"), bits=bits, mode=mode
            ).astype(mx.float32)
        made.append(x @ weight.T + arrays.get(f"l.{name}.bias", mx.array(0.0)))
    return made


@pytest.mark.parametrize(
    ("packings", "biases", "products"),
    [
        ("dense dense dense", "", 1),
        ("4 4 4", "abc", 1),
        ("4 4 8", "", 2),
        ("4 8 4", "abc", 3),
        ("mxfp4 mxfp4 4", "", 2),
        ("4 dense dense", "", 2),
        ("4 4 4", "ab", 2),
    ],
)
@pytest.mark.parametrize("sizes", [(), (9, 10), (2, 4, 13)])
def test_runs_that_are_packed_alike_are_one_product(
    packings: str, biases: str, products: int, sizes: tuple[int, ...]
) -> None:
    arrays, x = convert_stored(packings, biases=biases), mx.random.normal((1, 5, INPUTS))
    part = part_of(arrays, biases=biases)
    both = Projections.read(part, tuple(ROWS), sizes)
    part.table.check_all_used()
    assert len(both.linears) == products
    wanted = mx.concatenate(truth(arrays, x), axis=-1)
    made = both(x)
    assert [one.shape[-1] for one in made] == list(sizes or ROWS.values())
    assert mx.allclose(mx.concatenate(made, axis=-1), wanted, rtol=1e-4, atol=1e-4).item()
    held = sum(array.nbytes for array in part.table.taken_arrays)
    assert held == sum(array.nbytes for array in arrays.values())


@pytest.mark.parametrize("packings", ["4 4 4", "dense 4 4"])
@pytest.mark.parametrize("layout", [unchanged_layout, columns_for_cpu])
def test_rows_may_be_taken_in_another_order(packings: str, layout: Layout) -> None:
    arrays, x = convert_stored(packings, biases="abc"), mx.random.normal((1, 2, INPUTS))
    turned = [5, 0, 3, 1, 4, 2]
    part = part_of(arrays, biases="abc", layout=layout)
    first, *others = Projections.read(part, tuple(ROWS), order={"a": turned})(x)
    wanted, *rest = truth(arrays, x)
    assert mx.allclose(first, wanted[..., mx.array(turned)], rtol=1e-4, atol=1e-4).item()
    for one, its in zip(others, rest, strict=True):
        assert mx.allclose(one, its, rtol=1e-4, atol=1e-4).item()


def test_where_parts_lie_in_products() -> None:
    both = Projections.read(part_of(convert_stored("4 4 8")), tuple(ROWS))
    assert both.part_locations == [(0, 0), (0, 6), (1, 0)]
    made = both.padded_products(mx.random.normal((1, 2, INPUTS)))
    parts = both.split_products(made)
    for place, one in zip(both.part_locations, parts, strict=True):
        columns = slice(place.column, place.column + one.shape[-1])
        assert mx.array_equal(made[place.matrix][..., columns], one).item()


def test_biases_must_be_there_where_they_are_asked_for_and_nowhere_else() -> None:
    with pytest.raises(BadModelFile, match=r"l\.b\.bias is missing"):
        Projections.read(part_of(convert_stored("4 4 4", biases="a"), biases="ab"), tuple(ROWS))
    part = part_of(convert_stored("4 4 4", biases="ab"), biases="a")
    Projections.read(part, tuple(ROWS))
    with pytest.raises(BadModelFile, match=r"no place for l\.b\.bias"):
        part.table.check_all_used()
