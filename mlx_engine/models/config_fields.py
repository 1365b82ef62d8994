"""Typed access to the fields of a model's config.json, with errors that name the field."""

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from mlx_engine.values.errors import BadModelFile, UnsupportedModel
from mlx_engine.values.words import Words

T = TypeVar("T")
_WINDOW = 4096
"""Default of `sliding_window` in most configs of transformers."""

_TIED = "tie_word_embeddings"
_INFINITY = {"__float__": "Infinity"}
_MOST_LAYERS = 1000  # they are listed one by one, so a wild number would hang


class ConfigFields:
    """Fields of a config.json: those of its `text_config` first, then those of the outer object.

    A null of the text config hides no outer value.

    origin: path of the file, for messages. model_types: `model_type` of the outer object and of the
    text config, where given. Every accessor raises BadModelFile for a value of the wrong type or
    range.
    """

    def __init__(self, config: Mapping[str, object], origin: str) -> None:
        self.origin = origin
        text = config.get("text_config", config)
        if not isinstance(text, Mapping):
            raise self.bad_field("text_config", text, Words("an object"))
        outer = config.get("model_type")
        self.model_types = tuple(
            kind for kind in (outer, text.get("model_type")) if isinstance(kind, str)
        )
        given = {n: value for n, value in text.items() if value is not None or n not in config}
        self._fields: dict[str, object] = {**config, **given}
        if config.get(_TIED, given.get(_TIED)) != given.get(_TIED, config.get(_TIED)):
            del self._fields[_TIED]  # whole and part differ: the files tell

    def with_defaults(self, **defaults: object) -> "ConfigFields":
        """Copy the fields of a config.json, filling in defaults where a field is absent or null."""
        given = {name: value for name, value in self._fields.items() if value is not None}
        return self.with_values(**{**defaults, **given})

    def with_values(self, **values: object) -> "ConfigFields":
        """Copy the fields of a config.json, replacing those that are given."""
        made = ConfigFields({}, self.origin)
        made.model_types = self.model_types
        made._fields = {**self._fields, **values}
        return made

    def bad_field(self, name: str, value: object, requirement: str) -> BadModelFile:
        """Make the BadModelFile error for a field of config.json that is not what is required."""
        return BadModelFile(
            "{origin}: the config has {name}={value}, where {wanted} is "
            "needed. Get the file again from where the weights come from.",
            origin=self.origin,
            name=name,
            value=ascii(value)[:80],
            wanted=requirement,
        )

    def __contains__(self, name: str) -> bool:
        """Whether config.json has a field of this name, null included."""
        return name in self._fields

    def has(self, name: str) -> bool:
        """Whether config.json has a field of this name that is not null."""
        return self._fields.get(name) is not None

    def count(
        self, name: str, default: int | None = None, minimum: int = 1, maximum: int = 2**31 - 1
    ) -> int:
        """Read an integer field of config.json between `minimum` and `maximum`, both included."""
        value = self._read_value(name, default)
        if not isinstance(value, int) or isinstance(value, bool) or not minimum <= value <= maximum:
            raise self.bad_field(name, value, f"a whole number from {minimum} to {maximum}")
        return value

    def counts(self, name: str) -> tuple[int, ...]:
        """Read a list of integers from config.json, none negative; empty where it is absent."""
        counts = self._read_list(name, int, Words("a list of whole numbers"))
        if min(counts, default=0) < 0:
            raise self.bad_field(name, list(counts), Words("a list of whole numbers"))
        return counts

    def first_count(self, name: str) -> int:
        """Read an integer, or the first of a list of them, from config.json; none negative."""
        counts = self.counts(name) if isinstance(self._read_value(name, None), list) else ()
        return counts[0] if counts else self.count(name, minimum=0)

    def flags(self, name: str) -> tuple[bool, ...]:
        """Read a list of booleans from config.json; empty where the field is absent."""
        listed = self._read_value(name, [])
        if not isinstance(listed, list) or not all(isinstance(one, bool) for one in listed):
            raise self.bad_field(name, listed, Words("a list of true and false"))
        return tuple(listed)

    def strings(self, name: str) -> tuple[str, ...]:
        """Read a list of strings from config.json; empty where the field is absent."""
        return self._read_list(name, str, Words("a list of strings"))

    def numbers(self, name: str) -> tuple[float, ...]:
        """Read a list of numbers from config.json as floats; empty where the field is absent.

        Infinity may be written {"__float__": "Infinity"}, as transformers 5 does, for JSON has no
        infinity.
        """
        listed = self._read_value(name, [])
        if isinstance(listed, list):
            listed = [math.inf if one == _INFINITY else one for one in listed]
        listed = self.with_values(**{name: listed})._read_list(
            name, (int, float), Words("a list of numbers")
        )
        return tuple(map(float, listed))

    def per_layer_numbers(self, name: str) -> tuple[float, ...]:
        """Read a list of numbers, or one number as a list, from config.json; empty if absent."""
        value = self._fields.get(name)
        is_list = value is None or isinstance(value, list)
        return self.numbers(name) if is_list else (self.number(name, 0.0),)

    def string(self, name: str, default: str) -> str:
        """Read a string field of config.json."""
        value = self._read_value(name, default)
        if not isinstance(value, str):
            raise self.bad_field(name, value, Words("a word"))
        return value

    def number(self, name: str, default: float) -> float:
        """Read a positive number from config.json as a float."""
        value = self._read_value(name, default)
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < 1e12:
            raise self.bad_field(name, value, Words("a number above 0"))
        return float(value)

    def negative_number(self, name: str, default: float) -> float:
        """Read a number below 0 from config.json as a float."""
        value = self._read_value(name, default)
        if not isinstance(value, int | float) or isinstance(value, bool) or not -1e12 < value < 0:
            raise self.bad_field(name, value, Words("a number below 0"))
        return float(value)

    def non_negative_number(self, name: str) -> float:
        """Read a number from config.json that is zero or positive; 0 where the field is absent."""
        value = self._read_value(name, 0)
        return 0.0 if value == 0 and not isinstance(value, bool) else self.number(name, 0.0)

    def flag(self, name: str, *, default: bool) -> bool:
        """Read a boolean from config.json; null counts as false, as in transformers."""
        value = self._fields.get(name, default)
        value = False if value is None else value
        if not isinstance(value, bool):
            raise self.bad_field(name, value, Words("true or false"))
        return value

    def section(self, name: str) -> "ConfigFields | None":
        """Return the fields of an object nested in config.json; None where it is absent."""
        return ConfigFields(self._read_object(name), self.origin) if self.has(name) else None

    def require(self, required_values: Mapping[str, object]) -> None:
        """Raise UnsupportedModel if a field of config.json is not the only supported value."""
        for name, value in required_values.items():
            asked = self._read_value(name, value)
            if asked != value:
                raise UnsupportedModel(
                    "{origin}: asks for {key} {name}, which this version does not run. Take "
                    "another model.",
                    origin=self.origin,
                    key=name,
                    name=ascii(asked)[:40],
                )

    def require_multiple(self, name: str, divisor: str) -> None:
        """Raise BadModelFile unless config.json's `name` is a multiple of its integer `divisor`."""
        if self.count(name) % self.count(divisor):
            raise self.bad_field(
                name, self.count(name), f"a multiple of {divisor}={self.count(divisor)}"
            )

    def layers(self, default: int | None = None) -> int:
        """Read the number of layers, `num_hidden_layers` of config.json."""
        return self.count("num_hidden_layers", default, maximum=_MOST_LAYERS)

    def kv_heads(self, heads: int) -> int:
        """Read `num_key_value_heads` of config.json, a divisor of `heads`, which is the default."""
        kept = self.count("num_key_value_heads", heads)
        if heads % kept:
            raise self.bad_field("num_key_value_heads", kept, f"a divisor of the {heads} heads")
        return kept

    def ties_embeddings(self) -> bool | None:
        """Read `tie_word_embeddings` of config.json; None where it does not say."""
        return self.flag(_TIED, default=False) if self.has(_TIED) else None

    def window_size(self, default: int | None = _WINDOW) -> int | None:
        """Read config.json's `sliding_window` in tokens; None for null, `default` where absent."""
        name = "sliding_window"
        return self.count(name) if self.has(name) else (None if name in self else default)

    def layer_types(self, *known: str, name: str = "layer_types") -> tuple[str, ...]:
        """Read the type of each layer from config.json, one of `known`; empty where absent."""
        kinds, layers = self.strings(name), self.layers()
        if kinds and (len(kinds) < layers or not set(kinds) <= {*known}):
            wanted = Words("one of {known} for each layer", known=", ".join(known))
            raise self.bad_field(name, list(kinds), wanted)
        return kinds[:layers]

    def layer_windows(
        self, window: int | None, has_window: Callable[[int], bool] | None = None
    ) -> tuple[int | None, ...]:
        """Return each layer's sliding window from config.json in tokens, None for full attention.

        Layers are read from `layer_types`; has_window decides for each layer number where that is
        absent (None: every layer has the window).
        """
        kinds = self.layer_types("full_attention", "sliding_attention")
        if not kinds:
            return tuple(
                window if has_window is None or has_window(layer) else None
                for layer in range(self.layers())
            )
        slides = [kind == "sliding_attention" for kind in kinds]
        if any(slides) and window is None:
            window = self.count("sliding_window", _WINDOW)
        return tuple(window if slide else None for slide in slides)

    def rope_fields(self, kind: str) -> "ConfigFields":
        """Return config.json's RoPE fields for one type of layer, merged as transformers does.

        `rope_scaling` replaces `rope_parameters`; where those have one object per layer type, it
        updates the one for full attention. `rope_theta` and `partial_rotary_factor` of the outer
        object apply to full attention, and there `original_max_position_embeddings` overrides the
        nested one. `truncate` is read only outside the per-type objects.
        """
        scaling, given = self._read_object("rope_scaling"), self._read_object("rope_parameters")
        is_full = kind == "full_attention"
        by_kind = any(isinstance(part, Mapping) for part in given.values())
        outer = {key: self._fields.get(key) for key in ("rope_theta", "partial_rotary_factor")}
        made: dict[str, object] = outer if is_full else {}
        if by_kind:
            own = given.get(kind)
            made |= own if isinstance(own, Mapping) else {}
            made |= {**(scaling if is_full else {}), "truncate": given.get("truncate", True)}
        elif is_full:
            made |= scaling or given
            trained = self._fields.get("original_max_position_embeddings")
            made |= {"original_max_position_embeddings": trained} if trained is not None else {}
        return ConfigFields(made, self.origin)

    def _read_object(self, name: str) -> Mapping[str, object]:
        value = self._read_value(name, {})
        if not isinstance(value, Mapping):
            raise self.bad_field(name, value, Words("an object"))
        return value

    def _read_value(self, name: str, default: object) -> object:
        value = self._fields.get(name)
        return default if value is None else value

    def _read_list(
        self, name: str, element_type: type[T] | tuple[type[T], ...], requirement: str
    ) -> tuple[T, ...]:
        listed = self._read_value(name, [])
        if not isinstance(listed, list) or not all(
            isinstance(one, element_type) and not isinstance(one, bool) for one in listed
        ):
            raise self.bad_field(name, listed, requirement)
        return tuple(listed)


def fields_by_model_type(path: Path) -> dict[str, dict[str, dict[str, object]]]:
    """Read tables of config fields from a JSON file: table name -> model_type -> fields.

    A key in a table names one or several model types; a type named twice has the fields of both.
    """
    tables: dict[str, dict[str, dict[str, object]]] = {}
    for name, entries in json.loads(path.read_text(encoding="utf-8")).items():
        table = tables[name] = {}
        for kinds, fields in entries.items():
            for kind in kinds.split():
                table.setdefault(kind, {}).update(fields)
    return tables
