"""Read a GGUF file as a model: a config, and tensors under Hugging Face names."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from mlx_engine.loading.gguf import deepseek4, gemma, hybrid, llama, nextn, qwen, standard
from mlx_engine.loading.gguf.architecture import Architecture
from mlx_engine.loading.gguf.file import GgufFile, read_gguf
from mlx_engine.loading.gguf.metadata import GgufMetadata
from mlx_engine.loading.gguf.part import GgufPart, arrays_of_tensor
from mlx_engine.loading.no_model import GGUF_DRAFTERS, adapter_error, draft_model_error
from mlx_engine.loading.safetensors import TensorInfo
from mlx_engine.models.tensor_names import why_unneeded
from mlx_engine.values.errors import BadModelFile, UnsupportedModel
from mlx_engine.values.words import Words

ARCHITECTURES: dict[str, Callable[[GgufFile], Architecture]] = {
    "qwen35": qwen.Qwen35Gguf,
    "qwen35moe": qwen.Qwen35MoeGguf,
    "qwen3next": qwen.Qwen3NextGguf,
    **dict.fromkeys(("llama", "xverse", "internlm2"), llama.LlamaGguf),
    "mistral3": llama.Mistral3Gguf,
    "granite": llama.GraniteGguf,
    "granitemoe": llama.GraniteMoeGguf,
    "minicpm": llama.MiniCpmGguf,
    "smollm3": partial(llama.LlamaGguf, model_type="smollm3"),
    **dict.fromkeys(("exaone", "seed_oss", "pangu-embedded"), llama.PlainGguf),
    **dict.fromkeys(("qwen2", "qwen2vl"), partial(Architecture, model_type="qwen2")),
    "qwen2moe": standard.Qwen2MoeGguf,
    "olmoe": standard.OlmoeGguf,
    "qwen3": partial(Architecture, model_type="qwen3"),
    "qwen3vl": partial(Architecture, model_type="qwen3_vl"),
    "qwen3moe": standard.Qwen3MoeGguf,
    "qwen3vlmoe": partial(standard.Qwen3MoeGguf, model_type="qwen3_vl_moe"),
    "gemma": gemma.GemmaGguf,
    "gemma2": gemma.Gemma2Gguf,
    "gemma3": gemma.Gemma3Gguf,
    "command-r": standard.CohereGguf,
    "cohere2": standard.Cohere2Gguf,
    **dict.fromkeys(("hunyuan-dense", "hunyuan_vl"), standard.HunyuanGguf),
    "lfm2": hybrid.Lfm2Gguf,
    "lfm2moe": hybrid.Lfm2MoeGguf,
    "gemma3n": gemma.Gemma3nGguf,
    "gemma4": gemma.Gemma4Gguf,
    "phi2": standard.Phi2Gguf,
    "starcoder2": standard.Starcoder2Gguf,
    "stablelm": standard.StablelmGguf,
    "nemotron": standard.NemotronGguf,
    "hunyuan-moe": standard.HunyuanMoeGguf,
    "falcon-h1": hybrid.FalconH1Gguf,
    "granitehybrid": hybrid.GraniteHybridGguf,
    **dict.fromkeys(("nemotron_h", "nemotron_h_moe"), hybrid.NemotronHGguf),
    "gpt-oss": standard.GptOssGguf,
    "phi3": standard.Phi3Gguf,
    "glm4": standard.Glm4Gguf,
    "chatglm": partial(standard.Glm4Gguf, model_type="glm"),
    "olmo2": standard.Olmo2Gguf,
    "exaone4": partial(standard.Olmo2Gguf, model_type="exaone4"),
    "exaone-moe": nextn.ExaoneMoeGguf,
    "ernie4_5": standard.Ernie45Gguf,
    "ernie4_5-moe": standard.Ernie45MoeGguf,
    "minimax-m2": standard.MiniMaxM2Gguf,
    "minimax-m3": standard.MiniMaxM3Gguf,
    "glm4moe": nextn.Glm4MoeGguf,
    "dots1": partial(nextn.Glm4MoeGguf, model_type="dots1"),
    "bailingmoe2": nextn.BailingMoe2Gguf,
    "bailingmoe3": nextn.BailingMoe3Gguf,
    "kimi-linear": nextn.KimiLinearGguf,
    "hy_v3": partial(nextn.Glm4MoeGguf, model_type="hy_v3"),
    "deepseek2": nextn.Deepseek2Gguf,
    "deepseek32": partial(nextn.Deepseek32Gguf, model_type="deepseek_v32"),
    "glm-dsa": partial(nextn.Deepseek32Gguf, model_type="glm_moe_dsa"),
    "glm5-next": nextn.Glm5NextGguf,
    **dict.fromkeys(("hyv4", "hy_v4"), nextn.HyV4Gguf),
    "deepseek4": deepseek4.DeepseekV4Gguf,
    "mimo2": nextn.Mimo2Gguf,
    "step35": nextn.Step35Gguf,
}
"""GGUF architectures by general.architecture.

A model_type given here implies what the file leaves open: norms of GLM-4, layers of SmolLM3 without
RoPE, whole-head rotation of dots.
"""

_NOT_MODELS = {
    **dict.fromkeys(("clip", "mmproj"), Words("the vision part of a model")),
    "imatrix": Words("an importance matrix, which a model is quantised with"),
    "controlvector": Words("a control vector"),
}
_NO_TEXT = re.compile(
    r".*(bert|bert-v\d|bert-moe|encoder|embed|embedding|whisper|wavtokenizer.*|tts|kokoro)|"
    r"flux|sd\d|sdxl|wan|lumina2|qwen_image|ltxv|hidream"
)
"""Architectures of embedding, audio and image models."""


@dataclass(frozen=True, slots=True)
class GgufModel:
    """A GGUF model's headers, translated to Hugging Face's config and tensor names.

    config: as in config.json, made from the metadata. tensors: headers by Hugging Face name, scales
    and biases included; tensors that text generation does not need as plain bytes.
    """

    file: GgufFile
    architecture: str
    config: Mapping[str, object]
    tensors: Mapping[str, TensorInfo]


def read_gguf_model(path: Path) -> GgufModel:
    """Read a GGUF model's config and tensor headers. Raises BadModelFile, UnsupportedModel."""
    file = read_gguf(path)
    if not file.tensors:
        raise BadModelFile(
            "{path}: holds no tensors, perhaps a vocabulary alone. Get the whole model.", path=path
        )
    metadata = GgufMetadata(path, file.metadata)
    if metadata.text("general.type") == "adapter":
        raise adapter_error(path)
    architecture = metadata.architecture
    return translate_gguf(file, architecture, _architecture_class(architecture, path)(file))


def translate_gguf(file: GgufFile, architecture: str, made: Architecture) -> GgufModel:
    """Translate a GGUF file's config and tensor headers. Raises BadModelFile, UnsupportedModel."""
    path, half = file.path, file.half_type
    tensors: dict[str, GgufPart] = {}
    unneeded: dict[str, TensorInfo] = {}
    for name, stored in file.tensors.items():
        if _is_scale_factor(made, name):
            continue
        if why_unneeded(name):
            unneeded[name] = TensorInfo(name, "U8", (stored.nbytes,), stored.nbytes, stored.file)
            continue
        scale = f"{name.removesuffix('.weight')}.scale"
        factor = file.tensors.get(scale) if _is_scale_factor(made, scale) else None
        for place in made.hf_tensors(name):
            for part in arrays_of_tensor(stored, place, factor, half):
                if part.name in tensors:
                    raise BadModelFile(
                        "{path}: {name} and {stored_name} are the same tensor "
                        "under two names. Get the file again.",
                        path=path,
                        name=name,
                        stored_name=tensors[part.name].stored.name,
                    )
                tensors[part.name] = part
    return GgufModel(file, architecture, made.config(), tensors | unneeded)


def _is_scale_factor(translation: Architecture, name: str) -> bool:
    """Whether a tensor is the scale factor of another, as of NVFP4, and no weight by itself."""
    return (
        name.endswith((".scale", ".input_scale"))
        and name.split(".", 2)[-1] not in translation.names
    )


def _architecture_class(architecture: str, path: Path) -> Callable[[GgufFile], Architecture]:
    found = ARCHITECTURES.get(architecture)
    if found is not None:
        return found
    if architecture in _NOT_MODELS:
        raise UnsupportedModel(
            "{path}: holds {what} and no text model. Open the model it goes with.",
            path=path,
            what=_NOT_MODELS[architecture],
        )
    if architecture in GGUF_DRAFTERS:
        raise draft_model_error(path, architecture)
    if _NO_TEXT.fullmatch(architecture):
        raise UnsupportedModel(
            "{path}: a GGUF of architecture {name}, which writes no text. Take a chat model.",
            path=path,
            name=ascii(architecture)[:60],
        )
    raise UnsupportedModel(
        "{path}: a GGUF of architecture {name}, which this version does not run. "
        "Take an MLX or Hugging Face folder of the model, or another model.",
        path=path,
        name=ascii(architecture)[:60],
    )
