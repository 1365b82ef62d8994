"""A tiny random LongCat-Flash as published, with its MTP head, and figures in PyTorch.

The head is a block of transformers' layers: transformers 5.23 runs no head of the family.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import torch
import transformers as hf
from model_edits import Arrays, edit_config, edit_tensors
from tiny_hybrids import LATENT
from tiny_nextn import Published
from tiny_published import VOCABULARY, draw_all
from tiny_sparse import published, run_layer
from tiny_tokenizer import make_tiny_tokenizer
from transformers.models.longcat_flash import modeling_longcat_flash as longcat

SIZES: dict[str, Any] = LATENT | {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "num_layers": 2,
    "num_attention_heads": 4,
    "head_dim": LATENT["qk_rope_head_dim"],
    "ffn_hidden_size": 96,
    "expert_ffn_hidden_size": 32,
    "n_routed_experts": 6,
    "zero_expert_num": 3,
    "moe_topk": 4,
    "max_position_embeddings": 512,
    "pad_token_id": 0,
    "bos_token_id": 0,
    "eos_token_id": 297,
}


NGRAMS: dict[str, Any] = {
    "emb_neighbor_num": 3,
    "emb_split_num": 2,
    "ngram_vocab_size_ratio": 2,
    "eos_token_id": 163,  # which is among the tokens of seed 0
}
"""What makes a LongCat-Flash-Lite of it."""


class Ngrams(torch.nn.Module):
    """Embeddings of tokens and their n-grams, a token at a time; n-grams end at the end token."""

    def __init__(self, config: Any, words: torch.nn.Embedding, fields: dict[str, Any]) -> None:
        super().__init__()
        self.longest, self.heads = fields["emb_neighbor_num"], fields["emb_split_num"]
        self.vocabulary, self.end = config.vocab_size, fields["eos_token_id"]
        count = (self.longest - 1) * self.heads
        base = int(fields["ngram_vocab_size_ratio"] * config.vocab_size)
        self.rows, size = [base + 2 * n + 1 for n in range(count)], config.hidden_size
        self.word_embeddings = words
        tables = [torch.nn.Embedding(rows, size // count) for rows in self.rows]
        self.embedders = torch.nn.ModuleList(tables)
        projections = [torch.nn.Linear(size // count, size, bias=False) for _ in self.rows]
        self.post_projs = torch.nn.ModuleList(projections)

    def forward(self, tokens: list[int]) -> torch.Tensor:
        made = []
        for place, token in enumerate(tokens):
            before = tokens[:place][::-1]
            if self.end in before:
                before = before[: before.index(self.end)]
            x = self.word_embeddings.weight[token]
            for n, (table, project) in enumerate(zip(self.embedders, self.post_projs, strict=True)):
                reach = n // self.heads + 1
                number = token + sum(
                    other * self.vocabulary ** (distance + 1)
                    for distance, other in enumerate(before[:reach])
                )
                x = x + project(table.weight[number % self.rows[n]])
            made.append(x / (1 + len(self.rows)))
        return torch.stack(made)[None]


class Head(torch.nn.Module):
    """An attention and a feed-forward; rows (x_k, hidden state of k-1) -> normed states."""

    def __init__(self, config: Any, *, has_embedding: bool) -> None:
        super().__init__()
        size, eps = config.hidden_size, config.rms_norm_eps
        for name in ("enorm", "hnorm", "input_layernorm", "post_attention_layernorm", "norm"):
            setattr(self, name, longcat.LongcatFlashRMSNorm(size, eps=eps))
        self.eh_proj = torch.nn.Linear(2 * size, size, bias=False)
        self.self_attn = longcat.LongcatFlashMLA(config, 0)
        self.mlp = longcat.LongcatFlashMLP(config)
        self.embed_tokens = torch.nn.Embedding(VOCABULARY, size) if has_embedding else None

    def forward(self, embedded: torch.Tensor, hidden: torch.Tensor, rotary: Any) -> torch.Tensor:
        made: torch.Tensor = self.norm(run_layer(self, embedded, hidden, rotary))
        return made


def _published_name(name: str) -> str:
    base = name.rpartition(".")[0]
    if base in ("norm", "embed_tokens"):
        return f"model.mtp.{name}"
    if base in ("enorm", "hnorm"):
        return f"model.mtp.layers.0.{base}.m.weight"
    return f"model.mtp.layers.0.{'transformer_layer.' * base.startswith('mlp')}{name}"


def _experts_without_effect(config: Any) -> Callable[[str], bool]:
    """Whether a tensor is of an expert that returns what it reads; transformers 5.23 has some."""

    def is_idle(name: str) -> bool:
        number = re.search(r"\.experts\.(\d+)\.", name)
        return number is not None and int(number[1]) >= config.n_routed_experts

    return is_idle


def publish(
    folder: Path,
    seed: int = 0,
    *,
    has_embedding: bool = True,
    ngrams: dict[str, Any] | None = None,
    **changes: Any,
) -> Published:
    """Writes the folder; has_embedding: the head's own. changes: of the config.

    ngrams: fields of a LongCat-Flash-Lite.
    """
    config = hf.LongcatFlashConfig(**SIZES | changes, attn_implementation="eager")
    torch.manual_seed(seed)
    model = hf.LongcatFlashForCausalLM(config).eval().float()
    inner, head = model.model, Head(config, has_embedding=has_embedding).eval().float()
    wide = None if ngrams is None else Ngrams(config, inner.embed_tokens, ngrams).float()
    with torch.no_grad():
        for whole, sharpness in ((model, 2.0), (head, 1.0), *([(wide, 1.0)] if wide else [])):
            draw_all(whole, sharpness)
        for part, bias in model.named_buffers():
            if part.endswith("e_score_correction_bias"):
                bias.mul_(0.3)
        model.save_pretrained(folder)
    make_tiny_tokenizer(folder, VOCABULARY)
    edit_config(folder, **{name: value for name, value in changes.items() if value is not None})
    stored = {
        _published_name(name): mx.array(value.contiguous().numpy())
        for name, value in head.state_dict().items()
    }
    if wide is not None and ngrams is not None:
        edit_config(folder, model_type="longcat_flash_ngram", **ngrams)
        stored |= {
            f"model.ngram_embeddings.{name}": mx.array(value.contiguous().numpy())
            for name, value in wide.state_dict().items()
        }
    idle = _experts_without_effect(config)
    dropped = "model.embed_tokens.weight" if wide else "nothing"

    def published_tensors(arrays: Arrays) -> Arrays:
        return {n: arrays[n] for n in arrays if not idle(n) and n != dropped} | stored

    edit_tensors(folder, published_tensors)
    tokens = [int(t) for t in np.random.default_rng(seed).integers(0, VOCABULARY, 41)]

    @torch.no_grad()
    def states(read: list[int], hidden: torch.Tensor) -> torch.Tensor:
        table = head.embed_tokens or inner.embed_tokens
        made: torch.Tensor = head(table(torch.tensor([read])), hidden, inner.rotary_emb)
        return made

    @torch.no_grad()
    def trunk(read: list[int]) -> torch.Tensor:
        embedded = inner.embed_tokens(torch.tensor([read])) if wide is None else wide(read)
        hidden: torch.Tensor = inner(inputs_embeds=embedded, use_cache=False).last_hidden_state
        return hidden

    return published(folder, tokens, trunk, model.lm_head, states)
