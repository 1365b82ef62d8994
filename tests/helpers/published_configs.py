"""Sizes of published models, by the keys of their config.json; what no layer reads is left out."""

import json
from collections.abc import Mapping
from pathlib import Path

_FILE = Path(__file__).with_suffix(".json")
CONFIGS: Mapping[str, Mapping[str, object]] = json.loads(_FILE.read_text(encoding="utf-8"))
