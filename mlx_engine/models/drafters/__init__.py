"""Draft models published apart from their target, which read what the target computes."""

from mlx_engine.models.drafters.dflash import DFlash
from mlx_engine.models.drafters.eagle3 import Eagle3
from mlx_engine.models.drafters.gemma4_assistant import Gemma4Assistant

Drafter = Eagle3 | Gemma4Assistant | DFlash
"""Each has `target`, to be run in the target's place, `arrays` and `check_values`."""
