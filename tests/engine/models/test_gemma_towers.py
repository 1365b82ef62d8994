"""Gemma 3 and 4 with pictures against transformers: prompts, pixels, embeddings and logits."""

import json
from pathlib import Path

import gguf
import numpy as np
import pytest
from compared import relative
from tiny_gemma_vision import (
    KINDS,
    MARKS,
    PLACEHOLDER,
    Kind,
    family,
    image_processor,
    reference_embeddings,
    reference_ids,
    reference_logits,
    write_gemma,
    write_gemma_gguf,
)
from tiny_vision import chat_about, encoded, logits, picture, prompt_of

from mlx_engine import inspect
from mlx_engine.engine import open_engine
from mlx_engine.text.chat_template import tokenize_chat
from mlx_engine.values.conversation import Message
from mlx_engine.values.options import LoadOptions
from mlx_engine.values.picture import read_picture

SIZES = [(40, 24), (20, 70), (300, 3), (24, 24)]
PICTURES = [read_picture(picture(seed, *size)) for seed, size in enumerate(SIZES)]
CHAT = chat_about(PICTURES)


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    return request.param


@pytest.fixture(scope="module")
def folder(kind: Kind, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_gemma(tmp_path_factory.mktemp("seeing") / "m", kind)


def test_prompts_and_pixels_equal_transformers(kind: Kind, folder: Path) -> None:
    theirs = image_processor(kind)
    with open_engine(folder, LoadOptions()) as engine:
        seen = [each for message in CHAT for each in message.images]
        text = tokenize_chat(engine.parts.template, engine.parts.tokenizer, CHAT).text
        wanted = reference_ids(folder, kind, text, seen)
        assert prompt_of(engine, CHAT).ids_with_placeholders == wanted
        tower = engine.parts.pictures.require_tower()
        asked = [Message("user", f"what is {' '.join(MARKS[family(kind)])}?", images=PICTURES[:1])]
        places = prompt_of(engine, asked).ids_with_placeholders.count(PLACEHOLDER)
        assert places == tower.token_grid(PICTURES[0]).tokens  # and not for what a user writes
        for each in PICTURES:
            pixels = theirs([each.decode()], return_tensors="np")["pixel_values"][0]
            grid, cut = tower.token_grid(each), tower._spec.cut
            row, column = cut.positions(grid)
            if kind == "gemma3":
                pixels = pixels.reshape(3, 6, 4, 6, 4).transpose(1, 3, 2, 4, 0).reshape(36, 48)
            elif kind != "gemma4 12b":
                pixels = 2 * (pixels - 0.5)
            in_rows = pixels[row * grid.columns * cut.merge + column]
            assert np.abs(cut.patches(each, grid) - in_rows).max() < 1e-5


def test_embeddings_and_logits_equal_transformers(
    kind: Kind, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Text before, between and behind, two turns; whole and in chunks that would cut pictures.

    Scores are computed in slices of 32 rows, which cut pictures too.
    """
    monkeypatch.setattr("metal_kernels.stock.SCORES_BYTES", 1)
    with open_engine(folder, LoadOptions()) as engine:
        told = engine.description
        assert told.vision is None and told.pictures is not None
        assert told.pictures.most_tokens == (9 if kind == "gemma3" else 70)
        assert told.pictures.patches == 4
        for each in PICTURES:
            assert relative(encoded(engine, each), reference_embeddings(kind, each)) < 1e-4
        for messages in (CHAT, CHAT[:1]):
            prompt = prompt_of(engine, messages)
            seen = [each for message in messages for each in message.images]
            wanted = reference_logits(kind, prompt.ids_with_placeholders, seen)
            for chunk in (1000, 11):
                assert relative(logits(engine, prompt, chunk), wanted) < 1e-4


def test_mlx_folders_and_packed_towers(kind: Kind, folder: Path, tmp_path: Path) -> None:
    wanted = reference_embeddings(kind, PICTURES[0])
    for bits, most in ((None, 1e-4), (8, 0.05)):
        place = write_gemma(tmp_path / f"mlx{bits}", kind, "mlx", bits)
        with open_engine(place, LoadOptions()) as engine:
            off = relative(encoded(engine, PICTURES[0]), wanted)
            assert off < most
            assert bits is None or off > 1e-4


def test_gguf_towers_give_the_folders_numbers(kind: Kind, folder: Path, tmp_path: Path) -> None:
    """What the file does not tell is as published: Gemma 4's pictures have 280 tokens at most."""
    path = write_gemma_gguf(tmp_path / "f32", kind, folder)
    most = {} if kind == "gemma3" else {"max_soft_tokens": 280}
    wanted = reference_embeddings(kind, PICTURES[0], **most)
    with open_engine(path, LoadOptions()) as engine:
        assert relative(encoded(engine, PICTURES[0]), wanted) < 1e-4
        if kind == "gemma3":
            ids = prompt_of(engine, CHAT)
            rows = reference_logits(kind, ids.ids_with_placeholders, PICTURES[:3])
            assert relative(logits(engine, ids, 1000), rows) < 1e-4
    if kind in ("gemma3", "gemma4"):
        path = write_gemma_gguf(tmp_path / "q8", kind, folder, gguf.GGMLQuantizationType.Q8_0)
        with open_engine(path, LoadOptions()) as engine:
            assert 1e-4 < relative(encoded(engine, PICTURES[0]), wanted) < 0.05


BAD: dict[Kind, list[tuple[dict[str, object], str]]] = {
    "gemma3": [
        ({"num_hidden_layers": 3}, "missing"),
        ({"hidden_size": 64}, "shape"),
        ({"num_attention_heads": 0}, "num_attention_heads"),
        ({"patch_size": 5}, "mm_tokens"),
    ],
    "gemma4": [
        ({"num_hidden_layers": 1}, "no place"),
        ({"head_dim": 18}, "head_dim"),
        ({"position_embedding_size": 30}, "position_embedding_size"),
        ({"use_clipped_linears": True}, "missing"),
    ],
    "gemma4 12b": [({"mm_embed_dim": 64}, "shape"), ({"mm_posemb_size": 9}, "mm_posemb_size")],
}


def test_towers_that_do_not_fit(tmp_path: Path) -> None:
    for kind, cases in BAD.items():
        path = write_gemma(tmp_path / kind, kind) / "config.json"
        whole = json.loads(path.read_text())
        for change, words in cases:
            path.write_text(json.dumps(whole | {"vision_config": whole["vision_config"] | change}))
            with open_engine(path.parent, LoadOptions()) as engine:
                assert engine.description.vision is not None
                assert words in engine.description.vision.words


def test_gguf_towers_that_do_not_belong(tmp_path: Path) -> None:
    like = write_gemma(tmp_path / "m", "gemma3")
    for name, changes in (
        ("size", {"clip.vision.projection_dim": 64}),
        ("family", {"clip.projector_type": "qwen3vl_merger"}),
    ):
        path = write_gemma_gguf(tmp_path / name, "gemma3", like, changes=changes)
        why = inspect(path).vision
        assert why is not None
        assert why.code == "no-mmproj"


def test_cut_outs_that_a_folder_asks_for_are_declined(tmp_path: Path) -> None:
    like = write_gemma(tmp_path / "m", "gemma3")
    assert "pan-and-scan" not in [reason.code for reason in inspect(like).declined]
    processing = like / "preprocessor_config.json"
    asks = {**json.loads(processing.read_text("utf-8")), "do_pan_and_scan": True}
    processing.write_text(json.dumps(asks), "utf-8")
    assert "pan-and-scan" in [reason.code for reason in inspect(like).declined]
