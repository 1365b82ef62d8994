import mlx.core as mx
import pytest

from mlx_engine.models.weights import WeightTable
from mlx_engine.values.errors import BadModelFile


def table(**arrays: mx.array) -> WeightTable:
    named = {name.replace("__", "."): array for name, array in arrays.items()}
    return WeightTable(named, "folder/x")


def packed(mode: str, bits: int = 4, group: int = 64) -> dict[str, mx.array]:
    weight = mx.random.normal((8, 256))
    if mode == "affine":
        parts = mx.quantize(weight, group_size=group, bits=bits)
        return dict(zip(("a__weight", "a__scales", "a__biases"), parts, strict=True))
    return dict(zip(("a__weight", "a__scales"), mx.quantize(weight, mode=mode), strict=True))


@pytest.mark.parametrize("bits", [2, 3, 4, 5, 6, 8])
@pytest.mark.parametrize("group", [32, 64, 128])
def test_affine_bits_and_group_come_from_the_shapes(bits: int, group: int) -> None:
    weights = table(**packed("affine", bits, group))
    matrix = weights.take_matrix("a", 8, 256)
    assert (matrix.mode, matrix.bits, matrix.group_size) == ("affine", bits, group)
    weights.check_all_used()


@pytest.mark.parametrize(
    ("mode", "bits", "group"), [("mxfp4", 4, 32), ("mxfp8", 8, 32), ("nvfp4", 4, 16)]
)
def test_microscaled_modes_have_no_biases(mode: str, bits: int, group: int) -> None:
    arrays = packed(mode)
    matrix = table(**arrays).take_matrix("a", 8, 256)
    assert (matrix.mode, matrix.bits, matrix.group_size) == (mode, bits, group)
    assert matrix.biases is None
    x = mx.random.normal((1, 256))
    product = mx.quantized_matmul(
        x, matrix.weight, matrix.scales, None, True, matrix.group_size, matrix.bits, matrix.mode
    )
    dense = mx.dequantize(arrays["a__weight"], arrays["a__scales"], mode=mode)
    assert mx.allclose(product, x @ dense.T.astype(mx.float32), atol=1e-3)


@pytest.mark.parametrize(("dtype", "bits"), [(mx.bfloat16, 16), (mx.float32, 32)])
def test_dense_matrix(dtype: mx.Dtype, bits: int) -> None:
    matrix = table(a__weight=mx.zeros((3, 5), dtype)).take_matrix("a", 3, 5)
    assert (matrix.mode, matrix.bits, matrix.group_size, matrix.scales) == ("dense", bits, 0, None)


def test_messages_name_file_tensor_and_both_shapes() -> None:
    with pytest.raises(BadModelFile, match=r"folder/x.*a\.weight.*\[3, 5\].*\[5, 3\]"):
        table(a__weight=mx.zeros((3, 5))).take_matrix("a", 5, 3)
    with pytest.raises(BadModelFile, match=r"folder/x.*\bnorm\b.*missing"):
        table().take_array("norm", (3,))
    with pytest.raises(BadModelFile, match=r"folder/x.*no place for b, c"):
        table(c=mx.zeros(1), b=mx.zeros(1)).check_all_used()


def test_integers_where_numbers_belong() -> None:
    with pytest.raises(BadModelFile, match="uint8"):
        table(a__weight=mx.zeros((3, 5), mx.uint8)).take_matrix("a", 3, 5)
    with pytest.raises(BadModelFile, match="int32"):
        table(norm=mx.zeros((3,), mx.int32)).take_array("norm", (3,))


def _without_biases() -> dict[str, mx.array]:
    arrays = packed("affine")
    del arrays["a__biases"]
    return arrays


@pytest.mark.parametrize(
    "arrays",
    [
        _without_biases(),
        packed("affine") | {"a__scales": mx.zeros((8, 3))},
        packed("affine") | {"a__scales": mx.zeros((7, 4))},
        packed("affine") | {"a__biases": mx.zeros((8, 3))},
        packed("affine") | {"a__scales": mx.zeros((8, 0))},
        packed("affine") | {"a__scales": mx.zeros((8,))},
        packed("affine") | {"a__weight": mx.zeros((8, 32), mx.float32)},
        packed("affine") | {"a__weight": mx.zeros((8, 7), mx.uint32)},
        packed("affine") | {"a__weight": mx.zeros((8, 56), mx.uint32)},
        packed("affine") | {"a__scales": mx.zeros((8, 16)), "a__biases": mx.zeros((8, 16))},
        packed("mxfp4") | {"a__scales": mx.zeros((8, 8), mx.uint32)},
        packed("mxfp4") | {"a__scales": mx.zeros((8, 4), mx.uint8)},
    ],
)
def test_packings_that_do_not_exist(arrays: dict[str, mx.array]) -> None:
    with pytest.raises(BadModelFile, match=r"folder/x.*\ba\b"):
        table(**arrays).take_matrix("a", 8, 256)


def test_taking_twice_is_a_bug_of_the_caller() -> None:
    weights = table(norm=mx.zeros((3,)))
    assert "norm" in weights
    weights.take_array("norm", (3,))
    assert "norm" not in weights
    with pytest.raises(KeyError):
        weights.take_array("norm", (3,))
