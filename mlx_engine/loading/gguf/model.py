"""A GGUF file as loading sees a model: a config, and tensors under Hugging Face's names."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from mlx_engine.loading.gguf.architecture import Architecture
from mlx_engine.loading.gguf.file import GgufFile, read_gguf
from mlx_engine.loading.gguf.in_library import (
    Cohere2Gguf,
    CohereGguf,
    Gemma4Gguf,
    GraniteHybridGguf,
    HunyuanGguf,
    Lfm2Gguf,
    Lfm2MoeGguf,
    NemotronHGguf,
)
from mlx_engine.loading.gguf.llama import (
    GraniteGguf,
    GraniteMoeGguf,
    LlamaGguf,
    MiniCpmGguf,
    Mistral3Gguf,
    PlainGguf,
)
from mlx_engine.loading.gguf.llama_like import (
    Ernie45Gguf,
    Ernie45MoeGguf,
    Gemma2Gguf,
    Gemma3Gguf,
    GemmaGguf,
    Glm4Gguf,
    GptOssGguf,
    MiniMaxM2Gguf,
    Olmo2Gguf,
    OlmoeGguf,
    Phi3Gguf,
    Qwen2MoeGguf,
    Qwen3MoeGguf,
)
from mlx_engine.loading.gguf.metadata import GgufMetadata
from mlx_engine.loading.gguf.more_in_library import (
    FalconH1Gguf,
    Gemma3nGguf,
    HunyuanMoeGguf,
    NemotronGguf,
    Phi2Gguf,
    StablelmGguf,
    Starcoder2Gguf,
)
from mlx_engine.loading.gguf.nextn import (
    BailingMoe2Gguf,
    Deepseek2Gguf,
    ExaoneMoeGguf,
    Glm4MoeGguf,
    Mimo2Gguf,
    Step35Gguf,
)
from mlx_engine.loading.gguf.part import GgufPart, parts_of
from mlx_engine.loading.gguf.qwen35 import Qwen3NextGguf, Qwen35Gguf, Qwen35MoeGguf
from mlx_engine.loading.no_model import adapter, heads_only
from mlx_engine.loading.safetensors import TensorInfo
from mlx_engine.models.layer_specs import Shape
from mlx_engine.values.errors import BadModelFile, UnsupportedModel
from mlx_engine.values.words import Words

ARCHITECTURES: dict[str, Callable[[GgufFile], Architecture]] = {
    "qwen35": Qwen35Gguf,
    "qwen35moe": Qwen35MoeGguf,
    "qwen3next": Qwen3NextGguf,
    "llama": LlamaGguf,
    "xverse": LlamaGguf,
    "internlm2": LlamaGguf,
    "mistral3": Mistral3Gguf,
    "granite": GraniteGguf,
    "granitemoe": GraniteMoeGguf,
    "minicpm": MiniCpmGguf,
    "smollm3": partial(LlamaGguf, model_type="smollm3"),
    "exaone": PlainGguf,
    "seed_oss": PlainGguf,
    "pangu-embedded": PlainGguf,
    "qwen2": partial(Architecture, model_type="qwen2"),
    "qwen2vl": partial(Architecture, model_type="qwen2"),
    "qwen2moe": Qwen2MoeGguf,
    "olmoe": OlmoeGguf,
    "qwen3": partial(Architecture, model_type="qwen3"),
    "qwen3vl": partial(Architecture, model_type="qwen3"),
    "qwen3moe": Qwen3MoeGguf,
    "qwen3vlmoe": Qwen3MoeGguf,
    "gemma": GemmaGguf,
    "gemma2": Gemma2Gguf,
    "gemma3": Gemma3Gguf,
    "command-r": CohereGguf,
    "cohere2": Cohere2Gguf,
    "hunyuan-dense": HunyuanGguf,
    "hunyuan_vl": HunyuanGguf,
    "lfm2": Lfm2Gguf,
    "lfm2moe": Lfm2MoeGguf,
    "gemma3n": Gemma3nGguf,
    "gemma4": Gemma4Gguf,
    "phi2": Phi2Gguf,
    "starcoder2": Starcoder2Gguf,
    "stablelm": StablelmGguf,
    "nemotron": NemotronGguf,
    "hunyuan-moe": HunyuanMoeGguf,
    "falcon-h1": FalconH1Gguf,
    "granitehybrid": GraniteHybridGguf,
    **dict.fromkeys(("nemotron_h", "nemotron_h_moe"), NemotronHGguf),
    "gpt-oss": GptOssGguf,
    "phi3": Phi3Gguf,
    "glm4": Glm4Gguf,
    "chatglm": partial(Glm4Gguf, model_type="glm"),
    "olmo2": Olmo2Gguf,
    "exaone4": partial(Olmo2Gguf, model_type="exaone4"),
    "exaone-moe": ExaoneMoeGguf,
    "ernie4_5": Ernie45Gguf,
    "ernie4_5-moe": Ernie45MoeGguf,
    "minimax-m2": MiniMaxM2Gguf,
    "glm4moe": Glm4MoeGguf,
    "dots1": partial(Glm4MoeGguf, model_type="dots1"),
    "bailingmoe2": BailingMoe2Gguf,
    "hy_v3": partial(Glm4MoeGguf, model_type="hy_v3"),
    "deepseek2": Deepseek2Gguf,
    "mimo2": Mimo2Gguf,
    "step35": Step35Gguf,
}
"""By general.architecture. Some differ from another by their type alone, which tells what the file
does not: where GLM-4 has norms, which layers of SmolLM3 are rotated, that dots rotates whole heads.
"""

_NOT_MODELS = {
    **dict.fromkeys(("clip", "mmproj"), Words("the eyes of a model")),
    "imatrix": Words("an importance matrix, which a model is quantised with"),
    "controlvector": Words("a control vector"),
}
_FIRST_LAYER = re.compile(r"((model|backbone)\.)?(language_model\.)?layers\.0\..+")
_WITHOUT_WORDS = re.compile(
    r".*(bert|bert-v\d|bert-moe|encoder|embed|embedding|whisper|wavtokenizer.*|tts|kokoro)|"
    r"flux|sd\d|sdxl|wan|lumina2|qwen_image|ltxv|hidream"
)
"""Architectures of models that make vectors, sounds or pictures."""
_DRAFTERS = ("eagle3", "dflash", "gemma4-assistant")


@dataclass(frozen=True, slots=True)
class GgufModel:
    """tensors: by Hugging Face name, scales and biases included; config: made of the metadata."""

    file: GgufFile
    architecture: str
    config: Mapping[str, object]
    tensors: Mapping[str, GgufPart]


def read_gguf_model(path: Path) -> GgufModel:
    """Headers only. BadModelFile for damage, UnsupportedModel for what this version cannot run."""
    file = read_gguf(path)
    if not file.tensors:
        raise BadModelFile(
            "{path}: holds no tensors, perhaps a vocabulary alone. Get the whole model.", path=path
        )
    metadata = GgufMetadata(path, file.metadata)
    if metadata.text("general.type") == "adapter":
        raise adapter(path)
    architecture = metadata.architecture
    made = _known(architecture, path)(file)
    tensors: dict[str, GgufPart] = {}
    for name, stored in file.tensors.items():
        if _is_factor(made, name):
            continue
        scale = f"{name.removesuffix('.weight')}.scale"
        factor = file.tensors.get(scale) if _is_factor(made, scale) else None
        for place in made.place(name):
            for part in parts_of(stored, place, factor, file.half):
                if part.name in tensors:
                    raise BadModelFile(
                        "{path}: {name} and {stored_name} are the same tensor "
                        "under two names. Get the file again.",
                        path=path,
                        name=name,
                        stored_name=tensors[part.name].stored.name,
                    )
                tensors[part.name] = part
    return GgufModel(file, architecture, made.config(), tensors)


def _is_factor(made: Architecture, name: str) -> bool:
    """Whether this tensor is a factor of another, and none that the architecture has a name for."""
    within = name.split(".", 2)[-1]
    is_one = name.endswith((".scale", ".input_scale"))
    return is_one and made.place(name)[0].name.endswith(within)


def check_trunk(
    model: GgufModel, trunk: Mapping[str, TensorInfo], wanted: Mapping[str, Shape]
) -> None:
    """BadModelFile when the trunk lacks a tensor or has one of another shape."""
    path = model.file.path
    if not any(map(_FIRST_LAYER.fullmatch, trunk)):
        raise heads_only(path, model.config)
    for name, shape in wanted.items():
        part = trunk.get(name)
        if part is None:
            raise BadModelFile(
                "{path}: the tensor for {name} is missing. Get the file again.",
                path=path,
                name=name,
            )
        if isinstance(part, GgufPart) and part.unpacked_shape != shape:
            raise BadModelFile(
                "{path}: {name} has the shape {shape} where the "
                "metadata ask for {wanted}. Get the file again.",
                path=path,
                name=part.stored.name,
                shape=list(part.stored.shape),
                wanted=list(shape),
            )


def _known(architecture: str, path: Path) -> Callable[[GgufFile], Architecture]:
    found = ARCHITECTURES.get(architecture)
    if found is not None:
        return found
    if architecture in _NOT_MODELS:
        raise UnsupportedModel(
            "{path}: holds {what} and no text model. Open the model it goes with.",
            path=path,
            what=_NOT_MODELS[architecture],
        )
    if architecture in _DRAFTERS:
        raise UnsupportedModel(
            "{path}: a draft model ({kind}), which this version reads from safetensors alone. Open "
            "the model it was made for and give that folder as its draft model.",
            path=path,
            kind=architecture,
        )
    if _WITHOUT_WORDS.fullmatch(architecture):
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
