"""A tiny Gemma 4 and its assistant as transformers writes them, and what transformers says."""

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import transformers as hf
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from tiny_tokenizer import make_tiny_tokenizer

VOCABULARY, WINDOW, HIDDEN = 300, 8, 64
CLUSTERS = {"use_ordered_embeddings": True, "num_centroids": 20, "centroid_intermediate_top_k": 6}

_TEXT = {
    "vocab_size": VOCABULARY,
    "intermediate_size": 96,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "global_head_dim": 32,
    "sliding_window": WINDOW,
    "max_position_embeddings": 512,
    "use_double_wide_mlp": False,
    "pad_token_id": 0,
    "eos_token_id": 297,
    "bos_token_id": 0,
}


class AllShared(hf.Gemma4TextConfig):
    """The assistant's layers; transformers 5.23 itself refuses a model that shares all of them."""

    @property
    def kv_sharing_modes(self) -> list[str]:
        return ["reuse"] * self.num_hidden_layers


class AllSharedModel(hf.Gemma4TextModel):
    """The same class under a config of another name."""

    config_class = AllShared


hf.AutoModel.register(AllShared, AllSharedModel, exist_ok=True)


class Pair(NamedTuple):
    """Two folders and transformers' models of them."""

    target: Path
    assistant: Path
    model: hf.PreTrainedModel
    drafter: hf.PreTrainedModel


def write_pair(folder: Path, *, shared: int = 3, ordered: bool = True, old: bool = False) -> Pair:
    """shared: layers of the target that reuse others' keys. old: sizes as published at first."""
    target = hf.Gemma4TextConfig(
        **_TEXT,
        hidden_size=HIDDEN,
        num_hidden_layers=6,
        layer_types=["sliding_attention", "sliding_attention", "full_attention"] * 2,
        vocab_size_per_layer_input=VOCABULARY,
        hidden_size_per_layer_input=16 if shared else 0,
        num_kv_shared_layers=shared,
        final_logit_softcapping=20.0,
        attn_implementation="eager",
    )
    torch.manual_seed(5)
    model = _drawn(hf.Gemma4ForCausalLM(target))
    drafter = draw_assistant(HIDDEN, ordered=ordered)
    made = Pair(folder / "t", folder / "d", model, drafter)
    for place, one in ((made.target, model), (made.assistant, drafter)):
        one.save_pretrained(place)
        if old:
            _as_published_at_first(place)
    make_tiny_tokenizer(made.target, VOCABULARY)
    return made


def draw_assistant(hidden: int, *, ordered: bool) -> hf.PreTrainedModel:
    """A random assistant of a target with hidden states of this size."""
    text = AllShared(
        **_TEXT,
        hidden_size=48,
        num_hidden_layers=3,
        layer_types=["sliding_attention", "sliding_attention", "full_attention"],
        vocab_size_per_layer_input=0,
        hidden_size_per_layer_input=0,
        num_kv_shared_layers=3,
        attn_implementation="eager",
    )
    config = hf.Gemma4AssistantConfig(
        text_config=text, backbone_hidden_size=hidden, **(CLUSTERS if ordered else {})
    )
    drafter = _drawn(hf.Gemma4AssistantForCausalLM(config))
    if ordered:
        drafter.masked_embedding.token_ordering.copy_(torch.randperm(VOCABULARY))
    return drafter


def change_tensors(folder: Path, **changes: torch.Tensor | None) -> None:
    """Sets tensors by name; None takes one out."""
    path = folder / "model.safetensors"
    made = load_file(path) | changes
    save_file({name: value for name, value in made.items() if value is not None}, path)


def drafted(pair: Pair, tokens: list[int], after: tuple[int, ...]) -> NDArray[np.float32]:
    """Logits [1 + len(after), V] of a draft whose newest token is tokens[-1]."""
    read, length = torch.tensor([tokens[:-1]]), len(tokens) - 1
    rows: list[torch.Tensor] = []
    with torch.no_grad():
        seen = pair.model(read, output_hidden_states=True, use_cache=True)
        state = seen.hidden_states[-1][:, -1:]
        caches = seen.past_key_values.layers
        full = 6 - 1 - pair.model.config.num_kv_shared_layers
        kept = {
            "full_attention": (caches[full].keys, caches[full].values),
            # a sliding row sees WINDOW tokens, its own among them
            "sliding_attention": tuple(
                one[:, :, -(WINDOW - 1) :]
                for one in (caches[full - 1].keys, caches[full - 1].values)
            ),
        }
        embed = pair.model.get_input_embeddings()
        for token in (tokens[-1], *after):
            said = pair.drafter(
                inputs_embeds=torch.cat([embed(torch.tensor([[token]])), state], dim=-1),
                position_ids=torch.tensor([[length]]),
                shared_kv_states=kept,
            )
            state = said.last_hidden_state
            rows.append(said.logits[0, 0])
    return torch.stack(rows).numpy()


def _drawn(model: hf.PreTrainedModel) -> hf.PreTrainedModel:
    model = model.eval().float()
    with torch.no_grad():
        for name, value in [*model.named_parameters(), *model.named_buffers()]:
            if "inv_freq" in name or "embed_scale" in name or "token_ordering" in name:
                continue
            if "q_norm" in name:
                value.mul_(0.4)  # scores are not scaled down: else softmax would sharpen all noise
            elif value.ndim < 2:
                value.add_(0.2 * torch.randn_like(value))
            else:
                value.copy_(torch.randn_like(value) * value.shape[-1] ** -0.5)
    return model


def _as_published_at_first(folder: Path) -> None:
    path = folder / "config.json"
    config = json.loads(path.read_text())
    for part in (config, config.get("text_config", {})):
        if part.pop("per_layer_config", None) is not None:
            part["global_head_dim"] = _TEXT["global_head_dim"]
    path.write_text(json.dumps(config))
