"""Qwen3.5 MoE and Qwen3-Next against transformers, mlx-lm and each other's layouts."""

import mlx.core as mx
import mlx_lm
import numpy as np
import pytest
import torch
from qwen_reference import QwenReference, qwen_reference
from tiny_qwen_experts import KINDS, experts_values, write_tiny_experts
from transformers import (
    Qwen3_5MoeForCausalLM,
    Qwen3_5MoeTextConfig,
    Qwen3NextConfig,
    Qwen3NextForCausalLM,
)

import mlx_engine
from mlx_engine.models.experts import ExpertFeedForward
from mlx_engine.models.layer_specs import Experts, FeedForward
from mlx_engine.models.weights import Part, WeightTable
from mlx_engine.values.errors import EngineError

TOKENS = [int(t) for t in np.random.default_rng(0).integers(0, 300, 41)]


def relative(found, wanted):
    return float(np.abs(found - wanted).max() / np.abs(wanted).max())


@pytest.fixture(scope="module", params=KINDS)
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def folder(tmp_path_factory, kind):
    return write_tiny_experts(tmp_path_factory.mktemp("tiny") / "hf", kind, seed=3)


@pytest.fixture(scope="module")
def engine(folder):
    engine = mlx_engine.load(folder)
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def reference(folder, kind):
    classes = {
        "qwen3_next": (Qwen3NextConfig, Qwen3NextForCausalLM),
        "qwen3_5_moe": (Qwen3_5MoeTextConfig, Qwen3_5MoeForCausalLM),
    }
    return qwen_reference(folder, *classes[kind], TOKENS)


def test_logits_equal_transformers(engine, reference):
    assert relative(engine.logits(TOKENS), reference.logits()) < 1e-4


def test_draft_logits_equal_transformers(engine, reference):
    wanted = reference.draft_logits(reference.hidden())
    assert relative(engine.draft_logits(TOKENS)[0], wanted) < 1e-4


def hidden_first(reference):
    joined = reference.head.layers[0].eh_proj.weight
    joined.copy_(torch.cat(joined.chunk(2, dim=1)[::-1], dim=1))
    return reference.hidden()


def one_too_many(reference):
    for name, weight in reference.head.layers[0].named_parameters():
        if "norm" in name:
            weight.add_(1)
    return reference.hidden()


FAULTS = (QwenReference.hidden_before_the_norm, hidden_first, one_too_many)


@pytest.mark.parametrize("fault", FAULTS)
def test_the_comparison_notices(engine, reference, fault):
    """A head that reads something else differs visibly, so equal logits mean something."""
    head = reference.head
    with torch.no_grad():
        before = {name: value.clone() for name, value in head.state_dict().items()}
        wrong = reference.draft_logits(fault(reference))
        head.load_state_dict(before)
    assert relative(engine.draft_logits(TOKENS)[0], wrong) > 1e-2


@pytest.mark.parametrize(
    ("experts", "head_experts"),
    [("joined", None), ("single", "joined"), ("joined", "single"), ("stacked", None)],
)
def test_layouts_of_one_model_agree(tmp_path, kind, engine, experts, head_experts):
    other = write_tiny_experts(
        tmp_path / "o", kind, experts=experts, head_experts=head_experts, seed=3
    )
    loaded = mlx_engine.load(other)
    assert np.array_equal(loaded.logits(TOKENS), engine.logits(TOKENS))
    assert np.array_equal(loaded.draft_logits(TOKENS), engine.draft_logits(TOKENS))


@pytest.mark.parametrize("bits", [None, 8, 4])
def test_logits_equal_mlx_lm(tmp_path, kind, bits):
    folder = write_tiny_experts(tmp_path / "mlx", kind, experts="stacked", bits=bits, seed=5)
    model, _ = mlx_lm.utils.load_model(folder, strict=False)
    wanted = np.array(model(mx.array([TOKENS]))[0].astype(mx.float32))
    # mlx-lm rounds otherwise: it divides a softmax of all by the sum of those chosen. By float64
    # both are off by 0.4e-5 to 5e-5, whatever the weights
    assert relative(mlx_engine.load(folder).logits(TOKENS), wanted) < 5e-5


def test_a_row_does_not_depend_on_those_beside_it(kind, engine):
    """Bit for bit, through experts dense and packed, also where rows are sorted by expert."""
    assert engine.description.numerics == "exact"


@pytest.mark.parametrize("bits", [None, 4])
def test_rows_of_experts(bits):
    """Any run of rows gives the bits that all rows together give."""
    values = experts_values("qwen3_next", seed=1).trunk
    name = "layers.0.mlp"
    arrays = {n: mx.array(v) for n, v in values.items() if n.startswith(name)}
    if bits:
        for part in ("gate", "up", "down"):
            stack = f"{name}.switch_mlp.{part}_proj"
            parts = mx.quantize(arrays.pop(f"{stack}.weight"), 32, bits)
            ends = ("weight", "scales", "biases")
            arrays |= {f"{stack}.{end}": p for end, p in zip(ends, parts, strict=True)}
    spec = Experts(6, 2, FeedForward(32), shared=FeedForward(32), shared_gate=True)
    table = WeightTable(arrays, "tiny")
    layer = ExpertFeedForward.read(Part(table, f"{name}.", spec.tensors(64)), spec)
    x = mx.random.normal((1, 70, 64), key=mx.random.key(0))
    whole = np.array(layer(x))
    for start, rows in [(0, 1), (3, 2), (5, 9), (11, 31), (20, 32), (30, 40)]:
        part = np.array(layer(x[:, start : start + rows]))
        assert np.array_equal(part, whole[:, start : start + rows])


@pytest.mark.parametrize(
    ("changes", "without", "message"),
    [
        ({"num_experts": 0}, "", "num_experts=0"),
        ({"num_experts": None}, "", "num_experts=None"),
        ({"num_experts_per_tok": 7}, "", "num_experts_per_tok=7.*from 1 to 6"),
        ({"num_experts": 8}, "", r"mlp\.gate.* has the shape \[6, 64\]"),
        ({"mlp_only_layers": [-1]}, "", "mlp_only_layers"),
        ({"mlp_only_layers": [0]}, "", "intermediate_size"),
        ({"moe_intermediate_size": 16}, "", r"switch_mlp\.gate_proj"),
        ({}, "{trunk}layers.1.mlp.experts.3.", r"layers\.1\.mlp\.switch_mlp\.\w+_proj.* missing"),
        ({}, "{trunk}layers.1.mlp.experts.5.", r"layers\.1\.mlp\.switch_mlp\..*\[5, "),
        ({}, "{trunk}layers.1.mlp.shared_expert_gate", r"shared_expert_gate.* missing"),
    ],
)
def test_what_cannot_run_is_named(tmp_path, kind, changes, without, message):
    if kind == "qwen3_next" and "mlp_only_layers" in changes and changes["mlp_only_layers"] == [0]:
        changes = changes | {"intermediate_size": 0}
    prefix = {"qwen3_next": "model.", "qwen3_5_moe": "model.language_model."}[kind]
    folder = write_tiny_experts(
        tmp_path / "m", kind, changes=changes, without=without.format(trunk=prefix)
    )
    with pytest.raises(EngineError, match=message) as caught:
        mlx_engine.load(folder)
    assert str(folder) in str(caught.value)


def test_heads_with_other_experts(tmp_path, kind, folder):
    """Given for this trunk they are refused; with an expert missing they are not used."""
    other = write_tiny_experts(tmp_path / "o", kind, without="mtp.layers.0.mlp.experts.5.")
    with pytest.raises(EngineError, match=r"belong to another model: .*switch_mlp") as caught:
        mlx_engine.load(folder, heads=other)
    assert str(other) in str(caught.value)
    holed = write_tiny_experts(tmp_path / "h", kind, without="mtp.layers.0.mlp.experts.2.")
    reason = mlx_engine.inspect(holed).mtp
    assert reason.code == "heads-incomplete"
    assert "switch_mlp" in reason.words
    assert mlx_engine.load(holed).logits(TOKENS).shape == (41, 300)
    unfit = mlx_engine.load(other).description.mtp
    assert unfit.code == "heads-do-not-fit"
    assert "switch_mlp" in unfit.words
    assert str(other) in unfit.words


def test_dropped_heads_are_told(tmp_path, kind):
    reason = mlx_engine.inspect(write_tiny_experts(tmp_path / "m", kind, heads=False)).mtp
    assert reason.code == ("no-heads" if kind == "qwen3_next" else "heads-dropped")


def test_layers_without_experts(tmp_path):
    """Qwen3-Next may name layers with an ordinary feed-forward; mlx-lm says the same."""
    changes = {"mlp_only_layers": [1], "decoder_sparse_step": 2}
    folder = write_tiny_experts(tmp_path / "m", "qwen3_next", experts="stacked", changes=changes)
    model, _ = mlx_lm.utils.load_model(folder, strict=False)
    wanted = np.array(model(mx.array([TOKENS]))[0].astype(mx.float32))
    assert relative(mlx_engine.load(folder).logits(TOKENS), wanted) < 1e-5
