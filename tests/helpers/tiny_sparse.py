"""Tiny random models of latent attention with an indexer, and their MTP head, from transformers.

The head is transformers' layer of the trunk's last kind in its frame of an MTP layer, for its
MtpModel (5.23) runs no head of these families.
"""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import transformers as hf
from model_edits import edit_config, edit_tensors
from tiny_hybrids import LATENT
from tiny_nextn import LAYER, Floats, Published, stored_head
from tiny_published import VOCABULARY, draw_all
from tiny_tokenizer import make_tiny_tokenizer
from transformers.modeling_layers import MtpLayer

_NAMES = {"deepseek_v32": "DeepseekV32", "glm_moe_dsa": "GlmMoeDsa"}
MOST = 16
"""Tokens that a row attends to."""
SIZES = LATENT | {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": LAYER,
    "num_attention_heads": 4,
    "max_position_embeddings": 512,
    "pad_token_id": 0,
    "bos_token_id": 0,
    "eos_token_id": 297,
    "moe_intermediate_size": 32,
    "num_experts_per_tok": 2,
    "n_routed_experts": 8,
    "n_group": 2,
    "topk_group": 1,
    "mlp_layer_types": ["dense", "sparse", "sparse"],
    "first_k_dense_replace": 1,
    "index_n_heads": 32,  # of few heads many scores are 0, and any of those may be selected
    "index_head_dim": 32,
    "index_topk": MOST,
}


def publish(kind: str, folder: Path, seed: int = 0, **changes: Any) -> Published:
    """Writes the folder; changes: of the config. The last layer must have an indexer."""
    settings = getattr(hf, f"{_NAMES[kind]}Config")
    config = settings(**(SIZES | changes), attn_implementation="eager")
    torch.manual_seed(seed)
    model = getattr(hf, f"{_NAMES[kind]}ForCausalLM")(config).eval().float()
    last = type(model.model.layers[-1])

    class Layer(last):  # type: ignore[misc, valid-type]
        def forward(self, *arrays: Any, **named: Any) -> Any:
            made = super().forward(*arrays, **named)
            return made[0] if isinstance(made, tuple) else made

    head = MtpLayer(config, Layer, type(model.model.norm), LAYER - 1).eval().float()
    with torch.no_grad():
        draw_all(model, 2.0)
        draw_all(head, 1.0)
        model.save_pretrained(folder)
    make_tiny_tokenizer(folder, VOCABULARY)
    edit_config(folder, num_nextn_predict_layers=1)
    stored = stored_head(SimpleNamespace(layers=[head]), own=False)
    edit_tensors(folder, lambda arrays: arrays | stored)
    tokens = [int(t) for t in np.random.default_rng(seed).integers(0, VOCABULARY, 41)]

    @torch.no_grad()
    def states(read: list[int], hidden: torch.Tensor) -> torch.Tensor:
        embedded = model.model.embed_tokens(torch.tensor([read]))
        places = torch.arange(len(read))[None] + 1
        mask = torch.full((len(read),) * 2, -torch.inf).triu(1)[None, None]
        turned = model.model.rotary_emb(embedded, places)
        made: torch.Tensor = head(embedded, hidden, turned, mask, places, None)
        return made

    return published(folder, tokens, hidden_states_of(model.model), model.lm_head, states)


def hidden_states_of(trunk: torch.nn.Module) -> Callable[[list[int]], torch.Tensor]:
    """Make what returns a trunk's hidden states of tokens."""

    @torch.no_grad()
    def read(tokens: list[int]) -> torch.Tensor:
        hidden: torch.Tensor = trunk(torch.tensor([tokens]), use_cache=False).last_hidden_state
        return hidden

    return read


def states_of(
    head: torch.nn.Module, embed: torch.nn.Module, *more: Any
) -> Callable[[list[int], torch.Tensor], torch.Tensor]:
    """Make what returns a head's states of tokens and hidden states; more: further arguments."""

    @torch.no_grad()
    def read(tokens: list[int], hidden: torch.Tensor) -> torch.Tensor:
        states: torch.Tensor = head(embed(torch.tensor([tokens])), hidden, *more)
        return states

    return read


def run_layer(
    head: torch.nn.Module, embedded: torch.Tensor, hidden: torch.Tensor, rotary: Any
) -> torch.Tensor:
    """Join both rows of a head, and run its attention and feed-forward, up to its last norm."""
    rows = embedded.shape[1]
    x = head.eh_proj(torch.cat([head.enorm(embedded), head.hnorm(hidden)], dim=-1))
    turned = rotary(embedded, torch.arange(rows)[None])
    mask = torch.full((rows, rows), -torch.inf).triu(1)[None, None]
    x = x + head.self_attn(head.input_layernorm(x), turned, mask)[0]
    made: torch.Tensor = x + head.mlp(head.post_attention_layernorm(x))
    return made


def published(
    folder: Path,
    tokens: list[int],
    trunk: Callable[[list[int]], torch.Tensor],
    output: Callable[[torch.Tensor], torch.Tensor],
    states: Callable[[list[int], torch.Tensor], torch.Tensor],
    draft_output: Callable[[torch.Tensor], torch.Tensor] | None = None,
    later_states: Callable[[list[int], torch.Tensor], torch.Tensor] | None = None,
) -> Published:
    """Figures of a folder from its trunk's hidden states, output head and head's states.

    draft_output: of the head's states, if not `output`. later_states: of the head that goes on, if
    it is another.
    """

    @torch.no_grad()
    def scored(rows: torch.Tensor) -> Floats:
        logits: Floats = (draft_output or output)(rows)[0].numpy()
        return logits

    def drafts(read: list[int]) -> Floats:
        return scored(states(read[1:], trunk(read)[:, :-1]))

    hidden = trunk(tokens)
    first = states(tokens[1:], hidden[:, :-1])
    best = int(scored(first)[-1].argmax())
    later = later_states or states
    again = later([*tokens[1:], best], torch.cat([hidden[:, :-1], first[:, -1:]], dim=1))
    chained = scored(again)[-1]
    with torch.no_grad():
        logits = output(hidden)[0].numpy()
    return Published(folder, tokens, logits, scored(first), best, chained, drafts)
