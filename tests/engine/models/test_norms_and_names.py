"""How files name and store tensors: prefixes, heads, norms as w and as 1 + w."""

from collections.abc import Mapping

import mlx.core as mx
import numpy as np
import pytest
from tiny_qwen3_5 import TinyValues, is_shifted_norm, our_names, tiny_config, tiny_values

from mlx_engine.models.registry import family_for
from mlx_engine.models.tensor_names import why_unneeded
from mlx_engine.values.errors import BadModelFile

TINY = tiny_values(tiny_config(layers=4), seed=3)
VALUES = TinyValues(TINY.trunk, our_names(TINY.head))
QWEN = family_for("qwen3_5", tiny_config(), "tiny")
UNTIED = family_for("qwen3_5", tiny_config(tied=False), "tiny")


def convert_stored(
    values: Mapping[str, np.ndarray], shift: float, layout: str
) -> dict[str, mx.array]:
    arrays = {name: mx.array(v + shift * is_shifted_norm(name)) for name, v in values.items()}
    if layout == "hf":
        arrays = {n: a.swapaxes(1, 2) if "conv1d" in n else a for n, a in arrays.items()}
    return arrays


def assert_as_used(arrays: Mapping[str, mx.array], values: Mapping[str, np.ndarray]) -> None:
    assert arrays.keys() == values.keys()
    for name, value in values.items():
        wanted = value + 1 if is_shifted_norm(name) else value
        np.testing.assert_array_equal(np.array(arrays[name]), wanted, err_msg=name)


@pytest.mark.parametrize(
    ("shift", "layout", "codes"),
    [
        (0, "hf", []),
        (1, "mlx", []),
        (2, "mlx", ["model-norms-corrected"]),
        (0, "mlx", ["model-norms-corrected"]),
        (1, "hf", ["model-norms-corrected"]),
    ],
)
def test_trunk(shift: int, layout: str, codes: list[str]) -> None:
    part = QWEN.canonical_trunk(convert_stored(VALUES.trunk, shift, layout), "x")
    assert_as_used(part.arrays, VALUES.trunk)
    assert part.norm_shift == shift
    assert [reason.code for reason in part.reasons] == codes


@pytest.mark.parametrize("shift", [0, 1, 2])
@pytest.mark.parametrize("trunk_shift", [None, 0, 1, 2])
def test_head(shift: int, trunk_shift: int | None) -> None:
    part = QWEN.canonical_head(convert_stored(VALUES.head, shift, "mlx"), "x", trunk_shift)
    assert_as_used(part.arrays, VALUES.head)
    told = trunk_shift not in (None, shift) or (trunk_shift is None and shift == 2)
    assert [reason.code for reason in part.reasons] == ["heads-norms-corrected"] * told


def with_norms(**gains: float) -> dict[str, mx.array]:
    """The head with each kind of norm spread a little around a mean gain (used, not stored)."""
    draw = np.random.default_rng(0)
    head = dict(VALUES.head)
    for name, value in head.items():
        for kind, gain in gains.items():
            if is_shifted_norm(name) and kind in name:
                head[name] = draw.normal(gain, 0.1 * gain, value.shape).astype(np.float32)
    return {name: mx.array(value) for name, value in head.items()}


# Means of real heads: gains before the join far below one, those of queries and keys above it.
# The first fits every norm but those two, the later ones are more to the point.
REAL = {
    "norm.w": 2.2,
    "input": 0.97,
    "post": 1.3,
    "q_norm": 1.8,
    "k_norm": 1.6,
    "0.enorm": 0.3,
    "0.hnorm": 0.3,
}


@pytest.mark.parametrize("shift", [0, 1, 2])
def test_means_far_from_one_do_not_mislead(shift: int) -> None:
    used = with_norms(**REAL)
    raw = {n: a + (shift - 1) if is_shifted_norm(n) else a for n, a in used.items()}
    part = QWEN.canonical_head(raw, "x", None)
    assert part.norm_shift == shift
    assert all(mx.allclose(part.arrays[name], used[name], atol=1e-6) for name in used)


@pytest.mark.parametrize("constant", [0, 1])
def test_norms_as_initialised(constant: int) -> None:
    raw = {n: mx.full(v.shape, constant) for n, v in VALUES.head.items() if is_shifted_norm(n)}
    part = QWEN.canonical_head(raw, "x", None)
    assert all(mx.all(array == 1) for array in part.arrays.values())


def test_doubt_is_refused_without_a_trunk_and_follows_it_otherwise() -> None:
    raw = {n: mx.full(v.shape, 7.0) for n, v in VALUES.head.items() if is_shifted_norm(n)}
    with pytest.raises(BadModelFile, match=r"file/y.*1 \+ w.*original"):
        QWEN.canonical_head(raw, "file/y", None)
    part = QWEN.canonical_head(raw, "file/y", 1)
    assert all(mx.all(array == 7) for array in part.arrays.values())


def test_a_few_negative_gains_are_doubt_not_evidence() -> None:
    gains = mx.concatenate([mx.full((990,), 0.8), mx.full((10,), -0.1)])
    assert QWEN.canonical_head({"layers.0.norm.weight": gains}, "x", 1).norm_shift == 1
    with pytest.raises(BadModelFile):
        QWEN.canonical_head({"layers.0.norm.weight": gains}, "x", None)


@pytest.mark.parametrize("layout", ["hf", "mlx"])
@pytest.mark.parametrize(("least", "most"), [(0.2, 0.9), (1.05, 1.9)])
def test_gains_on_one_side_of_one_do_not_overrule_the_layout(
    layout: str, least: float, most: float
) -> None:
    """As values w from 0.05 to 0.9 are of Hugging Face's, and gains from 1.05 to 1.9 of MLX's."""
    draw, trunk = np.random.default_rng(0), dict(VALUES.trunk)
    for name, value in trunk.items():
        if is_shifted_norm(name):
            trunk[name] = draw.uniform(least - 1, most - 1, value.shape).astype(np.float32)
    part = QWEN.canonical_trunk(convert_stored(trunk, 0 if layout == "hf" else 1, layout), "x")
    assert_as_used(part.arrays, trunk)
    assert part.reasons == ()


def test_one_is_added_in_float32() -> None:
    w = mx.array([0.001, -0.3, 0.0123, -0.001], mx.bfloat16)
    part = QWEN.canonical_head({"layers.0.norm.weight": w}, "x", 0)
    assert part.arrays["layers.0.norm.weight"].dtype == mx.float32
    exact = np.array(w.astype(mx.float32)) + np.float32(1)
    np.testing.assert_array_equal(np.array(part.arrays["layers.0.norm.weight"]), exact)


def test_what_is_no_number_is_refused() -> None:
    with pytest.raises(BadModelFile, match="not numbers"):
        QWEN.canonical_head({"layers.0.norm.weight": mx.array([0.0, float("nan")])}, "x", 0)


def test_decay_rates_become_float32_and_other_values_stay() -> None:
    raw = convert_stored(VALUES.trunk, 0, "hf")
    raw = {name: array.astype(mx.bfloat16) for name, array in raw.items()}
    arrays = QWEN.canonical_trunk(raw, "x").arrays
    assert arrays["layers.0.linear_attn.A_log"].dtype == mx.float32
    assert arrays["layers.0.linear_attn.norm.weight"].dtype == mx.bfloat16
    assert arrays["layers.3.self_attn.q_proj.weight"].dtype == mx.bfloat16


@pytest.mark.parametrize("prefix", ["model.language_model.", "language_model.model.", "model.", ""])
@pytest.mark.parametrize("head", ["mtp.", "model.mtp.", "language_model.mtp."])
def test_every_known_prefix(prefix: str, head: str) -> None:
    raw = {f"{prefix}norm.weight": 1, f"{head}fc.weight": 2, f"{head}norm.weight": 3}
    raw |= {"model.visual.blocks.0.x": 4, "vision_tower.x": 5, "lm_head.weight": 6}
    parts = UNTIED.split_tensors(raw, "x")
    assert parts.trunk == {"norm.weight": 1, "lm_head.weight": 6}
    assert parts.head == {"layers.0.join.weight": 2, "layers.0.norm.weight": 3}
    assert parts.skipped == {"model.visual.blocks.0.x": 4, "vision_tower.x": 5}


def test_copy_of_tied_output_head_is_skipped() -> None:
    raw = {"language_model.lm_head.weight": 1, "language_model.lm_head.scales": 2}
    assert QWEN.split_tensors(raw, "x").skipped == raw
    assert set(UNTIED.split_tensors(raw, "x").trunk) == {"lm_head.weight", "lm_head.scales"}


def test_one_tensor_under_two_names_is_refused() -> None:
    raw = {"model.norm.weight": 1, "model.language_model.norm.weight": 2}
    with pytest.raises(BadModelFile, match=r"x: .*norm\.weight"):
        QWEN.split_tensors(raw, "x")


def test_heads_file_with_and_without_prefix() -> None:
    raw = {"fc.weight": 1, "layers.0.x": 2, "embed_tokens.weight": 3}
    bare = QWEN.split_heads_file(raw, "x")
    assert bare.head == {"layers.0.join.weight": 1, "layers.0.x": 2}
    assert bare.skipped == {"embed_tokens.weight": 3}
    raw = {"mtp.fc.weight": 1, "model.layers.0.x": 2}
    wrap_model = QWEN.split_heads_file(raw, "x")
    assert wrap_model.head == {"layers.0.join.weight": 1}
    assert wrap_model.skipped == {"model.layers.0.x": 2}


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("model.aligner.linear1.weight", "for pictures, which are not read"),
        ("merger.mlp.0.pre_norm.bias", "for pictures, which are not read"),
        ("model.projector.readout.0.weight", "for pictures, which are not read"),
        ("image_tower.encoder.layers.0.layer_norm1.bias", "for pictures, which are not read"),
        ("encoder.layers.0.attn.to_kv.weight", "for sound, which is not read"),
        ("sound_encoder.layers.0.weight", "for sound, which is not read"),
        ("model.layers.0.mlp.projector.weight", None),
        ("model.encoder_norm.weight", None),
    ],
)
def test_what_no_text_needs_is_known_by_name(name, why):
    assert why_unneeded(name) == why
