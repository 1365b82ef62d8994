"""Heads of MiMo and Step that are missing, too few, incomplete or another model's: said so."""

import numpy as np
import pytest
from session_runs import listen, session_of
from tiny_stacks import HEADS, KINDS, VOCABULARY, dequantised, head_prefix, write_stack

import mlx_engine
from mlx_engine.values.options import DraftOptions, SamplingOptions

CHAINED = ("mimo_v2_flash", "step3p5")
PROMISED = {"num_nextn_predict_layers": 3}


def without(kind, *starts):
    prefixes = tuple(head_prefix(kind, number) + name for number, name in starts)
    return {n: v for n, v in dequantised(kind).items() if not n.startswith(prefixes)}


def all_heads(kind):
    return [(number, "") for number in range(HEADS[kind])]


@pytest.mark.parametrize("kind", CHAINED)
@pytest.mark.parametrize("present", [1, 2])
def test_fewer_heads_than_promised_are_used_and_it_says_so(tmp_path, kind, present):
    values = without(kind, *all_heads(kind)[present:])
    engine = mlx_engine.load(write_stack(tmp_path / "m", kind, values, PROMISED))
    told = engine.description
    assert (told.mtp_heads, told.mtp) == (present, None)
    (reason,) = [reason for reason in told.declined if reason.code == "fewer-heads"]
    assert "with 3 drafting heads" in reason.words
    assert f"this copy of it has {present}." in reason.words
    options = {"max_tokens": 12, "sampling": SamplingOptions(seed=3)}
    plain = engine.generate([5, 1, 30], draft=DraftOptions(source="none"), **options)
    found = engine.generate([5, 1, 30], draft=DraftOptions(depth=3), **options)
    assert found.tokens == plain.tokens
    deepest = 2 if present == 2 else 3  # a single head drafts on from its own states
    assert len(found.stats.drafted_by_depth) == deepest
    engine.close()


@pytest.mark.parametrize("count", [0, 1])
@pytest.mark.parametrize("kind", CHAINED)
def test_heads_count_by_their_tensors(tmp_path, kind, count):
    changes = {"num_nextn_predict_layers": count}
    engine = mlx_engine.load(write_stack(tmp_path / "m", kind, None, changes))
    assert (engine.description.mtp_heads, engine.description.mtp) == (3, None)
    engine.close()


@pytest.mark.parametrize("kind", KINDS)
def test_dropped_heads(tmp_path, kind):
    values = without(kind, *all_heads(kind))
    changes = {"num_nextn_predict_layers": HEADS[kind]}
    engine = mlx_engine.load(write_stack(tmp_path / "m", kind, values, changes))
    assert engine.description.mtp.code == "heads-dropped"
    assert engine.draft_logits([1, 2, 3]).shape == (0, 2, VOCABULARY)
    engine.close()


@pytest.mark.parametrize(
    ("kind", "lost"),
    [
        ("mimo", (0, "input_proj")),
        ("mimo", (0, "self_attn.k_proj.bias")),
        ("mimo_v2_flash", (1, "self_attn.attention_sink_bias")),
        ("mimo_v2_flash", (0, "eh_proj")),
        ("step3p5", (2, "self_attn.g_proj")),
        ("step3p5", (0, "transformer.shared_head.output")),
    ],
)
def test_a_missing_tensor_is_named(tmp_path, kind, lost):
    engine = mlx_engine.load(write_stack(tmp_path / "m", kind, without(kind, lost)))
    assert engine.description.mtp.code == "heads-incomplete"
    assert f"layers.{lost[0]}." in engine.description.mtp.words
    engine.generate([1, 2], max_tokens=2)
    engine.close()


@pytest.mark.parametrize("kind", KINDS)
def test_heads_given_apart_are_the_same(tmp_path, kind):
    whole = mlx_engine.load(write_stack(tmp_path / "w", kind))
    folder = write_stack(tmp_path / "m", kind, without(kind, *all_heads(kind)))
    found = mlx_engine.load(folder, heads=tmp_path / "w")
    wanted = whole.draft_logits([1, 2, 3, 4, 5])
    assert np.array_equal(found.draft_logits([1, 2, 3, 4, 5]), wanted, equal_nan=True)
    for engine in (whole, found):
        engine.close()


def test_heads_more_than_are_run_are_left_aside(tmp_path):
    """Of MiMo-7B one is run: a second is skipped."""
    values = dequantised("mimo")
    first, second = head_prefix("mimo", 0), head_prefix("mimo", 1)
    more = {n.replace(first, second): v for n, v in values.items() if n.startswith(first)}
    engine = mlx_engine.load(write_stack(tmp_path / "m", "mimo", {**values, **more}))
    assert engine.description.mtp_heads == 1
    (skipped,) = [group for group in engine.description.groups if group.name == "skipped"]
    assert skipped.tensors == len(more)
    assert skipped.words == "not loaded: more drafting heads than are run"
    engine.close()


@pytest.mark.parametrize("kind", CHAINED)
def test_a_depth_raised_later_drafts_with_all_heads(tmp_path, kind):
    engine = mlx_engine.load(write_stack(tmp_path / "m", kind))
    session = session_of(engine, depth=2, max_tokens=4)
    session.draft = DraftOptions(depth=0)
    listen(session, session.send("hello"))
    session.draft = DraftOptions(depth=2)
    listen(session, session.send("again"))
    assert session._sequence.drafter.limit == 3
    assert session.stats.drafted > 0
    engine.close()


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("mimo_v2_flash", {"swa_head_dim": 0}),
        ("mimo_v2_flash", {"swa_num_key_value_heads": 3}),
        ("mimo_v2_flash", {"sliding_window": 0, "sliding_window_size": None}),
        ("step3p5", {"attention_other_setting": "x"}),
        ("step3p5", {"attention_other_setting": {"num_attention_groups": 2}}),
        ("step3p5", {"layer_types": ["full_attention"] * 2}),
        ("mimo", {"num_attention_heads": 1000}),
        ("mimo", {"num_nextn_predict_layers": "two"}),
    ],
)
def test_a_wrong_config_is_an_error_of_ours(tmp_path, kind, changes):
    with pytest.raises(mlx_engine.EngineError):
        mlx_engine.load(write_stack(tmp_path / "m", kind, None, changes))


def test_lists_by_layer_that_end_with_the_trunk(tmp_path):
    """Step's heads then see everything, as llama.cpp's converter fills up."""
    changes = {
        "layer_types": ["full_attention", *["sliding_attention"] * 2, "full_attention"],
        "partial_rotary_factors": [0.5, 1.0, 1.0, 0.5],
        "rope_theta": [5e6, 1e4, 1e4, 5e6],
    }
    values = dequantised("step3p5")
    for number in (0, 2):
        for name in ("q", "g", "o"):
            full = f"{head_prefix('step3p5', number)}self_attn.{name}_proj.weight"
            values[full] = (
                values[full][:, :64] if name == "o" else values[full][: 64 if name == "q" else 4]
            )
    engine = mlx_engine.load(write_stack(tmp_path / "m", "step3p5", values, changes))
    assert engine.description.mtp_heads == 3
    assert engine.description.mtp is None
    engine.draft_logits([1, 2, 3])
    engine.close()
