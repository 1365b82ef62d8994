"""Every option of every layer against float64, whole texts and cut ones, rows bit for bit."""

from dataclasses import replace

import layer_reference as reference
import mlx.core as mx
import numpy as np
import pytest
from compared import relative
from kernel_models import every_kernel
from metal_emulator import EmulatorLauncher

from metal_kernels import stock
from metal_kernels.choice import NO_KERNELS, Kernels
from mlx_engine.models import latent_attention
from mlx_engine.models.attention import Masks
from mlx_engine.models.blocks import DecoderBlock, Mixer, build_mixer
from mlx_engine.models.experts import ExpertFeedForward
from mlx_engine.models.feed_forward_specs import ExpertsSpec, FeedForwardSpec
from mlx_engine.models.layer_specs import AttentionSpec, LatentAttentionSpec, RopeSpec, Shapes
from mlx_engine.models.layers import GatedFeedForward
from mlx_engine.models.model_spec import BlockSpec, ModelSpec
from mlx_engine.models.weights import Part, WeightTable

HIDDEN, ROWS, EPS = 64, 45, 1e-5
ROPE = RopeSpec(32, 10000.0)
PLAIN = AttentionSpec(heads=4, kv_heads=2, key_dim=32, value_dim=32, rope=ROPE)
FEED = FeedForwardSpec(48)
MANY = ExpertsSpec(8, 3, FEED, score="sigmoid", choice_bias=True, groups=4, kept_groups=2)

ATTENTIONS = {
    "plain": PLAIN,
    "nothing rotated": replace(PLAIN, rope=None),
    "biases": replace(PLAIN, qkv_bias=True, out_bias=True),
    "norms by head": replace(PLAIN, qk_norm="head"),
    "norms of all heads": replace(PLAIN, qk_norm="whole"),
    "gate by element": replace(PLAIN, gate="element", qk_norm="head"),
    "gate by element, with bias": replace(PLAIN, gate="element", qkv_bias=True),
    "gate by head": replace(PLAIN, gate="head"),
    "sinks": replace(PLAIN, sinks=True),
    "window": replace(PLAIN, window=7),
    "window and sinks": replace(PLAIN, window=7, sinks=True),
    "scales": replace(PLAIN, scale=0.3, value_scale=0.7),
    "other values": replace(PLAIN, value_dim=16, heads=6),
    "part rotated": replace(PLAIN, rope=RopeSpec(16, 500.0)),
    "pairs side by side": replace(PLAIN, rope=RopeSpec(16, 500.0, interleaved=True)),
    "stretched": replace(
        PLAIN, rope=RopeSpec(8, 100.0, (1.0, 1.5, 3.0, 4.0), magnitude=1.3, interleaved=True)
    ),
    "stretched, whole": replace(PLAIN, rope=RopeSpec(32, 100.0, (2.0,) * 16, magnitude=1.3)),
    "stretched in long texts": replace(
        PLAIN, rope=RopeSpec(4, 10.0, (1.0, 1.5), long_factors=(3.0, 4.0), long_rope_after=20)
    ),
}
LATENT = LatentAttentionSpec(
    heads=4,
    q_rank=24,
    kv_rank=32,
    nope=16,
    value_dim=24,
    rope=RopeSpec(8, 100.0, interleaved=True),
    scale=0.2,
    eps=1e-6,
)
LATENTS = {
    "plain": LATENT,
    "queries at once": replace(LATENT, q_rank=None),
    "biases": replace(LATENT, bias=True),
    "stretched": replace(
        LATENT, rope=RopeSpec(8, 100.0, (1.0, 2.0, 3.0, 4.0), magnitude=0.9, interleaved=True)
    ),
}
FEEDS = {
    "silu": FEED,
    "gelu": FeedForwardSpec(48, "gelu_tanh"),
    "biases": FeedForwardSpec(48, bias=True),
    "limit": FeedForwardSpec(48, limit=0.4),
    "oai": FeedForwardSpec(48, "oai", limit=0.7, bias=True),
}
EXPERTS = {
    "softmax": ExpertsSpec(6, 2, FEED),
    "softmax as it is": ExpertsSpec(6, 2, FEED, normalise=False),
    "router with bias, oai": ExpertsSpec(6, 2, FEEDS["oai"], router_bias=True),
    "shared": ExpertsSpec(6, 2, FEED, shared=FeedForwardSpec(32)),
    "shared behind a gate": ExpertsSpec(6, 2, FEED, shared=FeedForwardSpec(32), shared_gate=True),
    "choice bias": ExpertsSpec(8, 3, FEED, score="sigmoid", choice_bias=True, scale=2.5),
    "groups": MANY,
    "groups, float32": replace(MANY, float32_router=True, shared=FeedForwardSpec(32, limit=0.3)),
    "groups by their best": replace(MANY, best_of_group=1),
    "least sum": ExpertsSpec(8, 3, FEED, choice_bias=True, least_sum=0.9),
    "limit": ExpertsSpec(6, 2, FeedForwardSpec(48, limit=0.2), score="sigmoid"),
}


def drawn(shapes: Shapes, seed: int = 0) -> dict[str, np.ndarray]:
    """Matrices keep the size of what goes through them; a choice bias outweighs the scores."""
    draw = np.random.default_rng(seed)
    made = {}
    for name, shape in shapes.items():
        value = draw.normal(size=shape)
        if name.endswith("norm.weight"):
            value = 1 + 0.3 * value
        elif len(shape) > 1 and not name.endswith("bias"):
            value = value * shape[-1] ** -0.5
        elif name.endswith("correction_bias"):
            value = 0.3 * value - 0.8  # corrected scores below zero, where groups are left out
        made[name] = value.astype(np.float32)
    return made


def part_of(values: dict[str, np.ndarray], shapes: Shapes, kernels: Kernels = NO_KERNELS) -> Part:
    arrays = {name: mx.array(value) for name, value in values.items()}
    return Part(WeightTable(arrays, "tiny", kernels=kernels), "", shapes)


def wide(values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: value.astype(np.float64) for name, value in values.items()}


def hidden_states(seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(ROWS, HIDDEN)).astype(np.float32)


def run(mixer: Mixer, x: np.ndarray, cuts: list[int]) -> np.ndarray:
    """Blocks of these lengths, the last for what is left."""
    cache, made, start = mixer.make_cache(), [], 0
    for rows in [*cuts, len(x) - sum(cuts)]:
        block = mx.array(x[None, start : start + rows])
        made.append(
            np.array(mixer.out_proj.linear(mixer.mix_tokens(block, cache, Masks(is_long=True))))[0]
        )
        cache.commit(rows)
        start += rows
    return np.concatenate(made)


@pytest.mark.parametrize("name", ATTENTIONS)
def test_attention(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    spec, x = ATTENTIONS[name], hidden_states()
    shapes = spec.tensors(HIDDEN)
    values = drawn(shapes)
    mixer = build_mixer(spec, mixer_part(spec, values), EPS)
    wanted = reference.attention(spec, wide(values), x.astype(np.float64), EPS)
    whole = run(mixer, x, [])
    assert relative(whole, wanted) < 1e-5
    cut = run(mixer, x, [11, 1, 9, 1, 1, 5])
    assert relative(cut, wanted) < 1e-5
    alone = run(mixer, x, [11] + [1] * (ROWS - 12))
    together = run(mixer, x, [11] + [9] * 3)
    assert np.array_equal(alone, together)
    monkeypatch.setattr(stock, "SCORES_BYTES", 1)
    assert relative(run(mixer, x, [5]), wanted) < 1e-5  # 40 rows, 32 and 8 at a time


def mixer_part(
    spec: AttentionSpec | LatentAttentionSpec,
    values: dict[str, np.ndarray],
    kernels: Kernels = NO_KERNELS,
):
    """The part of a block that holds this mixer."""
    shapes = {f"{spec.prefix}.{name}": value.shape for name, value in values.items()}
    named = {f"{spec.prefix}.{name}": value for name, value in values.items()}
    return part_of(named, shapes, kernels)


@pytest.mark.parametrize("form", ["whole", "halves", "packed", "packed halves"])
@pytest.mark.parametrize("name", LATENTS)
def test_latent_attention(name: str, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    spec, x = LATENTS[name], hidden_states()
    if form == "packed halves":
        spec = replace(spec, nope=32)
    values = drawn(spec.tensors(HIDDEN))
    mixer, values = latent_in_form(spec, values, form)
    wanted = reference.latent(spec, wide(values), x.astype(np.float64))
    for absorbed in (latent_attention.ABSORBED_ROWS, 3):
        monkeypatch.setattr(latent_attention, "ABSORBED_ROWS", absorbed)
        assert relative(run(mixer, x, []), wanted) < 1e-5
        assert relative(run(mixer, x, [11, 1, 9, 1, 1, 5]), wanted) < 1e-5
    monkeypatch.setattr(stock, "SCORES_BYTES", 1)
    assert relative(run(mixer, x, [5]), wanted) < 1e-5  # 40 rows, 32 and 8 at a time
    monkeypatch.undo()
    alone = run(mixer, x, [11] + [1] * (ROWS - 12))
    assert np.array_equal(alone, run(mixer, x, [11] + [9] * 3))


def latent_in_form(
    spec: LatentAttentionSpec, values: dict[str, np.ndarray], form: str
) -> tuple[Mixer, dict[str, np.ndarray]]:
    """The layer from the matrix that unpacks latents in one form, and the values it then has."""
    halves = "halves" in form
    stored = {name: mx.array(value) for name, value in values.items()}
    whole = values["kv_b_proj.weight"].reshape(spec.heads, -1, spec.kv_rank)
    if halves:
        del stored["kv_b_proj.weight"]
        stored["embed_q.weight"] = mx.array(
            np.ascontiguousarray(whole[:, : spec.nope].swapaxes(1, 2))
        )
        stored["unembed_out.weight"] = mx.array(np.ascontiguousarray(whole[:, spec.nope :]))
    if form.startswith("packed"):
        for name in [n for n in ("embed_q", "unembed_out", "kv_b_proj") if f"{n}.weight" in stored]:
            parts = mx.quantize(stored[f"{name}.weight"], 32, 8)
            ends = ("weight", "scales", "biases")
            stored |= {f"{name}.{end}": part for end, part in zip(ends, parts, strict=True)}
            back = np.array(mx.dequantize(*parts, group_size=32, bits=8))
            if name == "embed_q":
                whole = np.concatenate([back.swapaxes(1, 2), whole[:, spec.nope :]], axis=1)
            elif name == "unembed_out":
                whole = np.concatenate([whole[:, : spec.nope], back], axis=1)
            else:
                whole = back
    shapes = spec.tensors(HIDDEN, has_split_kv_b=halves)
    table = WeightTable({f"self_attn.{n}": a for n, a in stored.items()}, "tiny")
    part = Part(table, "", {f"self_attn.{n}": shape for n, shape in shapes.items()})
    values = values | {"kv_b_proj.weight": whole.reshape(-1, spec.kv_rank)}
    return build_mixer(spec, part, EPS), values


@pytest.mark.parametrize("name", FEEDS)
def test_feed_forward(name: str) -> None:
    spec, x = FEEDS[name], hidden_states()
    shapes = spec.tensors(HIDDEN)
    values = drawn(shapes)
    layer = GatedFeedForward.read(part_of(values, shapes), spec)
    wanted = reference.feed_forward(spec, wide(values), x.astype(np.float64))
    assert relative(np.array(layer(mx.array(x[None])))[0], wanted) < 1e-5


@pytest.mark.parametrize("name", EXPERTS)
def test_experts(name: str) -> None:
    """Seventy rows, which go expert by expert, and single ones, which do not."""
    spec, x = EXPERTS[name], np.concatenate([hidden_states(), hidden_states(2)])
    shapes = spec.tensors(HIDDEN)
    values = drawn(shapes)
    layer = ExpertFeedForward.read(part_of(values, shapes), spec)
    wanted = reference.experts(spec, wide(values), x.astype(np.float64))
    together = np.array(layer(mx.array(x[None])))[0]
    assert relative(together, wanted) < 1e-5
    for row in (0, 7, 44):
        alone = np.array(layer(mx.array(x[None, row : row + 1])))[0, 0]
        assert np.array_equal(alone, together[row])


@pytest.mark.parametrize("scale", [1.0, 0.3])
@pytest.mark.parametrize("norms", ["before", "after", "both"])
def test_block(norms: str, scale: float) -> None:
    block = BlockSpec(PLAIN, FEED, norms=norms, residual_scale=scale)
    shapes, x = block.tensors(HIDDEN), hidden_states()
    values = drawn(shapes)
    model = ModelSpec(HIDDEN, 10, 100, EPS, (block,))
    layer = DecoderBlock(block, part_of(values, shapes), model)
    found = np.array(layer(mx.array(x[None]), iter(layer.make_caches()), Masks()))[0]
    w, residual = wide(values), x.astype(np.float64)

    def normed(name: str, y: np.ndarray) -> np.ndarray:
        weight = w.get(f"{name}.weight")
        return y if weight is None else reference.norm(y, weight, EPS)

    read = normed("input_layernorm", residual)
    mixed = reference.attention(PLAIN, reference.subpart(w, "self_attn."), read, EPS)
    residual = residual + scale * normed("mixer_out_norm", mixed)
    read = normed("post_attention_layernorm", residual)
    fed = reference.feed_forward(FEED, reference.subpart(w, "mlp."), read)
    assert relative(found, residual + scale * normed("feed_out_norm", fed)) < 1e-5


KERNEL_SIZED = replace(PLAIN, key_dim=64, value_dim=64, rope=RopeSpec(64, 10000.0))


@pytest.mark.parametrize("name", ["plain", "sinks", "window", "window and sinks", "biases"])
def test_attention_on_the_kernels(name: str) -> None:
    """The kernels for few rows read windows and sinks as stock MLX does; rows are exact."""
    options = ATTENTIONS[name]
    spec = replace(
        KERNEL_SIZED,
        sinks=options.sinks,
        window=options.window,
        qkv_bias=options.qkv_bias,
        out_bias=options.out_bias,
    )
    values, x = drawn(spec.tensors(HIDDEN)), hidden_states()[:24]
    launcher = EmulatorLauncher(check=False)
    part = mixer_part(spec, values, every_kernel(launcher))
    mixer = build_mixer(spec, part, EPS)
    wanted = reference.attention(spec, wide(values), x.astype(np.float64), EPS)
    alone, together = run(mixer, x, [11, 1, 1, 1, 1]), run(mixer, x, [11, 4])
    assert relative(together, wanted) < 1e-4
    assert np.array_equal(alone, together)
    kernels = {report.kernel for report in launcher.reports}
    assert any(kernel.startswith("attention_parts") for kernel in kernels)
