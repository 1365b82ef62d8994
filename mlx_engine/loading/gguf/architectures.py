"""The architectures of GGUF files this version reads, and what each has to tell."""

from collections.abc import Callable
from typing import Protocol

from mlx_engine.loading.gguf.deepseek2 import Deepseek2Gguf
from mlx_engine.loading.gguf.gemma3 import Gemma3Gguf
from mlx_engine.loading.gguf.glm4_moe import Glm4MoeGguf
from mlx_engine.loading.gguf.gpt_oss import GptOssGguf
from mlx_engine.loading.gguf.llama import LlamaGguf
from mlx_engine.loading.gguf.mimo2 import Mimo2Gguf
from mlx_engine.loading.gguf.part import Placement
from mlx_engine.loading.gguf.qwen3next import Qwen3NextGguf
from mlx_engine.loading.gguf.qwen35 import Qwen35Gguf, Qwen35MoeGguf
from mlx_engine.loading.gguf.qwen_plain import Qwen2Gguf, Qwen3Gguf, Qwen3MoeGguf
from mlx_engine.loading.gguf.split_file import GgufFile
from mlx_engine.loading.gguf.step35 import Step35Gguf


class GgufArchitecture(Protocol):
    """One file as a Hugging Face folder would have it; made from its headers."""

    def config(self) -> dict[str, object]:
        """What config.json would say; its model_type chooses the family (models/registry.py)."""

    def place(self, name: str) -> tuple[Placement, ...]:
        """What becomes of a tensor: the names its parts have in a folder, and what was done to it.

        A name of no meaning here stays as it is.
        """


ARCHITECTURES: dict[str, Callable[[GgufFile], GgufArchitecture]] = {
    "qwen35": Qwen35Gguf,
    "qwen35moe": Qwen35MoeGguf,
    "qwen3next": Qwen3NextGguf,
    "llama": LlamaGguf,
    "qwen2": Qwen2Gguf,
    "qwen3": Qwen3Gguf,
    "qwen3moe": Qwen3MoeGguf,
    "gemma3": Gemma3Gguf,
    "gpt-oss": GptOssGguf,
    "glm4moe": Glm4MoeGguf,
    "deepseek2": Deepseek2Gguf,
    "mimo2": Mimo2Gguf,
    "step35": Step35Gguf,
}
"""By general.architecture."""
