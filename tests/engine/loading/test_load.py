import codecs
import io
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
import torch
from model_edits import drop_tensors, edit_config
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from tiny_qwen3_5 import write_tiny_qwen3_5

from mlx_engine.loading.describe import inspect_model
from mlx_engine.loading.load import LoadedModel, load_model
from mlx_engine.values.errors import (
    BadModelFile,
    BadTokenizer,
    DoesNotFit,
    EngineError,
    LoadStopped,
    UnsupportedModel,
)
from mlx_engine.values.options import LoadOptions

SHARED = Path(__file__).parents[4] / "shared" / "data" / "qwen35"
TOKENS = [3, 141, 59, 26, 250, 299, 0, 77]


def load(folder: Path, heads: Path | None = None) -> LoadedModel:
    return load_model(folder, LoadOptions(heads=heads), built_in=Path("unused"))


def outputs(loaded: LoadedModel, tokens: list[int] = TOKENS) -> list[NDArray[np.float32]]:
    """Logits of the trunk, and of the head if there is one."""
    model, ids = loaded.model, mx.array([tokens])
    hidden = model.forward(ids, model.make_caches())
    found = [np.array(model.logits(hidden)[0])]
    for head in model.heads:
        states = head.mtp_forward(ids[:, 1:], hidden[:, :-1], head.make_head_caches())
        found.append(np.array(head.mtp_logits(states)[0]))
    return found


@pytest.mark.skipif(not SHARED.is_dir(), reason="the toy checkpoint is not beside the repository")
def test_toy_checkpoint_against_torch() -> None:
    tokens = [int(token) for token in (SHARED / "prompt.tok").read_text().split()]
    truth = np.load(SHARED / "ref_torch.npz")
    logits, drafted = outputs(load(SHARED / "hf"), tokens)
    np.testing.assert_allclose(logits, truth["logits"], atol=1e-4)
    np.testing.assert_allclose(drafted, truth["mtp_noz"][1:], atol=1e-4)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> list[NDArray[np.float32]]:
    return outputs(load(write_tiny_qwen3_5(tmp_path_factory.mktemp("plain"))))


@pytest.mark.parametrize(
    ("how", "codes"),
    [
        ({"layout": "mlx"}, []),
        ({"heads": "beside"}, []),
        ({"heads": "sibling"}, []),
        ({"heads": "sibling", "layout": "mlx"}, []),
        ({"heads": "beside", "layout": "mlx", "head_norm_shift": 0}, []),
        ({"shards": 3}, []),
        ({"layout": "mlx", "head_norm_shift": 0}, ["heads-norms-corrected"]),
        ({"layout": "mlx", "head_norm_shift": 2}, ["heads-norms-corrected"]),
        ({"heads": "sibling", "head_norm_shift": 2}, ["heads-norms-corrected"]),
        ({"layout": "mlx", "norm_shift": 2}, ["model-norms-corrected"]),
        ({"layout": "mlx", "norm_shift": 2, "head_norm_shift": 1},
         ["model-norms-corrected", "heads-norms-corrected"]),
    ],
)  # fmt: skip
def test_one_model_in_any_layout(
    tmp_path: Path, plain: list[NDArray[np.float32]], how: dict, codes: list[str]
) -> None:
    model = load(write_tiny_qwen3_5(tmp_path / "m", **how))
    assert [reason.code for reason in model.description.declined] == codes
    for mine, wanted in zip(outputs(model), plain, strict=True):
        np.testing.assert_array_equal(mine, wanted)


def test_without_heads_the_trunk_is_the_same(
    tmp_path: Path, plain: list[NDArray[np.float32]]
) -> None:
    loaded = load(write_tiny_qwen3_5(tmp_path / "m", heads="none"))
    assert not loaded.model.heads
    np.testing.assert_array_equal(outputs(loaded)[0], plain[0])


def test_heads_from_elsewhere(tmp_path: Path, plain: list[NDArray[np.float32]]) -> None:
    folder = write_tiny_qwen3_5(tmp_path / "m", heads="none", layout="mlx")
    given = write_tiny_qwen3_5(tmp_path / "g", layout="hf")
    np.testing.assert_array_equal(outputs(load(folder, given))[1], plain[1])


@pytest.mark.skipif(sys.platform != "linux", reason="paths are UTF-8 there")
def test_a_path_that_is_not_utf_8(tmp_path: Path, plain: list[NDArray[np.float32]]) -> None:
    folder = write_tiny_qwen3_5(tmp_path / "m").rename(tmp_path / os.fsdecode(b"m\xff"))
    for found, wanted in zip(outputs(load(folder)), plain, strict=True):
        assert np.array_equal(found, wanted)


def test_float64_becomes_float32(tmp_path: Path, plain: list[NDArray[np.float32]]) -> None:
    """With tensors of every other kind in the same file."""
    folder = write_tiny_qwen3_5(tmp_path / "m")
    file = folder / "model.safetensors"
    wide = {name: tensor.double() for name, tensor in load_file(file).items()}
    others = ("bfloat16", "float16", "float32", "int64", "uint16", "bool")
    beside = {f"visual.{kind}": torch.ones(2).to(getattr(torch, kind)) for kind in others}
    save_file(wide | beside | {"visual.double": torch.tensor([1e300]).double()}, file)
    loaded = load(folder)
    told = [reason for reason in loaded.description.declined if reason.code == "narrowed-float64"]
    assert (
        told[0].words
        == f"Tensors of float64 ({len(wide)}) become float32: no GPU computes in more."
    )
    assert loaded.description.quantisation == "float32"
    for mine, wanted in zip(outputs(loaded), plain, strict=True):
        np.testing.assert_array_equal(mine, wanted)


def test_a_byte_order_mark_is_read_over(tmp_path: Path, plain: list[NDArray[np.float32]]) -> None:
    folder = write_tiny_qwen3_5(tmp_path / "m", shards=2)
    (folder / "chat_template.jinja").write_text("{{ messages[0].content }}")
    for file in (*folder.glob("*.json"), folder / "chat_template.jinja"):
        file.write_bytes(codecs.BOM_UTF8 + file.read_bytes())
    loaded = load(folder)
    assert loaded.template is not None
    assert loaded.template.source.startswith("{{")
    assert loaded.tokenizer.encode("fox") == load(write_tiny_qwen3_5(tmp_path)).tokenizer.encode(
        "fox"
    )
    np.testing.assert_array_equal(outputs(loaded)[0], plain[0])


@pytest.mark.parametrize("heads", ["inside", "beside", "none"])
@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("tied", [True, False])
def test_packed_equals_the_same_weights_unpacked(
    tmp_path: Path, heads: str, bits: int, tied: bool
) -> None:
    packed = write_tiny_qwen3_5(tmp_path / "p", heads=heads, bits=bits, layout="mlx", tied=tied)
    dense = write_tiny_qwen3_5(tmp_path / "d", heads=heads, layout="mlx", tied=tied)
    for name in ("model", "mtp") if heads == "beside" else ("model",):
        unpack(packed / f"{name}.safetensors", dense / f"{name}.safetensors")
    for mine, wanted in zip(outputs(load(packed)), outputs(load(dense)), strict=True):
        np.testing.assert_allclose(mine, wanted, atol=2e-4)


def unpack(source: Path, target: Path) -> None:
    arrays = dict(mx.load(str(source)))
    for name in [name for name in arrays if name.endswith(".scales")]:
        matrix = name.removesuffix(".scales")
        packed, scales, biases = (
            arrays.pop(f"{matrix}.{part}") for part in ("weight", "scales", "biases")
        )
        bits = packed.shape[1] * 32 // (scales.shape[1] * 32)
        arrays[f"{matrix}.weight"] = mx.dequantize(packed, scales, biases, 32, bits)
    mx.eval(arrays)
    mx.save_safetensors(str(target), arrays)


def test_sixteen_bits_become_float32_without_metal(tmp_path: Path) -> None:
    loaded = load(write_tiny_qwen3_5(tmp_path / "m", dtype=mx.bfloat16))
    hidden = loaded.model.forward(mx.array([TOKENS]), loaded.model.make_caches())
    metal = mx.metal.is_available()
    assert hidden.dtype == (mx.bfloat16 if metal else mx.float32)
    assert loaded.description.quantisation == "bfloat16"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden_size": 128}, r"\[.*64.*128|128.*64"),
        ({"hidden_size": "64"}, "hidden_size='64'"),
        ({"hidden_size": None}, "hidden_size=None"),
        ({"num_hidden_layers": 5}, r"layers\.4\."),
        ({"num_hidden_layers": 3}, r"no place for layers\.3\."),
        ({"num_hidden_layers": -1}, "num_hidden_layers=-1"),
        ({"num_attention_heads": 8}, r"q_proj|o_proj"),
        ({"num_key_value_heads": 3}, "num_attention_heads"),
        ({"full_attention_interval": 2}, r"layers\.1\."),
        ({"linear_conv_kernel_dim": 3}, "conv1d"),
        ({"vocab_size": 299}, "embed_tokens"),
        ({"vocab_size": 310}, "embed_tokens"),
        ({"tie_word_embeddings": 1}, "tie_word_embeddings=1"),
        ({"intermediate_size": 64}, r"gate_proj|up_proj|down_proj"),
        ({"max_position_embeddings": "long"}, "max_position_embeddings='long'"),
        ({"mtp_num_hidden_layers": -1}, "mtp_num_hidden_layers=-1"),
        ({"layer_types": ["full_attention"]}, "layer_types"),
    ],
)
def test_config_that_does_not_fit_the_tensors(tmp_path: Path, changes: dict, message: str) -> None:
    folder = write_tiny_qwen3_5(tmp_path / "m")
    edit_config(folder, **changes)
    with pytest.raises((BadModelFile, BadTokenizer), match=message):
        load(folder)


def test_an_output_head_is_looked_for_where_the_config_promises_one(tmp_path: Path) -> None:
    """Whole and text part agree there; where they differ, the files tell."""
    folder = write_tiny_qwen3_5(tmp_path / "m", tied=False)
    drop_tensors(folder, "lm_head")
    with pytest.raises(BadModelFile, match="lm_head"):
        load(folder)
    edit_config(folder, tie_word_embeddings=True)
    load(folder)


@pytest.mark.parametrize("content", [None, b"", b"{", b"[]", b"\xff", b"[" * 100_000, b"{}"])
def test_config_that_is_none(tmp_path: Path, content: bytes | None) -> None:
    folder = write_tiny_qwen3_5(tmp_path / "m")
    (folder / "config.json").unlink()
    if content is not None:
        (folder / "config.json").write_bytes(content)
    with pytest.raises(BadModelFile, match=r"config\.json"):
        load(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "gpt5", "text_config": {}}, "cannot run models of the type 'gpt5'"),
        ({"model_type": "qwen3_5_mtp"}, "drafting heads only"),
        ({"quantization_config": {"quant_method": "gptq"}}, "packed by 'gptq', which"),
        ({"quantization_config": {"quant_method": "fp8", "fmt": "e5m2"}}, "packed by 'fp8'"),
        (
            {
                "compression_config": {
                    "quant_method": "compressed-tensors",
                    "format": "int-quantized",
                }
            },
            "packed by 'compressed-tensors' as 'int-quantized'",
        ),
    ],
)
def test_sound_models_we_do_not_run(tmp_path: Path, change: dict, message: str) -> None:
    folder = write_tiny_qwen3_5(tmp_path / "m")
    config = json.loads((folder / "config.json").read_text())
    if change.get("model_type") == "qwen3_5_mtp":
        change = change | {"text_config": {}}
    (folder / "config.json").write_text(json.dumps(config | change))
    with pytest.raises(UnsupportedModel, match=message):
        load(folder)


def test_tensors_nobody_knows_are_named(tmp_path: Path) -> None:
    folder = write_tiny_qwen3_5(tmp_path / "m")
    extra = {"model.language_model.layers.0.mystery.weight": mx.zeros((2,))}
    mx.save_safetensors(str(folder / "model-extra.safetensors"), extra)
    with pytest.raises(BadModelFile, match=r"layers\.0\.mystery\.weight"):
        load(folder)


def test_progress_runs_from_nothing_to_all_bytes(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    folder = write_tiny_qwen3_5(tmp_path / "m")
    model = load_model(folder, LoadOptions(), folder, lambda *step: seen.append(step))
    heads = sum(g.nbytes for g in model.description.groups if g.name == "MTP head")
    total = model.description.nbytes - heads  # read when they first draft
    assert 0 < heads < total
    assert seen[0] == (0, total)
    assert seen[-1] == (total, total)
    assert seen == sorted(seen)


def memory_after(action: Callable[[], object]) -> int:
    mx.clear_cache()
    before = mx.get_active_memory()
    with pytest.raises(EngineError):
        action()
    return mx.get_active_memory() - before


def test_a_stopped_or_failed_load_leaves_nothing_behind(tmp_path: Path) -> None:
    folder = write_tiny_qwen3_5(tmp_path / "m")
    with pytest.raises(LoadStopped, match=str(folder)):
        load_model(folder, LoadOptions(), folder, stop=lambda: True)
    assert memory_after(lambda: load_model(folder, LoadOptions(), folder, stop=lambda: True)) == 0
    edit_config(folder, intermediate_size=64)
    assert memory_after(lambda: load(folder)) == 0


def test_nothing_lazy_is_left(tmp_path: Path) -> None:
    """The files may go away after a load; heads are read when they first draft."""
    folder = write_tiny_qwen3_5(tmp_path / "m", heads="beside")
    model, unread = load(folder), load(folder)
    model.read_heads()
    wanted = outputs(load(folder))
    for file in folder.glob("*.safetensors"):
        file.write_bytes(b"")
    for mine, before in zip(outputs(model), wanted, strict=True):
        np.testing.assert_array_equal(mine, before)
    with pytest.raises(BadModelFile, match="cannot be read"):
        unread.read_heads()


def test_a_model_without_a_chat_template_loads(tmp_path: Path) -> None:
    folder = write_tiny_qwen3_5(tmp_path / "m")
    assert load(folder).template is not None
    config = json.loads((folder / "tokenizer_config.json").read_text())
    del config["chat_template"]
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    assert load(folder).template is None


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_file_that_may_not_be_read_is_not_to_be_downloaded_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    folder = write_tiny_qwen3_5(tmp_path / "m")
    opened = io.open

    def refuse(path: Path, *more: object, **named: object) -> object:
        if Path(path).name == name:
            raise PermissionError(13, "Permission denied")
        return opened(path, *more, **named)  # type: ignore[call-overload]

    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(
        EngineError, match=f"{name}: there is no permission to read it. Allow reading it"
    ) as refused:
        load_model(folder, LoadOptions(), folder)
    assert "ownload" not in str(refused.value)


def test_what_does_not_fit_is_refused_with_its_plan_before_weights_are_read(tmp_path: Path) -> None:
    folder, unused = write_tiny_qwen3_5(tmp_path / "model"), Path("unused")
    told = inspect_model(folder, unused).with_machine(has_metal=False)
    shortest, whole = (
        told.memory_plan(context).total_bytes for context in (100, told.context_length)
    )
    read: list[int] = []
    refused = r"model .* at 512 tokens = .*: does not fit, .* too much\. Limit chats to"
    with pytest.raises(DoesNotFit, match=refused):
        load_model(
            folder, LoadOptions(), unused, lambda done, _: read.append(done), usable_bytes=whole - 1
        )
    assert read == []
    assert load_model(folder, LoadOptions(context_length=100), unused, usable_bytes=shortest)
    gpu = {"usable_bytes": whole, "gpu_bytes": 2**30}
    with pytest.raises(DoesNotFit, match="too large"):  # states live a round longer there
        load_model(folder, LoadOptions(), unused, **gpu)


def test_a_context_that_was_asked_for_has_to_fit(tmp_path: Path) -> None:
    """One that was not is as long as there is room for it."""
    folder = write_tiny_qwen3_5(tmp_path / "model")
    edit_config(folder, max_position_embeddings=100_000)
    told = inspect_model(folder, Path("unused")).with_machine(has_metal=False)
    usable = told.memory_plan(20_000).total_bytes
    assert load_model(folder, LoadOptions(), Path("unused"), usable_bytes=usable)
    for tokens in (100_000, 40_000, 19_000):
        options = LoadOptions(context_length=tokens)
        if tokens < 20_000:
            assert load_model(folder, options, Path("unused"), usable_bytes=usable)
            continue
        with pytest.raises(DoesNotFit, match="does not fit, room for about 20,000 tokens"):
            load_model(folder, options, Path("unused"), usable_bytes=usable)
