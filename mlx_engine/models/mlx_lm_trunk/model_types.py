"""Which model types mlx-lm has a class for, told without importing it."""

from functools import cache
from importlib.util import find_spec
from pathlib import Path

STRUCTURED = (
    "glm4_moe",
    "glm4_moe_lite",
    "deepseek_v2",
    "deepseek_v3",
    "mimo",
    "mimo_v2_flash",
    "step3p5",
)
"""Types taken apart into embedding, layers, final norm and output head (trunk.py)."""

_ANOTHER_NAME = {
    "llava": "mistral3",
    "phi-msft": "phixtral",
    "falcon_mamba": "mamba",
    "joyai_llm_flash": "deepseek_v3",
    "kimi_k2": "deepseek_v3",
    "qwen2_5_vl": "qwen2_vl",
    "minimax_m2": "minimax",
    "iquestcoder": "llama",
    "xverse": "llama",
    "gemma4_unified": "gemma4",
    "deepseek_v41_text": "deepseek_v41",
}
"""Types that share the module of another; as mlx-lm 0.32.2 has it."""

_NO_MODELS = frozenset(
    (
        "__init__",
        "activations",
        "base",
        "bitlinear_layers",
        "cache",
        "gated_delta",
        "mla",
        "pipeline",
        "rope_utils",
        "ssm",
        "switch_layers",
    )
)
"""Modules beside the models that hold parts of them."""


def module_of(model_type: str) -> str | None:
    """The module in `mlx_lm.models` that runs a type, without its package; None: there is none."""
    name = _ANOTHER_NAME.get(model_type, model_type)
    return name if name in _modules() else None


@cache
def _modules() -> frozenset[str]:
    spec = find_spec("mlx_lm")
    folders = spec.submodule_search_locations if spec is not None else None
    files = [path for folder in folders or () for path in Path(folder, "models").glob("*.py")]
    return frozenset(path.stem for path in files) - _NO_MODELS
