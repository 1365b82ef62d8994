"""Tiny EAGLE-3 checkpoints in their published layouts, and what they say in plain PyTorch.

The reference follows arXiv 2503.01840 and the layout of SafeAILab's files; it shares no code with
the engine. Attention is written out, positions are rotated by complex numbers.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import save_file

HEADS, KV_HEADS, INNER, EPS, BASE = 4, 2, 80, 1e-5, 10000.0


@dataclass(frozen=True)
class TinyEagle:
    """layers: outputs of the target that are joined; None: left to the default.

    normed: as in EAGLE-3.1, the joined residuals. own_output: an output head in the file.
    """

    target_hidden: int
    vocabulary: int
    hidden: int | None = None
    draft_vocabulary: int | None = 120
    layers: tuple[int, ...] | None = (0, 1, 2)
    form: str = "specforge"
    own_embedding: bool = False
    own_output: bool = True
    normed: bool = False
    seed: int = 3
    size: int = 16

    @property
    def width(self) -> int:
        return self.hidden or self.target_hidden

    @property
    def rows(self) -> int:
        return self.draft_vocabulary or self.vocabulary


def tensors_of(tiny: TinyEagle) -> dict[str, torch.Tensor]:
    """By the names of the newer form, without a prefix."""
    draw = torch.Generator().manual_seed(tiny.seed)

    def matrix(rows, columns, sharpness=1.0):
        return sharpness * torch.randn(rows, columns, generator=draw) * columns**-0.5

    def norm(size):
        return 1 + 0.2 * torch.randn(size, generator=draw)

    wide, layer = tiny.width, "layers.0"
    made = {
        "fc.weight": matrix(wide, 3 * tiny.target_hidden),
        f"{layer}.hidden_norm.weight": norm(wide),
        f"{layer}.input_layernorm.weight": norm(wide),
        f"{layer}.post_attention_layernorm.weight": norm(wide),
        f"{layer}.self_attn.q_proj.weight": matrix(HEADS * tiny.size, 2 * wide),
        f"{layer}.self_attn.k_proj.weight": matrix(KV_HEADS * tiny.size, 2 * wide),
        f"{layer}.self_attn.v_proj.weight": matrix(KV_HEADS * tiny.size, 2 * wide),
        f"{layer}.self_attn.o_proj.weight": matrix(wide, HEADS * tiny.size),
        f"{layer}.mlp.gate_proj.weight": matrix(INNER, wide),
        f"{layer}.mlp.up_proj.weight": matrix(INNER, wide),
        f"{layer}.mlp.down_proj.weight": matrix(wide, INNER),
        "norm.weight": norm(wide),
    }
    if tiny.own_output:
        made["lm_head.weight"] = matrix(tiny.rows, wide, sharpness=2.0)
    if tiny.normed:
        made["input_norm.weight"] = norm(3 * tiny.target_hidden)
    if tiny.own_embedding:
        made["embed_tokens.weight"] = torch.randn(tiny.vocabulary, wide, generator=draw)
    if tiny.draft_vocabulary:
        known = torch.randperm(tiny.vocabulary, generator=draw)[: tiny.rows].sort().values
        made["d2t"] = known - torch.arange(tiny.rows)
        made["t2d"] = torch.zeros(tiny.vocabulary, dtype=torch.bool)
        made["t2d"][known] = True
    return made


def config_of(tiny: TinyEagle) -> dict[str, object]:
    """config.json in one of the published forms."""
    layer = {
        "model_type": "llama",
        "hidden_size": tiny.width,
        "intermediate_size": INNER,
        "num_hidden_layers": 1,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": tiny.size,
        "rms_norm_eps": EPS,
        "vocab_size": tiny.vocabulary,
        "max_position_embeddings": 512,
        "rope_theta": BASE,
    }
    more: dict[str, object] = {"norm_before_fc": True} if tiny.normed else {}
    if tiny.draft_vocabulary:
        more["draft_vocab_size"] = tiny.rows
    if tiny.hidden:
        more["target_hidden_size"] = tiny.target_hidden
    ids = "eagle_aux_hidden_state_layer_ids"
    if tiny.form == "speculators":
        if tiny.layers:
            more[ids] = [layer_ + 1 for layer_ in tiny.layers]
        return {
            "architectures": ["Eagle3Speculator"],
            "speculators_model_type": "eagle3",
            "transformer_layer_config": layer,
            **more,
        }
    if tiny.layers:
        more["eagle_config"] = {ids: list(tiny.layers), "use_aux_hidden_state": True}
    return {"architectures": ["LlamaForCausalLMEagle3"], **layer, **more}


def write_tiny_eagle(folder: Path, tiny: TinyEagle, **changes: torch.Tensor | None) -> Path:
    """The folder; changes: tensors by the newer names, None takes one out."""
    made = {
        name: value for name, value in (tensors_of(tiny) | changes).items() if value is not None
    }
    if tiny.form == "specforge":
        made = {name.replace("layers.0.", "midlayer."): value for name, value in made.items()}
    folder.mkdir(parents=True, exist_ok=True)
    save_file({name: value.contiguous() for name, value in made.items()},
              folder / "model.safetensors")  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config_of(tiny)))
    return folder


class Reference:
    """The model with everything read anew at every step, [T] tokens at a time."""

    def __init__(
        self, tiny: TinyEagle, target_embedding: torch.Tensor, target_output: torch.Tensor
    ) -> None:
        self._tiny = tiny
        self._w = {name: value.double() for name, value in tensors_of(tiny).items()
                   if value.is_floating_point()}  # fmt: skip
        self._embedding = self._w.get("embed_tokens.weight", target_embedding.double())
        self._output = self._w.get("lm_head.weight", target_output.double())
        self._d2t = tensors_of(tiny).get("d2t")

    def joined(self, residuals: list[torch.Tensor]) -> torch.Tensor:
        """Residuals [T, H] of the three layers -> states [T, width]."""
        joined = torch.cat([r.double() for r in residuals], dim=-1)
        if self._tiny.normed:
            joined = _norm(joined, self._w["input_norm.weight"])
        return joined @ self._w["fc.weight"].T

    def states(self, tokens: list[int], before: torch.Tensor) -> torch.Tensor:
        """Tokens [T] and the states before them [T, width] -> states after the layer."""
        w, name = self._w, "layers.0"
        normed = _norm(before, w[f"{name}.hidden_norm.weight"])
        residual = normed if self._tiny.form == "speculators" else before
        embedded = _norm(self._embedding[tokens], w[f"{name}.input_layernorm.weight"])
        both = torch.cat([embedded, normed], dim=-1)
        x = residual + self._attended(both)
        inner = _norm(x, w[f"{name}.post_attention_layernorm.weight"])
        gate = torch.nn.functional.silu(inner @ w[f"{name}.mlp.gate_proj.weight"].T)
        up = inner @ w[f"{name}.mlp.up_proj.weight"].T
        return x + (gate * up) @ w[f"{name}.mlp.down_proj.weight"].T

    def logits(self, states: torch.Tensor) -> torch.Tensor:
        """[T, width] -> [T, V] of the target's vocabulary."""
        few = _norm(states, self._w["norm.weight"]) @ self._output.T
        if self._d2t is None:
            return few
        all_ = torch.full((few.shape[0], self._tiny.vocabulary), -torch.inf, dtype=few.dtype)
        for row, offset in enumerate(self._d2t.tolist()):
            all_[:, row + offset] = few[:, row]
        return all_

    def _attended(self, both: torch.Tensor) -> torch.Tensor:
        count, name, size = both.shape[0], "layers.0.self_attn", self._tiny.size
        q = _turned((both @ self._w[f"{name}.q_proj.weight"].T).view(count, HEADS, size))
        k = _turned((both @ self._w[f"{name}.k_proj.weight"].T).view(count, KV_HEADS, size))
        v = (both @ self._w[f"{name}.v_proj.weight"].T).view(count, KV_HEADS, size)
        rows = []
        for t in range(count):
            heads = []
            for h in range(HEADS):
                group = h * KV_HEADS // HEADS
                scores = k[: t + 1, group] @ q[t, h] * size**-0.5
                heads.append(torch.softmax(scores, dim=0) @ v[: t + 1, group])
            rows.append(torch.cat(heads))
        return torch.stack(rows) @ self._w[f"{name}.o_proj.weight"].T


def _norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return x * (x.square().mean(-1, keepdim=True) + EPS).rsqrt() * weight


def _turned(x: torch.Tensor) -> torch.Tensor:
    """[T, heads, size] turned by position, halves apart."""
    half = x.shape[-1] // 2
    speed = BASE ** (-torch.arange(half, dtype=torch.float64) / half)
    angle = torch.arange(x.shape[0], dtype=torch.float64)[:, None, None] * speed
    turned = torch.complex(x[..., :half], x[..., half:]) * torch.polar(
        torch.ones_like(angle), angle
    )
    return torch.cat([turned.real, turned.imag], dim=-1)
