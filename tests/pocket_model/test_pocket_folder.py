"""The built-in model's folder is whole, small and described as it is."""

import json
from pathlib import Path
from typing import Any

import pytest
from safetensors import safe_open
from tokenizers import Tokenizer

FOLDER = Path(__file__).parents[2] / "assets" / "pocket_model"
LARGEST_BYTES = 12_000_000
SHIPPED = (
    "README.md",
    "LICENSE",
    "config.json",
    "generation_config.json",
    "held_out.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
)


def read(name: str) -> Any:
    return json.loads((FOLDER / name).read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def shapes() -> dict[str, tuple[list[int], str]]:
    with safe_open(str(FOLDER / "model.safetensors"), "np") as weights:
        parts = {name: weights.get_slice(name) for name in weights.keys()}  # noqa: SIM118
        return {name: (part.get_shape(), part.get_dtype()) for name, part in parts.items()}


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_file_is_there(name: str) -> None:
    assert (FOLDER / name).stat().st_size > 0


def test_the_folder_stays_small() -> None:
    kept = (p for p in FOLDER.rglob("*") if p.is_file() and "__pycache__" not in p.parts)
    assert sum(p.stat().st_size for p in kept) <= LARGEST_BYTES


def test_config_matches_the_weights(shapes: dict[str, tuple[list[int], str]]) -> None:
    config = read("config.json")
    text, stored = config["text_config"], config["quantization"]
    assert config["architectures"] == ["Qwen3_5ForConditionalGeneration"]
    assert (stored["group_size"], stored["bits"]) == (64, 8)
    packed = text["hidden_size"] * stored["bits"] // 32
    rows, kind = shapes["language_model.model.embed_tokens.weight"]
    assert (rows, kind) == ([text["vocab_size"], packed], "U32")
    layers = {name.split(".")[3] for name in shapes if ".model.layers." in name}
    assert len(layers) == text["num_hidden_layers"] == len(text["layer_types"])
    for index, kind in enumerate(text["layer_types"]):
        mixer = "linear_attn.in_proj_qkv" if kind == "linear_attention" else "self_attn.q_proj"
        assert f"language_model.model.layers.{index}.{mixer}.weight" in shapes


def test_the_head_is_shipped(shapes: dict[str, tuple[list[int], str]]) -> None:
    hidden = read("config.json")["text_config"]["hidden_size"]
    assert shapes["language_model.mtp.fc.weight"][0] == [hidden, 2 * hidden * 8 // 32]
    for norm in ("norm", "pre_fc_norm_embedding", "pre_fc_norm_hidden"):
        assert shapes[f"language_model.mtp.{norm}.weight"] == ([hidden], "F16")
    assert "language_model.mtp.layers.0.self_attn.q_proj.scales" in shapes


def test_quantised_tensors_come_in_threes(shapes: dict[str, tuple[list[int], str]]) -> None:
    stems = {name.removesuffix(".scales") for name in shapes if name.endswith(".scales")}
    packed = {name.removesuffix(".weight") for name, (_, kind) in shapes.items() if kind == "U32"}
    assert stems == packed
    for stem in stems:
        assert shapes[f"{stem}.scales"] == shapes[f"{stem}.biases"]


def test_tokenizer_and_end_tokens_agree() -> None:
    tokenizer = Tokenizer.from_file(str(FOLDER / "tokenizer.json"))
    assert tokenizer.get_vocab_size() == read("config.json")["text_config"]["vocab_size"]
    ends = [tokenizer.token_to_id(t) for t in ("<|im_end|>", "<|endoftext|>")]
    assert read("generation_config.json")["eos_token_id"] == ends
    text = "def π(x):\n    return '<|im_start|>' + x  # 3.14\n"
    assert tokenizer.decode(tokenizer.encode(text).ids, skip_special_tokens=False) == text


def test_held_out_questions_are_usable() -> None:
    rows = read("held_out.json")
    assert len(rows) >= 100
    assert all(row["question"] and row["expected"] and row["kind"] for row in rows)
    assert len({row["question"] for row in rows}) == len(rows)


def test_the_card_says_what_it_must() -> None:
    card = (FOLDER / "README.md").read_text(encoding="utf-8").lower()
    for word in ("licence", "demonstration", "acceptance", "held out", "steps", "parameters"):
        assert word in card
