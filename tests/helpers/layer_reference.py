"""Layers by the book in float64: every option of attention, latents and experts, no caches."""

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from mlx_engine.models.feed_forward_specs import ExpertsSpec, FeedForwardSpec
from mlx_engine.models.layer_specs import AttentionSpec, LatentAttentionSpec, RopeSpec

Floats = NDArray[np.float64]
Weights = Mapping[str, Floats]


def linear(w: Weights, name: str, x: Floats) -> Floats:
    return x @ w[f"{name}.weight"].T + w.get(f"{name}.bias", np.zeros(1))


def norm(x: Floats, weight: Floats, eps: float) -> Floats:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight


def softmax(x: Floats) -> Floats:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def sigmoid(x: Floats) -> Floats:
    return 1 / (1 + np.exp(-x))


def silu(x: Floats) -> Floats:
    return x * sigmoid(x)


def rotate(x: Floats, rope: RopeSpec) -> Floats:
    """[heads, T, size], row t at position t; as in a long text, if that differs."""
    made, half = x.copy(), rope.width // 2
    for t in range(x.shape[1]):
        listed = rope.long_factors or rope.factors or (1.0,) * half
        for pair in range(half):
            period = rope.base ** (2 * pair / rope.width) * listed[pair]
            cos, sin = math.cos(t / period), math.sin(t / period)
            i, j = (2 * pair, 2 * pair + 1) if rope.interleaved else (pair, half + pair)
            a, b = x[:, t, i], x[:, t, j]
            made[:, t, i] = rope.magnitude * (a * cos - b * sin)
            made[:, t, j] = rope.magnitude * (b * cos + a * sin)
    return made


def attention(spec: AttentionSpec, w: Weights, x: Floats, eps: float) -> Floats:
    """[T, H] -> [T, H]."""
    rows = len(x)
    queries, gate = linear(w, "q_proj", x), None
    if spec.gate == "element":
        both = queries.reshape(rows, spec.heads, 2, spec.key_dim)
        queries, gate = both[:, :, 0].reshape(rows, -1), both[:, :, 1]
    keys, values = linear(w, "k_proj", x), linear(w, "v_proj", x) * spec.value_scale
    if spec.qk_norm == "whole":
        queries = norm(queries, w["q_norm.weight"], eps)
        keys = norm(keys, w["k_norm.weight"], eps)
    q, k = queries.reshape(rows, spec.heads, -1), keys.reshape(rows, spec.kv_heads, -1)
    if spec.qk_norm == "head":
        q, k = norm(q, w["q_norm.weight"], eps), norm(k, w["k_norm.weight"], eps)
    q, k = q.transpose(1, 0, 2), k.transpose(1, 0, 2)
    v = values.reshape(rows, spec.kv_heads, -1).transpose(1, 0, 2)
    if spec.rope is not None:
        q, k = rotate(q, spec.rope), rotate(k, spec.rope)
    k, v = (part.repeat(spec.heads // spec.kv_heads, axis=0) for part in (k, v))
    scale = spec.key_dim**-0.5 if spec.scale is None else spec.scale
    back = np.arange(rows)[:, None] - np.arange(rows)[None]
    hidden = (back < 0) | (back >= (spec.window or rows + 1))
    scores = np.where(hidden, -np.inf, scale * q @ k.swapaxes(1, 2))
    if spec.sinks:
        column = np.broadcast_to(w["sinks"][:, None, None], (spec.heads, rows, 1))
        scores = np.concatenate([scores, column], axis=-1)
    seen = (softmax(scores)[..., :rows] @ v).transpose(1, 0, 2)
    if spec.gate == "head":
        gate = linear(w, "g_proj", x)[..., None]
    if gate is not None:
        seen = seen * sigmoid(gate)
    return linear(w, "o_proj", seen.reshape(rows, -1))


def latent(spec: LatentAttentionSpec, w: Weights, x: Floats) -> Floats:
    """[T, H] -> [T, H], keys and values unpacked."""
    rows = len(x)
    low = x
    if spec.q_rank is not None:
        low = norm(linear(w, "q_a_proj", x), w["q_a_layernorm.weight"], spec.eps)
    queries = linear(w, "q_proj" if spec.q_rank is None else "q_b_proj", low)
    q = queries.reshape(rows, spec.heads, -1).transpose(1, 0, 2)
    packed = linear(w, "kv_a_proj_with_mqa", x)
    small = norm(packed[:, : spec.kv_rank], w["kv_a_layernorm.weight"], spec.eps)
    shared = rotate(packed[None, :, spec.kv_rank :], spec.rope)
    both = linear(w, "kv_b_proj", small).reshape(rows, spec.heads, -1).transpose(1, 0, 2)
    k, v = both[..., : spec.nope], both[..., spec.nope :]
    scores = q[..., : spec.nope] @ k.swapaxes(1, 2)
    scores = scores + rotate(q[..., spec.nope :], spec.rope) @ shared.swapaxes(1, 2)
    hidden = np.arange(rows)[:, None] < np.arange(rows)[None]
    chances = softmax(np.where(hidden, -np.inf, spec.scale * scores))
    return linear(w, "o_proj", (chances @ v).transpose(1, 0, 2).reshape(rows, -1))


def gated(spec: FeedForwardSpec, gate: Floats, up: Floats) -> Floats:
    limit = spec.limit or math.inf
    if spec.activation == "oai":
        gate, up = np.minimum(gate, limit), np.clip(up, -limit, limit)
        return (up + 1) * gate * sigmoid(1.702 * gate)
    if spec.activation == "gelu_tanh":
        inner = math.sqrt(2 / math.pi) * (gate + 0.044715 * gate**3)
        return 0.5 * gate * (1 + np.tanh(inner)) * up
    return np.minimum(silu(gate), limit) * np.clip(up, -limit, limit)


def feed_forward(spec: FeedForwardSpec, w: Weights, x: Floats) -> Floats:
    inner = gated(spec, linear(w, "gate_proj", x), linear(w, "up_proj", x))
    return linear(w, "down_proj", inner)


def experts(spec: ExpertsSpec, w: Weights, x: Floats) -> Floats:
    """[T, H] -> [T, H], row by row, expert by expert."""
    product = linear(w, "gate", x)
    scores = softmax(product) if spec.score == "softmax" else sigmoid(product)
    liked = scores + w.get("gate.e_score_correction_bias", np.zeros(1))
    made = np.zeros_like(x)
    for row in range(len(x)):
        groups = liked[row].reshape(spec.groups, -1)
        best = np.sort(groups, axis=-1)[:, -spec.best_of_group :].sum(-1)
        kept = np.argsort(best)[-spec.kept_groups :]
        allowed = np.full(groups.shape, -np.inf)
        allowed[kept] = groups[kept]
        chosen = np.argsort(allowed.reshape(-1))[-spec.per_token :]
        weights = scores[row, chosen]
        if spec.normalise:
            weights = weights / max(weights.sum(), spec.least_sum)
        for expert, weight in zip(chosen, spec.scale * weights, strict=True):
            its = {n: a[expert] for n, a in subpart(w, "switch_mlp.").items()}
            made[row] += weight * feed_forward(spec.feed, its, x[row])
    if spec.shared is not None:
        shared = feed_forward(spec.shared, subpart(w, "shared_expert."), x)
        made += sigmoid(linear(w, "shared_expert_gate", x)) * shared if spec.shared_gate else shared
    return made


def subpart(w: Weights, prefix: str) -> dict[str, Floats]:
    return {n.removeprefix(prefix): a for n, a in w.items() if n.startswith(prefix)}
