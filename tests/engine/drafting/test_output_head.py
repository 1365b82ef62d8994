"""Cheaper output heads: what they predict, what they hold, and when they are made."""

import mlx.core as mx
import numpy as np
import pytest
from tiny_model import TinySizes, tiny_model

from mlx_engine.drafting.output_head import (
    MOST_CHARACTERS,
    NEW_TOKENS,
    FrequentOutput,
    count_tokens,
    make_output,
)
from mlx_engine.values.options import DraftOptions

SIZES = TinySizes(layers=2, hidden=64, vocabulary=700)


@pytest.fixture(scope="module")
def mtp_head():
    return tiny_model(6, SIZES).heads[0]


@pytest.fixture(scope="module")
def states():
    return mx.array(np.random.default_rng(0).normal(size=(1, 5, 64)).astype(np.float32))


def output_head(mtp_head, kind, size=256, always=(), frequent=()):
    return make_output(
        DraftOptions(output=kind, vocabulary=size), mtp_head, always, lambda: frequent
    )


def test_fewer_bits_stay_close(mtp_head, states):
    head = output_head(mtp_head, "4-bit")
    assert head.in_effect == "4-bit"
    true, found = np.array(mtp_head.mtp_logits(states)), np.array(head.logits(mtp_head, states))
    assert found.shape == true.shape
    error = np.abs(found - true).mean() / np.abs(true).mean()
    assert 0.01 < error <= 0.15


def test_fewer_rows_are_the_rows(mtp_head, states):
    """Kept tokens have the model's own logits, the others none; what is met is taken in."""
    head = output_head(mtp_head, "frequent", always=[650, 9999])
    assert isinstance(head, FrequentOutput)
    true = np.array(mtp_head.mtp_logits(states))
    found = np.array(head.logits(mtp_head, states))
    kept = [*range(256), 650]
    assert np.isneginf(np.delete(found, kept, axis=-1)).all()
    np.testing.assert_allclose(found[..., kept], true[..., kept], rtol=1e-5, atol=1e-5)
    head.append(range(300, 300 + NEW_TOKENS - 1))
    assert np.isneginf(np.array(head.logits(mtp_head, states))[..., 300]).all()
    head.append([450, 3])
    found = np.array(head.logits(mtp_head, states))
    np.testing.assert_allclose(found[..., 300], true[..., 300], rtol=1e-5, atol=1e-5)
    assert head.row_count == 256 + 1 + NEW_TOKENS


def test_a_vocabulary_beyond_the_model_s_is_all_of_it(mtp_head):
    assert output_head(mtp_head, "frequent", size=2**64).row_count == mtp_head.vocabulary


def test_what_is_counted_goes_before_low_numbers(mtp_head, states):
    head = output_head(mtp_head, "frequent", always=[650], frequent=(9999, 5, *range(400, 654)))
    kept = [0, *range(5, 6), *range(400, 654), 650]
    found = np.array(head.logits(mtp_head, states))
    assert np.isneginf(np.delete(found, kept, axis=-1)).all()
    assert np.isfinite(found[..., kept]).all()
    assert head.row_count == 256


def test_counting_is_bounded_and_the_most_frequent_comes_first():
    texts = []

    def encode(text):
        texts.append(text)
        return [ord(letter) for letter in text]

    counted = count_tokens(encode)
    assert 400_000 < sum(map(len, texts)) <= MOST_CHARACTERS
    assert counted[0] == ord(" ")
    assert counted.index(ord("e")) < counted.index(ord("z"))
    assert any("def " in text for text in texts)


def test_a_width_that_cannot_be_packed_keeps_the_full_head():
    narrow = tiny_model(6, TinySizes(layers=2, hidden=32)).heads[0]
    assert output_head(narrow, "4-bit") is None
