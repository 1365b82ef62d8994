"""The check whether heads fit, on NextN heads that foresee their model and that do not."""

import mlx.core as mx
import pytest
from model_edits import edit_tensors
from tiny_nextn import LAYER, TYPES, publish

from mlx_engine.loading.load import load_model
from mlx_engine.self_check.teacher_forced import TEXT, measure_fit, with_head_check
from mlx_engine.values.options import LoadOptions

TOKEN = 42
HEAD = f"model.layers.{LAYER}."


def sure(arrays):
    """Layers that add nothing, and norms that let one feature through: TOKEN follows whatever."""
    made = dict(arrays)
    for name, array in arrays.items():
        if name.endswith(("o_proj.weight", "down_proj.weight")):
            made[name] = mx.zeros_like(array)
        elif name.endswith(("model.norm.weight", "shared_head.norm.weight")):
            made[name] = mx.zeros_like(array).at[0].add(1)
        elif name.endswith("embed_tokens.weight"):
            made[name] = mx.where(mx.arange(array.shape[1]) == 0, 1, array)
        elif name.endswith(("lm_head.weight", "shared_head.head.weight")):
            made[name] = mx.zeros_like(array).at[TOKEN, 0].add(30)
        elif name.endswith("norm.weight"):
            made[name] = mx.ones_like(array)
    width = arrays["model.norm.weight"].shape[0]
    made[f"{HEAD}eh_proj.weight"] = mx.concatenate([mx.eye(width), mx.zeros((width, width))], 1)
    return made


def other_output(arrays):
    """The output head of another model."""
    name = f"{HEAD}shared_head.head.weight"
    return arrays | {name: mx.roll(arrays[name], 1, axis=0)}


def join_negated(arrays):
    name = f"{HEAD}eh_proj.weight"
    return arrays | {name: -arrays[name]}


@pytest.mark.parametrize("name", TYPES)
def test_heads_that_fit_and_heads_that_do_not(tmp_path, name):
    tiny = publish(name, tmp_path / "m", own=True)
    edit_tensors(tiny.folder, sure)
    for spoil, fits in ((None, True), (other_output, False), (join_negated, False)):
        if spoil is not None:
            edit_tensors(tiny.folder, lambda arrays, spoil=spoil: spoil(sure(arrays)))
        loaded = load_model(tiny.folder, LoadOptions(), tiny.folder)
        fit = measure_fit(loaded.model, loaded.tokenizer.encode(TEXT))
        assert fit.judged > 20
        assert fit.agreement_share == (1 if fits else 0)
        told = [reason.code for reason in with_head_check(loaded, loaded.description).declined]
        assert ("heads-implausible" in told) == (not fits)
