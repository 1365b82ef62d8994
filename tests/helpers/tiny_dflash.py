"""Tiny DFlash checkpoints in z-lab's layout, and what they say in plain PyTorch.

The reference reads everything anew for every block and loops over rows and heads; it shares no code
with the engine.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import save_file

HEADS, KV_HEADS, SIZE, INNER, EPS, BASE, BLOCK, MASK = 4, 2, 16, 80, 1e-6, 10000.0, 6, 299


@dataclass(frozen=True)
class TinyDFlash:
    """layers: outputs of the target that are joined; window: of the second layer, None for none."""

    target_hidden: int
    vocabulary: int
    layers: tuple[int, ...] = (0, 2)
    window: int | None = None
    cap: float | None = None
    seed: int = 4


def tensors_of(tiny: TinyDFlash) -> dict[str, torch.Tensor]:
    """By their published names."""
    draw = torch.Generator().manual_seed(tiny.seed)
    wide = tiny.target_hidden

    def matrix(rows, columns):
        return torch.randn(rows, columns, generator=draw) * columns**-0.5

    def norm(size, around=1.0):
        return around * (1 + 0.2 * torch.randn(size, generator=draw))

    made = {
        "fc.weight": matrix(wide, len(tiny.layers) * wide),
        "hidden_norm.weight": norm(wide),
        "norm.weight": norm(wide),
    }
    for n in range(2):
        layer, inner = f"layers.{n}", f"layers.{n}.self_attn"
        made |= {
            f"{layer}.input_layernorm.weight": norm(wide),
            f"{layer}.post_attention_layernorm.weight": norm(wide),
            f"{inner}.q_proj.weight": matrix(HEADS * SIZE, wide),
            f"{inner}.k_proj.weight": matrix(KV_HEADS * SIZE, wide),
            f"{inner}.v_proj.weight": matrix(KV_HEADS * SIZE, wide),
            f"{inner}.o_proj.weight": matrix(wide, HEADS * SIZE),
            f"{inner}.q_norm.weight": norm(SIZE),
            f"{inner}.k_norm.weight": norm(SIZE),
            f"{layer}.mlp.gate_proj.weight": matrix(INNER, wide),
            f"{layer}.mlp.up_proj.weight": matrix(INNER, wide),
            f"{layer}.mlp.down_proj.weight": matrix(wide, INNER),
        }
    return made


def write_tiny_dflash(folder: Path, tiny: TinyDFlash, **changes: torch.Tensor | None) -> Path:
    """The folder; changes: tensors by name, None takes one out."""
    made = {
        name: value for name, value in (tensors_of(tiny) | changes).items() if value is not None
    }
    own: dict[str, object] = {"target_layer_ids": list(tiny.layers), "mask_token_id": MASK}
    config: dict[str, object] = {
        "architectures": ["DFlashDraftModel"],
        "model_type": "qwen3",
        "block_size": BLOCK,
        "hidden_size": tiny.target_hidden,
        "intermediate_size": INNER,
        "num_hidden_layers": 2,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": SIZE,
        "rms_norm_eps": EPS,
        "vocab_size": tiny.vocabulary,
        "max_position_embeddings": 512,
        "rope_theta": BASE,
        "dflash_config": own,
    }
    if tiny.window:
        config["layer_types"] = ["full_attention", "sliding_attention"]
        config["sliding_window"] = tiny.window
    if tiny.cap:
        own["final_logit_softcapping"] = tiny.cap
        own["output_multiplier"] = 0.5
    folder.mkdir(parents=True, exist_ok=True)
    save_file({name: value.contiguous() for name, value in made.items()},
              folder / "model.safetensors")  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def reference(
    tiny: TinyDFlash,
    residuals: list[torch.Tensor],
    newest: int,
    embedding: torch.Tensor,
    output: torch.Tensor,
) -> torch.Tensor:
    """Logits [BLOCK - 1, V] after residuals [T, H] of the joined layers and the newest token."""
    w = {name: value.double() for name, value in tensors_of(tiny).items()}
    joined = torch.cat([r.double() for r in residuals], dim=-1) @ w["fc.weight"].T
    context = _norm(joined, w["hidden_norm.weight"])
    x = embedding.double()[[newest] + [MASK] * (BLOCK - 1)]
    for n in range(2):
        window = tiny.window if n == 1 else None
        x = _layer(w, f"layers.{n}", x, context, window)
    logits = _norm(x, w["norm.weight"])[1:] @ output.double().T
    if tiny.cap:
        logits = torch.tanh(0.5 * logits / tiny.cap) * tiny.cap
    return logits


def _layer(w, name, x, context, window):
    normed = _norm(x, w[f"{name}.input_layernorm.weight"])
    x = x + _attended(w, f"{name}.self_attn", normed, context, window)
    inner = _norm(x, w[f"{name}.post_attention_layernorm.weight"])
    gate = torch.nn.functional.silu(inner @ w[f"{name}.mlp.gate_proj.weight"].T)
    return (
        x
        + (gate * (inner @ w[f"{name}.mlp.up_proj.weight"].T)) @ w[f"{name}.mlp.down_proj.weight"].T
    )


def _attended(w, name, x, context, window):
    length, everything = context.shape[0], torch.cat([context, x])
    places = torch.arange(everything.shape[0])
    q = (x @ w[f"{name}.q_proj.weight"].T).view(-1, HEADS, SIZE)
    k = (everything @ w[f"{name}.k_proj.weight"].T).view(-1, KV_HEADS, SIZE)
    v = (everything @ w[f"{name}.v_proj.weight"].T).view(-1, KV_HEADS, SIZE)
    q = _turned(_norm(q, w[f"{name}.q_norm.weight"]), places[length:])
    k = _turned(_norm(k, w[f"{name}.k_norm.weight"]), places)
    rows = []
    for t in range(x.shape[0]):
        seen = places >= 0  # a whole block sees itself; windows only look back
        if window is not None:
            seen = (places <= length + t) & (places > length + t - window)
        heads = []
        for h in range(HEADS):
            group = h * KV_HEADS // HEADS
            scores = k[seen, group] @ q[t, h] * SIZE**-0.5
            heads.append(torch.softmax(scores, dim=0) @ v[seen, group])
        rows.append(torch.cat(heads))
    return torch.stack(rows) @ w[f"{name}.o_proj.weight"].T


def _norm(x, weight):
    return x * (x.square().mean(-1, keepdim=True) + EPS).rsqrt() * weight


def _turned(x, places):
    half = SIZE // 2
    angle = places.double()[:, None] * BASE ** (-torch.arange(half, dtype=torch.float64) / half)
    turned = torch.complex(x[..., :half], x[..., half:]) * torch.exp(1j * angle)[:, None]
    return torch.cat([turned.real, turned.imag], dim=-1)
