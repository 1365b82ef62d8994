"""Specs of feed-forward layers, dense ones and mixtures of experts: options and tensor shapes.

A spec's `tensors` is the only place where the shapes of its weights are written down. No MLX here.
"""

from dataclasses import dataclass, replace
from typing import Literal

from mlx_engine.models.layer_specs import Shapes

EXPERT_TABLE = "gate.tid2eid"
"""Name of the table of a router's experts by token, the only weight of integers."""

Activation = Literal[
    "silu", "gelu", "gelu_tanh", "gelu_sigmoid", "relu", "relu2", "sigmoid", "tanh", "linear", "oai"
]
ExpertScore = Literal["softmax", "sigmoid", "sqrtsoftplus"]
"""How a router scores experts (ExpertsSpec)."""


@dataclass(frozen=True, slots=True)
class FeedForwardSpec:
    """Feed-forward: down(f(gate(x), up(x))) (arXiv 2002.05202), or down(act(up(x))) if not gated.

    f is act(gate) * up; with a limit L > 0, min(act(gate), L) * clip(up, -L, L), or act(min(gate,
    L)) * clip(up, -L, L) if limits_gate. Activation "oai" (gpt-oss) is (up + 1) * g * sigmoid(1.702
    g) with g = min(gate, L) and clipped up.
    """

    inner: int
    activation: Activation = "silu"
    limit: float = 0.0
    limits_gate: bool = False
    bias: bool = False
    gated: bool = True

    prefix = "mlp"

    def tensors(self, hidden: int) -> Shapes:
        """Names and shapes of the weights of a dense feed-forward layer."""
        rows = {"gate": self.inner} if self.gated else {}
        rows |= {"up": self.inner, "down": hidden}
        inputs = {"gate": hidden, "up": hidden, "down": self.inner}
        made: Shapes = {
            f"{part}_proj.weight": (count, inputs[part]) for part, count in rows.items()
        }
        if self.bias:
            made |= {f"{part}_proj.bias": (count,) for part, count in rows.items()}
        return made

    def with_gate_limit(self, limit: float) -> "FeedForwardSpec":
        """Limit the gate's inputs and what they multiply (`limits_gate`); 0: no limit."""
        return replace(self, limit=limit, limits_gate=True)


@dataclass(frozen=True, slots=True)
class ExpertsSpec:
    """Mixture of experts: each token goes through `per_token` of `count` experts and a shared one.

    Router scores are a softmax over all experts, or a sigmoid or the root of a softplus of each, in
    float32. Experts with the highest score + choice bias are selected, within the `kept_groups`
    groups whose `best_of_group` best scores sum highest. Weights are the scores of selected
    experts, divided by their sum if `normalise` (at least least_sum), times `scale`. router_bias:
    bias of the router's product. float32_router: compute that product in float32. router_norm: the
    router reads RMS-normed rows with weights over sqrt(hidden), and weights are multiplied by a
    factor per expert (Gemma 4). shared_gate: the shared expert is multiplied by a sigmoid gate.
    latent: size of a projection of the hidden state that experts read and write, 0 for none; the
    router and the shared expert read the hidden state itself (Nemotron 3). identities: number of
    experts behind the others that return what they read and have no weights (LongCat). table_rows:
    experts are those that a table of so many rows has for the token (hash routing); 0: those with
    the highest scores. scored_shared: number of shared experts, of the others' size, that the
    router scores behind the others, and whose scores count in that sum (Inkling).
    """

    count: int
    per_token: int
    feed: FeedForwardSpec
    score: ExpertScore = "softmax"
    choice_bias: bool = False
    router_bias: bool = False
    float32_router: bool = False
    router_norm: bool = False
    groups: int = 1
    kept_groups: int = 1
    best_of_group: int = 2
    normalise: bool = True
    least_sum: float = 0.0
    scale: float = 1.0
    shared: FeedForwardSpec | None = None
    shared_gate: bool = False
    latent: int = 0
    identities: int = 0
    table_rows: int = 0
    scored_shared: int = 0

    prefix = "mlp"

    @property
    def routed(self) -> int:
        """Number of experts that the router scores."""
        return self.count + self.identities

    @property
    def is_softmax_over_selected(self) -> bool:
        """Whether expert weights equal a softmax over the logits of the selected experts alone.

        True for normalised softmax scores without bias or groups, since normalising cancels the
        other terms.
        """
        is_plain = not self.choice_bias and not self.table_rows and not self.scored_shared
        is_plain = is_plain and self.groups == self.kept_groups
        return self.score == "softmax" and self.normalise and is_plain and not self.least_sum

    def with_gate_limit(self, limit: float) -> "ExpertsSpec":
        """Limit the gates of routed and shared experts, as FeedForwardSpec.with_gate_limit."""
        shared = self.shared and self.shared.with_gate_limit(limit)
        return replace(self, feed=self.feed.with_gate_limit(limit), shared=shared)

    def tensors(self, hidden: int) -> Shapes:
        """Names and shapes of the weights of a mixture of experts; expert matrices are stacked."""
        made: Shapes = {"gate.weight": (self.routed + self.scored_shared, hidden)}
        if self.router_bias:
            made["gate.bias"] = (self.routed,)
        if self.choice_bias:
            made["gate.e_score_correction_bias"] = (self.routed,)
        if self.table_rows:
            made[EXPERT_TABLE] = (self.table_rows, self.per_token)
        if self.router_norm:
            made |= {"router_norm.weight": (hidden,), "expert_scale": (self.count,)}
        stacks = self.feed.tensors(self.latent or hidden)
        if self.latent:
            made |= {"latent_down.weight": (self.latent, hidden)}
            made |= {"latent_up.weight": (hidden, self.latent)}
        made |= {f"switch_mlp.{name}": (self.count, *shape) for name, shape in stacks.items()}
        if self.scored_shared:
            made |= {
                f"shared_expert.{name}": (self.scored_shared, *shape)
                for name, shape in stacks.items()
            }
        if self.shared is not None:
            its = self.shared.tensors(hidden)
            made |= {f"shared_expert.{name}": shape for name, shape in its.items()}
        if self.shared_gate:
            made["shared_expert_gate.weight"] = (1, hidden)
        return made
