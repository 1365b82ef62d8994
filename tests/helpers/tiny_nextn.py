"""Tiny random models with a NextN head as Hugging Face publishes them, and transformers' own."""

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np
import torch
import transformers as hf
from compared import relative
from model_edits import Arrays, edit_config, edit_tensors
from numpy.typing import NDArray
from tiny_published import ARCHITECTURES, VOCABULARY, draw, sizes_of
from tiny_tokenizer import make_tiny_tokenizer
from transformers.modeling_layers import MtpModel

from mlx_engine import Engine

TYPES = ("glm4_moe", "glm4_moe_lite", "deepseek_v3")
OTHERS = ("bailing_hybrid", "ernie4_5_moe", "exaone4", "exaone_moe", "hy_v3", "mellum")
"""Whose heads are named otherwise and have the trunk's embedding and output head."""
LAYER = 3
"""The head's layer: the trunk has as many."""

Floats = NDArray[np.float32]


class Published(NamedTuple):
    """A folder and transformers' float32 figures of `tokens` on it.

    logits [T, V]; draft_logits [T-1, V], row k for (x_k+1, h_k); chained [V], for a drafted token
    after the last: (drafted, the head's last state). drafts: such draft_logits of other tokens.
    """

    folder: Path
    tokens: list[int]
    logits: Floats
    draft_logits: Floats
    drafted: int
    chained: Floats
    drafts: Callable[[list[int]], Floats]


def assert_as_published(engine: Engine, tiny: Published) -> None:
    """Logits of trunk and head are tiny's, and those of one more draft from the head's state."""
    assert (engine.description.mtp, engine.description.mtp_heads) == (None, 1)
    model = engine.parts.model
    (head,) = model.heads
    tokens, caches = mx.array([tiny.tokens]), head.make_head_caches()
    hidden = model.forward(tokens, model.make_caches())
    states = head.mtp_forward(tokens[:, 1:], hidden[:, :-1], caches)
    caches.commit(len(tiny.tokens) - 1)
    further = head.mtp_forward(mx.array([[tiny.drafted]]), states[:, -1:], caches)
    found = model.logits(hidden), head.mtp_logits(states), head.mtp_logits(further)
    for ours, theirs in zip(found, (tiny.logits, tiny.draft_logits, tiny.chained), strict=True):
        assert relative(np.array(ours[0]), theirs) < 1e-4


def publish(
    model_type: str, folder: Path, *, own: bool, seed: int = 0, **changes: Any
) -> Published:
    """Writes the folder; own: the head has an embedding and an output head of its own.

    changes: of the config.
    """
    promise: dict[str, Any] = {"num_nextn_predict_layers": 1, "num_mtp_layers": 1}
    if model_type == "glm4_moe_lite":
        promise["mtp_mlp_layer_types"] = ["sparse"]
    if model_type in _KINDS:
        layer, feed = _KINDS[model_type]
        promise |= {"mtp_layer_types": [layer], "mtp_mlp_layer_types": [feed]}
    name = ARCHITECTURES[model_type][0]
    settings = getattr(hf, f"{name}Config")
    config = settings(**sizes_of(model_type) | promise | changes, attn_implementation="eager")
    torch.manual_seed(seed)
    model = getattr(hf, f"{name}ForCausalLM")(config).eval().float()
    head = MtpModel(model, 1).eval().float()
    with torch.no_grad():
        for part, value in [*model.named_parameters(), *model.named_buffers()]:
            draw(part, value, 2.0)
        for part, value in [*head.layers.named_parameters(), *head.layers.named_buffers()]:
            draw(part, value, 1.0)
        if own:
            head.embed_tokens = torch.nn.Embedding(config.vocab_size, config.hidden_size)
            head.shared_head = torch.nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        if model_type == "ernie4_5_moe":
            head.layers[0].post_norm.weight.copy_(model.model.norm.weight)
        model.save_pretrained(folder)
        make_tiny_tokenizer(folder, VOCABULARY)
        found = stored_head(head, own=own)
        if model_type in _OTHER_NAMES:
            found = _renamed(found, *_OTHER_NAMES[model_type])
        if model_type == "bailing_hybrid":
            found = {_as_ling(name): array for name, array in found.items()}
        edit_tensors(folder, lambda arrays: arrays | found)
        return _figures(folder, model, head, seed)


def stored_head(head: MtpModel, *, own: bool) -> dict[str, mx.array]:
    """The head's tensors under the published names, experts one by one."""
    values = {
        name.replace("mtp_block.", "").replace("post_norm.", "shared_head.norm."): value
        for name, value in head.layers[0].state_dict().items()
    }
    if own:
        values["embed_tokens.weight"] = head.embed_tokens.weight
        values["shared_head.head.weight"] = head.shared_head.weight
    return {f"model.layers.{LAYER}.{n}": array for n, array in stored_layer(values).items()}


def stored_layer(values: Mapping[str, torch.Tensor]) -> dict[str, mx.array]:
    """A layer's tensors, experts one by one."""
    stored: dict[str, torch.Tensor] = {}
    for name, value in values.items():
        base, _, part = name.rpartition(".experts.")
        if part == "gate_up_proj":
            for number, both in enumerate(value):
                gate, up = both.chunk(2)
                stored[f"{base}.experts.{number}.gate_proj.weight"] = gate
                stored[f"{base}.experts.{number}.up_proj.weight"] = up
        elif part == "down_proj":
            for number, down in enumerate(value):
                stored[f"{base}.experts.{number}.down_proj.weight"] = down
        else:
            stored[name] = value
    return {n: mx.array(value.detach().contiguous().numpy()) for n, value in stored.items()}


_KINDS = {
    "bailing_hybrid": ("full_attention", "sparse"),
    "exaone4": ("full_attention", "dense"),
    "exaone_moe": ("sliding_attention", "dense"),
    "hy_v3": ("full_attention", "sparse"),
    "mellum": ("sliding_attention", "sparse"),
}
_MTP_NAMES = {
    "eh_proj": "mtp.fc",
    "enorm": "mtp.pre_fc_norm_embedding",
    "hnorm": "mtp.pre_fc_norm_hidden",
    "shared_head.norm": "mtp.norm",
}
_FINAL_NORM = {"shared_head.norm": f"model.layers.{LAYER}.final_layernorm"}
_OTHER_NAMES: dict[str, tuple[dict[str, str], str]] = {
    "ernie4_5_moe": (
        {
            "eh_proj": "model.mtp_linear_proj.0",
            "enorm": "model.mtp_emb_norm.0",
            "hnorm": "model.mtp_hidden_norm.0",
            "shared_head.norm": "",
        },
        "model.mtp_block.0.",
    ),
    **dict.fromkeys(("exaone4", "exaone_moe", "mellum"), (_MTP_NAMES, "mtp.layers.0.")),
    **dict.fromkeys(("bailing_hybrid", "hy_v3"), (_FINAL_NORM, f"model.layers.{LAYER}.")),
}
"""Of heads published otherwise: names beside their layer, none for what is the trunk's, and what
those of the layer begin with."""


def _renamed(stored: dict[str, mx.array], names: dict[str, str], layer: str) -> dict[str, mx.array]:
    made = {}
    for name, value in stored.items():
        base, _, kind = name.removeprefix(f"model.layers.{LAYER}.").rpartition(".")
        theirs = names.get(base, layer + base)
        if theirs:
            made[f"{theirs}.{kind}"] = value
    return made


def _figures(folder: Path, model: Any, head: MtpModel, seed: int) -> Published:
    tokens = [int(t) for t in np.random.default_rng(seed).integers(0, VOCABULARY, 41)]
    read = torch.tensor([tokens])
    hidden = model.model(read).last_hidden_state
    states = _states(head, read[:, 1:], hidden[:, :-1])
    logits = head.shared_head(states)[0]
    drafted = int(logits[-1].argmax())
    longer = torch.cat([read[:, 1:], torch.tensor([[drafted]])], dim=1)
    chained = _states(head, longer, torch.cat([hidden[:, :-1], states[:, -1:]], dim=1))
    return Published(
        folder,
        tokens,
        model(read).logits[0].numpy(),
        logits.numpy(),
        drafted,
        head.shared_head(chained)[0, -1].numpy(),
        partial(_draft_logits, model, head),
    )


@torch.no_grad()
def _draft_logits(model: Any, head: MtpModel, tokens: list[int]) -> Floats:
    read = torch.tensor([tokens])
    hidden = model.model(read).last_hidden_state[:, :-1]
    return head.shared_head(_states(head, read[:, 1:], hidden))[0].numpy()


def _states(head: MtpModel, tokens: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
    """Rows (x_k, h_k-1) at position k; states after the head's norm."""
    positions = torch.arange(1, tokens.shape[1] + 1)[None]
    return head.forward_layer(0, hidden, positions, None, input_ids=tokens)


_LING = {
    "embed_tokens": "word_embeddings",
    "self_attn.o_proj": "attention.dense",
    "self_attn.q_norm": "attention.query_layernorm",
    "self_attn.k_norm": "attention.key_layernorm",
    "mlp.gate.e_score_correction_bias": "mlp.gate.expert_bias",
    "shared_head.norm": "final_layernorm",
}


def _as_ling(name: str) -> str:
    """A name as Ling is published."""
    for ours, theirs in (*_LING.items(), ("self_attn", "attention")):
        name = name.replace(f".{ours}", f".{theirs}")
    return name


def publish_ling(folder: Path) -> Published:
    """GLM-4.5 as Ling 2.0 is published: other names, and queries, keys and values in one matrix."""
    tiny = publish("glm4_moe", folder, own=False, head_dim=16, n_group=2, topk_group=1,
                   n_routed_experts=8)  # fmt: skip

    def renamed(arrays: Arrays) -> Arrays:
        made: Arrays = {}
        for name, array in arrays.items():
            base, _, part = name.rpartition(".self_attn.")
            if part == "q_proj.weight":
                parts = [arrays[f"{base}.self_attn.{one}_proj.weight"] for one in "qkv"]
                made[f"{base}.attention.query_key_value.weight"] = mx.concatenate(parts)
            elif part not in ("k_proj.weight", "v_proj.weight"):
                theirs = next((k for k in _LING if f".{k}" in name and "mtp" not in name), None)
                made[name.replace(theirs, _LING[theirs]) if theirs else name] = array
        return made

    edit_tensors(folder, renamed)
    config = json.loads((folder / "config.json").read_text())
    edit_config(
        folder,
        model_type="bailing_moe",
        num_experts=config["n_routed_experts"],
        num_shared_experts=config["n_shared_experts"],
        moe_shared_expert_intermediate_size=config["moe_intermediate_size"],
        moe_router_enable_expert_bias=True,
        score_function="sigmoid",
        use_qkv_bias=False,
        rotary_dim=config["head_dim"] // 2,
        n_routed_experts=None,
    )
    return tiny
