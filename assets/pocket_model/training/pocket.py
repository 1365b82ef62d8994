"""The pocket model: trunk and MTP head sharing one embedding that is also the output head."""

from __future__ import annotations

import torch.nn.functional as F
from model import Config, Trunk
from mtp_head import MtpHead
from torch import Tensor, nn


class Pocket(nn.Module):
    """Weights under the published names, tokens in, hidden states and logits out."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.model = nn.ModuleDict({"language_model": Trunk(config)})
        self.mtp = MtpHead(config)
        for name, weight in self.named_parameters():
            if weight.ndim == 2:
                closes_block = name.endswith(
                    ("o_proj.weight", "out_proj.weight", "down_proj.weight")
                )
                depth = 2 * config.num_hidden_layers if closes_block else 1
                nn.init.normal_(weight, std=0.02 / depth**0.5)

    def trunk(self, tokens: Tensor) -> Tensor:
        """tokens [B, T] -> [B, T, hidden] after the final norm."""
        hidden: Tensor = self.model["language_model"](tokens)
        return hidden

    def embed(self, tokens: Tensor) -> Tensor:
        """tokens [B, T] -> [B, T, hidden]."""
        embedded: Tensor = self.model["language_model"].embed_tokens(tokens)
        return embedded

    def logits(self, hidden: Tensor) -> Tensor:
        """hidden [..., hidden] -> [..., vocabulary]."""
        return F.linear(hidden, self.model["language_model"].embed_tokens.weight)
