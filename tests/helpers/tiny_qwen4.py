"""A tiny random Qwen3.8-Flash-Next as published, with its MTP head, and figures in PyTorch."""

from copy import copy
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import torch
import transformers as hf
from model_edits import edit_tensors
from tiny_nextn import Published
from tiny_published import VOCABULARY, draw
from tiny_tokenizer import make_tiny_tokenizer
from transformers.models.qwen4_exp.modeling_qwen4_exp import (
    Qwen4ExpTextDecoderLayer,
    Qwen4ExpTextGatedResidual,
    Qwen4ExpTextRMSNorm,
)

END = 297
SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "shared_expert_intermediate_size": 48,
    "max_position_embeddings": 512,
    "eos_token_id": END,
    "pad_token_id": 0,
    "bos_token_id": 0,
    "hc_lowrank": 24,
    "ple_layer_ids": [2],
    "ngram_vocab_size_base": 101,
    "split_ngram_parts": 3,
    "make_ngram_vocab_size_divisible_by": 3,
    "indexer_n_heads": 4,
    "indexer_kv_heads": 1,
    "indexer_head_dim": 32,
    "indexer_budget": 64,
    "indexer_compress_ratio": 4,
    "mtp_num_hidden_layers": 1,
    "output_gate_type": "sigmoid",
    "rope_parameters": {
        "rope_type": "default",
        "rope_theta": 10000.0,
        "partial_rotary_factor": 0.25,
        "mrope_section": [2, 1, 1],
    },
}


class Head(torch.nn.Module):
    """A sparse layer on joined streams; rows (x_k, streams of k-1) -> streams and what is mixed."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        config = copy(model.config)
        config.layer_types, config.ple_layer_ids = ["indexed_attention"], []
        size, eps = config.hidden_size, config.rms_norm_eps
        self.count = config.hc_count
        self.layers = torch.nn.ModuleList([Qwen4ExpTextDecoderLayer(config, 0)])
        self.pre_fc_norm_embedding = Qwen4ExpTextRMSNorm(size, eps=eps)
        self.pre_fc_norm_hidden = Qwen4ExpTextRMSNorm(self.count * size, eps=eps)
        self.fc_embedding = torch.nn.Linear(size, size, bias=False)
        self.fc_hidden = torch.nn.Linear(size, size, bias=False)
        self.hyper_connection_mixer = Qwen4ExpTextGatedResidual(config, use_combine=False)

    def forward(self, embedded: torch.Tensor, hidden: torch.Tensor, rotary: Any) -> torch.Tensor:
        rows = embedded.shape[1]
        split = self.pre_fc_norm_hidden(hidden).unflatten(-1, (self.count, -1))
        joined = self.fc_embedding(self.pre_fc_norm_embedding(embedded))[..., None, :]
        places = torch.arange(rows).view(1, 1, -1).expand(3, 1, -1)
        state: torch.Tensor = self.layers[0](
            (joined + self.fc_hidden(split)).flatten(-2),
            position_embeddings=rotary(embedded, places),
            attention_mask=torch.ones(rows, rows, dtype=torch.bool).tril()[None, None],
        )
        return state

    def stored(self) -> dict[str, mx.array]:
        """Tensors by published names."""
        values = {f"mtp.{n}": v.detach().contiguous() for n, v in self.state_dict().items()}
        return {name: mx.array(value.numpy()) for name, value in values.items()}


def publish(folder: Path, seed: int = 0, **changes: Any) -> Published:
    """Writes the folder; changes: of the config."""
    config = hf.Qwen4ExpTextConfig(**SIZES | changes)
    config._attn_implementation = "sdpa"
    torch.manual_seed(seed)
    model = hf.Qwen4ExpForCausalLM(config).eval().float()
    head = Head(model).eval().float()
    with torch.no_grad():
        for whole, sharpness in ((model, 2.0), (head, 1.0)):
            for part, value in whole.named_parameters():
                draw(part, value, sharpness)
        model.save_pretrained(folder)
    make_tiny_tokenizer(folder, VOCABULARY)
    edit_tensors(folder, lambda arrays: arrays | head.stored())
    tokens = [int(t) for t in np.random.default_rng(seed).integers(0, VOCABULARY, 61)]
    tokens[20] = tokens[30] = tokens[31] = END
    inner, kept = model.model, list[torch.Tensor]()
    inner.hyper_connection_mixer.register_forward_pre_hook(lambda _, given: kept.append(given[0]))

    @torch.no_grad()
    def states(read: list[int], hidden: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = head(
            inner.embed_tokens(torch.tensor([read])), hidden, inner.rotary_emb
        )
        return made

    @torch.no_grad()
    def drafts(read: list[int]) -> Any:
        model(torch.tensor([read]), use_cache=False)
        made = states(read[1:], kept[-1][:, :-1])
        return model.lm_head(head.hyper_connection_mixer(made))[0].numpy()

    with torch.no_grad():
        logits = model(torch.tensor([tokens]), use_cache=False).logits[0]
        hidden = kept[-1]
        first = states(tokens[1:], hidden[:, :-1])
        drafted = model.lm_head(head.hyper_connection_mixer(first))[0]
        best = int(drafted[-1].argmax())
        again = states([*tokens[1:], best], torch.cat([hidden[:, :-1], first[:, -1:]], dim=1))
        chained = model.lm_head(head.hyper_connection_mixer(again))[0, -1]
    return Published(folder, tokens, logits.numpy(), drafted.numpy(), best, chained.numpy(), drafts)
