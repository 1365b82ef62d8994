"""GGUFs of Qwens with experts: the numbers of the folder, packed experts, heads from elsewhere."""

import re
from pathlib import Path

import gguf
import mlx.core as mx
import numpy as np
import pytest
from model_edits import all_logits
from numpy.typing import NDArray
from tiny_gguf import ARCHITECTURES, write_tiny_gguf_experts
from tiny_qwen_experts import CHOSEN, COUNT, INNER, KINDS, Kind, write_tiny_experts

import mlx_engine
from mlx_engine.loading.gguf.model import read_gguf_model
from mlx_engine.loading.gguf.weights import load_gguf_arrays
from mlx_engine.values.errors import EngineError

TOKENS = [5, 9, 200, 31, 77, 8, 150, 2, 2, 64]
TYPES = gguf.GGMLQuantizationType

pytestmark = pytest.mark.parametrize("kind", KINDS)


@pytest.mark.parametrize(("experts", "projection"), [(False, False), (True, False), (True, True)])
def test_the_numbers_are_those_of_the_folder(
    tmp_path: Path, kind: Kind, experts: bool, projection: bool
) -> None:
    folder = write_tiny_experts(tmp_path / "folder", kind, seed=3)
    file = write_tiny_gguf_experts(
        tmp_path / "m.gguf", kind, seed=3, joined_experts=experts, joined_projection=projection
    )
    # value heads stand in another order, so sums are others; 6e-8 of noise in one matrix of these
    # models moves their logits by up to 4e-5
    np.testing.assert_allclose(all_logits(file, TOKENS), all_logits(folder, TOKENS), atol=1e-4)


@pytest.mark.parametrize("quantised", [TYPES.Q8_0, TYPES.MXFP4, TYPES.Q4_0])
@pytest.mark.parametrize("is_unpacked", [False, True])
def test_packed_experts(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: Kind,
    quantised: gguf.GGMLQuantizationType,
    is_unpacked: bool,
) -> None:
    """As the same values in float32, kept packed or laid out for the CPU."""
    if not is_unpacked:
        monkeypatch.setattr("mlx_engine.loading.load.CPU_LAYOUT_LIMIT", 0)
    packed, plain = tmp_path / "packed.gguf", tmp_path / "plain.gguf"
    joined = quantised is TYPES.Q8_0
    write_tiny_gguf_experts(packed, kind, quantised=quantised, joined_experts=joined)
    write_tiny_gguf_experts(plain, kind, quantised=quantised, unpacked=True)
    np.testing.assert_allclose(all_logits(packed, TOKENS), all_logits(plain, TOKENS), atol=1e-5)


@pytest.mark.parametrize("quantised", [TYPES.Q4_K, TYPES.Q6_K, TYPES.BF16])
def test_stacks_of_k_quants(
    tmp_path: Path, kind: Kind, quantised: gguf.GGMLQuantizationType
) -> None:
    """RMS against the gguf package."""
    size = {"hidden_size": 256, "moe_intermediate_size": 256}
    joined = kind == "qwen3_next"
    file = write_tiny_gguf_experts(
        tmp_path / "m.gguf", kind, quantised=quantised, joined_experts=joined, sizes=size
    )
    plain = write_tiny_gguf_experts(
        tmp_path / "p.gguf", kind, quantised=quantised, unpacked=True, joined_experts=joined,
        sizes=size,
    )  # fmt: skip
    for part in ("gate", "up", "down"):
        found, wanted = (_stack(one, f"mlp.switch_mlp.{part}_proj") for one in (file, plain))
        off = np.sqrt(((found - wanted) ** 2).mean() / (wanted**2).mean())
        assert off < 1e-6


def _stack(path: Path, name: str) -> NDArray[np.float32]:
    tensors = read_gguf_model(path).tensors
    wanted = {n.partition(f"layers.1.{name}.")[2]: part for n, part in tensors.items()}
    arrays = load_gguf_arrays({f"x.{n}": p for n, p in wanted.items() if n}, None, None, mx.float32)
    if "x.scales" not in arrays:
        return np.array(arrays["x.weight"])
    parts = (arrays["x.weight"], arrays["x.scales"], arrays["x.biases"])
    bits = wanted["weight"].plan.bits
    return np.array(mx.dequantize(*parts, group_size=32, bits=bits))


def test_heads_from_elsewhere(tmp_path: Path, kind: Kind) -> None:
    """Grafted from a GGUF onto a folder and the other way round, and beside a GGUF."""
    whole = write_tiny_gguf_experts(tmp_path / "whole.gguf", kind)
    wanted = all_logits(whole, TOKENS)
    folder = write_tiny_experts(tmp_path / "folder", kind)
    place = tmp_path / "bare"
    place.mkdir()
    bare = write_tiny_gguf_experts(place / "bare.gguf", kind, heads="none")
    described = mlx_engine.inspect(bare)
    assert (described.mtp_heads, described.mtp and described.mtp.code) == (0, "heads-dropped")
    bare_folder = write_tiny_experts(tmp_path / "b", kind, heads=False)
    for trunk, heads in ((bare, folder), (bare_folder, whole), (bare_folder, folder)):
        np.testing.assert_allclose(all_logits(trunk, TOKENS, heads), wanted, atol=1e-5)
    sidecar = write_tiny_gguf_experts(place / "mtp-bare.gguf", kind, heads="only")
    np.testing.assert_allclose(all_logits(bare, TOKENS), wanted, atol=1e-5)
    np.testing.assert_allclose(all_logits(bare_folder, TOKENS, sidecar), wanted, atol=1e-5)


def test_inspect_counts_experts(tmp_path: Path, kind: Kind) -> None:
    file = write_tiny_gguf_experts(tmp_path / "m.gguf", kind, quantised=TYPES.Q8_0)
    described = mlx_engine.inspect(file)
    groups = {group.name: group for group in described.groups}
    assert groups["experts"].parameters == 4 * 3 * COUNT * INNER * 64
    assert groups["experts"].storage == "Q8_0 as 8-bit affine, groups of 32"
    assert groups["experts"].file_nbytes == 4 * 3 * COUNT * INNER * 64 * 34 // 32
    assert described.architecture == ARCHITECTURES[kind]
    assert described.mtp_heads == 1
    folder = mlx_engine.inspect(write_tiny_experts(tmp_path / "f", kind))
    assert described.parameters == folder.parameters
    resting = groups["experts"].parameters * (COUNT - CHOSEN) // COUNT
    heads = groups["MTP head"].parameters
    assert described.active_parameters == described.parameters - heads - resting
    assert folder.active_parameters == described.active_parameters
    joined = mlx_engine.inspect(
        write_tiny_gguf_experts(
            tmp_path / "j.gguf", kind, quantised=TYPES.Q8_0, joined_experts=True
        )
    )
    assert (joined.parameters, joined.nbytes) == (described.parameters, described.nbytes)


@pytest.mark.parametrize(
    ("changes", "without", "message"),
    [
        ({"expert_count": 0}, "", "expert_count"),
        ({"expert_used_count": 7}, "", "7 of 6 experts chosen"),
        ({"expert_count": 8}, "", "ffn_gate_inp"),
        ({"expert_feed_forward_length": 16}, "", "ffn_gate_exps"),
        ({}, "blk.1.ffn_up_exps.weight", "layers.1.mlp.switch_mlp.up_proj"),
        ({}, "blk.1.ffn_gate_inp_shexp.weight", "shared_expert_gate"),
        ({"expert_count": "x"}, "", "expert_count is 'x'"),
    ],
)
def test_what_cannot_run_is_named(
    tmp_path: Path, kind: Kind, changes: dict[str, object], without: str, message: str
) -> None:
    named = {f"{ARCHITECTURES[kind]}.{key}": value for key, value in changes.items()}
    file = write_tiny_gguf_experts(tmp_path / "m.gguf", kind, changes=named, without=without)
    with pytest.raises(EngineError, match=re.escape(message)) as caught:
        mlx_engine.load(file)
    assert str(file) in str(caught.value)
