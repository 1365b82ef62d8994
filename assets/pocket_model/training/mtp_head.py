"""The multi-token-prediction head: one attention block that drafts from its own hidden states."""

from __future__ import annotations

import torch
from model import Config, Heads, Layer, Norm, text_angles
from torch import Tensor, nn


class MtpHead(nn.Module):
    """Entry k is (x_k, h_{k-1}) at position k and predicts x_{k+1}.

    h is the trunk's state after its final norm for the first draft and this head's own output
    (after `norm`) for the later ones. The embedding comes first in the concatenation.
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.fc = nn.Linear(2 * config.hidden_size, config.hidden_size, bias=False)
        self.pre_fc_norm_embedding = Norm(config.hidden_size, config.rms_norm_eps)
        self.pre_fc_norm_hidden = Norm(config.hidden_size, config.rms_norm_eps)
        self.layers = nn.ModuleList([Layer(config, linear=False)])
        self.norm = Norm(config.hidden_size, config.rms_norm_eps)

    def enter(self, embedded: Tensor, hidden: Tensor) -> Tensor:
        """Join the token's embedding [B, T, hidden] and the state before it [B, T, hidden]."""
        pair = (self.pre_fc_norm_embedding(embedded), self.pre_fc_norm_hidden(hidden))
        return self.fc(torch.cat(pair, -1))

    def chain(
        self,
        embedded: Tensor,
        hidden: Tensor,
        steps: int,
        angles: Tensor | None = None,
        first_keys: Tensor | None = None,
    ) -> list[Tensor]:
        """Hidden states of `steps` chained drafts, each [B, T, hidden]; row p is entry p + 1.

        embedded [B, T, hidden] holds x_1.. and hidden [B, T, hidden] holds h_0... Row p of step j
        reads x_{p+1} and what step j - 1 said one row earlier, and attends as at inference: to the
        true entries up to j - 1 rows back, then to the chain's own rows. Rows p < j - 1 have no
        chain behind them; their values mean nothing and callers leave them out.
        angles: of RoPE, by default of text; row p attends to rows from first_keys [B, T, 1] on.
        """
        layer = self.layers[0]
        assert isinstance(layer, Layer)
        if angles is None:
            angles = text_angles(embedded.shape[1] + 1, self.config)[1:]
        out: list[Tensor] = []
        seen: list[Heads] = []
        for _ in range(steps):
            x = self.enter(embedded, hidden)
            # Entry 1 stands at position 1, as in the engine.
            heads = layer.self_attn.heads(layer.input_layernorm(x), angles)
            seen.append(heads)
            mixed = attend(seen, first_keys)
            x = layer.feed(x + layer.self_attn.join(mixed, heads.gate))
            out.append(self.norm(x))
            hidden = shift(out[-1], 1, axis=1)
        return out


def attend(seen: list[Heads], first_keys: Tensor | None = None) -> Tensor:
    """Attention of the newest step's queries: true keys as a matrix, chain keys as diagonals."""
    step = len(seen) - 1
    q, true = seen[-1].q, seen[0]
    length, scale = q.shape[2], q.shape[3] ** -0.5
    # The first step attends to itself among the true entries; step j stops j rows earlier.
    hidden_keys = torch.ones(length, length, dtype=torch.bool).triu(1 - step)
    if first_keys is not None:
        hidden_keys = hidden_keys | (torch.arange(length) < first_keys[:, None])
    scores = (q @ true.k.transpose(-1, -2)).float() * scale
    scores = scores.masked_fill(hidden_keys, float("-inf"))
    own = [(shift(h.k, step - i, 2), shift(h.v, step - i, 2)) for i, h in enumerate(seen) if i]
    diagonals = [(q * k).float().sum(-1, keepdim=True) * scale for k, _ in own]
    weights = torch.cat([scores, *diagonals], -1).softmax(-1).to(true.v.dtype)
    mixed = weights[..., :length] @ true.v
    for i, (_, v) in enumerate(own):
        mixed = mixed + weights[..., length + i, None] * v
    return mixed


def shift(x: Tensor, rows: int, axis: int) -> Tensor:
    """Row p of the result is row p - rows of x; the first rows are x's own (never used)."""
    if rows == 0:
        return x
    head = x.narrow(axis, 0, rows)
    return torch.cat((head, x.narrow(axis, 0, x.shape[axis] - rows)), axis)
