"""Cards: facts in words, and memory as a sum that says whether a model fits."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from model_files import gguf
from scripted_engine import DESCRIPTION
from tiny_dflash import TinyDFlash, write_tiny_dflash
from tiny_qwen3_5 import write_tiny_qwen3_5

import mlx_engine
from app.library.find_models import nbytes_on_disk, recall
from app.library.machine import Machine, this_machine, usable_bytes
from app.library.model_card import make_card, read_card
from app.state.known_models import POCKET
from app.values.app_settings import ModelSettings
from app.values.models import ModelCard
from mlx_engine.built_in_model import built_in_model
from mlx_engine.values.errors import EngineError, Reason
from mlx_engine.values.memory_plan import CacheBytes
from mlx_engine.values.model_description import TensorGroup
from mlx_engine.values.options import LoadOptions
from mlx_engine.values.words import count_words, size_words

GB, GIB = 10**9, 2**30
MAC = Machine(48 * GB)


def test_a_card_says_what_the_model_is():
    card = make_card(DESCRIPTION, MAC)
    assert (card.parameters, card.quantisation, card.context) == (
        "27.4B parameters",
        "Q4_K_M",
        "262,144 tokens, about 196,608 words",
    )
    assert (card.heads, card.has_heads) == ("With drafting (1 drafting head)", True)
    assert not card.sees


@pytest.mark.parametrize(
    ("heads", "reason", "words"),
    [
        (2, None, "With drafting (2 drafting heads)"),
        (0, None, "Without drafting: this model has no drafting heads."),
        (1, "Its head is of another model.", "Without drafting: Its head is of another model."),
        (
            0,
            "The conversion dropped the heads.",
            "Without drafting: The conversion dropped the heads.",
        ),
    ],
)
def test_heads_of_every_kind(heads, reason, words):
    mtp = None if reason is None else Reason("why", reason)
    card = make_card(replace(DESCRIPTION, mtp_heads=heads, mtp=mtp), MAC)
    assert card.heads.startswith(words)
    assert card.has_heads == (heads > 0 and reason is None)


def test_heads_beside_a_model_say_which_file_they_lie_in():
    beside = replace(DESCRIPTION, heads_from="/models/original/mtp.safetensors")
    assert make_card(beside, MAC).heads == "With drafting (1 drafting head, from mtp.safetensors)"


def test_a_card_says_in_plain_words_what_the_files_are():
    stored = {
        "8-bit affine, groups of 64": ("/models/a", "8-bit MLX"),
        "bfloat16": ("/models/a", "16-bit Safetensors"),
        "Q4_K as 4-bit affine, groups of 32 + kept as IQ3_XS blocks": ("/a.gguf", "4-bit GGUF"),
        "Q6_K, unpacked + Q4_K": ("/a-Q4_K_M.gguf", "4-bit GGUF"),
        "": ("/a.gguf", "GGUF"),
    }
    for quantisation, (path, words) in stored.items():
        model = replace(DESCRIPTION, path=path, quantisation=quantisation)
        assert make_card(model, MAC).format == words


def test_the_size_of_a_card_is_that_of_the_files():
    group = TensorGroup("experts", 3, "Q6_K, unpacked", 10, 9_900_000, file_nbytes=4_900_000)
    model = replace(DESCRIPTION, nbytes=9_900_000, groups=(group,))
    assert make_card(model, MAC).size == "4.9 MB"


def test_a_model_has_one_size_on_its_card_and_in_the_list(tmp_path):
    for path in (built_in_model(), gguf(tmp_path / "small-Q8_0.gguf")):
        (listed,) = recall([str(path)])
        assert make_card(replace(DESCRIPTION, path=str(path)), MAC).size == size_words(
            listed.nbytes
        )
    assert nbytes_on_disk(built_in_model()) == POCKET.nbytes


def test_a_card_lists_what_else_is_off():
    model = replace(DESCRIPTION, declined=(Reason("vision", "Images are not read."),))
    assert make_card(model, MAC).notes == ("Images are not read.",)


def test_memory_is_a_sum_one_can_follow():
    assert make_card(DESCRIPTION, MAC).memory.words == (
        "18.2 GB model + 1.47 GB chat at 4,096 tokens = 19.7 GB of 48 GB: "
        "fits (36.6 GB with all 262,144)"
    )


@pytest.mark.parametrize(
    ("usable", "fit", "words"),
    [
        (30 * GB, "tight", "tight, room for about"),
        (19_600_000_000, "tight", "tight, room for about 5,120 tokens"),
        (18 * GB, "too-large", "does not fit, 1.52 GB too much"),
    ],
)
def test_a_model_that_hardly_fits_says_so(usable, fit, words):
    memory = DESCRIPTION.memory_fit(usable)
    assert memory.fit_in_memory == fit
    assert words in memory.words


def test_a_context_that_was_asked_for_and_does_not_fit_says_so():
    memory = DESCRIPTION.memory_fit(30 * GB, requested_context=200_000)
    assert (memory.fit_in_memory, memory.full.context) == ("too-large", 200_000)
    assert memory.words.endswith("= 32.4 GB of 30 GB: does not fit, room for about 163,840 tokens")
    assert DESCRIPTION.memory_fit(30 * GB, requested_context=100_000).fit_in_memory == "fits"


@given(st.integers(0, 200 * GB))
def test_what_is_said_to_fit_does(usable):
    memory = DESCRIPTION.memory_fit(usable)
    if memory.longest > 0:
        assert DESCRIPTION.memory_needed(memory.longest) <= usable
    if memory.fit_in_memory == "fits":
        assert memory.full.total_bytes <= usable
    if memory.fit_in_memory == "too-large":
        assert memory.short.total_bytes > usable


def test_a_model_without_caches_fits_with_its_whole_context():
    model = replace(DESCRIPTION, trunk_cache=CacheBytes(), context_length=2048)
    memory = model.memory_fit(48 * GB)
    assert (memory.longest, memory.short.context, memory.fit_in_memory) == (2048, 2048, "fits")


def test_the_built_in_model_has_a_card():
    card = read_card(None, this_machine())
    assert isinstance(card, ModelCard)
    assert card.memory.fit_in_memory == "fits"
    assert card.has_heads


def test_a_draft_model_is_in_the_sum():
    def weights(place: str | Path | None) -> int:
        card = read_card(None, MAC, ModelSettings(LoadOptions(draft_model=place)))
        assert isinstance(card, ModelCard)
        return card.memory.short.draft_model

    assert weights(None) == 0
    assert weights(built_in_model()) > 1_000_000
    assert weights("org/name") == 0, "what would have to be fetched is left alone"


def test_a_draft_model_that_is_missing_is_told(tmp_path):
    def warnings(place: str) -> tuple[str, ...]:
        card = read_card(None, MAC, ModelSettings(LoadOptions(draft_model=place)))
        assert isinstance(card, ModelCard)
        return card.warnings

    missing = str(tmp_path / "small.gguf")
    (warning,) = warnings(missing)
    assert missing in warning
    assert warnings("org/name") == warnings(str(built_in_model())) == ()


def test_a_shorter_context_needs_less_memory():
    whole = read_card(None, MAC)
    short = read_card(None, MAC, ModelSettings(LoadOptions(context_length=2048)))
    assert isinstance(whole, ModelCard)
    assert isinstance(short, ModelCard)
    assert short.context == "2,048 tokens, about 1,536 words"
    assert short.memory.full.total_bytes < whole.memory.full.total_bytes
    long = read_card(None, MAC, ModelSettings(LoadOptions(context_length=10**9)))
    assert isinstance(long, ModelCard)
    assert long.context == whole.context, "more than it was made for is not to be had"


def test_what_the_engine_refuses_has_its_words_for_a_card(tmp_path):
    with pytest.raises(EngineError) as refused:
        mlx_engine.inspect(gguf(tmp_path / "m.gguf"))
    assert read_card(tmp_path / "m.gguf", MAC) == str(refused.value)


@pytest.mark.parametrize(
    ("memory", "limit", "usable"),
    [
        (24 * GIB, "", 16 * GIB),
        (64 * GIB, "0", 48 * GIB),
        (64 * GIB, "57344", 56 * GIB),
        (64 * GIB, "999999", 64 * GIB),
        (64 * GIB, "what", 48 * GIB),
    ],
)
def test_the_gpu_s_share_of_memory(memory, limit, usable):
    assert usable_bytes(memory, limit) == usable


def test_this_machine_has_memory():
    machine = this_machine()
    there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert 0 < machine.usable_bytes <= there


def test_numbers_in_words():
    assert [size_words(n) for n in (0, 999, 1000, 18_200_000_000, 2 * 10**12)] == [
        "0 B",
        "999 B",
        "1 kB",
        "18.2 GB",
        "2 TB",
    ]
    assert [count_words(n) for n in (12, 751_000_000, 1_200_000_000_000)] == ["12", "751M", "1.2T"]


def test_a_context_longer_than_the_model_reads_is_told():
    card = read_card(None, MAC, ModelSettings(LoadOptions(context_length=10**6)))
    assert isinstance(card, ModelCard)
    (warning,) = card.warnings
    assert "1,000,000" in warning and "this model reads at most" in warning
    card = read_card(None, MAC, ModelSettings(LoadOptions(context_length=64)))
    assert isinstance(card, ModelCard) and not card.warnings


def test_a_draft_model_beside_is_noted_until_it_is_chosen(tmp_path):
    folder = write_tiny_qwen3_5(tmp_path / "Tiny-4bit")
    found = write_tiny_dflash(tmp_path / "Tiny-DFlash", TinyDFlash(64, 300))
    card = read_card(folder, MAC)
    assert card.draft_models == (str(found),)
    (note,) = (note for note in card.notes if str(found) in note)
    assert note.startswith("A draft model made for this model was found")
    chosen = read_card(folder, MAC, ModelSettings(LoadOptions(draft_model=str(found))))
    assert not any("was found" in note for note in chosen.notes)
    for place, codes in ((None, ["draft-model-found"]), (found, [])):
        with mlx_engine.load(folder, draft_model=place) as engine:
            told = [reason.code for reason in engine.description.declined]
        assert [code for code in told if code.startswith("draft")] == codes
