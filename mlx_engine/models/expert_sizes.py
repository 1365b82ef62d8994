"""Sizes of feed-forwards that choose among experts, read from a config.json."""

from dataclasses import dataclass

from mlx_engine.models.config_fields import ConfigFields

_MOST_EXPERTS = 2**16


@dataclass(frozen=True, slots=True)
class ExpertSizes:
    """Each token goes through per_token of `count` experts and through one that all share.

    size, shared_size: inner widths. normalised: the weights of the chosen experts add up to one.
    Layers of `dense_layers`, and those not a multiple of `step` (counted from one), have an
    ordinary feed-forward instead.
    """

    count: int
    per_token: int
    size: int
    shared_size: int
    normalised: bool
    step: int
    dense_layers: tuple[int, ...]

    def chosen_in(self, layer: int) -> bool:
        """Whether layer `layer` (from zero) has experts."""
        return layer not in self.dense_layers and (layer + 1) % self.step == 0

    @staticmethod
    def read(fields: ConfigFields) -> "ExpertSizes":
        """By the names of Hugging Face's Qwen configs; BadModelFile names the key."""
        count = fields.count("num_experts", most=_MOST_EXPERTS)
        return ExpertSizes(
            count=count,
            per_token=fields.count("num_experts_per_tok", most=count),
            size=fields.count("moe_intermediate_size"),
            shared_size=fields.count("shared_expert_intermediate_size"),
            normalised=fields.flag("norm_topk_prob", default=True),
            step=fields.count("decoder_sparse_step", 1),
            dense_layers=fields.counts("mlp_only_layers"),
        )
