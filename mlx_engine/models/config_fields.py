"""Typed look-ups in a config.json, with errors that name the key."""

from collections.abc import Mapping

from mlx_engine.values.errors import BadModelFile


class ConfigFields:
    """Looks in the text part, which may be nested, then in the whole; rope keys may be nested too.

    origin: the file, for messages. All look-ups raise BadModelFile.
    """

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
        """The error for a key of this value."""
        return BadModelFile(
            f"{self._origin}: the config has {name}={ascii(value)[:80]}, where {wanted} is "
            "needed. Get the file again from where the weights come from."
        )

    def has(self, name: str) -> bool:
        """Whether the key is there, and not null."""
        return self._fields.get(name) is not None

    def count(
        self, name: str, default: int | None = None, least: int = 1, most: int = 2**31 - 1
    ) -> int:
        """A whole number from `least` to `most`."""
        value = self._fields.get(name)
        value = default if value is None else value
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise self.wrong(name, value, f"a whole number from {least} to {most}")
        return value

    def counts(self, name: str) -> tuple[int, ...]:
        """A list of whole numbers from 0 on, empty when it is not there."""
        value = self._fields.get(name)
        listed = [] if value is None else value
        if not isinstance(listed, list) or not all(
            isinstance(one, int) and not isinstance(one, bool) and one >= 0 for one in listed
        ):
            raise self.wrong(name, value, "a list of whole numbers")
        return tuple(listed)

    def words(self, name: str) -> tuple[str, ...]:
        """A list of strings, empty when it is not there."""
        value = self._fields.get(name)
        listed = [] if value is None else value
        if not isinstance(listed, list) or not all(isinstance(one, str) for one in listed):
            raise self.wrong(name, value, "a list of strings")
        return tuple(listed)

    def number(self, name: str, default: float) -> float:
        """A number above 0."""
        value = self._fields.get(name)
        value = default if value is None else value
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < 1e12:
            raise self.wrong(name, value, "a number above 0")
        return float(value)

    def flag(self, name: str, *, default: bool) -> bool:
        """True or false."""
        value = self._fields.get(name)
        value = default if value is None else value
        if not isinstance(value, bool):
            raise self.wrong(name, value, "true or false")
        return value

    def section(self, name: str) -> "ConfigFields | None":
        """An object within, None when it is not there."""
        value = self._fields.get(name)
        if value is not None and not isinstance(value, Mapping):
            raise self.wrong(name, value, "an object")
        return None if value is None else ConfigFields(value, self._origin)

    def require_multiple(self, name: str, of: str) -> None:
        """Both are counts, and the first is a multiple of the second."""
        if self.count(name) % self.count(of):
            raise self.wrong(name, self.count(name), f"a multiple of {of}={self.count(of)}")

    def require_layer_types(self, expected: list[str]) -> None:
        """The list of layer kinds, if there is one, says what we expect."""
        given = self._fields.get("layer_types")
        if given is not None and given != expected:
            raise self.wrong("layer_types", given, "the order that full_attention_interval gives")

    def require_plain_rope(self) -> None:
        """Positions are rotated without stretching."""
        kind = self._rope.get("rope_type", self._rope.get("type", "default"))
        if kind != "default":
            raise self.wrong("rope_type", kind, '"default" (others are not supported yet)')
