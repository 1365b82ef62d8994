"""MTP heads in GGUFs of other families than Qwen's: inside, in sidecars, dropped, grafted."""

import json
import shutil
from functools import cache
from pathlib import Path

import gguf
import numpy as np
import pytest
import tiny_ling
import tiny_nemotron
import tiny_nextn
from converted_gguf import Storage, convert
from model_edits import all_logits, drop_tensors
from tiny_ling import LING_3
from tiny_stacks import write_stack

import mlx_engine

STACKS = ("mimo_v2_flash", "step3p5")
FAMILIES = (*tiny_nextn.TYPES, "exaone_moe", "hy_v3", *STACKS, "nemotron_h", "ling 3")
TOKENS = [5, 9, 200, 31, 77, 8, 150, 2, 2, 64, 12, 4]
_DENSE = ("gate_inp", "attn_k_b", "ssm_", "attn_gate")
Q8_0 = Storage(lambda name: None if any(part in name for part in _DENSE)
               else gguf.GGMLQuantizationType.Q8_0)  # fmt: skip


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """Each family once, heads with embedding and output of their own where it can have them."""
    place = tmp_path_factory.mktemp("tiny")

    @cache
    def get(family: str) -> Path:
        if family in STACKS:
            return write_stack(place / family, family)
        if family == "ling 3":
            limits = [0, 0, 0.3, 0, 0.2]
            names = ("expert_swiglu_limit_list", "share_expert_swiglu_limit_list")
            return tiny_ling.publish(place / family, LING_3 | dict.fromkeys(names, limits)).folder
        if family == "nemotron_h":
            return tiny_nemotron.publish(place / family).folder
        return tiny_nextn.publish(
            family, place / family, own=family in ("glm4_moe", "glm4_moe_lite")
        ).folder

    return get


@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
def test_heads_draft_as_those_of_the_folder(published, tmp_path, family, joined):
    folder = published(family)
    if joined and family in ("ling 3", "deepseek_v3", "glm4_moe_lite"):
        pytest.skip("latents have no queries, keys and values to join")
    file = convert(folder, tmp_path / "m.gguf", joined=joined)
    np.testing.assert_allclose(all_logits(file, TOKENS), all_logits(folder, TOKENS), atol=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
def test_packed_heads(published, tmp_path, family):
    file = convert(published(family), tmp_path / "m.gguf", storage=Q8_0)
    plain = convert(published(family), tmp_path / "u.gguf", storage=Q8_0._replace(unpacked=True))
    np.testing.assert_allclose(all_logits(file, TOKENS), all_logits(plain, TOKENS), atol=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
def test_heads_that_were_dropped_or_lie_elsewhere(published, tmp_path, family):
    """The metadata go on promising them; a sidecar is found by its name, or given."""
    folder, place = published(family), tmp_path / "place"
    place.mkdir()
    bare = convert(folder, place / "bare.gguf", heads="dropped")
    described = mlx_engine.inspect(bare)
    assert (described.mtp_heads, described.mtp and described.mtp.code) == (0, "heads-dropped")
    engine = mlx_engine.load(bare)
    whole = convert(folder, tmp_path / "whole.gguf")
    wanted = all_logits(whole, TOKENS)
    np.testing.assert_allclose(engine.logits(TOKENS), wanted[: len(TOKENS)], atol=1e-4)
    engine.close()
    np.testing.assert_allclose(all_logits(bare, TOKENS, whole), wanted, atol=1e-4)
    np.testing.assert_allclose(all_logits(bare, TOKENS, folder), wanted, atol=1e-4)
    sidecar = convert(folder, place / "mtp-bare.gguf", heads="only")
    np.testing.assert_allclose(all_logits(bare, TOKENS), wanted, atol=1e-4)
    np.testing.assert_allclose(all_logits(bare, TOKENS, sidecar), wanted, atol=1e-4)
    other = sidecar.rename(place / "bare-NextN.gguf")
    assert mlx_engine.inspect(bare).heads_from == str(other)
    other = other.rename(place / "bare-Instruct-NextN.gguf")
    assert mlx_engine.inspect(bare).heads_from == ""
    dense = shutil.copytree(folder, tmp_path / "folder")
    layers = json.loads((dense / "config.json").read_text()).get("num_hidden_layers", 99)
    for part in ("mtp.", *(f"layers.{layers + number}." for number in range(3))):
        drop_tensors(dense, part)
    shutil.copy(other, dense)
    np.testing.assert_allclose(all_logits(dense, TOKENS), wanted, atol=1e-4)
