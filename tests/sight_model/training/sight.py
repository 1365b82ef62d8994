"""The sight model in PyTorch: the pocket model's trunk and head, and Qwen3.5's vision tower.

Parameter names are those of published checkpoints, but for the patch kernel, a matrix here. The
pocket model's training code has to be on the path.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from model import Config, rope
from PIL import Image
from pocket import Pocket
from scenes import SIDE
from torch import Tensor, nn

PATCH, MERGE, GRID = 8, 2, SIDE // 16
SECTIONS = (3, 3, 2)
"""Pairs of RoPE that follow time, height and width."""
TOKENS = GRID * GRID
"""Tokens of a picture."""


@dataclass(frozen=True, slots=True)
class TowerConfig:
    """Sizes of the tower; the names are those of `vision_config` in config.json."""

    depth: int = 3
    hidden_size: int = 64
    intermediate_size: int = 128
    num_heads: int = 4
    out_hidden_size: int = 128


def trunk_config(vocabulary: int) -> Config:
    """Sizes of trunk and head."""
    return Config(
        vocab_size=vocabulary,
        hidden_size=128,
        num_hidden_layers=4,
        full_attention_interval=2,
        intermediate_size=256,
        head_dim=32,
        linear_head_dim=32,
        rope_theta=1e4,
        partial_rotary_factor=0.5,
    )


def cut(image: Image.Image) -> np.ndarray:
    """Pixels of an image -> patches [N, 3 * PATCH^2], the four of each token one after another."""
    pixels = np.asarray(image, np.float32) / 127.5 - 1
    parts = pixels.reshape(GRID, MERGE, PATCH, GRID, MERGE, PATCH, 3)
    return parts.transpose(0, 3, 1, 4, 6, 2, 5).reshape(-1, 3 * PATCH**2)


def place(is_picture: np.ndarray) -> np.ndarray:
    """RoPE positions [3, T] of a row: text counts on behind the longer side of a picture."""
    places = np.zeros((3, len(is_picture)), np.int64)
    at, index = 0, 0
    while index < len(is_picture):
        if is_picture[index]:
            grid = np.indices((1, GRID, GRID)).reshape(3, -1)
            places[:, index : index + TOKENS] = at + grid
            at, index = at + GRID, index + TOKENS
        else:
            places[:, index] = at
            at, index = at + 1, index + 1
    return places


class Attention(nn.Module):
    """Attention among all patches."""

    def __init__(self, config: TowerConfig) -> None:
        super().__init__()
        self.heads = config.num_heads
        self.qkv = nn.Linear(config.hidden_size, 3 * config.hidden_size)
        self.proj = nn.Linear(config.hidden_size, config.hidden_size)

    def forward(self, x: Tensor, angles: Tensor) -> Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        out = F.scaled_dot_product_attention(rope(q, angles), rope(k, angles), v)
        return self.proj(out.transpose(1, 2).flatten(-2))


class FeedForward(nn.Module):
    """Two layers with GELU; is_exact: not its approximation by tanh."""

    def __init__(self, size: int, inner: int, out: int, *, is_exact: bool) -> None:
        super().__init__()
        self.linear_fc1, self.linear_fc2 = nn.Linear(size, inner), nn.Linear(inner, out)
        self.approximate = "none" if is_exact else "tanh"

    def forward(self, x: Tensor) -> Tensor:
        return self.linear_fc2(F.gelu(self.linear_fc1(x), approximate=self.approximate))


class Block(nn.Module):
    """Attention and feed-forward behind layer norms."""

    def __init__(self, config: TowerConfig) -> None:
        super().__init__()
        size = config.hidden_size
        self.norm1, self.norm2 = nn.LayerNorm(size, 1e-6), nn.LayerNorm(size, 1e-6)
        self.attn = Attention(config)
        self.mlp = FeedForward(size, config.intermediate_size, size, is_exact=False)

    def forward(self, x: Tensor, angles: Tensor) -> Tensor:
        x = x + self.attn(self.norm1(x), angles)
        return x + self.mlp(self.norm2(x))


class Merger(FeedForward):
    """Joins four patches to one token."""

    def __init__(self, config: TowerConfig) -> None:
        joined = config.hidden_size * MERGE**2
        super().__init__(joined, joined, config.out_hidden_size, is_exact=True)
        self.norm = nn.LayerNorm(config.hidden_size, 1e-6)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(self.norm(x).unflatten(1, (-1, MERGE**2)).flatten(-2))


class Tower(nn.Module):
    """Patches [B, N, 3 * PATCH^2] -> embeddings [B, N / 4, hidden size of the trunk]."""

    def __init__(self, config: TowerConfig) -> None:
        super().__init__()
        self.config = config
        self.patch_embed = nn.ModuleDict({"proj": nn.Linear(3 * PATCH**2, config.hidden_size)})
        self.pos_embed = nn.Embedding((SIDE // PATCH) ** 2, config.hidden_size)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.depth))
        self.merger = Merger(config)
        nn.init.normal_(self.pos_embed.weight, std=0.2)
        axes = torch.from_numpy(np.indices((GRID, GRID, MERGE, MERGE)).reshape(4, -1))
        row, column = axes[0] * MERGE + axes[2], axes[1] * MERGE + axes[3]
        self.order = row * (SIDE // PATCH) + column
        quarter = config.hidden_size // config.num_heads // 2
        rates = 1e4 ** (-torch.arange(0, quarter, 2).float() / quarter)
        self.angles = torch.cat([row[:, None] * rates, column[:, None] * rates], 1)

    def forward(self, patches: Tensor) -> Tensor:
        x = self.patch_embed["proj"](patches) + self.pos_embed(self.order)
        for block in self.blocks:
            x = block(x, self.angles)
        return self.merger(x)


class Sight(Pocket):
    """The pocket model with a vision tower."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__(trunk_config(vocabulary))
        self.model["visual"] = Tower(TowerConfig())

    def embed_all(self, tokens: Tensor, patches: Tensor, pad: int) -> Tensor:
        """tokens [B, T] and the patches of their pictures in order -> [B, T, hidden]."""
        x = self.embed(tokens)
        seen = self.model["visual"](patches).flatten(0, 1)
        return x.masked_scatter((tokens == pad)[..., None], seen.to(x.dtype))

    def angles(self, places: Tensor) -> Tensor:
        """RoPE positions [B, 3, T] -> angles [B, 1, T, pairs], time, height and width in turn."""
        config = self.config
        pairs = sum(SECTIONS)
        rates = config.rope_theta ** (-torch.arange(pairs).float() / pairs)
        each = places.float()[..., None] * rates
        axis = [
            next((a for a in (1, 2) if pair % 3 == a and pair < 3 * SECTIONS[a]), 0)
            for pair in range(pairs)
        ]
        return torch.stack([each[:, a, :, pair] for pair, a in enumerate(axis)], -1)[:, None]
