"""GLM-5.3-Flash: trunk and MTP head against transformers, residual streams, pooled index keys."""

import re
import shutil

import mlx.core as mx
import numpy as np
import pytest
import tiny_glm5_next
import torch
from compared import normal, relative
from converted_gguf import convert
from model_edits import edit_config, edit_tensors, logits
from tiny_nextn import assert_as_published
from transformers.models.glm5_next import modeling_glm5_next as published

import mlx_engine
from mlx_engine.models.hyper_connections import connection_of
from mlx_engine.models.model_spec import WholeStreamsSpec
from mlx_engine.models.registry import family_for
from mlx_engine.models.weights import Part, WeightTable


@pytest.mark.parametrize(("count", "steps", "eps"), [(4, 20, 1e-6), (3, 1, 0.02), (2, 3, 0.1)])
def test_streams_are_exchanged_as_in_transformers(count, steps, eps):
    """What a block reads, and what is left when its output was added."""
    size, spec = 8, WholeStreamsSpec(count, 2.0, eps, steps, "mean")
    shapes = spec.tensors(size, has_gains=True)
    arrays = {name: 2 * normal(shape, seed) for seed, (name, shape) in enumerate(shapes.items())}
    config = published.Glm5NextTextConfig(
        hidden_size=size, hc_mult=count, hc_eps=eps, hc_sinkhorn_iters=steps, rms_norm_eps=0.1
    )
    theirs = published.Glm5NextTextHyperConnection(config)
    for name, ours in {"fn": "mix.weight", "base": "base", "scale": "scale"}.items():
        getattr(theirs, name).data = torch.tensor(np.array(arrays[ours]))
    norm = published.Glm5NextTextRMSNorm(size, 0.1)
    norm.weight.data = torch.tensor(np.array(arrays["norm.weight"]))
    streams, output = normal((1, 5, count, size), 9), normal((1, 5, size), 10)
    wide, made = torch.tensor(np.array(streams)), torch.tensor(np.array(output))
    with torch.no_grad():
        gains, shares, collapsed = theirs(wide)
        added = gains[..., None] * made[:, :, None] + shares.transpose(-1, -2) @ wide
        read_by_block = norm(collapsed)
    ours = connection_of(spec, Part(WeightTable(arrays, "tiny"), "", shapes), 0.1)
    read = ours.collapse_streams(streams.reshape(1, 5, -1))
    found = ours.add_to_residual(streams.reshape(1, 5, -1), output, read)
    assert relative(np.array(read.mixed), read_by_block.numpy()) < 1e-5
    assert relative(np.array(found).reshape(added.shape), added.numpy()) < 1e-5


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return tiny_glm5_next.publish(tmp_path_factory.mktemp("glm5") / "m")


JOINED = {
    "self_attn.qkv_proj": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "self_attn.fbg_a_proj": ("self_attn.f_a_proj", "self_attn.b_proj", "self_attn.g_a_proj"),
    "self_attn.qkv_conv.conv": tuple(f"self_attn.{part}_conv1d" for part in "qkv"),
    "self_attn.qkv_a_proj": ("self_attn.q_a_proj", "self_attn.kv_a_proj_with_mqa"),
    "mlp.gate_up_proj": ("mlp.gate_proj", "mlp.up_proj"),
    "mlp.shared_experts.gate_up_proj": (
        "mlp.shared_experts.gate_proj",
        "mlp.shared_experts.up_proj",
    ),
}


def converted(arrays):
    """Tensors of one layer as mlx-vlm's conversions have them."""
    made = {}
    for name, array in arrays.items():
        found = re.fullmatch(r"hc_(attn|ffn)_(\w+)", name)
        made[f"{found[1]}_hc.{found[2]}" if found else name] = array
    for joined, names in JOINED.items():
        if f"{names[0]}.weight" in made:
            every = [made.pop(f"{name}.weight") for name in names]
            every = [array.moveaxis(2, 1) if array.ndim == 3 else array for array in every]
            made[f"{joined}.weight"] = mx.concatenate(every)
    if "self_attn.kv_b_proj.weight" in made:
        whole = made.pop("self_attn.kv_b_proj.weight").reshape(4, 32, -1)
        made["self_attn.embed_q.weight"] = whole[:, :16].swapaxes(1, 2)
        made["self_attn.unembed_out.weight"] = whole[:, 16:]
    for part in ("gate", "up", "down"):
        names = [n for n in made if re.fullmatch(rf"mlp\.experts\.\d\.{part}_proj\.weight", n)]
        if names:
            stack = mx.stack([made.pop(name) for name in sorted(names)])
            made[f"mlp.switch_mlp.{part}_proj.weight"] = stack
    return made


def test_a_conversion_of_mlx_vlm(tiny, tmp_path):
    """Which joins matrices, and whose head is split off in a folder of its own."""
    place, heads = tmp_path / "m", tmp_path / "heads"
    layers, trunk = dict[int, dict[str, mx.array]](), {}
    for name, array in mx.load(str(tiny.folder / "model.safetensors")).items():
        if found := re.fullmatch(r"model\.language_model\.layers\.(\d)\.(.+)", name):
            layers.setdefault(int(found[1]), {})[found[2]] = array
        elif "visual" not in name:
            trunk[f"language_model.{name.replace('language_model.', '')}"] = array
    *blocks, head = (converted(layers[number]) for number in sorted(layers))
    for number, block in enumerate(blocks):
        trunk |= {f"language_model.model.layers.{number}.{n}": array for n, array in block.items()}
    beside = ("enorm.", "hnorm.", "eh_proj.", "shared_head_norm.")
    head = {n.replace("shared_head.norm", "shared_head_norm"): array for n, array in head.items()}
    split = {n if n.startswith(beside) else f"mtp_block.{n}": array for n, array in head.items()}
    for folder, arrays in ((place, trunk), (heads, split)):
        folder.mkdir()
        for file in tiny.folder.glob("*.json"):
            (folder / file.name).write_bytes(file.read_bytes())
        mx.save_safetensors(str(folder / "model.safetensors"), arrays)
    with mlx_engine.load(place, heads=heads) as engine:
        assert_as_published(engine, tiny)


@pytest.mark.parametrize("changes", [{"hc_mult": 3}, {"linear_lower_bound": None}])
def test_a_gguf(tmp_path, changes):
    """Whose head is inside."""
    given = {"index_kpool": 3, "index_topk": 9, "norm_topk_prob": False}
    tiny = tiny_glm5_next.publish(tmp_path / "m", **given, **changes)
    with mlx_engine.load(convert(tiny.folder, tmp_path / "m.gguf")) as engine:
        assert_as_published(engine, tiny)


@pytest.mark.parametrize(
    "changes",
    [
        {"hc_sinkhorn_iters": 1},
        {"index_kpool": 2, "index_topk": 4},
        {"swiglu_limit": 9.0},
        {"linear_lower_bound": -4.0},
    ],
)
def test_another_reading_is_seen(tiny, tmp_path, changes):
    """Of streams, pools, limits and decays."""
    place = tmp_path / "m"
    shutil.copytree(tiny.folder, place)
    edit_config(place, **changes)
    if "index_kpool" in changes:
        edit_tensors(place, lambda a: {n: t[:2] if "_ape" in n else t for n, t in a.items()})
    assert relative(logits(place, tiny.tokens), tiny.logits) > 1e-2


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"index_topk": 9}, "index_topk"),
        ({"index_kpool": 0}, "index_kpool"),
        ({"index_kpool_always_select_tail": False}, "index_kpool_always_select_tail"),
        ({"qk_rope_head_dim": 16}, "qk_rope_head_dim"),
        ({"hc_mult": 9}, "hc_mult"),
        ({"hc_sinkhorn_iters": 0}, "hc_sinkhorn_iters"),
        ({"layer_types": ["wind"] * 3}, "layer_types"),
        ({"linear_attn_config": {"gate_lower_bound": 5.0}}, "gate_lower_bound"),
        ({"mhc": False}, "mhc"),
    ],
)
def test_impossible_configs_are_refused_by_name(changes, named):
    with pytest.raises(mlx_engine.EngineError, match=named):
        family_for("glm5_next", tiny_glm5_next.SIZES | changes, "tiny").compute_sizes()
