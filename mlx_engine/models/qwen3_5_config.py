"""Sizes of a Qwen3.5 / 3.6 dense model, read from its config.json."""

from collections.abc import Mapping
from dataclasses import dataclass

from mlx_engine.values.errors import BadModelFile

_MOST_LAYERS = 1000  # they are listed one by one, so a wild number would hang


@dataclass(frozen=True, slots=True)
class Qwen35Config:
    """Text part of a `qwen3_5` config; names as in Hugging Face files."""

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

    @staticmethod
    def read(config: Mapping[str, object], origin: str) -> "Qwen35Config":
        """From a whole config.json (text part nested or not); BadModelFile names the key."""
        fields = _Fields(config, origin)
        hidden, heads = fields.count("hidden_size"), fields.count("num_attention_heads")
        head_dim = fields.count("head_dim", hidden // heads)
        read = Qwen35Config(
            vocab_size=fields.count("vocab_size"),
            hidden_size=hidden,
            intermediate_size=fields.count("intermediate_size"),
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
        )
        read._check(fields)
        return read

    def _check(self, fields: "_Fields") -> None:
        fields.require_multiple("num_attention_heads", "num_key_value_heads")
        fields.require_multiple("linear_num_value_heads", "linear_num_key_heads")
        fields.require_layer_types(
            ["linear_attention" if self.is_recurrent(n) else "full_attention"
             for n in range(self.num_hidden_layers)]
        )  # fmt: skip
        fields.require_plain_rope()


class _Fields:
    """Typed look-ups in a config whose text part may be nested and whose rope keys may too."""

    def __init__(self, config: Mapping[str, object], origin: str) -> None:
        self._origin = origin
        text = config.get("text_config", config)
        if not isinstance(text, Mapping):
            raise self.wrong("text_config", text, "an object")
        rope = text.get("rope_parameters") or text.get("rope_scaling") or {}
        if not isinstance(rope, Mapping):
            raise self.wrong("rope_parameters", rope, "an object")
        self._rope = rope
        self._fields: dict[str, object] = {**config, **text, **rope}

    def wrong(self, name: str, value: object, wanted: str) -> BadModelFile:
        return BadModelFile(
            f"{self._origin}: config.json has {name}={value!r}, where {wanted} is needed. "
            "Get the config again from where the weights come from."
        )

    def count(self, name: str, default: int | None = None, most: int = 2**31 - 1) -> int:
        value = self._fields.get(name)
        value = default if value is None else value
        if not isinstance(value, int) or isinstance(value, bool) or not 0 < value <= most:
            raise self.wrong(name, value, f"a whole number from 1 to {most}")
        return value

    def number(self, name: str, default: float) -> float:
        value = self._fields.get(name)
        value = default if value is None else value
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < 1e12:
            raise self.wrong(name, value, "a number above 0")
        return float(value)

    def flag(self, name: str, *, default: bool) -> bool:
        value = self._fields.get(name)
        value = default if value is None else value
        if not isinstance(value, bool):
            raise self.wrong(name, value, "true or false")
        return value

    def require_multiple(self, name: str, of: str) -> None:
        if self.count(name) % self.count(of):
            raise self.wrong(name, self.count(name), f"a multiple of {of}={self.count(of)}")

    def require_layer_types(self, expected: list[str]) -> None:
        given = self._fields.get("layer_types")
        if given is not None and given != expected:
            raise self.wrong("layer_types", given, "the order that full_attention_interval gives")

    def require_plain_rope(self) -> None:
        kind = self._rope.get("rope_type", self._rope.get("type", "default"))
        if kind != "default":
            raise self.wrong("rope_type", kind, '"default" (others are not supported yet)')
