"""Every scaling of rotation against transformers' own functions, from new and old keys."""

import numpy as np
import pytest
import torch
from compared import relative
from published_configs import CONFIGS
from tiny_published import VOCABULARY, sizes_of
from tiny_tokenizer import make_tiny_tokenizer
from transformers import LlavaConfig, LlavaForConditionalGeneration, PretrainedConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

import mlx_engine
from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.families.qwen3_5 import Qwen35
from mlx_engine.models.layer_specs import AttentionSpec, RopeSpec
from mlx_engine.models.rope import rope_spec, yarn_score_scale
from mlx_engine.values.errors import BadModelFile, UnsupportedModel

HEAD, LONGEST = 64, 4096
YARN = {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 512}
KINDS: dict[str, dict[str, object]] = {
    "linear": {"rope_type": "linear", "factor": 3.0},
    "llama3": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 512,
    },
    "yarn": YARN,
    "yarn, not rounded": YARN | {"truncate": False, "beta_fast": 20.0, "beta_slow": 2.0},
    "yarn, factor told": YARN | {"attention_factor": 1.7},
    "yarn, both magnitudes": YARN | {"mscale": 0.7, "mscale_all_dim": 1.1},
    "yarn, one magnitude": YARN | {"mscale_all_dim": 1.1},
    "longrope": {
        "rope_type": "longrope",
        "short_factor": [1.0 + 0.01 * n for n in range(HEAD // 2)],
        "long_factor": [1.0 + 0.5 * n for n in range(HEAD // 2)],
        "original_max_position_embeddings": 512,
    },
}


def config(rope: dict[str, object], **more: object) -> dict[str, object]:
    return {"max_position_embeddings": LONGEST, "head_dim": HEAD, **rope, **more}


def frequencies(rope: RopeSpec, *, is_long: bool = False) -> np.ndarray:
    """Radians a token, of each pair."""
    factors = (rope.long_factors if is_long else rope.factors) or (1.0,) * (rope.width // 2)
    plain = rope.base ** (np.arange(0, rope.width, 2) / rope.width)
    return 1 / (plain * np.array(factors))


def of_transformers(rope: dict[str, object], length: int | None = None, head: int = HEAD):
    settings = PretrainedConfig()
    settings.update(
        {
            "head_dim": head,
            "hidden_size": 4 * head,
            "num_attention_heads": 4,
            "max_position_embeddings": LONGEST,
            "rope_parameters": {"rope_theta": 5e5, "factor": None, **rope},
        }
    )
    made, magnitude = ROPE_INIT_FUNCTIONS[str(rope["rope_type"])](
        settings, torch.device("cpu"), seq_len=length
    )
    return made.numpy(), magnitude


@pytest.mark.parametrize("form", ["new", "old", "older"])
@pytest.mark.parametrize("kind", KINDS)
def test_periods_and_magnitude(kind: str, form: str) -> None:
    given = KINDS[kind]
    told = config({"rope_parameters": {**given, "rope_theta": 5e5}})
    if form != "new":
        scaling = dict(given)
        if form == "older":
            scaling["type"] = scaling.pop("rope_type")
        told = config({"rope_scaling": scaling, "rope_theta": 5e5})
    rope = rope_spec(ConfigFields(told, "tiny"), HEAD)
    wanted, magnitude = of_transformers(given)
    np.testing.assert_allclose(frequencies(rope), wanted, rtol=1e-5)
    assert rope.magnitude == pytest.approx(magnitude)
    if rope.long_factors is not None:
        wanted, _ = of_transformers(given, LONGEST)
        np.testing.assert_allclose(frequencies(rope, is_long=True), wanted, rtol=1e-5)
        assert rope.long_rope_after == 512


def test_what_is_not_said() -> None:
    rope = rope_spec(
        ConfigFields(config({}), "tiny"), HEAD, base=1e6, rotated_share=0.5, interleaved=True
    )
    assert rope == RopeSpec(32, 1e6, interleaved=True)
    told = config({"rope_theta": 3.0, "partial_rotary_factor": 0.25, "rope_scaling": None})
    assert rope_spec(ConfigFields(told, "tiny"), HEAD, rotated_share=1.0) == RopeSpec(16, 3.0)
    assert rope_spec(ConfigFields(told, "tiny"), HEAD) == RopeSpec(HEAD, 3.0)


def test_layers_of_two_kinds() -> None:
    both = {
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
        "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
    }
    fields = ConfigFields(config({"rope_parameters": both}), "tiny")
    assert rope_spec(fields, HEAD, kind="sliding_attention") == RopeSpec(HEAD, 1e4)
    assert rope_spec(fields, HEAD) == RopeSpec(HEAD, 1e6, (8.0,) * (HEAD // 2))


def test_pairs_that_stand_still() -> None:
    """Gemma 4 rotates a quarter of the pairs, as if all were rotated."""
    given: dict[str, object] = {"rope_type": "proportional", "factor": 1.0, "rope_theta": 5e5}
    given["partial_rotary_factor"] = 0.25
    rope = rope_spec(ConfigFields(config({"rope_parameters": given}), "tiny"), HEAD)
    wanted, magnitude = of_transformers(given)
    np.testing.assert_allclose(frequencies(rope), wanted, rtol=1e-5)
    assert (rope.width, rope.magnitude, magnitude) == (HEAD, 1.0, 1.0)


def test_the_trained_length_outside_wins() -> None:
    """As Phi-3's configs have it."""
    scaling = {"type": "longrope", "short_factor": [1.0] * 32, "long_factor": [2.0] * 32}
    told = config({"rope_scaling": scaling}, original_max_position_embeddings=1024)
    assert rope_spec(ConfigFields(told, "tiny"), HEAD).long_rope_after == 1024


def test_yarn_as_the_card_of_qwen3_5_has_it() -> None:
    """A quarter of the head turns; sections of images are beside the point; the context grows."""
    rope = {
        "mrope_interleaved": True,
        "mrope_section": [11, 11, 10],
        "rope_type": "yarn",
        "rope_theta": 10000000,
        "partial_rotary_factor": 0.25,
        "factor": 4.0,
        "original_max_position_embeddings": 262144,
    }
    published = CONFIGS["Qwen3.5-9B"]
    text = {
        name: value for name, value in published.items() if not name.startswith(("rope", "par"))
    }
    wanted, magnitude = of_transformers(rope, head=256)
    for told in (
        {**text, "rope_parameters": rope},
        {"model_type": "qwen3_5", "text_config": {**text, "rope_parameters": rope}},
        {
            **published,
            "rope_scaling": {key: rope[key] for key in list(rope)[5:]} | {"type": "yarn"},
        },
    ):
        spec = Qwen35("qwen3_5", told, "config.json").spec
        mixer = spec.blocks[3].mixer
        assert isinstance(mixer, AttentionSpec)
        assert mixer.rope is not None
        np.testing.assert_allclose(frequencies(mixer.rope), wanted, rtol=1e-5)
        assert mixer.rope.magnitude == pytest.approx(magnitude)
        assert spec.context == 4 * 262144
    plain = Qwen35("qwen3_5", published, "config.json").spec
    assert plain.context == 262144


def test_scores_of_latent_attention() -> None:
    told = config({"rope_scaling": YARN | {"mscale_all_dim": 0.5}})
    wanted = (0.1 * 0.5 * np.log(8.0) + 1) ** 2
    assert yarn_score_scale(ConfigFields(told, "tiny")) == pytest.approx(wanted)
    assert yarn_score_scale(ConfigFields(config({}), "tiny")) == 1.0


@pytest.mark.parametrize(
    ("rope", "error"),
    [
        ({"rope_scaling": {"type": "elastic", "factor": 2.0}}, UnsupportedModel),
        ({"rope_scaling": "yarn"}, BadModelFile),
        ({"rope_scaling": {"type": "linear", "factor": "two"}}, BadModelFile),
        ({"rope_parameters": {"rope_type": 3}}, BadModelFile),
        ({"rope_parameters": {"rope_type": "longrope", "short_factor": [1.0]}}, BadModelFile),
        ({"rope_theta": -1}, BadModelFile),
        ({"partial_rotary_factor": 0.01}, BadModelFile),
        ({"partial_rotary_factor": 3.0}, BadModelFile),
    ],
)
def test_what_cannot_be(rope: dict[str, object], error: type[Exception]) -> None:
    with pytest.raises(error, match=r"some/config\.json"):
        rope_spec(ConfigFields(config(rope), "some/config.json"), HEAD, rotated_share=1.0)


def test_text_parts_in_classes_of_mlx_lm(tmp_path):
    """Which read older keys: what transformers 5 says of the rotation is told by those too."""
    text = sizes_of("llama") | {"model_type": "llama", "head_dim": 16}
    rope = {"rope_type": "linear", "rope_theta": 500.0, "factor": 4.0}
    vision = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1}
    config = LlavaConfig(
        text_config=text | {"rope_parameters": rope},
        vision_config=vision | {"num_attention_heads": 2, "image_size": 28, "patch_size": 14},
    )
    torch.manual_seed(0)
    model = LlavaForConditionalGeneration(config).eval()
    model.save_pretrained(tmp_path)
    make_tiny_tokenizer(tmp_path, VOCABULARY)
    tokens = [5, 1, 30, 17, 2, 9, 9, 21, 4]
    with torch.no_grad():
        wanted = model(input_ids=torch.tensor([tokens])).logits[0].numpy()
    engine = mlx_engine.load(tmp_path)
    assert relative(engine.logits(tokens), wanted) < 1e-5
    engine.close()
