"""transformers' own Qwen with its head on the folder of a tiny one, float32, plain attention."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np
import torch
from numpy.typing import NDArray
from transformers.modeling_layers import MtpModel

HEAD_NAMES = {
    "mtp.fc.": "layers.0.eh_proj.",
    "mtp.pre_fc_norm_embedding.": "layers.0.enorm.",
    "mtp.pre_fc_norm_hidden.": "layers.0.hnorm.",
    "mtp.norm.": "layers.0.post_norm.",
    "mtp.layers.0.": "layers.0.mtp_block.",
}


class QwenReference(NamedTuple):
    """Figures of one row of tokens [T]; hidden states [1, T, H] are after the final norm."""

    model: Any
    head: MtpModel
    tokens: list[int]

    def hidden(self) -> torch.Tensor:
        return self.model.model(torch.tensor([self.tokens])).last_hidden_state

    def hidden_before_the_norm(self) -> torch.Tensor:
        seen = []
        hook = self.model.model.norm.register_forward_pre_hook(lambda _, x: seen.append(x[0]))
        self.hidden()
        hook.remove()
        return seen[0]

    @torch.no_grad()
    def logits(self) -> NDArray[np.float32]:
        """[T, V]."""
        return self.model(torch.tensor([self.tokens])).logits[0].numpy()

    @torch.no_grad()
    def draft_logits(self, hidden: torch.Tensor) -> NDArray[np.float32]:
        """[T-1, V]."""
        positions = torch.arange(1, len(self.tokens))[None]
        after = torch.tensor([self.tokens[1:]])
        states = self.head.forward_layer(0, hidden[:, :-1], positions, None, input_ids=after)
        return self.head.shared_head(states)[0].numpy()


def qwen_reference(folder: Path, settings: type, model: type, tokens: list[int]) -> QwenReference:
    """settings, model: transformers' classes."""
    config = json.loads((folder / "config.json").read_text())
    config = config.get("text_config", config)
    config |= {"num_mtp_layers": 1, "mtp_layer_types": ["full_attention"]}
    made = model(settings(**config, attn_implementation="eager")).eval()
    weights = _weights(folder)
    made.load_state_dict({n: w for n, w in weights.items() if "mtp." not in n}, strict=True)
    head = MtpModel(made, 1).eval()
    own = {
        name.replace(old, new): weight
        for name, weight in weights.items()
        for old, new in HEAD_NAMES.items()
        if name.startswith(old)
    }
    missing, unexpected = head.load_state_dict(own, strict=False)
    assert not unexpected
    assert all(name.startswith(("embed_tokens", "shared_head")) for name in missing)
    return QwenReference(made, head, tokens)


def _weights(folder: Path) -> dict[str, torch.Tensor]:
    """Tensors of a Hugging Face folder, names and stacks of experts as transformers has them."""
    arrays = mx.load(str(folder / "model.safetensors"))
    named = {
        n.replace("language_model.", ""): torch.from_numpy(np.array(a)) for n, a in arrays.items()
    }
    for base in {n.rpartition(".experts.")[0] for n in named if ".experts." in n}:

        def stack(part: str, base: str = base) -> torch.Tensor:
            count = sum(n.startswith(f"{base}.experts.") and part in n for n in named)
            return torch.stack([named[f"{base}.experts.{e}.{part}.weight"] for e in range(count)])

        named[f"{base}.experts.gate_up_proj"] = torch.cat([stack("gate_proj"), stack("up_proj")], 1)
        named[f"{base}.experts.down_proj"] = stack("down_proj")
    return {n: w for n, w in named.items() if not n.rpartition(".experts.")[2][0].isdigit()}
