"""The layers of Qwen3.5 in plain PyTorch, for training on a CPU.

Parameter names are those of the published checkpoints (`model.language_model.*`, `mtp.*`; norms
stored as w and used as 1 + w), so a state dict of `pocket.Pocket` is a Hugging Face checkpoint.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

CHUNK = 64


@dataclass(frozen=True, slots=True)
class Config:
    """Sizes of the model; the names are those of `text_config` in config.json."""

    vocab_size: int
    hidden_size: int = 256
    intermediate_size: int = 512
    num_hidden_layers: int = 8
    full_attention_interval: int = 4
    num_attention_heads: int = 4
    num_key_value_heads: int = 2
    head_dim: int = 64
    linear_num_key_heads: int = 2
    linear_num_value_heads: int = 4
    linear_head_dim: int = 64
    linear_conv_kernel_dim: int = 4
    rope_theta: float = 1e6
    partial_rotary_factor: float = 0.25
    rms_norm_eps: float = 1e-6

    def is_linear(self, layer: int) -> bool:
        """Whether this layer is a Gated DeltaNet (every n-th one is full attention)."""
        return (layer + 1) % self.full_attention_interval != 0


class Norm(nn.Module):
    """RMS norm with a zero-centred gain, in float32: x / rms(x) * (1 + w)."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(size))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.eps)
        return (wide * (1.0 + self.weight)).to(x.dtype)


class GatedNorm(nn.Module):
    """RMS norm with a plain gain, then times silu(gate)."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: Tensor, gate: Tensor) -> Tensor:
        wide = x.float()
        wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.eps)
        return (self.weight * wide * F.silu(gate.float())).to(gate.dtype)


def text_angles(rows: int, config: Config) -> Tensor:
    """Angles [T, size / 2] of RoPE for text at positions 0.., by which `rope` rotates heads."""
    size = int(config.head_dim * config.partial_rotary_factor)
    frequency = config.rope_theta ** (-torch.arange(0, size, 2).float() / size)
    return torch.arange(rows).float()[:, None] * frequency


def rope(x: Tensor, angles: Tensor) -> Tensor:
    """Rotate the first elements of each head [B, H, T, D] by angles [(B, 1,) T, size / 2]."""
    cos, sin = (torch.cat((part, part), -1) for part in (angles.cos(), angles.sin()))
    size = cos.shape[-1]
    turned, kept = x[..., :size].float(), x[..., size:]
    left, right = turned.chunk(2, -1)
    rotated = turned * cos + torch.cat((-right, left), -1) * sin
    return torch.cat((rotated.to(x.dtype), kept), -1)


def unit(x: Tensor) -> Tensor:
    """L2-normalise the last axis."""
    return x * torch.rsqrt(x.square().sum(-1, keepdim=True) + 1e-6)


def gated_delta_rule(q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, beta: Tensor) -> Tensor:
    """S_t = a_t S_{t-1} + beta_t k_t (v_t - a_t S_{t-1}' k_t)', o_t = S_t' q_t, chunk by chunk.

    q, k, v are [B, H, T, D] float32 with q and k normalised; log_decay and beta are [B, H, T].
    Within a chunk the updates are one unit-triangular solve (the WY form of arXiv 2412.06464).
    """
    batch, heads, length, size = v.shape
    pad = -length % CHUNK
    if pad:
        q, k, v = (F.pad(x, (0, 0, 0, pad)) for x in (q, k, v))
        log_decay, beta = (F.pad(x, (0, pad)) for x in (log_decay, beta))
    q, k, v = (x.reshape(batch, heads, -1, CHUNK, x.shape[-1]) for x in (q, k, v))
    total = log_decay.reshape(batch, heads, -1, CHUNK).cumsum(-1)
    beta = beta.reshape(batch, heads, -1, CHUNK)[..., None]
    above = torch.ones(CHUNK, CHUNK, dtype=torch.bool).triu(1)
    pair = (total[..., :, None] - total[..., None, :]).masked_fill(above, float("-inf")).exp()
    keys = k.transpose(-1, -2)
    weighted = k * beta
    right = torch.cat((v * beta, weighted * total.exp()[..., None]), -1)
    system = (weighted @ keys) * pair
    fresh, reader = torch.linalg.solve_triangular(
        system, right, upper=False, unitriangular=True
    ).split((v.shape[-1], k.shape[-1]), -1)
    inside = (q @ keys) * pair
    q = q * total.exp()[..., None]
    k = k * (total[..., -1:] - total).exp()[..., None]
    fade = total[..., -1].exp()[..., None, None]
    state = v.new_zeros(batch, heads, k.shape[-1], size)
    out = []
    for i in range(q.shape[2]):
        new = fresh[:, :, i] - reader[:, :, i] @ state
        out.append(q[:, :, i] @ state + inside[:, :, i] @ new)
        state = state * fade[:, :, i] + k[:, :, i].transpose(-1, -2) @ new
    return torch.cat(out, 2)[:, :, :length]


class GatedDeltaNet(nn.Module):
    """Linear attention with a short convolution, a decay and the delta rule."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        size, head = config.hidden_size, config.linear_head_dim
        self.keys, self.values = config.linear_num_key_heads, config.linear_num_value_heads
        width = head * (2 * self.keys + self.values)
        self.conv1d = nn.Conv1d(
            width, width, config.linear_conv_kernel_dim, groups=width, bias=False
        )
        self.dt_bias = nn.Parameter(torch.ones(self.values))
        self.A_log = nn.Parameter(torch.empty(self.values).uniform_(0.01, 4).log())
        self.norm = GatedNorm(head, config.rms_norm_eps)
        self.out_proj = nn.Linear(head * self.values, size, bias=False)
        self.in_proj_qkv = nn.Linear(size, width, bias=False)
        self.in_proj_z = nn.Linear(size, head * self.values, bias=False)
        self.in_proj_b = nn.Linear(size, self.values, bias=False)
        self.in_proj_a = nn.Linear(size, self.values, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """x [B, T, hidden] -> [B, T, hidden]."""
        head = self.config.linear_head_dim
        qkv = self.in_proj_qkv(x)
        # Shifted products: a depthwise Conv1d of four taps is slow on a CPU.
        taps = self.conv1d.weight[:, 0].to(qkv.dtype)
        last = taps.shape[1] - 1
        padded = F.pad(qkv, (0, 0, last, 0))
        length = qkv.shape[1]
        mixed = sum(padded[:, i : i + length] * taps[:, i] for i in range(last + 1))
        assert isinstance(mixed, Tensor)
        parts = F.silu(mixed).unflatten(-1, (-1, head)).transpose(1, 2).float()
        q, k, v = parts.split((self.keys, self.keys, self.values), 1)
        repeat = self.values // self.keys
        q = (unit(q) * head**-0.5).repeat_interleave(repeat, 1)
        k = unit(k).repeat_interleave(repeat, 1)
        beta = self.in_proj_b(x).float().sigmoid().transpose(1, 2)
        decay = -self.A_log.exp() * F.softplus(self.in_proj_a(x).float() + self.dt_bias)
        with torch.autocast("cpu", enabled=False):
            out = gated_delta_rule(q, k, v, decay.transpose(1, 2), beta)
        gate = self.in_proj_z(x).unflatten(-1, (-1, head))
        return self.out_proj(self.norm(out.transpose(1, 2), gate).flatten(-2))


@dataclass(frozen=True, slots=True)
class Heads:
    """One attention layer's inputs: q and k rotated, all [B, H, T, D] with k and v repeated."""

    q: Tensor
    k: Tensor
    v: Tensor
    gate: Tensor


class GatedAttention(nn.Module):
    """Grouped-query attention whose output is multiplied by sigmoid(gate)."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        size, head = config.hidden_size, config.head_dim
        self.q_proj = nn.Linear(size, config.num_attention_heads * head * 2, bias=False)
        self.k_proj = nn.Linear(size, config.num_key_value_heads * head, bias=False)
        self.v_proj = nn.Linear(size, config.num_key_value_heads * head, bias=False)
        self.o_proj = nn.Linear(config.num_attention_heads * head, size, bias=False)
        self.q_norm = Norm(head, config.rms_norm_eps)
        self.k_norm = Norm(head, config.rms_norm_eps)

    def heads(self, x: Tensor, angles: Tensor) -> Heads:
        """Project x [B, T, hidden]; angles of its rows."""
        head = self.config.head_dim
        q, gate = self.q_proj(x).unflatten(-1, (-1, 2 * head)).chunk(2, -1)
        k = self.k_norm(self.k_proj(x).unflatten(-1, (-1, head))).transpose(1, 2)
        v = self.v_proj(x).unflatten(-1, (-1, head)).transpose(1, 2)
        repeat = self.config.num_attention_heads // self.config.num_key_value_heads
        return Heads(
            rope(self.q_norm(q).transpose(1, 2), angles),
            rope(k, angles).repeat_interleave(repeat, 1),
            v.repeat_interleave(repeat, 1),
            gate.flatten(-2),
        )

    def join(self, out: Tensor, gate: Tensor) -> Tensor:
        """Attention output [B, H, T, D] -> [B, T, hidden]."""
        return self.o_proj(out.transpose(1, 2).flatten(-2) * torch.sigmoid(gate))

    def forward(self, x: Tensor, angles: Tensor) -> Tensor:
        heads = self.heads(x, angles)
        out = F.scaled_dot_product_attention(heads.q, heads.k, heads.v, is_causal=True)
        return self.join(out, heads.gate)


class MLP(nn.Module):
    """SwiGLU."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        size, wide = config.hidden_size, config.intermediate_size
        self.gate_proj = nn.Linear(size, wide, bias=False)
        self.up_proj = nn.Linear(size, wide, bias=False)
        self.down_proj = nn.Linear(wide, size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    """Pre-norm residual block around one mixer and one MLP."""

    def __init__(self, config: Config, linear: bool) -> None:
        super().__init__()
        self.linear = linear
        self.input_layernorm = Norm(config.hidden_size, config.rms_norm_eps)
        if linear:
            self.linear_attn = GatedDeltaNet(config)
        else:
            self.self_attn = GatedAttention(config)
        self.mlp = MLP(config)
        self.post_attention_layernorm = Norm(config.hidden_size, config.rms_norm_eps)

    def feed(self, x: Tensor) -> Tensor:
        """Second half of the block."""
        return x + self.mlp(self.post_attention_layernorm(x))

    def forward(self, x: Tensor, angles: Tensor) -> Tensor:
        normed = self.input_layernorm(x)
        mixed = self.linear_attn(normed) if self.linear else self.self_attn(normed, angles)
        return self.feed(x + mixed)


class Trunk(nn.Module):
    """Embedding, layers and final norm."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        kinds = [config.is_linear(i) for i in range(config.num_hidden_layers)]
        self.layers = nn.ModuleList(Layer(config, linear) for linear in kinds)
        self.norm = Norm(config.hidden_size, config.rms_norm_eps)

    def forward(self, tokens: Tensor) -> Tensor:
        """tokens [B, T] -> hidden states after the final norm [B, T, hidden]."""
        return self.read(self.embed_tokens(tokens), text_angles(tokens.shape[1], self.config))

    def read(self, x: Tensor, angles: Tensor) -> Tensor:
        """Embeddings [B, T, hidden] and angles of RoPE -> hidden states after the final norm."""
        for layer in self.layers:
            x = layer(x, angles)
        normed: Tensor = self.norm(x)
        return normed
