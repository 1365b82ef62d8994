"""A tiny random Nemotron 3 with its MTP head as published, and the head's figures in PyTorch."""

from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import torch
import transformers as hf
from model_edits import edit_tensors
from tiny_nextn import Published
from tiny_published import VOCABULARY, draw, sizes_of
from tiny_tokenizer import make_tiny_tokenizer
from transformers.models.nemotron_h.modeling_nemotron_h import NemotronHBlock, NemotronHRMSNorm

LAYERS = ["linear_attention", "full_attention", "moe", "linear_attention", "moe"]
_ATTENTION, _EXPERTS = 1, 2


class Head(torch.nn.Module):
    """Two layers of the trunk's kinds behind a join; rows (x_k, h_k-1) -> states after the norm."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        config = model.config
        size, eps = config.hidden_size, config.layer_norm_epsilon
        blocks = [NemotronHBlock(config, layer) for layer in (_ATTENTION, _EXPERTS)]
        self.layers = torch.nn.ModuleList(blocks)
        self.enorm, self.hnorm = NemotronHRMSNorm(size, eps), NemotronHRMSNorm(size, eps)
        self.final_layernorm = NemotronHRMSNorm(size, eps)
        self.eh_proj = torch.nn.Linear(2 * size, size, bias=False)

    def forward(self, embedded: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        rows = embedded.shape[1]
        state = self.eh_proj(torch.cat([self.enorm(embedded), self.hnorm(hidden)], dim=-1))
        mask = torch.full((rows, rows), -torch.inf).triu(1)[None, None]
        for layer in self.layers:
            state = layer(state, attention_mask=mask)
        return self.final_layernorm(state)

    def stored(self) -> dict[str, mx.array]:
        """Tensors by published names, experts one by one."""
        made: dict[str, torch.Tensor] = {}
        for name, value in self.state_dict().items():
            first = "" if name.startswith("layers.") else "layers.0."
            first = "layers.1." if name.startswith("final") else first
            base, _, part = name.rpartition(".experts.")
            if base:
                for number, expert in enumerate(value):
                    made[f"mtp.{base}.experts.{number}.{part}.weight"] = expert
            else:
                made[f"mtp.{first}{name}"] = value
        return {n: mx.array(value.detach().contiguous().numpy()) for n, value in made.items()}


def publish(folder: Path, seed: int = 0, **changes: Any) -> Published:
    """Writes the folder; changes: of the config."""
    more = {"layers_block_type": LAYERS, "num_nextn_predict_layers": 1, "head_dim": 32}
    config = hf.NemotronHConfig(
        **(sizes_of("nemotron_h") | more | changes), attn_implementation="eager"
    )
    torch.manual_seed(seed)
    model = hf.NemotronHForCausalLM(config).eval().float()
    head = Head(model).eval().float()
    with torch.no_grad():
        for whole, sharpness in ((model, 2.0), (head, 1.0)):
            for part, value in [*whole.named_parameters(), *whole.named_buffers()]:
                draw(part, value, sharpness)
        model.save_pretrained(folder)
    make_tiny_tokenizer(folder, VOCABULARY)
    edit_tensors(folder, lambda arrays: arrays | head.stored())
    tokens = [int(t) for t in np.random.default_rng(seed).integers(0, VOCABULARY, 41)]

    @torch.no_grad()
    def states(read: list[int], hidden: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = head(model.model.embeddings(torch.tensor([read])), hidden)
        return made

    def drafts(read: list[int]) -> Any:
        hidden = trunk(read)[:, :-1]
        return model.lm_head(states(read[1:], hidden))[0].detach().numpy()

    @torch.no_grad()
    def trunk(read: list[int]) -> torch.Tensor:
        hidden: torch.Tensor = model.model(torch.tensor([read])).last_hidden_state
        return hidden

    hidden = trunk(tokens)
    first = states(tokens[1:], hidden[:, :-1])
    with torch.no_grad():
        logits, drafted = model.lm_head(hidden)[0], model.lm_head(first)[0]
        best = int(drafted[-1].argmax())
        again = states([*tokens[1:], best], torch.cat([hidden[:, :-1], first[:, -1:]], dim=1))
        chained = model.lm_head(again)[0, -1]
    return Published(folder, tokens, logits.numpy(), drafted.numpy(), best, chained.numpy(), drafts)
