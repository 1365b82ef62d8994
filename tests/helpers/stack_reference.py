"""MiMo-7B, MiMo-V2-Flash and Step-3.5-Flash in plain PyTorch, from the published equations.

Sources: modeling_mimo.py and modeling_step3p5.py of the published repositories, sglang's and vLLM's
mimo_v2_flash, llama.cpp's graphs of mimo2 and step35 and its driver of chained heads (#24340).
Everything in float64, the whole text at once, no caches.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from tiny_stacks import HEADS, JOINS, config_of, head_prefix

Tensor = torch.Tensor


class StackReference:
    """One model. faults: rules to break, for tests that must then fail.

    trunk: the hidden state on the other side of the final norm; chain: a head's own state likewise;
    order: halves of the join swapped; norm: 1 added to heads' norms, or not.
    """

    def __init__(
        self, kind: str, values: Mapping[str, NDArray[np.float32]], faults: Sequence[str] = ()
    ) -> None:
        self.kind, self.faults = kind, set(faults)
        self.config = config_of(kind)
        self.weights = {name: torch.from_numpy(value).double() for name, value in values.items()}
        self.eps = 1e-5
        self.layers = int(str(self.config["num_hidden_layers"]))

    def logits(self, tokens: Sequence[int]) -> NDArray[np.float64]:
        """[T, V]."""
        normed = self._norm(self._residual(tokens), "model.norm")
        return (normed @ self.weights["lm_head.weight"].T).numpy()

    def draft_logits(self, tokens: Sequence[int], first: int = 0) -> NDArray[np.float64]:
        """[heads, T - 1, V] as Engine.draft_logits has them; rows before `first` are NaN."""
        hidden = self._residual(tokens)
        if (self.kind == "mimo") != ("trunk" in self.faults):
            hidden = self._norm(hidden, "model.norm")
        rows = len(tokens) - 1
        made = np.full((HEADS[self.kind], rows, 300), np.nan)
        for row in range(first, rows):
            states: list[Tensor] = []
            for head in range(min(HEADS[self.kind], rows - row)):
                read = tokens[1 : row + 2 + head]
                before = torch.cat([hidden[: row + 1], *(state[None] for state in states)])
                raw = self._head(head, read, before)[-1]
                made[head, row] = self._head_logits(head, raw).numpy()
                carried = self._carried(head, raw)
                states.append(carried)
        return made

    def second_logits(self, tokens: Sequence[int], drafted: int) -> NDArray[np.float64]:
        """[V]: what a single head makes of a token it drafted behind `tokens`."""
        hidden = self._norm(self._residual(tokens), "model.norm")[:-1]
        state = self._carried(0, self._head(0, tokens[1:], hidden)[-1])
        raw = self._head(0, [*tokens[1:], drafted], torch.cat([hidden, state[None]]))[-1]
        return self._head_logits(0, raw).numpy()

    def _residual(self, tokens: Sequence[int]) -> Tensor:
        x = self.weights["model.embed_tokens.weight"][list(tokens)]
        for layer in range(self.layers):
            x = self._layer(f"model.layers.{layer}.", layer, x)
        return x

    def _head(self, number: int, tokens: Sequence[int], hidden: Tensor) -> Tensor:
        prefix = head_prefix(self.kind, number)
        embedding, before, join, _ = JOINS[self.kind]
        e = self._norm(self.weights["model.embed_tokens.weight"][list(tokens)], prefix + embedding)
        h = self._norm(hidden, prefix + before)
        hidden_first = (self.kind == "mimo") != ("order" in self.faults)
        both = torch.cat([h, e] if hidden_first else [e, h], dim=-1)
        x = both @ self.weights[f"{prefix}{join}.weight"].T
        return self._layer(prefix, self.layers + number, x)

    def _carried(self, number: int, raw: Tensor) -> Tensor:
        normed = (self.kind == "mimo") != ("chain" in self.faults)
        return self._last_norm(number, raw) if normed else raw

    def _last_norm(self, number: int, raw: Tensor) -> Tensor:
        return self._norm(raw, head_prefix(self.kind, number) + JOINS[self.kind][3])

    def _head_logits(self, number: int, raw: Tensor) -> Tensor:
        own = head_prefix(self.kind, number) + "transformer.shared_head.output.weight"
        output = self.weights.get(own, self.weights["lm_head.weight"])
        return output @ self._last_norm(number, raw)

    def _norm(self, x: Tensor, name: str) -> Tensor:
        weight = self.weights[f"{name}.weight"]
        is_head = any(name.startswith(head_prefix(self.kind, n)) for n in range(HEADS[self.kind]))
        if (self.kind == "step3p5") != (is_head and "norm" in self.faults):
            weight = weight + 1
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * weight

    def _layer(self, prefix: str, layer: int, x: Tensor) -> Tensor:
        x = x + self._attend(prefix, layer, self._norm(x, f"{prefix}input_layernorm"))
        second = f"{prefix}post_attention_layernorm"
        if f"{second}.weight" not in self.weights:
            second = f"{prefix}pre_mlp_layernorm"
        return x + self._feed_forward(prefix, layer, self._norm(x, second))

    def _project(self, prefix: str, kind: str, x: Tensor, size: int) -> Tensor:
        """[T, H] -> [heads, T, size]."""
        name = f"{prefix}self_attn.{kind}_proj"
        made = x @ self.weights[f"{name}.weight"].T + self.weights.get(f"{name}.bias", 0)
        return made.reshape(len(x), -1, size).transpose(0, 1)

    def _attend(self, prefix: str, layer: int, x: Tensor) -> Tensor:
        size, value, rotated, base, window = self._geometry(layer)
        q, k = (self._project(prefix, kind, x, size) for kind in "qk")
        v = self._project(prefix, "v", x, value)
        if self.kind == "step3p5":
            q = self._norm(q, f"{prefix}self_attn.q_norm")
            k = self._norm(k, f"{prefix}self_attn.k_norm")
        periods = self.periods(layer, rotated, base)
        q, k = _rotate(q, periods), _rotate(k, periods)
        k, v = (part.repeat_interleave(len(q) // len(part), dim=0) for part in (k, v))
        if self.kind == "mimo_v2_flash":
            v = v * float(str(self.config["attention_value_scale"]))
        scores = q @ k.transpose(1, 2) / math.sqrt(size)
        places = torch.arange(len(x))
        back = places[:, None] - places[None]
        scores = scores.masked_fill((back < 0) | (back >= window), -math.inf)
        sinks = self.weights.get(f"{prefix}self_attn.attention_sink_bias")
        if sinks is not None:
            scores = torch.cat([scores, sinks[:, None, None].expand(-1, len(x), 1)], dim=-1)
        chances = torch.softmax(scores, dim=-1)[..., : len(x)]
        attended = (chances @ v).transpose(0, 1)
        if self.kind == "step3p5":
            gate = x @ self.weights[f"{prefix}self_attn.g_proj.weight"].T
            attended = attended * torch.sigmoid(gate)[..., None]
        return attended.reshape(len(x), -1) @ self.weights[f"{prefix}self_attn.o_proj.weight"].T

    def _geometry(self, layer: int) -> tuple[int, int, int, float, float]:
        """Sizes of a key and a value, rotated dimensions, rotation base, window."""
        if self.kind == "mimo":
            return 16, 16, 16, 640000.0, math.inf
        if self.kind == "mimo_v2_flash":
            is_full = layer in (0, 3)
            return 24, 16, 8, 5e6 if is_full else 1e4, math.inf if is_full else 8
        is_full = layer in (0, 3, 5)
        return 16, 16, 8 if is_full else 16, 5e6 if is_full else 1e4, math.inf if is_full else 8

    def periods(self, layer: int, rotated: int, base: float) -> Tensor:
        """Radians per position; Step's full layers are stretched the way of Llama 3."""
        plain = base ** -(torch.arange(0, rotated, 2).double() / rotated)
        if self.kind != "step3p5" or layer not in (0, 3, 5):
            return plain
        factor, trained, low, high = 2.0, 64, 1.0, 32.0
        lengths = 2 * math.pi / plain
        smooth = (trained / lengths - low) / (high - low)
        mixed = (1 - smooth) * plain / factor + smooth * plain
        stretched = torch.where(lengths > trained / low, plain / factor, plain)
        between = (lengths <= trained / low) & (lengths >= trained / high)
        return torch.where(between, mixed, stretched)

    def _feed_forward(self, prefix: str, layer: int, x: Tensor) -> Tensor:
        if self.kind == "step3p5" and f"{prefix}moe.gate.weight" in self.weights:
            limit, shared = (0.7, 0.9) if layer == 3 else (math.inf, math.inf)
            return self._step_experts(prefix, x, limit) + self._gated(
                f"{prefix}share_expert.", x, shared
            )
        if f"{prefix}mlp.gate.weight" in self.weights:
            return self._mimo_experts(prefix, x)
        return self._gated(f"{prefix}mlp.", x)

    def _gated(self, prefix: str, x: Tensor, limit: float = math.inf) -> Tensor:
        names = (f"{prefix}{kind}_proj.weight" for kind in ("gate", "up", "down"))
        return _gated(x, *(self.weights[name] for name in names), limit)

    def _mimo_experts(self, prefix: str, x: Tensor) -> Tensor:
        bias = self.weights[f"{prefix}mlp.gate.e_score_correction_bias"]
        weights = _routed(x @ self.weights[f"{prefix}mlp.gate.weight"].T, bias)
        answers = [self._gated(f"{prefix}mlp.experts.{n}.", x) for n in range(weights.shape[1])]
        return sum(weights[:, n, None] * answer for n, answer in enumerate(answers))

    def _step_experts(self, prefix: str, x: Tensor, limit: float) -> Tensor:
        bias = self.weights[f"{prefix}moe.router_bias"]
        weights = 3.0 * _routed(x @ self.weights[f"{prefix}moe.gate.weight"].T, bias)
        stacks = [self.weights[f"{prefix}moe.{k}_proj.weight"] for k in ("gate", "up", "down")]
        answers = [_gated(x, *(s[n] for s in stacks), limit) for n in range(weights.shape[1])]
        return sum(weights[:, n, None] * answer for n, answer in enumerate(answers))


def _gated(x: Tensor, gate: Tensor, up: Tensor, down: Tensor, limit: float) -> Tensor:
    opened = torch.nn.functional.silu(x @ gate.T).clamp(max=limit)
    return (opened * (x @ up.T).clamp(-limit, limit)) @ down.T


def _routed(scores: Tensor, bias: Tensor) -> Tensor:
    """Two experts by biased sigmoid; their unbiased ones add up to one. [T, E], 0 elsewhere."""
    chances = torch.sigmoid(scores)
    chosen = torch.topk(chances + bias, 2, dim=-1).indices
    picked = torch.gather(chances, 1, chosen)
    return torch.zeros_like(chances).scatter(1, chosen, picked / picked.sum(-1, keepdim=True))


def _rotate(x: Tensor, periods: Tensor) -> Tensor:
    """[heads, T, size]: the first 2 * len(periods) dimensions, halves apart."""
    half = len(periods)
    angles = torch.arange(x.shape[1]).double()[:, None] * periods
    a, b, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([a * cos - b * sin, b * cos + a * sin, rest], dim=-1)
