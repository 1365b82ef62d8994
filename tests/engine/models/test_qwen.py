"""Qwens, with experts too, against transformers, mlx-lm, stored numbers, each other's layouts."""

import json
from pathlib import Path

import mlx.core as mx
import mlx_lm
import numpy as np
import pytest
import torch
from compared import relative
from qwen_reference import QwenReference, qwen_reference
from tiny_qwen3_5 import tiny_config, write_tiny_qwen3_5
from tiny_qwen_experts import KINDS, experts_config, experts_values, write_tiny_experts
from tiny_tokenizer import make_tiny_tokenizer
from transformers import (
    Qwen3_5ForCausalLM,
    Qwen3_5MoeForCausalLM,
    Qwen3_5MoeTextConfig,
    Qwen3_5TextConfig,
    Qwen3NextConfig,
    Qwen3NextForCausalLM,
)

import mlx_engine
from mlx_engine.models.experts import ExpertFeedForward
from mlx_engine.models.feed_forward_specs import ExpertsSpec, FeedForwardSpec
from mlx_engine.models.registry import family_for
from mlx_engine.models.weights import Part, WeightTable
from mlx_engine.values.errors import EngineError

pytestmark = pytest.mark.usefixtures("rows_compared")

TOY = Path(__file__).parents[4] / "shared" / "data" / "qwen35"
TOKENS = [int(t) for t in np.random.default_rng(0).integers(0, 300, 41)]
CLASSES = {
    "qwen3_5": (Qwen3_5TextConfig, Qwen3_5ForCausalLM),
    "qwen3_next": (Qwen3NextConfig, Qwen3NextForCausalLM),
    "qwen3_5_moe": (Qwen3_5MoeTextConfig, Qwen3_5MoeForCausalLM),
}
needs_toy = pytest.mark.skipif(not TOY.is_dir(), reason=f"{TOY.name} reference data not beside")
only_experts = pytest.mark.parametrize("kind", KINDS, indirect=True, scope="module")
only_plain = pytest.mark.parametrize("kind", ["qwen3_5"], indirect=True, scope="module")
ROUNDING = 5e-5
"""Between two sums of float32 in other orders: either is 0.6e-5 to 6e-5 from float64 (six seeds),
and the last bits of the C library's `log1p`, of which decays are made, move them by 0.3e-5. One
matrix that is a thousandth too large makes 2e-3.
"""


@pytest.fixture(scope="module", params=CLASSES)
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def folder(tmp_path_factory, kind):
    place = tmp_path_factory.mktemp("tiny") / "hf"
    if kind == "qwen3_5":
        return write_tiny_qwen3_5(place, tied=False, seed=3)
    return write_tiny_experts(place, kind, seed=3)


@pytest.fixture(scope="module")
def engine(folder):
    engine = mlx_engine.load(folder)
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def reference(folder, kind):
    return qwen_reference(folder, *CLASSES[kind], TOKENS)


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


@pytest.mark.parametrize("kind", ["qwen3_5", "qwen3_5_moe"])
def test_other_names_of_the_same_models(kind):
    """With `hidden_act` and the context left out, whose defaults are by name."""
    made = (experts_config if "moe" in kind else lambda _: tiny_config())(kind)
    text = {k: v for k, v in made["text_config"].items() if k != "max_position_embeddings"}
    newer = kind.replace("5", "8")
    specs = [
        family_for(
            name, {"model_type": name, "text_config": text | {"model_type": inner}}, "x"
        ).spec
        for name, inner in ((kind, kind), (newer, newer), (newer, f"{newer}_text"))
    ]
    assert specs[0] == specs[1] == specs[2]


def test_layers_by_their_kinds_alone(tmp_path):
    """As transformers 5 writes them; in an order that no interval gives."""
    kinds = ["full_attention", "linear_attention", "full_attention", "full_attention"]
    sizes = tiny_config()["text_config"] | {"layer_types": kinds}
    del sizes["full_attention_interval"]
    torch.manual_seed(0)
    model = Qwen3_5ForCausalLM(Qwen3_5TextConfig(**sizes)).eval()
    model.save_pretrained(tmp_path)
    make_tiny_tokenizer(tmp_path)
    with torch.no_grad():
        wanted = model(torch.tensor([TOKENS])).logits[0].numpy()
    engine = mlx_engine.load(tmp_path)
    assert relative(engine.logits(TOKENS), wanted) < 1e-5
    engine.close()


def says_the_same(folder, engine):
    loaded = mlx_engine.load(folder)
    assert np.array_equal(loaded.logits(TOKENS), engine.logits(TOKENS))
    assert np.array_equal(loaded.draft_logits(TOKENS), engine.draft_logits(TOKENS))


@only_experts
@pytest.mark.parametrize(
    ("experts", "head_experts"),
    [("joined", None), ("single", "joined"), ("joined", "single"), ("stacked", None)],
)
def test_layouts_of_experts_agree(tmp_path, kind, engine, experts, head_experts):
    other = write_tiny_experts(
        tmp_path / "o", kind, experts=experts, head_experts=head_experts, seed=3
    )
    says_the_same(other, engine)


@only_plain
@pytest.mark.parametrize("layout", [{"layout": "mlx"}, {"heads": "beside"}, {"heads": "sibling"}])
def test_layouts_of_one_model_agree(tmp_path, engine, layout):
    says_the_same(write_tiny_qwen3_5(tmp_path / "o", tied=False, seed=3, **layout), engine)


@pytest.mark.parametrize("bits", [None, 8, 4])
def test_logits_equal_mlx_lm(tmp_path, kind, bits):
    if kind == "qwen3_5":
        folder = write_tiny_qwen3_5(tmp_path / "mlx", layout="mlx", bits=bits, seed=5)
    else:
        folder = write_tiny_experts(tmp_path / "mlx", kind, experts="stacked", bits=bits, seed=5)
    model, _ = mlx_lm.utils.load_model(folder, strict=False)
    wanted = np.array(model(mx.array([TOKENS]))[0].astype(mx.float32))
    assert relative(mlx_engine.load(folder).logits(TOKENS), wanted) < ROUNDING


@only_experts
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
    spec = ExpertsSpec(6, 2, FeedForwardSpec(32), shared=FeedForwardSpec(32), shared_gate=True)
    table = WeightTable(arrays, "tiny")
    layer = ExpertFeedForward.read(Part(table, f"{name}.", spec.tensors(64)), spec)
    x = mx.random.normal((1, 70, 64), key=mx.random.key(0))
    whole = np.array(layer(x))
    for start, rows in [(0, 1), (3, 2), (5, 9), (11, 31), (20, 32), (30, 40)]:
        part = np.array(layer(x[:, start : start + rows]))
        assert np.array_equal(part, whole[:, start : start + rows])


@only_experts
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


@only_experts
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


@only_experts
def test_dropped_heads_are_told(tmp_path, kind):
    reason = mlx_engine.inspect(write_tiny_experts(tmp_path / "m", kind, heads=False)).mtp
    assert reason.code == ("no-heads" if kind == "qwen3_next" else "heads-dropped")


def test_layers_without_experts(tmp_path):
    """Qwen3-Next may name layers with an ordinary feed-forward; mlx-lm says the same."""
    changes = {"mlp_only_layers": [1], "decoder_sparse_step": 2}
    folder = write_tiny_experts(tmp_path / "m", "qwen3_next", experts="stacked", changes=changes)
    model, _ = mlx_lm.utils.load_model(folder, strict=False)
    wanted = np.array(model(mx.array([TOKENS]))[0].astype(mx.float32))
    assert relative(mlx_engine.load(folder).logits(TOKENS), wanted) < ROUNDING


@needs_toy
def test_reference_arrays():
    engine = mlx_engine.load(TOY / "hf")
    tokens = [int(t) for t in (TOY / "prompt.tok").read_text().replace(",", " ").split()]
    torch_run, llama = np.load(TOY / "ref_torch.npz"), np.load(TOY / "llamacpp.npz")
    logits, drafts = engine.logits(tokens), engine.draft_logits(tokens)[0]
    assert relative(logits, torch_run["logits"]) < 1e-5
    assert relative(drafts, torch_run["mtp_noz"][1:]) < 1e-5
    assert relative(logits[-16:], llama["F32/logits"]) < 1e-4
    prompt = engine.tokenize((TOY / "prompt.txt").read_text())
    assert prompt == tokens


@needs_toy
def test_drafted_and_accepted_counts():
    """Three drafts a round, greedy, 200 tokens: text and counts of llama.cpp in float32.

    Its draft of a round that the budget ends is cut like ours, so counts differ by one at most.
    """
    engine = mlx_engine.load(TOY / "hf")
    runs = json.loads((TOY / "server" / "srv_qwen35-F32.json").read_text())
    for plain, (drafted, accepted) in zip(
        runs["plain"], [(161, 145), (153, 147), (276, 106)], strict=True
    ):
        ran = engine.generate(
            plain["prompt"],
            max_tokens=200,
            sampling=mlx_engine.SamplingOptions(temperature=0),
            draft=mlx_engine.DraftOptions(depth=3),
            ignore_eos=True,
        )
        assert list(ran.tokens) == plain["tokens"]
        assert ran.stats.drafted == pytest.approx(drafted, rel=0.02)
        assert ran.stats.accepted == pytest.approx(accepted, rel=0.02)
