"""Random JSON schemas, and answers that they bind: always valid, with drafting on and off.

As a script: `python tests/helpers/json_schemas.py 300 [model]` tries so many and prints figures.
"""

import json
import sys
from collections import Counter
from typing import Any

import jsonschema
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import mlx_engine
from mlx_engine.engine import Engine
from mlx_engine.values.conversation import GenerationFinished
from mlx_engine.values.options import DraftOptions, GenerationOptions, SamplingOptions

KEYS = st.sampled_from(["x", "y z", "é", "first_name", 'a"b', "$k"])
LEAVES = st.one_of(
    st.builds(
        lambda least, size: {"type": "integer", "minimum": least, "maximum": least + size},
        st.integers(-200, 200),
        st.integers(0, 300),
    ),
    st.builds(
        lambda least, most: {"type": "string", "minLength": least, "maxLength": least + most},
        st.integers(0, 3),
        st.integers(0, 6),
    ),
    st.lists(st.sampled_from(["a", "b c", 1, None, True, "ü\n"]), min_size=1, max_size=3).map(
        lambda values: {"enum": values}
    ),
    st.sampled_from(
        [
            {"type": "boolean"},
            {"type": "null"},
            {"type": "number", "minimum": 0, "exclusiveMaximum": 1},
            {"type": "string", "pattern": "^[A-Z]{2}[0-9]+$", "maxLength": 6},
            {"type": "string", "format": "date"},
            {"type": ["boolean", "null"]},
            {"const": {"k": [1, 2]}},
            {"$ref": "#/$defs/shared"},
        ]
    ),
)


def _object(properties: dict[str, Any], required: list[bool]) -> dict[str, Any]:
    needed = [key for key, is_needed in zip(properties, required, strict=False) if is_needed]
    return {
        "type": "object",
        "properties": properties,
        "required": needed,
        "additionalProperties": False,
    }


def _array(items: dict[str, Any], least: int, more: int) -> dict[str, Any]:
    return {"type": "array", "items": items, "minItems": least, "maxItems": least + more}


INNER = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(
            _object, st.dictionaries(KEYS, inner, max_size=3), st.lists(st.booleans(), min_size=3)
        ),
        st.builds(_array, inner, st.integers(0, 2), st.integers(0, 1)),
        st.lists(inner, min_size=2, max_size=2).map(lambda either: {"anyOf": either}),
        st.lists(inner, min_size=1, max_size=2).map(
            lambda items: {"type": "array", "prefixItems": items, "items": False, "minItems": 1}
        ),
    ),
    max_leaves=4,
)
SHARED = {"type": "object", "properties": {"id": {"enum": [1, 22]}}, "required": ["id"]}
SCHEMAS = INNER.map(
    lambda schema: schema | {"$defs": {"shared": SHARED | {"additionalProperties": False}}}
)


def answer(engine: Engine, schema: dict[str, Any], seed: int, depth: int) -> GenerationFinished:
    """What the model writes at a high temperature, bound to a schema."""
    *_, last = engine.stream(
        "As JSON: ",
        SamplingOptions(temperature=1.5, seed=seed),
        DraftOptions(depth=depth),
        GenerationOptions(150, schema=schema),
    )
    assert isinstance(last, GenerationFinished)
    return last


def check(engine: Engine, schema: dict[str, Any], seed: int) -> GenerationFinished:
    """Check that a drafted answer fits the schema and has the words of the undrafted one."""
    plain, drafted = (answer(engine, schema, seed, depth) for depth in (0, 3))
    assert (plain.tokens, plain.reason) == (drafted.tokens, drafted.reason)
    if plain.reason == "end":
        jsonschema.Draft202012Validator(schema).validate(json.loads(plain.text))
    return drafted


def main(examples: int, path: str | None) -> None:
    counts = Counter[str]()
    with mlx_engine.load(path) as engine:

        @settings(
            max_examples=examples,
            deadline=None,
            database=None,
            derandomize=True,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(schema=SCHEMAS, seed=st.integers(0, 999))
        def tried(schema: dict[str, Any], seed: int) -> None:
            last = check(engine, schema, seed)
            counts.update(
                {last.reason: 1, "drafted": last.stats.drafted, "accepted": last.stats.accepted}
            )
            counts["tokens"] += last.stats.generated_tokens
            counts["rounds"] += last.stats.passes

        tried()
    print(dict(counts))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None)
