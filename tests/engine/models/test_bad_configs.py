"""Folders that cannot be right: always an EngineError that says what."""

import json

import mlx.core as mx
import pytest
from compared import relative
from model_edits import edit_config, edit_tensors, logits
from tiny_published import publish, published_logits

import mlx_engine
from mlx_engine.models.drafters.dflash import DFlashConfig
from mlx_engine.values.errors import BadModelFile, EngineError, UnsupportedModel

Q = "model.layers.0.self_attn.q_proj.weight"


@pytest.fixture(scope="module")
def arrays(tmp_path_factory):
    """The files of one tiny Llama, to be spoilt."""
    folder = publish("llama", tmp_path_factory.mktemp("tiny") / "llama").folder
    texts = {path.name: path.read_bytes() for path in folder.glob("*.json")}
    return texts, mx.load(str(folder / "model.safetensors"))


def written(folder, arrays, spoil=None, **changes):
    folder.mkdir()
    texts, tensors = arrays
    for name, text in texts.items():
        (folder / name).write_bytes(text)
    kept = dict(tensors)
    if spoil is not None:
        spoil(kept)
    mx.save_safetensors(str(folder / "model.safetensors"), kept)
    edit_config(folder, **changes)
    return folder


@pytest.mark.parametrize("value", ["many", -3, 0, 2.5, [], {}, True, 10**12, None])
@pytest.mark.parametrize(
    "key",
    [
        "hidden_size",
        "num_hidden_layers",
        "num_attention_heads",
        "num_key_value_heads",
        "vocab_size",
        "intermediate_size",
        "rms_norm_eps",
        "rope_parameters",
        "max_position_embeddings",
        "head_dim",
        "layer_types",
        "tie_word_embeddings",
    ],
)
def test_wrong_values(tmp_path, arrays, key, value):
    """Refused, or harmless: then the model still answers."""
    folder = written(tmp_path / "m", arrays, **{key: value})
    try:
        engine = mlx_engine.load(folder)
    except EngineError as error:
        assert str(folder) in str(error)
        return
    assert engine.generate([1, 2, 3], max_tokens=2, ignore_eos=True).tokens
    engine.close()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda a: a.pop(Q), Q.removeprefix("model.")),
        (lambda a: a.pop("model.norm.weight"), "norm.weight is missing"),
        (lambda a: a.pop("model.embed_tokens.weight"), "embed_tokens"),
        (lambda a: a.update({"model.layers.0.mystery.weight": mx.zeros((3,))}), "mystery"),
        (lambda a: a.update({Q: a[Q][:5]}), "q_proj"),
        (lambda a: a.update({Q: a[Q].astype(mx.int32)}), "q_proj.*floating"),
        (lambda a: a.update({Q.replace("weight", "scales"): mx.ones((64, 2))}), "q_proj.*packed"),
    ],
)
def test_tensors_that_do_not_fit(tmp_path, arrays, spoil, message):
    folder = written(tmp_path / "m", arrays, spoil)
    with pytest.raises(BadModelFile, match=message):
        mlx_engine.load(folder)


@pytest.mark.parametrize("kind", ["rwkv7", "mamba2", "gemma3n", "qwen2_vl", "afm7", "mllama"])
def test_configs_of_other_classes(tmp_path, arrays, kind):
    folder = written(tmp_path / "m", arrays, model_type=kind)
    with pytest.raises(EngineError, match="m"):
        mlx_engine.load(folder)


def test_heads_of_a_family_without_support_are_set_aside(tmp_path):
    tiny = publish("llama", tmp_path / "llama")
    heads = {f"model.layers.3.{name}": mx.zeros((64,)) for name in ("enorm.weight", "hnorm.weight")}
    edit_tensors(tiny.folder, lambda arrays: arrays | heads)
    engine = mlx_engine.load(tiny.folder)
    assert engine.description.mtp.code == "heads-not-run"
    assert "cannot be run yet" in engine.description.mtp.words
    assert engine.description.mtp_heads == 0
    engine.close()
    with pytest.raises(UnsupportedModel, match="cannot be run yet"):
        mlx_engine.load(tiny.folder, heads=tiny.folder / "model.safetensors")


def test_a_list_of_end_tokens_is_respected(tmp_path, arrays):
    folder = written(tmp_path / "m", arrays)
    engine = mlx_engine.load(folder)
    options = mlx_engine.SamplingOptions(temperature=0)
    free = engine.generate([1, 2, 3], max_tokens=6, sampling=options, ignore_eos=True).tokens
    engine.close()
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [299, free[2]]}))
    engine = mlx_engine.load(folder)
    ended = engine.generate([1, 2, 3], max_tokens=6, sampling=options)
    assert ended.finish_reason != "length"
    assert len(ended.tokens) <= 3
    engine.close()


@pytest.mark.parametrize(
    ("kind", "key", "value", "says"),
    [
        ("phi3", "intermediate_size", 2**31 - 1, "gate_proj.weight"),
        ("phi3", "original_max_position_embeddings", "many", "original_max_position_embeddings"),
        ("gemma3_text", "attn_logit_softcapping", 30.0, "softcapping 30.0"),
        ("olmoe", "clip_qkv", 0.5, "clip_qkv"),
        ("gemma3_text", "use_bidirectional_attention", True, "bidirectional"),
        ("gemma3_text", "sliding_window_pattern", 0, "sliding_window_pattern"),
        ("gpt_oss", "swiglu_alpha", 1.5, "swiglu_alpha"),
        ("qwen3_moe", "num_experts_per_tok", 9, "num_experts_per_tok"),
        ("glm4", "partial_rotary_factor", 3.0, "partial_rotary_factor"),
    ],
)
def test_what_a_family_refuses(tmp_path, kind, key, value, says):
    folder = publish(kind, tmp_path / "m").folder
    edit_config(folder, rope_parameters=None, layer_types=None, **{key: value})
    with pytest.raises(EngineError, match=says):
        mlx_engine.load(folder)


def test_a_class_of_mlx_lm_that_ends_the_program(tmp_path, arrays):
    """Where a package of its own is not there."""
    folder = written(tmp_path / "m", arrays, model_type="olmo")
    with pytest.raises(UnsupportedModel, match="olmo needs a package that is not here"):
        mlx_engine.load(folder)


@pytest.mark.parametrize(
    "kinds",
    [{"layer_types": ["linear_attention", "full_attention"]}, {"attn_type_list": [0, 1]}],
)
def test_lightning_attention_is_not_that_of_minimax_m2(tmp_path, kinds):
    """Though conversions call both `minimax`."""
    folder = publish("minimax_m2", tmp_path / "m").folder
    edit_config(folder, model_type="minimax")
    mlx_engine.load(folder).close()
    edit_config(folder, **kinds)
    for attempt in (mlx_engine.inspect, mlx_engine.load):
        with pytest.raises(UnsupportedModel, match=r"MiniMax-Text-01.*lightning"):
            attempt(folder)


@pytest.mark.parametrize(
    ("kind", "key", "value"),
    [
        ("llama", "head_dim", 2**16 + 2),
        ("qwen3", "head_dim", 2**24),
        ("llama", "num_hidden_layers", 1001),
        ("mamba2", "num_hidden_layers", 1001),
        ("lfm2", "intermediate_size", float("inf")),
    ],
)
def test_what_is_listed_one_by_one_is_bounded(tmp_path, kind, key, value):
    """Layers, and factors of pairs of elements: 2**31 of them would fill all memory."""
    folder = publish(kind, tmp_path / kind).folder
    edit_config(folder, **{key: value})
    with pytest.raises(BadModelFile, match=f"{key}={value}, where"):
        mlx_engine.inspect(folder)


def test_layers_of_a_drafter_are_bounded():
    with pytest.raises(BadModelFile, match="num_hidden_layers=1001"):
        DFlashConfig.read({"num_hidden_layers": 1001}, "tiny")


@pytest.mark.parametrize("key", ["rope_interleave", "norm_topk_prob"])
def test_null_is_false_where_transformers_takes_it_so(tmp_path, key):
    """Whatever the family takes where nothing is said."""
    tiny = publish("deepseek_v3", tmp_path / "m")
    path = tiny.folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: None}))
    wanted = published_logits(tiny.folder, tiny.tokens)
    assert relative(logits(tiny.folder, tiny.tokens), wanted) < 1e-4
