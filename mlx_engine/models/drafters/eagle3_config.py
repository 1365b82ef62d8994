"""What a config says of an EAGLE-3 draft model, in each of the forms they are published in."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.values.errors import UnsupportedModel

_SPECULATORS = "transformer_layer_config"
_IDS = "eagle_aux_hidden_state_layer_ids"


def is_eagle3(tensors: Iterable[str]) -> bool:
    """Told by the join of features and the second norm, which no other layout has."""
    names = {name.removeprefix("model.") for name in tensors}
    seconds = {"midlayer.hidden_norm.weight", "layers.0.hidden_norm.weight"}
    return "fc.weight" in names and bool(names & seconds)


def plain_name(name: str) -> str:
    """The name of a tensor in the newer form: `layers.0.` where SafeAILab has `midlayer.`."""
    plain = name.removeprefix("model.")
    return f"layers.0.{plain.removeprefix('midlayer.')}" if plain.startswith("midlayer.") else plain


@dataclass(frozen=True, slots=True)
class Eagle3Config:
    """Sizes; layers: those of the target whose residuals are read, in the order of the join.

    config: one level, for the rotation. norm_before_residual: the layer adds to the normed state.
    """

    config: Mapping[str, object]
    layers: tuple[int, ...]
    hidden: int
    target_hidden: int
    inner: int
    heads: int
    kv_heads: int
    head_size: int
    eps: float
    vocabulary: int
    draft_vocabulary: int
    norm_before_residual: bool

    @staticmethod
    def read(config: Mapping[str, object], target_layers: int, origin: str) -> "Eagle3Config":
        """BadModelFile for a wrong key, UnsupportedModel for variants that are not run."""
        inner = config.get(_SPECULATORS)
        is_speculators = isinstance(inner, Mapping)
        flat = {**config, **inner} if isinstance(inner, Mapping) else dict(config)
        fields = ConfigFields(flat, origin)
        if fields.count("num_hidden_layers", 1) != 1:
            raise UnsupportedModel(
                f"{origin}: this EAGLE-3 model has {fields.count('num_hidden_layers')} layers; "
                "those with one are run."
            )
        for biased in ("attention_bias", "mlp_bias"):
            if fields.flag(biased, default=False):
                raise UnsupportedModel(f"{origin}: {biased} is not run in EAGLE-3 models.")
        hidden, heads = fields.count("hidden_size"), fields.count("num_attention_heads")
        vocabulary = fields.count("vocab_size")
        return Eagle3Config(
            config=flat,
            layers=_layers(flat, target_layers, origin),
            hidden=hidden,
            target_hidden=fields.count("target_hidden_size", hidden),
            inner=fields.count("intermediate_size"),
            heads=heads,
            kv_heads=fields.count("num_key_value_heads", heads),
            head_size=fields.count("head_dim", max(1, hidden // heads)),
            eps=fields.number("rms_norm_eps", 1e-6),
            vocabulary=vocabulary,
            draft_vocabulary=fields.count("draft_vocab_size", vocabulary),
            norm_before_residual=fields.flag("norm_before_residual", default=is_speculators),
        )


def _layers(flat: Mapping[str, object], count: int, origin: str) -> tuple[int, ...]:
    """Layers by the number of the layer whose output is meant, -1 for the embedding.

    SpecForge and SGLang number outputs, in `eagle_config`; vLLM, and so the speculators form,
    numbers inputs. Both take the inputs of layers 2, n / 2 and n - 3 where nothing is said.
    """
    inner = flat.get("eagle_config")
    nested = ConfigFields(inner, origin).counts(_IDS) if isinstance(inner, Mapping) else ()
    if nested:
        return nested
    given = ConfigFields(flat, origin).counts(_IDS)
    return tuple(layer - 1 for layer in given or (2, count // 2, count - 3))
