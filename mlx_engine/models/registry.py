"""Registry of model families by the model_type of config.json."""

from collections.abc import Mapping

from mlx_engine.models.families import (
    deepseek_v3,
    deepseek_v4,
    deepseek_v41,
    exaone,
    falcon_h1,
    gemma3,
    gemma4,
    glm5_next,
    gpt_oss,
    granite_hybrid,
    hy_v4,
    inkling,
    kimi_linear,
    layer_normed,
    lfm2,
    ling,
    llama,
    longcat,
    mimo_v2,
    minimax_m3,
    nanochat,
    nemotron_h,
    olmo_hybrid,
    plain_experts,
    qwen3,
    qwen3_5,
    qwen4_exp,
    step3p5,
)
from mlx_engine.models.family import Family
from mlx_engine.models.library.mlx_lm_family import MlxLmFamily, mlx_lm_module_name
from mlx_engine.models.native_family import NativeFamily
from mlx_engine.values.errors import UnsupportedModel

_TYPES: dict[type[NativeFamily], str] = {
    qwen3_5.Qwen35: "qwen3_5 qwen3_5_moe qwen3_8 qwen3_8_moe qwen3_next",
    qwen4_exp.Qwen4Exp: "qwen4_exp",
    llama.Llama: "llama iquestcoder xverse mistral ministral ministral3 mixtral seed_oss smollm3",
    llama.Granite: "granite minicpm",
    qwen3.Qwen2: "qwen2 qwen2_vl qwen2_5_vl",
    qwen3.Qwen2Moe: "qwen2_moe",
    qwen3.Qwen3: "qwen3",
    qwen3.Qwen3Vl: "qwen3_vl",
    qwen3.Qwen3Moe: "qwen3_moe",
    qwen3.Qwen3VlMoe: "qwen3_vl_moe",
    qwen3.Mellum: "mellum",
    gemma3.Gemma: "gemma",
    gemma3.Gemma2: "gemma2",
    gemma3.Gemma3: "gemma3",
    gemma4.Gemma4: "gemma4 gemma4_unified",
    layer_normed.Cohere: "cohere cohere2",
    layer_normed.Starcoder2: "starcoder2",
    layer_normed.Nemotron: "nemotron",
    layer_normed.StableLm: "stablelm",
    layer_normed.Phi: "phi",
    layer_normed.GptNeoX: "gpt_neox",
    layer_normed.GptBigCode: "gpt_bigcode",
    layer_normed.Gpt2: "gpt2",
    gpt_oss.GptOss: "gpt_oss",
    llama.Olmo2: "olmo2 olmo3",
    exaone.Exaone4: "exaone4 exaone4_5",
    exaone.ExaoneMoe: "exaone_moe",
    llama.Phi3: "phi3",
    llama.Glm4: "glm glm4 glm4v",
    deepseek_v3.Glm4Moe: "glm4_moe glm4v_moe dots1 solar_open",
    deepseek_v3.HyV3: "hy_v3",
    deepseek_v3.DeepseekV3: "glm4_moe_lite deepseek_v3 kimi_k2 joyai_llm_flash youtu youtu_llm",
    deepseek_v3.DeepseekV32: "deepseek_v32 glm_moe_dsa",
    deepseek_v4.DeepseekV4: "deepseek_v4",
    deepseek_v41.DeepseekV41: "deepseek_v41",
    glm5_next.Glm5Next: "glm5_next",
    hy_v4.HyV4: "hy_v4",
    inkling.Inkling: "inkling_mm_model inkling",
    longcat.LongcatFlash: "longcat_flash",
    longcat.LongcatFlashNgram: "longcat_flash_ngram",
    kimi_linear.KimiLinear: "kimi_linear",
    ling.BailingMoe: "bailing_moe",
    ling.BailingMoeLinear: "bailing_moe_linear",
    ling.BailingHybrid: "bailing_hybrid bailing_moe_v3",
    deepseek_v3.DeepseekV2: "deepseek_v2",
    qwen3.Mimo: "mimo",
    mimo_v2.MimoV2: "mimo_v2_flash mimo_v2",
    step3p5.Step3p5: "step3p5 step3p7",
    plain_experts.Ernie45Moe: "ernie4_5 ernie4_5_moe",
    plain_experts.MiniMaxM2: "minimax_m2 minimax",
    minimax_m3.MiniMaxM3: "minimax_m3_vl",
    plain_experts.Olmoe: "olmoe",
    plain_experts.Afmoe: "afmoe",
    nanochat.NanoChat: "nanochat",
    nemotron_h.NemotronH: "nemotron_h",
    olmo_hybrid.OlmoHybrid: "olmo_hybrid",
    lfm2.Lfm2: "lfm2 lfm2_moe",
    falcon_h1.FalconH1: "falcon_h1",
    granite_hybrid.GraniteHybrid: "granitemoe granitemoeshared granitemoehybrid",
}

FAMILIES = {kind: family for family, kinds in _TYPES.items() for kind in kinds.split()}
"""By model_type: all that run on our layers. Others run through mlx-lm's classes."""

_TEXT_SUFFIX = "_text"
"""What the type of a text part ends in, beside that of the whole."""


def text_model_type(config: Mapping[str, object]) -> object:
    """Return the model_type to run, config.json's own or its text config's, native ones first."""
    text = config.get("text_config")
    inner = text.get("model_type") if isinstance(text, Mapping) else None
    outer = config.get("model_type", inner)
    kinds = [kind for kind in (outer, inner) if isinstance(kind, str)]
    native = [kind for kind in kinds if kind.removesuffix(_TEXT_SUFFIX) in FAMILIES]
    return next(iter([*native, *filter(mlx_lm_module_name, kinds), outer]))


def family_for(model_type: str, config: Mapping[str, object], origin: str) -> Family:
    """Create the model family for a model_type; raises UnsupportedModel for unknown types."""
    native = FAMILIES.get(model_type.removesuffix(_TEXT_SUFFIX))
    if native is not None:
        return native(model_type, config, origin)
    if mlx_lm_module_name(model_type) is not None:
        return MlxLmFamily(model_type, config, origin)
    raise UnsupportedModel(
        "{origin}: this version cannot run models of the type {name}. Choose another model.",
        origin=origin,
        name=ascii(model_type)[:60],
    )
