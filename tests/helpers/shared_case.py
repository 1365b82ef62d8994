"""The small real case beside the repository: a trained toy checkpoint, its GGUFs, references."""

from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[3] / "shared" / "data" / "qwen35"
QUANTISATIONS = ("Q8_0", "Q6_K", "Q4_K_M", "IQ4_XS")

needs_case = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="the shared toy checkpoint (../shared/data/qwen35) is not here"
)


def gguf_of(quantisation: str) -> Path:
    return FOLDER / "gguf" / f"qwen35-{quantisation}.gguf"
