"""The sight model's folder, and pictures of scenes as it was trained on."""

import sys
from importlib import import_module
from pathlib import Path
from random import Random

from PIL import Image

SIGHT = Path(__file__).parents[1] / "sight_model"

sys.path.append(str(SIGHT / "training"))
scenes = import_module("scenes")
sys.path.remove(str(SIGHT / "training"))


def painted(seed: int) -> Image.Image:
    """A picture of a scene drawn from a seed."""
    draw = Random(seed)
    return scenes.paint(scenes.draw_scene(draw), draw)
