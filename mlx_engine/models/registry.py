"""Registry of model families by the model_type of config.json."""

from collections.abc import Mapping

from mlx_engine.models.families.deepseek_v3 import BailingMoe, DeepseekV2, DeepseekV3, Glm4Moe, HyV3
from mlx_engine.models.families.exaone import Exaone4, ExaoneMoe
from mlx_engine.models.families.falcon_h1 import FalconH1
from mlx_engine.models.families.gemma3 import Gemma, Gemma2, Gemma3
from mlx_engine.models.families.gemma4 import Gemma4
from mlx_engine.models.families.gpt_oss import GptOss
from mlx_engine.models.families.granite_hybrid import GraniteHybrid
from mlx_engine.models.families.layer_normed import (
    Cohere,
    Gpt2,
    GptBigCode,
    GptNeoX,
    Nemotron,
    Phi,
    StableLm,
    Starcoder2,
)
from mlx_engine.models.families.lfm2 import Lfm2
from mlx_engine.models.families.llama import Glm4, Granite, Llama, Olmo2, Phi3
from mlx_engine.models.families.mimo_v2 import MimoV2
from mlx_engine.models.families.nanochat import NanoChat
from mlx_engine.models.families.plain_experts import Afmoe, Ernie45Moe, MiniMaxM2, Olmoe
from mlx_engine.models.families.qwen3 import (
    Mellum,
    Mimo,
    Qwen2,
    Qwen2Moe,
    Qwen3,
    Qwen3Moe,
    Qwen3VlMoe,
)
from mlx_engine.models.families.qwen3_5 import Qwen35
from mlx_engine.models.families.step3p5 import Step3p5
from mlx_engine.models.family import Family
from mlx_engine.models.library.mlx_lm_family import MlxLmFamily, module_of
from mlx_engine.models.native_family import NativeFamily
from mlx_engine.values.errors import UnsupportedModel

_TYPES: dict[type[NativeFamily], str] = {
    Qwen35: "qwen3_5 qwen3_5_moe qwen3_next",
    Llama: "llama iquestcoder xverse mistral ministral ministral3 mixtral seed_oss smollm3",
    Granite: "granite minicpm",
    Qwen2: "qwen2 qwen2_vl qwen2_5_vl",
    Qwen2Moe: "qwen2_moe",
    Qwen3: "qwen3 qwen3_vl",
    Qwen3Moe: "qwen3_moe",
    Qwen3VlMoe: "qwen3_vl_moe",
    Mellum: "mellum",
    Gemma: "gemma",
    Gemma2: "gemma2",
    Gemma3: "gemma3",
    Gemma4: "gemma4 gemma4_unified",
    Cohere: "cohere cohere2",
    Starcoder2: "starcoder2",
    Nemotron: "nemotron",
    StableLm: "stablelm",
    Phi: "phi",
    GptNeoX: "gpt_neox",
    GptBigCode: "gpt_bigcode",
    Gpt2: "gpt2",
    GptOss: "gpt_oss",
    Olmo2: "olmo2 olmo3",
    Exaone4: "exaone4 exaone4_5",
    ExaoneMoe: "exaone_moe",
    Phi3: "phi3",
    Glm4: "glm glm4 glm4v",
    Glm4Moe: "glm4_moe glm4v_moe dots1 solar_open",
    HyV3: "hy_v3",
    DeepseekV3: "glm4_moe_lite deepseek_v3 kimi_k2 joyai_llm_flash youtu youtu_llm",
    BailingMoe: "bailing_moe",
    DeepseekV2: "deepseek_v2",
    Mimo: "mimo",
    MimoV2: "mimo_v2_flash mimo_v2",
    Step3p5: "step3p5",
    Ernie45Moe: "ernie4_5 ernie4_5_moe",
    MiniMaxM2: "minimax_m2 minimax",
    Olmoe: "olmoe",
    Afmoe: "afmoe",
    NanoChat: "nanochat",
    Lfm2: "lfm2 lfm2_moe",
    FalconH1: "falcon_h1",
    GraniteHybrid: "granitemoe granitemoeshared granitemoehybrid",
}

FAMILIES = {kind: family for family, kinds in _TYPES.items() for kind in kinds.split()}
"""By model_type: all that run on our layers. Others run through mlx-lm's classes."""

_TEXT_SUFFIX = "_text"
"""What the type of a text part ends in, beside that of the whole."""


def text_type(config: Mapping[str, object]) -> object:
    """Return the model_type to run, config.json's own or its text config's, native ones first."""
    text = config.get("text_config")
    inner = text.get("model_type") if isinstance(text, Mapping) else None
    outer = config.get("model_type", inner)
    kinds = [kind for kind in (outer, inner) if isinstance(kind, str)]
    native = [kind for kind in kinds if kind.removesuffix(_TEXT_SUFFIX) in FAMILIES]
    return next(iter([*native, *filter(module_of, kinds), outer]))


def family_for(model_type: str, config: Mapping[str, object], origin: str) -> Family:
    """Create the model family for a model_type; raises UnsupportedModel for unknown types."""
    native = FAMILIES.get(model_type.removesuffix(_TEXT_SUFFIX))
    if native is not None:
        return native(model_type, config, origin)
    if module_of(model_type) is not None:
        return MlxLmFamily(model_type, config, origin)
    raise UnsupportedModel(
        "{origin}: model_type {name} is not one this version runs. Take another model.",
        origin=origin,
        name=ascii(model_type)[:60],
    )
