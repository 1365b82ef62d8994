"""Tiny published targets with the residuals that transformers sees in them."""

import mlx.core as mx
import torch
from tiny_published import publish
from transformers import AutoModelForCausalLM

import mlx_engine
from mlx_engine.loading.draft_model import build_drafter, read_arrays, read_drafter
from mlx_engine.loading.find import locate_model


class Target:
    """residuals[n + 1]: the output of layer n [T, H], residuals[0] the embedding."""

    def __init__(self, name, folder):
        self.tiny = publish(name, folder)
        self.engine = mlx_engine.load(folder)
        published = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager").eval()
        self.tokens = self.tiny.tokens[:17]
        self.residuals = []

        def hear(_, args, kwargs):
            given = args or tuple(kwargs.values())
            self.residuals.append(given[0][0].detach())

        for part in (*published.model.layers, published.model.norm):
            part.register_forward_pre_hook(hear, with_kwargs=True)
        with torch.no_grad():
            published(torch.tensor([self.tokens]))
        del self.residuals[: -len(published.model.layers) - 1]  # a norm may run before, too
        self.embedding = published.get_input_embeddings().weight.detach()
        self.output = published.get_output_embeddings().weight.detach()

    @property
    def model(self):
        return self.engine.parts.model


def opened(folder, model):
    """The drafter in a folder, read."""
    files = read_drafter(locate_model(folder, folder))
    drafter = build_drafter(files, model)
    read_arrays(drafter, files.origin)
    return drafter


def hidden_of(drafter, tokens):
    """The target's wide hidden states of tokens, read in two chunks."""
    caches = drafter.target.make_caches()
    parts = []
    for part in (tokens[:5], tokens[5:]):
        if part:
            parts.append(drafter.target.forward(mx.array([part]), caches))
            caches.commit(len(part))
    return mx.concatenate(parts, axis=1)
