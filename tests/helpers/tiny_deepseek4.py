"""A tiny random DeepSeek-V4 as published, with its MTP head, and figures in PyTorch.

Transformers 5.23 leaves the head out, so it is built here of its parts, as DeepSeek's own code has
it: a sum of products for each stream, a layer with the window alone, a collapse of its own.
"""

from pathlib import Path
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np
import torch
import transformers as hf
from model_edits import Arrays, edit_config, edit_tensors
from tiny_nextn import Floats, Published
from tiny_published import VOCABULARY, draw
from tiny_sparse import published, states_of
from tiny_tokenizer import make_tiny_tokenizer
from transformers.models.deepseek_v4 import modeling_deepseek_v4 as theirs

SLIDING, SPARSE, HEAVY = (
    "sliding_attention",
    "compressed_sparse_attention",
    "heavily_compressed_attention",
)
SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "moe_intermediate_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 1,
    "head_dim": 32,
    "partial_rotary_factor": 0.25,
    "q_lora_rank": 24,
    "o_groups": 2,
    "o_lora_rank": 16,
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "layer_types": [SPARSE, HEAVY, SPARSE],
    "compress_rates": {SPARSE: 4, HEAVY: 8},
    "mlp_layer_types": ["hash_moe", "moe", "moe"],
    "sliding_window": 6,
    "hc_sinkhorn_iters": 4,
    "index_n_heads": 32,  # of few heads many scores are 0, and any of those may be selected
    "index_head_dim": 16,
    "index_topk": 3,
    "max_position_embeddings": 512,
    "pad_token_id": 0,
    "bos_token_id": 0,
    "eos_token_id": 297,
}


class Head(torch.nn.Module):
    """Rows (x_k, streams of k-1) -> streams, and what the output head reads of them."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        size, eps = config.hidden_size, config.rms_norm_eps
        for name in ("enorm", "hnorm", "norm"):
            setattr(self, name, theirs.DeepseekV4RMSNorm(size, eps=eps))
        for name in ("e_proj", "h_proj"):
            setattr(self, name, torch.nn.Linear(size, size, bias=False))
        self.block = theirs.DeepseekV4DecoderLayer(config, 0)
        self.hc_head = theirs.DeepseekV4HyperHead(config)

    def forward(self, embedded: torch.Tensor, streams: torch.Tensor, rotary: Any) -> torch.Tensor:
        rows = embedded.shape[1]
        at = torch.arange(rows)[None]
        x = self.e_proj(self.enorm(embedded))[:, :, None] + self.h_proj(self.hnorm(streams))
        turned = {"main": rotary(embedded, at, layer_type="main")}
        behind = at.T - at
        hidden = (behind < 0) | (behind >= self.block.self_attn.sliding_window)
        mask = torch.zeros(rows, rows).masked_fill(hidden, -torch.inf)[None, None]
        made: torch.Tensor = self.block(
            x, position_embeddings=turned, position_ids=at, attention_mask=mask
        )
        return made


_NAMES = (
    ("model.", ""),
    ("embed_tokens.", "embed."),
    ("lm_head.", "head."),
    ("block.", ""),
    ("hc_head.hc_", "hc_head_"),
    ("input_layernorm.", "attn_norm."),
    ("post_attention_layernorm.", "ffn_norm."),
    ("attn_hc.", "hc_attn_"),
    ("ffn_hc.", "hc_ffn_"),
    ("self_attn.", "attn."),
    ("mlp.", "ffn."),
    ("compressor.indexer.q_b_proj.", "indexer.wq_b."),
    ("compressor.indexer.scorer.weights_proj.", "indexer.weights_proj."),
    ("compressor.indexer.", "indexer.compressor."),
    ("compressor.kv_proj.", "compressor.wkv."),
    ("compressor.gate_proj.", "compressor.wgate."),
    ("compressor.position_bias", "compressor.ape"),
    ("compressor.kv_norm.", "compressor.norm."),
    ("attn.sinks", "attn.attn_sink"),
    ("q_a_proj.", "wq_a."),
    ("q_b_proj.", "wq_b."),
    ("attn.kv_proj.", "attn.wkv."),
    ("q_a_norm.", "q_norm."),
    ("o_a_proj.", "wo_a."),
    ("o_b_proj.", "wo_b."),
    ("gate.e_score_correction_bias", "gate.bias"),
    ("shared_experts.gate_proj.", "shared_experts.w1."),
    ("shared_experts.down_proj.", "shared_experts.w2."),
    ("shared_experts.up_proj.", "shared_experts.w3."),
)


def _stored(part: torch.nn.Module, prefix: str) -> Arrays:
    """Tensors by DeepSeek's names, experts one by one."""
    made: Arrays = {}
    for name, value in part.state_dict().items():
        full = prefix + name
        for ours, published_name in _NAMES:
            full = full.replace(ours, published_name)
        array = mx.array(value.contiguous().numpy())
        if full.endswith("experts.gate_up_proj"):
            for number, both in enumerate(array):
                base = f"{full.removesuffix('gate_up_proj')}{number}"
                made[f"{base}.w1.weight"], made[f"{base}.w3.weight"] = mx.split(both, 2)
        elif full.endswith("experts.down_proj"):
            for number, one in enumerate(array):
                made[f"{full.removesuffix('down_proj')}{number}.w2.weight"] = one
        else:
            made[full] = array
    return made


class Stages(torch.nn.Module):
    """DSpark's stages: rows of a block behind the joined states of the tokens before it."""

    def __init__(self, config: Any, count: int, read: int, rank: int) -> None:
        super().__init__()
        size, eps = config.hidden_size, config.rms_norm_eps
        self.main_proj = torch.nn.Linear(read * size, size, bias=False)
        self.main_norm = theirs.DeepseekV4RMSNorm(size, eps=eps)
        self.layers = torch.nn.ModuleList(
            theirs.DeepseekV4DecoderLayer(config, 0) for _ in range(count)
        )
        self.hc_head = theirs.DeepseekV4HyperHead(config)
        self.norm = theirs.DeepseekV4RMSNorm(size, eps=eps)
        self.markov_w1 = torch.nn.Embedding(config.vocab_size, rank)
        self.markov_w2 = torch.nn.Linear(rank, config.vocab_size, bias=False)

    def forward(self, embedded: torch.Tensor, features: torch.Tensor, rotary: Any) -> torch.Tensor:
        """Embeddings [1, B, H] and features [1, T, F] -> states [1, B, H]."""
        joined = self.main_norm(self.main_proj(features))
        streams = self.layers[0].attn_hc.hc_mult
        x = embedded[:, :, None].expand(-1, -1, streams, -1).contiguous()
        for layer in self.layers:
            post, comb, read = layer.attn_hc(x)
            made = self._attend(layer.self_attn, layer.input_layernorm(read), joined, rotary)
            x = post[..., None] * made[:, :, None] + comb.transpose(-1, -2) @ x
            post, comb, read = layer.ffn_hc(x)
            made = layer.mlp(layer.post_attention_layernorm(read))
            x = post[..., None] * made[:, :, None] + comb.transpose(-1, -2) @ x
        states: torch.Tensor = self.norm(self.hc_head(x))
        return states

    @staticmethod
    def _attend(own: Any, x: torch.Tensor, joined: torch.Tensor, rotary: Any) -> torch.Tensor:
        before, rows = joined.shape[1], x.shape[1]
        at = torch.arange(before + rows)[None]
        cos, sin = rotary(x, at, layer_type="main")
        late = cos[:, before:], sin[:, before:]
        queries = own.q_b_proj(own.q_a_norm(own.q_a_proj(x))).view(1, rows, -1, own.head_dim)
        queries = theirs.apply_rotary_pos_emb(own.q_b_norm(queries.transpose(1, 2)), *late)
        keys = own.kv_norm(own.kv_proj(torch.cat([joined, x], dim=1)))[:, None]
        keys = theirs.apply_rotary_pos_emb(keys, cos, sin)
        scores = queries @ keys.transpose(-1, -2) * own.scaling
        far = at <= at[:, before:].T - own.sliding_window
        scores = scores.masked_fill(far, -torch.inf)
        sinks = own.sinks[None, :, None, None].expand(1, -1, rows, 1)
        weights = torch.cat([scores, sinks], dim=-1).softmax(-1)[..., :-1]
        made = theirs.apply_rotary_pos_emb(weights @ keys, late[0], -late[1]).transpose(1, 2)
        grouped = made.reshape(1, rows, own.config.o_groups, -1)
        result: torch.Tensor = own.o_b_proj(own.o_a_proj(grouped).flatten(2))
        return result

    def stored(self) -> Arrays:
        """Under DeepSeek's names, in the first and the last stage."""
        last = f"mtp.{len(self.layers) - 1}."
        outside = (("main_", "mtp.0.main_"), ("markov_", f"{last}markov_head.markov_"))
        made: Arrays = {}
        for number, layer in enumerate(self.layers):
            made |= _stored(layer, f"mtp.{number}.")
        made |= _stored(self.hc_head, f"{last}hc_head.")
        for name, value in self.state_dict().items():
            if name == "norm.weight":
                made[f"{last}{name}"] = mx.array(value.numpy())
            for start, published_start in outside:
                if name.startswith(start):
                    full = published_start + name.removeprefix(start)
                    made[full] = mx.array(value.contiguous().numpy())
        return made


class Spark(NamedTuple):
    """A folder with DSpark's stages, and what they draft behind `tokens`, whose last is newest.

    logits: of the block's rows, without the Markov head. drafted: greedy, with it.
    """

    folder: Path
    tokens: list[int]
    logits: Floats
    drafted: list[int]


class _Pair(NamedTuple):
    model: Any
    head: Head


def _of_window(sizes: dict[str, Any]) -> Any:
    """Config of layers with the window alone, and experts chosen by scores."""
    alike = {"layer_types": [SLIDING] * 3, "mlp_layer_types": ["moe"] * 3}
    return hf.DeepseekV4Config(**sizes | alike, attn_implementation="eager")


def _drawn_pair(sizes: dict[str, Any], seed: int) -> _Pair:
    torch.manual_seed(seed)
    config = hf.DeepseekV4Config(**sizes, attn_implementation="eager")
    model = hf.DeepseekV4ForCausalLM(config).eval().float()
    head = Head(_of_window(sizes)).eval().float()
    _clear(head)
    _draw(model, 2.0)
    _draw(head, 1.0)
    return _Pair(model, head)


@torch.no_grad()
def _clear(module: torch.nn.Module) -> None:
    """Vectors that transformers fills in whole models alone."""
    for part, value in module.named_parameters():
        if value.ndim == 1 and "norm" not in part:
            value.zero_()


@torch.no_grad()
def _draw(module: torch.nn.Module, sharpness: float) -> None:
    for part, value in [*module.named_parameters(), *module.named_buffers()]:
        if part.endswith("tid2eid"):
            value.copy_(torch.rand(*value.shape[:1], 8).argsort()[:, : value.shape[1]])
        elif not part.endswith("inv_freq"):
            draw(part, value, sharpness)
        if part.endswith(("hc.scale", "hc_scale")):
            value.add_(1)


def publish_spark(folder: Path, *, stages: int = 2, drafts: int = 4, **changes: Any) -> Spark:
    """Writes the folder; changes: of the config."""
    tiny = publish(folder, **changes)
    model, layers, mask = _drawn_pair(SIZES | changes, 0).model, (2, 0), 7
    torch.manual_seed(3)
    spark = Stages(_of_window(SIZES | changes), stages, len(layers), 6).eval().float()
    _clear(spark)
    _draw(spark, 1.0)
    own = {"dspark_target_layer_ids": list(layers), "dspark_block_size": drafts}
    own |= {"dspark_noise_token_id": mask, "dspark_markov_rank": 6}
    edit_config(folder, **own, num_nextn_predict_layers=stages)
    edit_tensors(folder, lambda arrays: {n: a for n, a in arrays.items() if "mtp." not in n})
    edit_tensors(folder, lambda arrays: arrays | spark.stored())
    inner, seen = model.model, dict[int, torch.Tensor]()
    for layer in layers:
        inner.layers[layer].register_forward_hook(
            lambda _, __, made, layer=layer: seen.update({layer: made.mean(dim=2)})
        )
    read, newest = tiny.tokens[:-1], tiny.tokens[-1]
    with torch.no_grad():
        inner(torch.tensor([read]), use_cache=False)
        features = torch.cat([seen[layer] for layer in layers], dim=-1)
        block = torch.tensor([[newest, *[mask] * (drafts - 1)]])
        states = spark(inner.embed_tokens(block), features, inner.rotary_emb)
        logits = model.lm_head(states)[0]
        drafted, before = list[int](), newest
        for row in logits:
            before = int((row + spark.markov_w2(spark.markov_w1(torch.tensor(before)))).argmax())
            drafted.append(before)
    return Spark(folder, tiny.tokens, logits.numpy(), drafted)


def publish(folder: Path, seed: int = 0, *, head_number: int = 0, **changes: Any) -> Published:
    """Writes the folder; changes: of the config. head_number: that of `mtp.`."""
    model, head = _drawn_pair(SIZES | changes, seed)
    inner = model.model
    model.save_pretrained(folder)
    make_tiny_tokenizer(folder, VOCABULARY)
    edit_config(folder, num_nextn_predict_layers=1)
    stored = _stored(model, "") | _stored(head, f"mtp.{head_number}.")
    edit_tensors(folder, lambda _: stored)
    tokens = [int(t) for t in np.random.default_rng(seed).integers(0, VOCABULARY, 41)]

    states = states_of(head, inner.embed_tokens, inner.rotary_emb)

    @torch.no_grad()
    def trunk(read: list[int]) -> torch.Tensor:
        seen = []
        hook = inner.hc_head.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
        inner(torch.tensor([read]), use_cache=False)
        hook.remove()
        streams: torch.Tensor = seen[0]
        return streams

    def output(streams: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = model.lm_head(inner.norm(inner.hc_head(streams)))
        return logits

    def draft_output(streams: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = model.lm_head(head.norm(head.hc_head(streams)))
        return logits

    return published(folder, tokens, trunk, output, states, draft_output)
