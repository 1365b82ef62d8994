"""Heads that are right about all that comes are always accepted, wherever and however stored."""

import shutil
from functools import cache

import gguf
import mlx.core as mx
import pytest
from converted_gguf import ARCHITECTURES, Storage, convert
from gguf_blocks import tensor
from model_edits import edit_tensors
from right_heads import VOCABULARY, WRITERS, qwen_config, right_values, write_right_heads
from tiny_gguf import write_model
from tiny_nextn import TYPES

import mlx_engine
from mlx_engine.values.options import DraftOptions, LoadOptions, SamplingOptions

PROMPT = [9, 10, 11]
LENGTH = 12
HEAD = {
    **dict.fromkeys(("qwen3_5", "qwen3_5_moe", "qwen3_next", "mimo_v2_flash"), "mtp."),
    **dict.fromkeys(("ernie4_5_moe", "exaone4", "exaone_moe", "mellum"), "mtp"),
    **dict.fromkeys((*TYPES, "hy_v3", "bailing_hybrid", "glm_moe_dsa", "glm5_next"), "layers.3."),
    **dict.fromkeys(("mimo", "hy_v4"), "mtp_layers."),
    **dict.fromkeys(("longcat_flash", "minimax_m3_vl"), ".mtp."),
    "step3p5": ("layers.4.", "layers.5.", "layers.6."),
}
"""What names of heads have in them."""
DROPPED = ("ernie4_5_moe", "exaone4", "hy_v4", "minimax_m3_vl")
"""No converter keeps the heads of these."""
IN_GGUF = [kind for kind in WRITERS if kind in ARCHITECTURES and kind not in DROPPED]
PLAIN = ("gate_inp", "attn_k_b", "ssm_", "hc_", "compressor")
Q8_0 = Storage(lambda name: None if any(n in name for n in PLAIN)
               else gguf.GGMLQuantizationType.Q8_0)  # fmt: skip


@pytest.fixture(scope="module")
def right(tmp_path_factory):
    """Each folder once."""
    place = tmp_path_factory.mktemp("right")
    return cache(lambda kind, reads: write_right_heads(place / kind / reads, kind, reads))


def assert_always_accepted(place, **options):
    """With the text that is known beforehand, of the trunk's state and where heads follow heads."""
    engine = mlx_engine.load(place, options=LoadOptions(**options))
    asked = {"max_tokens": LENGTH, "ignore_eos": True, "sampling": SamplingOptions(temperature=0)}
    found = engine.generate(PROMPT, draft=DraftOptions(depth=3), **asked)
    assert list(found.tokens) == [(12 + step) % VOCABULARY for step in range(LENGTH)]
    assert found.stats.accepted == found.stats.drafted >= LENGTH // 2
    engine.close()


def apart(folder, place, kind):
    """The same folder in two: a model without heads, and a file of the heads alone."""
    shutil.copytree(folder, place)
    heads = place / "mtp.safetensors"
    parts = HEAD[kind] if isinstance(HEAD[kind], tuple) else (HEAD[kind],)

    def is_head(name):
        return any(part in name for part in parts)

    found = dict(mx.load(str(folder / "model.safetensors")))
    mx.save_safetensors(str(heads), {name: a for name, a in found.items() if is_head(name)})
    edit_tensors(place, lambda arrays: {n: a for n, a in arrays.items() if not is_head(n)})
    return heads


@pytest.mark.parametrize("reads", ["token", "hidden"])
@pytest.mark.parametrize("kind", WRITERS)
def test_inside_a_folder(right, kind, reads):
    assert_always_accepted(right(kind, reads))


@pytest.mark.parametrize("kind", WRITERS)
def test_beside_and_given_and_absent(right, tmp_path, kind):
    heads = apart(right(kind, "hidden"), tmp_path / "m", kind)
    assert_always_accepted(tmp_path / "m")
    elsewhere = heads.rename(tmp_path / "elsewhere.safetensors")
    assert mlx_engine.inspect(tmp_path / "m").mtp_heads == 0
    assert_always_accepted(tmp_path / "m", heads=elsewhere)


@pytest.mark.parametrize("kind", ["qwen3_5", "deepseek_v3", "step3p5"])
def test_rounded_to_8_bits(right, kind):
    assert_always_accepted(right(kind, "hidden"), head_bits=8)


@pytest.mark.parametrize("kind", ["qwen3_5", "qwen3_5_moe", "qwen3_next"])
def test_qwen_in_a_gguf(right, tmp_path, kind):
    """Inside, in a file beside, given, and from a folder whose norms are stored otherwise."""
    (tmp_path / "place").mkdir()

    def written(name, heads):
        values, place = right_values(kind, "hidden"), tmp_path / "place" / name
        return write_model(place, qwen_config(kind), tensor, values=values, heads=heads)

    assert_always_accepted(written("whole.gguf", "inside"))
    bare = written("bare.gguf", "none")
    assert mlx_engine.inspect(bare).mtp_heads == 0
    assert_always_accepted(bare, heads=right(kind, "hidden"))
    written("mtp-bare.gguf", "only")
    assert_always_accepted(bare)


def test_of_ling_in_a_gguf(right, tmp_path):
    """Ling 2.0 is GLM-4.5 by other names."""
    folder = right("glm4_moe", "hidden")
    file = convert(folder, tmp_path / "ling.gguf", architecture="bailingmoe2", storage=Q8_0)
    assert_always_accepted(file)


@pytest.mark.parametrize("kind", IN_GGUF)
def test_in_a_gguf(right, tmp_path, kind):
    """Inside, in a file beside, grafted from another quantisation, and from the folder."""
    folder, place = right(kind, "hidden"), tmp_path / "place"
    place.mkdir()
    assert_always_accepted(convert(folder, tmp_path / "whole.gguf", storage=Q8_0))
    bare = convert(folder, place / "bare.gguf", heads="dropped", storage=Q8_0)
    assert mlx_engine.inspect(bare).mtp_heads == 0
    assert_always_accepted(bare, heads=convert(folder, tmp_path / "m.gguf", heads="only"))
    assert_always_accepted(bare, heads=folder)
    convert(folder, place / "mtp-bare.gguf", heads="only", storage=Q8_0)
    assert_always_accepted(bare)
