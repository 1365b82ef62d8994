"""RoPE parameters from configs, with every kind of context scaling.

transformers 4 writes `rope_theta`, `partial_rotary_factor` and `rope_scaling`; transformers 5
writes `rope_parameters`, perhaps one object per layer type. Scaling multiplies the period of each
pair of elements by a factor, and rotated elements by a magnitude:

- linear: all periods by `factor`.
- llama3: long periods by `factor`, short ones by 1, those between by a blend.
- yarn (arXiv 2309.00071): pairs that turn often within the trained length by 1, others by `factor`;
the magnitude is 0.1 ln factor + 1 by default.
- longrope (arXiv 2402.13753): one list of factors up to the trained length, one beyond it.
- proportional (Gemma 4): only a share of the pairs rotates, with the periods of a whole head.
- listed: factors listed explicitly, as in GGUF files.
"""

import math
from collections.abc import Sequence

from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.layer_specs import RopeSpec
from mlx_engine.values.errors import UnsupportedModel
from mlx_engine.values.words import Words

_MOST_TOKENS = 2**31 - 1
_WIDEST_HEAD = 2**16  # factors are listed for each pair of elements, so a wild number would hang


def rope_spec(
    fields: ConfigFields,
    head: int,
    *,
    kind: str = "full_attention",
    base: float = 10000.0,
    rotated_share: float | None = None,
    interleaved: bool = False,
) -> RopeSpec:
    """Read the RopeSpec for layers of one type from config.json; head: elements of a head.

    base, rotated_share: defaults of the base and of the share of a head that is rotated; None:
    heads are rotated whole whatever the config says. Raises BadModelFile for bad fields,
    UnsupportedModel for unknown scaling.
    """
    rope = fields.rope_fields(kind)
    is_partly = rotated_share is not None or rope.string("rope_type", "default") == "proportional"
    part = rope.number("partial_rotary_factor", rotated_share or 1.0) if is_partly else 1.0
    if head > _WIDEST_HEAD:
        raise fields.bad_field("head_dim", head, f"at most {_WIDEST_HEAD}")
    width = int(head * part)
    if width < 2 or width > head or width % 2:
        raise fields.bad_field(
            "partial_rotary_factor", width / head, Words("an even part of a head")
        )
    theta = rope.number("rope_theta", base)
    if rope.string("rope_type", "default") == "proportional":
        factor = rope.number("factor", 1.0)
        still = (head - width) // 2
        return RopeSpec(head, theta, (factor,) * (width // 2) + (math.inf,) * still)
    if theta <= 1:
        raise rope.bad_field("rope_theta", theta, Words("a number above 1"))
    return apply_rope_scaling(RopeSpec(width, theta, interleaved=interleaved), rope, fields)


def interleaved_axes(
    fields: ConfigFields, pairs: int, default: Sequence[int] = (11, 11, 10)
) -> tuple[int, ...]:
    """Axes (RopeSpec) of M-RoPE as in Qwen3.5: time, height, width by turns, then time alone.

    `mrope_section` lists how many pairs follow each; height's and width's count. default: where
    config.json lacks it.
    """
    rope = fields.rope_fields("full_attention")
    sections = rope.counts("mrope_section") or tuple(default)
    if len(sections) < 3:
        raise rope.bad_field("mrope_section", list(sections), Words("three whole numbers"))
    return tuple(
        pair % 3 if pair // 3 < sections[pair % 3] else 0  # time where neither has its turn
        for pair in range(pairs)
    )


def apply_rope_scaling(plain: RopeSpec, rope: ConfigFields, fields: ConfigFields) -> RopeSpec:
    """Apply the context scaling (yarn, llama3, ...) of RoPE fields; fields: the whole config."""
    name = rope.string("rope_type", rope.string("type", "default"))
    pairs, magnitude, late = plain.width // 2, 1.0, None
    trained_length = _trained_length(rope, fields)
    if name in ("default", "mrope", "dynamic"):
        return plain  # dynamic scaling begins behind the context, which is never left
    if name == "linear":
        factors = (rope.number("factor", 1.0),) * pairs
    elif name == "llama3":
        factors = _llama3_rope_factors(plain, rope, trained_length)
    elif name == "yarn" and not rope.has("short_factor"):  # as Phi-3 first called LongRoPE
        factor = _rope_scaling_factor(rope, fields, trained_length)
        factors, magnitude = (
            _yarn(plain, rope, trained_length, factor),
            _yarn_magnitude(rope, factor),
        )
    elif name in ("longrope", "su", "yarn"):
        factors = _rope_factors(rope, "short_factor", pairs)
        late = _rope_factors(rope, "long_factor", pairs)
        magnitude = _longrope_magnitude(rope, fields, trained_length)
    elif name == "listed":
        factors, magnitude = _rope_factors(rope, "factors", pairs), rope.number("magnitude", 1.0)
    else:
        raise UnsupportedModel(
            "{origin}: extends its context by rope scaling {name}, which this version does "
            "not support. Use the model without it.",
            origin=fields.origin,
            name=ascii(name)[:40],
        )
    begins = 0 if late is None else round(trained_length)
    return RopeSpec(plain.width, plain.base, factors, magnitude, plain.interleaved, late, begins)


def context_length(fields: ConfigFields, default: int | None = None) -> int:
    """Context length of a model in tokens, after RoPE scaling.

    Model cards of Qwen3 and Qwen3.5 tell users to add YaRN to a config without changing
    `max_position_embeddings`, which is then the unscaled length.
    """
    longest = fields.count("max_position_embeddings", default, minimum=8)
    rope = fields.rope_fields("full_attention")
    key = "original_max_position_embeddings"
    if rope.string("rope_type", rope.string("type", "default")) != "yarn" or not rope.has(key):
        return longest
    stretched = rope.number("factor", 1.0) * rope.number(key, longest)
    return max(longest, int(min(stretched, _MOST_TOKENS)))


def yarn_score_scale(fields: ConfigFields) -> float:
    """Factor of latent attention's scores under YaRN: (0.1 mscale_all_dim ln f + 1)²."""
    rope = fields.rope_fields("full_attention")
    if rope.string("rope_type", rope.string("type", "default")) == "default":
        return 1.0
    factor = _rope_scaling_factor(rope, fields, _trained_length(rope, fields))
    return _log_magnitude(factor, rope.non_negative_number("mscale_all_dim")) ** 2


def _rope_wavelengths(rope: RopeSpec) -> list[float]:
    return [rope.base ** (2 * pair / rope.width) for pair in range(rope.width // 2)]


def _llama3_rope_factors(
    plain: RopeSpec, rope: ConfigFields, trained_length: float
) -> tuple[float, ...]:
    factor = rope.number("factor", 8.0)
    low, high = rope.number("low_freq_factor", 1.0), rope.number("high_freq_factor", 4.0)
    if high <= low:
        raise rope.bad_field("high_freq_factor", high, f"a number above low_freq_factor={low}")
    factors = []
    for period in _rope_wavelengths(plain):
        turns = trained_length / (2 * math.pi * period)
        smooth = min(1.0, max(0.0, (turns - low) / (high - low)))
        factors.append(1 / ((1 - smooth) / factor + smooth))
    return tuple(factors)


def _yarn(
    plain: RopeSpec, rope: ConfigFields, trained_length: float, factor: float
) -> tuple[float, ...]:
    def pair_index_at(rotations: float) -> float:
        """Index of the RoPE pair that turns `rotations` times within the trained length."""
        turns = trained_length / (rotations * 2 * math.pi)
        return plain.width * math.log(turns) / (2 * math.log(plain.base))

    low = pair_index_at(rope.number("beta_fast", 32.0))
    high = pair_index_at(rope.number("beta_slow", 1.0))
    if rope.flag("truncate", default=True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0.0), min(high, plain.width - 1.0)
    span = high - low if high != low else 0.001
    factors = []
    for pair in range(plain.width // 2):
        stretched = min(1.0, max(0.0, (pair - low) / span))
        factors.append(1 / ((1 - stretched) + stretched / factor))
    return tuple(factors)


def _yarn_magnitude(rope: ConfigFields, factor: float) -> float:
    if rope.has("attention_factor"):
        return rope.number("attention_factor", 1.0)
    one = rope.non_negative_number("mscale")
    every = rope.non_negative_number("mscale_all_dim")
    if one and every:
        return _log_magnitude(factor, one) / _log_magnitude(factor, every)
    return _log_magnitude(factor, 1.0)


def _log_magnitude(factor: float, weight: float) -> float:
    return 0.1 * weight * math.log(factor) + 1.0 if factor > 1 else 1.0


def _longrope_magnitude(rope: ConfigFields, fields: ConfigFields, trained_length: float) -> float:
    if rope.has("attention_factor"):
        return rope.number("attention_factor", 1.0)
    factor = _rope_scaling_factor(rope, fields, trained_length)
    return math.sqrt(1 + math.log(factor) / math.log(trained_length)) if factor > 1 else 1.0


def _trained_length(rope: ConfigFields, fields: ConfigFields) -> float:
    key = "original_max_position_embeddings"
    longest = float(fields.count("max_position_embeddings", 2048, minimum=8))
    trained_length = rope.number(key, longest)
    if trained_length < 8:
        raise rope.bad_field(key, trained_length, Words("a number from 8 on"))
    return trained_length


def _rope_scaling_factor(rope: ConfigFields, fields: ConfigFields, trained_length: float) -> float:
    longest = float(fields.count("max_position_embeddings", 2048))
    return rope.number("factor", longest / trained_length)


def _rope_factors(rope: ConfigFields, key: str, pairs: int) -> tuple[float, ...]:
    factors = rope.numbers(key)[:pairs]
    if len(factors) != pairs or min(factors) <= 0:
        raise rope.bad_field(key, list(factors), f"a list of {pairs} numbers above 0")
    return factors
