"""Checkpoints in fp8: the same logits as their values in float32, and damage named."""

import json
import random
import re
from functools import partial

import mlx.core as mx
import numpy as np
import pytest
import tiny_hy4
import tiny_nextn
import tiny_sparse
import torch
from fp8_files import (
    Pair,
    by_blocks,
    by_matrix,
    by_powers,
    by_rows,
    change,
    pair_by,
    pair_of,
)
from looked_into import opened
from model_edits import all_logits
from safetensors.torch import load_file, save_file
from tiny_eagle3 import TinyEagle, write_tiny_eagle
from tiny_qwen3_5 import write_tiny_qwen3_5
from tiny_qwen_experts import write_tiny_experts
from tiny_stacks import write_stack

import mlx_engine
from mlx_engine.loading.describe import inspect_model
from mlx_engine.loading.fp8 import Fp8Block, dequantise_fp8, pair_fp8_scales
from mlx_engine.loading.safetensors import BYTES_OF, merge_headers
from mlx_engine.values.errors import BadModelFile, NumericsError

TOKENS = [3, 141, 59, 26, 53, 58, 97, 93]
Q_PROJ = "model.language_model.layers.3.self_attn.q_proj.weight"
COMPRESSED = {"quant_method": "compressed-tensors", "format": "float-quantized"}


def dense(folder):
    return write_tiny_qwen3_5(folder, tied=False)


def dense_with_heads_beside(folder):
    return write_tiny_qwen3_5(folder, heads="beside")


def single_experts(folder):
    return write_tiny_experts(folder, "qwen3_5_moe")


def joined_experts(folder):
    return write_tiny_experts(folder, "qwen3_5_moe", experts="joined")


def fused_projections(folder):
    """Their rows are sorted out after they are unpacked."""
    return write_tiny_experts(folder, "qwen3_next")


def deepseek(folder):
    return tiny_nextn.publish("deepseek_v3", folder, own=True).folder


def indexed(folder):
    return tiny_sparse.publish("deepseek_v32", folder, index_topk=5).folder


MAKERS = (
    dense,
    dense_with_heads_beside,
    single_experts,
    joined_experts,
    fused_projections,
    deepseek,
    indexed,
    partial(write_stack, kind="mimo_v2_flash"),
    partial(write_stack, kind="step3p5"),
)


@pytest.fixture
def pair(tmp_path) -> Pair:
    return pair_of(dense(tmp_path / "source"), tmp_path, (48, 40))


def assert_twins(pair):
    mine, true = (all_logits(folder, TOKENS) for folder in pair)
    np.testing.assert_allclose(mine, true, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("make", MAKERS)
def test_logits_are_those_of_the_same_values_in_float32(make, tmp_path):
    """Blocks of 24 by 40 divide none of the sizes evenly."""
    assert_twins(pair_of(make(tmp_path / "source"), tmp_path, (24, 40)))


@pytest.mark.parametrize(
    ("pack", "ending", "packing"),
    [(by_rows, "_scale", COMPRESSED), (by_matrix, "_scale", COMPRESSED),
     (by_matrix, "_scale_inv", {"quant_method": "fp8", "weight_block_size": None})],
)  # fmt: skip
def test_scales_by_row_and_by_matrix(pack, ending, packing, tmp_path):
    assert_twins(pair_by(single_experts(tmp_path / "source"), tmp_path, pack, ending, packing))


def test_blocks_are_128_wide_where_nothing_is_said(tmp_path):
    source = write_tiny_qwen3_5(tmp_path / "source", hidden=160)
    assert_twins(pair_of(source, tmp_path, told=False))


def test_heads_in_fp8_for_a_trunk_that_is_not(tmp_path):
    source = dense_with_heads_beside(tmp_path / "source")
    pair = pair_of(source, tmp_path)
    mine, true = (all_logits(source, TOKENS, folder / "mtp.safetensors") for folder in pair)
    np.testing.assert_allclose(mine, true, rtol=1e-5, atol=1e-5)


def test_activations_scales_are_left_out(pair):
    base = Q_PROJ.removesuffix("weight")
    extra = {f"{base}input_scale": torch.ones(1), f"{base}activation_scale": torch.ones(())}
    change(pair.fp8, lambda tensors: tensors | extra)
    assert_twins(pair)


@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16, mx.float16])
def test_every_byte_is_the_value_torch_has_for_it(dtype):
    codes = torch.arange(256, dtype=torch.uint8).reshape(8, 32)
    scales = torch.rand(2, 3) + 0.5
    whole = scales.repeat_interleave(5, 0)[:8].repeat_interleave(13, 1)[:, :32]
    halves = {mx.float32: torch.float32, mx.bfloat16: torch.bfloat16, mx.float16: torch.float16}
    wanted = (codes.view(torch.float8_e4m3fn).float() * whole).to(halves[dtype]).float().numpy()
    made = dequantise_fp8(mx.array(codes.numpy()), mx.array(scales.numpy()), Fp8Block(5, 13), dtype)
    assert made.dtype == dtype
    np.testing.assert_array_equal(np.array(made.astype(mx.float32)), wanted)
    assert np.isnan(wanted).sum() == 2


def test_parts_that_were_packed_one_by_one(tmp_path):
    """Two runs of 50 rows in blocks of 48: four rows of scales, where three would be usual."""
    runs = [by_blocks(torch.randn(50, 80), (48, 40)) for _ in range(2)]
    codes, scales, values = (torch.cat(parts) for parts in zip(*runs, strict=True))
    save_file({"x": codes, "x_scale_inv": scales}, tmp_path / "m.safetensors")
    packing = {"quantization_config": {"weight_block_size": [48, 40]}}
    joined = pair_fp8_scales(merge_headers([tmp_path / "m.safetensors"]), packing, "m")["x"]
    assert joined.block == Fp8Block(48, 40, parts=2)
    stored = mx.array(codes.view(torch.uint8).numpy()), mx.array(scales.numpy())
    found = dequantise_fp8(*stored, joined.block, mx.float32)
    assert np.array_equal(np.array(found), values.numpy())


def test_codes_that_are_not_numbers(pair):
    def spoil(tensors):
        codes = tensors[Q_PROJ].view(torch.uint8).clone()
        codes[0, 0] = 0x7F
        return tensors | {Q_PROJ: codes.view(torch.float8_e4m3fn)}

    change(pair.fp8, spoil)
    engine = mlx_engine.load(pair.fp8)
    with pytest.raises(NumericsError, match=re.escape(f"{pair.fp8}: The model produced NaN")):
        engine.generate(TOKENS, max_tokens=2)
    engine.close()


SCALES = f"{Q_PROJ}_scale_inv"


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda t: t.pop(SCALES), f"{Q_PROJ} is stored in fp8, but there is no {SCALES}"),
        (lambda t: t.pop(Q_PROJ), f"{SCALES} is stored in fp8, but these are the scales of"),
        (lambda t: t.update({Q_PROJ: t[Q_PROJ].float()}), f"{SCALES} is stored in fp8, but these"),
        (
            lambda t: t.update({SCALES: t[SCALES][:-1]}),
            r"q_proj.weight .*\[256, 64\] has F32 scales",
        ),
        (lambda t: t.update({SCALES: t[SCALES].T.contiguous()}), "do not fit blocks of 48 by 40"),
        (lambda t: t.update({SCALES: t[SCALES].int()}), "q_proj.weight .*has I32 scales"),
        (
            lambda t: t.update({f"{Q_PROJ}_scale": torch.ones(1)}),
            f"there is {SCALES} and {Q_PROJ}_scale, where one",
        ),
    ],
)
def test_damaged_scales_name_the_tensor(pair, edit, message):
    def edited(tensors):
        edit(tensors)
        return tensors

    change(pair.fp8, edited)
    with pytest.raises(BadModelFile, match=message) as caught:
        mlx_engine.load(pair.fp8)
    assert str(pair.fp8 / "model.safetensors") in str(caught.value)
    with pytest.raises(BadModelFile, match=message):
        inspect_model(pair.fp8, pair.fp8)


def test_damaged_scales_of_heads_beside_leave_the_model(tmp_path):
    pair = pair_of(dense_with_heads_beside(tmp_path / "source"), tmp_path)
    change(pair.fp8, lambda t: {n: a for n, a in t.items() if "fc.weight_" not in n}, "mtp")
    described = inspect_model(pair.fp8, pair.fp8)
    assert described.mtp is not None
    assert described.mtp.code == "heads-unreadable"
    assert "mtp.fc.weight is stored in fp8" in described.mtp.words
    mlx_engine.load(pair.fp8).close()


@pytest.mark.parametrize("size", [0, [128], [128, 0], ["a", 1], [True, True], [2**40, 1], {}])
def test_blocks_of_no_size(pair, size):
    file = pair.fp8 / "config.json"
    config = json.loads(file.read_text())
    config["quantization_config"]["weight_block_size"] = size
    file.write_text(json.dumps(config))
    with pytest.raises(
        BadModelFile, match=r"config\.json: weight_block_size is " + re.escape(ascii(size))
    ):
        mlx_engine.load(pair.fp8)


@pytest.mark.parametrize("make", MAKERS)
def test_inspect_counts_what_is_unpacked(make, tmp_path):
    pair = pair_of(make(tmp_path / "source"), tmp_path, (48, 40))
    mine = inspect_model(pair.fp8, pair.fp8)
    true = inspect_model(pair.twin, pair.twin)
    assert mine.parameters == true.parameters
    assert mine.active_parameters == true.active_parameters
    assert [g.parameters for g in mine.groups] == [g.parameters for g in true.groups]
    in_fp8 = [g for g in mine.groups if "fp8 as bfloat16" in g.storage]
    whole = {g.name: g for g in true.groups}
    assert {"attention", "MTP head"} <= {g.name for g in in_fp8}
    for group in in_fp8:
        assert group.nbytes < whole[group.name].nbytes
        assert group.file_nbytes is not None
        assert group.file_nbytes < group.nbytes
    stored = sum(a.nbytes for f in pair.fp8.glob("*.safetensors") for a in load_file(f).values())
    counted = sum(g.nbytes if g.file_nbytes is None else g.file_nbytes for g in mine.groups)
    assert counted == pytest.approx(stored, abs=len(mine.groups))
    reasons = [r.words for r in mine.declined if r.code == "unpacked-fp8"]
    assert len(reasons) == 1
    assert "unpacked to 16 bits" in reasons[0]


def test_weights_take_the_type_of_those_beside_them(tmp_path):
    pair = pair_of(dense(tmp_path / "source"), tmp_path)

    def halved(tensors):
        small = torch.float8_e4m3fn
        return {n: a if a.dtype == small or "scale" in n else a.half() for n, a in tensors.items()}

    change(pair.fp8, halved)
    assert "fp8 as float16" in inspect_model(pair.fp8, pair.fp8).quantisation


@pytest.mark.parametrize("name", [Q_PROJ, "mtp.fc.weight"])
def test_one_scale_that_is_off_changes_the_logits(pair, name):
    """So the twins above agree because of every scale, the last block's too."""
    before = all_logits(pair.fp8, TOKENS)

    def doubled(tensors):
        scales = tensors[f"{name}_scale_inv"].clone()
        scales[-1, -1] *= 2
        return tensors | {f"{name}_scale_inv": scales}

    change(pair.fp8, doubled)
    apart = np.abs(all_logits(pair.fp8, TOKENS) - before)
    assert apart[len(TOKENS) :].max() > 1e-3
    assert (apart[: len(TOKENS)].max() > 1e-3) == (name == Q_PROJ)


def test_headers_changed_at_random_are_refused_or_loaded(pair):
    """Shapes, types and places of codes and scales drawn anew: an error of ours, or numbers."""
    file = pair.fp8 / "model.safetensors"
    whole = file.read_bytes()
    length = int.from_bytes(whole[:8], "little")
    header, data = json.loads(whole[8 : 8 + length]), whole[8 + length :]
    draw = random.Random(0)
    ours = [name for name in header if name.startswith(Q_PROJ)]
    refused = 0
    for _ in range(60):
        entry = dict(header[draw.choice(ours)])
        size = entry["data_offsets"][1] - entry["data_offsets"][0]
        kind = draw.choice(["F8_E4M3", "F32", "BF16", "U8", "I8"])
        count = size // BYTES_OF[kind]
        rows = draw.choice([n for n in range(1, count + 1) if count % n == 0])
        entry |= {"dtype": kind, "shape": draw.choice([[rows, count // rows], [count], [1, count]])}
        text = json.dumps(header | {draw.choice(ours): entry}).encode()
        file.write_bytes(len(text).to_bytes(8, "little") + text + data)
        try:
            assert np.isfinite(all_logits(pair.fp8, TOKENS)).all()
        except BadModelFile:
            refused += 1
    assert refused > 40


def test_a_drafter_in_fp8(tmp_path):
    """Every array it reads is that of its twin."""
    target = mlx_engine.load(dense(tmp_path / "target"))
    tiny = TinyEagle(target_hidden=64, vocabulary=target.description.vocabulary)
    pair = pair_of(write_tiny_eagle(tmp_path / "source", tiny), tmp_path, (24, 40))
    mine, true = (opened(folder, target.parts.model).arrays for folder in pair)
    assert len(mine) == len(true) > 8
    for one, other in zip(mine, true, strict=True):
        np.testing.assert_array_equal(np.array(one), np.array(other))
    target.close()


def test_scales_that_are_powers_of_two_stay_packed(tmp_path):
    """As Hy4 is published: no bit is lost, in trunk, stacks of experts and head."""
    source = tiny_hy4.publish(tmp_path / "m", hc_mult=2).folder
    pair = pair_by(source, tmp_path, by_powers, "_scale", {"quant_method": "mxfp8"})
    assert np.array_equal(*(all_logits(folder, TOKENS) for folder in pair))
    groups = {group.name: group.words for group in mlx_engine.inspect(pair.fp8).groups}
    assert groups["experts"] == "mxfp8, groups of 32"

    def shortened(tensors):
        return {n: t[1:] if n.endswith("o_proj.weight_scale") else t for n, t in tensors.items()}

    change(pair.fp8, shortened)
    with pytest.raises(BadModelFile, match=r"o_proj.weight is stored as F8_E4M3"):
        mlx_engine.load(pair.fp8)
