"""Sizes of a Qwen3.5 / 3.6 or Qwen3-Next model, dense or with experts, from its config.json."""

from collections.abc import Mapping
from dataclasses import dataclass

from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.expert_sizes import ExpertSizes

_MOST_LAYERS = 1000  # they are listed one by one, so a wild number would hang
_WITH_EXPERTS = ("qwen3_5_moe", "qwen3_5_moe_text", "qwen3_next")


@dataclass(frozen=True, slots=True)
class Qwen35Config:
    """Text part of a config; names as in Hugging Face files.

    intermediate_size: inner width of ordinary feed-forwards, 0 where every layer has experts.
    """

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    rms_norm_eps: float
    tie_word_embeddings: bool
    full_attention_interval: int
    linear_conv_kernel_dim: int
    linear_key_head_dim: int
    linear_value_head_dim: int
    linear_num_key_heads: int
    linear_num_value_heads: int
    rope_theta: float
    rope_dims: int
    experts: ExpertSizes | None = None

    @property
    def key_size(self) -> int:
        """Width of all keys of a recurrent layer."""
        return self.linear_num_key_heads * self.linear_key_head_dim

    @property
    def value_size(self) -> int:
        """Width of all values of a recurrent layer."""
        return self.linear_num_value_heads * self.linear_value_head_dim

    @property
    def convolved_size(self) -> int:
        """Channels of the convolution: queries, keys and values."""
        return 2 * self.key_size + self.value_size

    def is_recurrent(self, layer: int) -> bool:
        """Every full_attention_interval-th layer attends, the others recur."""
        return (layer + 1) % self.full_attention_interval != 0

    def has_experts(self, layer: int) -> bool:
        """Whether the feed-forward of a layer of the trunk chooses among experts."""
        return self.experts is not None and self.experts.chosen_in(layer)

    @staticmethod
    def read(config: Mapping[str, object], origin: str) -> "Qwen35Config":
        """From a whole config.json (text part nested or not); BadModelFile names the key."""
        fields = ConfigFields(config, origin)
        hidden, heads = fields.count("hidden_size"), fields.count("num_attention_heads")
        head_dim = fields.count("head_dim", hidden // heads)
        experts = ExpertSizes.read(fields) if _names_experts(config, fields) else None
        read = Qwen35Config(
            vocab_size=fields.count("vocab_size"),
            hidden_size=hidden,
            intermediate_size=fields.count("intermediate_size", 0 if experts else None, least=0),
            num_hidden_layers=fields.count("num_hidden_layers", most=_MOST_LAYERS),
            num_attention_heads=heads,
            num_key_value_heads=fields.count("num_key_value_heads"),
            head_dim=head_dim,
            rms_norm_eps=fields.number("rms_norm_eps", 1e-6),
            tie_word_embeddings=fields.flag("tie_word_embeddings", default=False),
            full_attention_interval=fields.count("full_attention_interval", 4),
            linear_conv_kernel_dim=fields.count("linear_conv_kernel_dim", 4),
            linear_key_head_dim=fields.count("linear_key_head_dim"),
            linear_value_head_dim=fields.count("linear_value_head_dim"),
            linear_num_key_heads=fields.count("linear_num_key_heads"),
            linear_num_value_heads=fields.count("linear_num_value_heads"),
            rope_theta=fields.number("rope_theta", 1e7),
            rope_dims=int(head_dim * fields.number("partial_rotary_factor", 0.25)),
            experts=experts,
        )
        read._check(fields)
        return read

    def _check(self, fields: ConfigFields) -> None:
        ordinary = not all(self.has_experts(n) for n in range(self.num_hidden_layers))
        if ordinary and not self.intermediate_size:
            raise fields.wrong("intermediate_size", 0, "a whole number from 1")
        fields.require_multiple("num_attention_heads", "num_key_value_heads")
        fields.require_multiple("linear_num_value_heads", "linear_num_key_heads")
        fields.require_layer_types(
            ["linear_attention" if self.is_recurrent(n) else "full_attention"
             for n in range(self.num_hidden_layers)]
        )  # fmt: skip
        fields.require_plain_rope()


def _names_experts(config: Mapping[str, object], fields: ConfigFields) -> bool:
    """By the kind of model, or by a count of experts in an ordinary one."""
    text = config.get("text_config")
    inner = text.get("model_type") if isinstance(text, Mapping) else None
    named = config.get("model_type") in _WITH_EXPERTS or inner in _WITH_EXPERTS
    return named or (fields.has("num_experts") and fields.count("num_experts", least=0) > 0)
