"""Logits and draft logits against transformers, mlx-lm and stored reference numbers."""

import json
from pathlib import Path

import mlx.core as mx
import mlx_lm
import numpy as np
import pytest
from qwen_reference import qwen_reference
from tiny_qwen3_5 import write_tiny_qwen3_5
from transformers import Qwen3_5ForCausalLM, Qwen3_5TextConfig

import mlx_engine

TOY = Path(__file__).parents[4] / "shared" / "data" / "qwen35"
TOKENS = [int(t) for t in np.random.default_rng(0).integers(0, 300, 41)]

needs_toy = pytest.mark.skipif(not TOY.is_dir(), reason=f"{TOY.name} reference data not beside")


def relative(found, wanted):
    return float(np.abs(found - wanted).max() / np.abs(wanted).max())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_tiny_qwen3_5(tmp_path_factory.mktemp("tiny") / "hf", tied=False, seed=3)


@pytest.fixture(scope="module")
def engine(folder):
    engine = mlx_engine.load(folder)
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def reference(folder):
    return qwen_reference(folder, Qwen3_5TextConfig, Qwen3_5ForCausalLM, TOKENS)


def test_logits_equal_transformers(engine, reference):
    assert relative(engine.logits(TOKENS), reference.logits()) < 1e-4


def test_draft_logits_equal_transformers(engine, reference):
    wanted = reference.draft_logits(reference.hidden())
    assert relative(engine.draft_logits(TOKENS)[0], wanted) < 1e-4


def test_the_hidden_state_before_the_norm_is_not_what_the_head_reads(engine, reference):
    """Feeding the trunk's residual instead moves draft logits visibly: the test can fail."""
    wrong = reference.draft_logits(reference.hidden_before_the_norm())
    assert relative(engine.draft_logits(TOKENS)[0], wrong) > 1e-2


@pytest.mark.parametrize("bits", [None, 8, 4])
def test_logits_equal_mlx_lm(tmp_path, bits):
    folder = write_tiny_qwen3_5(tmp_path / "mlx", layout="mlx", bits=bits, seed=5)
    model, _ = mlx_lm.utils.load_model(folder)
    wanted = np.array(model(mx.array([TOKENS]))[0].astype(mx.float32))
    # both are about 1e-5 from float64, as they sum in another order on a CPU
    assert relative(mlx_engine.load(folder).logits(TOKENS), wanted) < 5e-5


def test_layouts_of_one_model_agree(tmp_path, engine, folder):
    other = write_tiny_qwen3_5(tmp_path / "mlx", layout="mlx", tied=False, seed=3)
    loaded = mlx_engine.load(other)
    assert np.array_equal(loaded.logits(TOKENS), engine.logits(TOKENS))
    assert np.array_equal(loaded.draft_logits(TOKENS), engine.draft_logits(TOKENS))


def test_heads_beside_the_model_are_the_same_heads(tmp_path, engine):
    for heads in ("beside", "sibling"):
        folder = write_tiny_qwen3_5(tmp_path / heads, tied=False, seed=3, heads=heads)
        loaded = mlx_engine.load(folder)
        assert np.array_equal(loaded.draft_logits(TOKENS), engine.draft_logits(TOKENS))


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
