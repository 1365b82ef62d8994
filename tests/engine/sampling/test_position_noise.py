"""Noise: the hash bit for bit, its distribution, its tail, and independence in every direction."""

import threading

import mlx.core as mx
import numpy as np
import pytest
from numpy.typing import NDArray

from metal_kernels.noise import gumbel_from_bits, token_bits
from mlx_engine.sampling.position_noise import gumbel_noise, row_keys

WORD, HALF = 2**64 - 1, 2**32 - 1
GOLDEN = 0x9E3779B97F4A7C15
SEEDS = [0, 1, 2**32, 0xDEADBEEF12345678, 2**64 - 1]
N = 1 << 16


def split_mix(word: int) -> int:
    word &= WORD
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & WORD
    return word ^ (word >> 31)


def lowbias32(word: int) -> int:
    word = ((word ^ (word >> 16)) * 0x7FEB352D) & HALF
    word = ((word ^ (word >> 15)) * 0x846CA68B) & HALF
    return word ^ (word >> 16)


def expected_bits(seed: int, position: int, token: int) -> int:
    key = split_mix(split_mix(seed + GOLDEN) + position * GOLDEN)
    return lowbias32((lowbias32(token ^ (key & HALF)) + (key >> 32)) & HALF)


def bits(seed: int, positions: range, vocabulary: int) -> NDArray[np.uint32]:
    return np.array(token_bits(row_keys(seed, positions), vocabulary))


def chi_square_z(observed: NDArray[np.int64], expected: float) -> float:
    """Chi-square as standard deviations from its mean; beyond +-5 is a p-value below 1e-6."""
    statistic = ((observed - expected) ** 2 / expected).sum()
    freedom = observed.size - 1
    return float((statistic - freedom) / np.sqrt(2 * freedom))


def neighbours(name: str) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Two rows of N words whose origin differs in one small way."""
    if name == "tokens":
        row = bits(5, range(9, 10), N + 1)[0]
        return row[:-1], row[1:]
    if name == "positions":
        return tuple(bits(5, range(9, 11), N))
    if name == "positions, same token":
        column = bits(5, range(N + 1), 1)[:, 0]
        return column[:-1], column[1:]
    other = {"seeds": 6, "high words": 5 + 2**32, "highest bits": 5 + 2**63}[name]
    return bits(5, range(9, 10), N)[0], bits(other, range(9, 10), N)[0]


def test_reference_is_the_published_split_mix() -> None:
    assert split_mix(GOLDEN) == 0xE220A8397B1DCDAF  # its first output for seed 0


@pytest.mark.parametrize("seed", SEEDS)
def test_bits_are_the_documented_hash(seed: int) -> None:
    positions, vocabulary = [0, 1, 77, 2**31 + 3, 2**40], 260
    got = np.array(token_bits(row_keys(seed, positions), vocabulary))
    for row, position in enumerate(positions):
        for token in (0, 1, 2, 255, 259):
            assert int(got[row, token]) == expected_bits(seed, position, token)


@pytest.mark.parametrize("along", ["tokens", "positions", "seeds", "high words"])
def test_every_byte_is_uniform(along: str) -> None:
    if along == "tokens":
        words = bits(1, range(3, 4), N)
    elif along == "positions":
        words = bits(1, range(N), 1)
    else:
        shift = 0 if along == "seeds" else 32
        words = np.concatenate([bits(s << shift, range(3, 4), 1) for s in range(4096)])
    for low in (0, 8, 16, 24):
        byte = (words.ravel() >> low) & 255
        assert abs(chi_square_z(np.bincount(byte, minlength=256), byte.size / 256)) < 5


@pytest.mark.parametrize("shift", [0, 14, 28])
@pytest.mark.parametrize(
    "name",
    ["tokens", "positions", "positions, same token", "seeds", "high words", "highest bits"],
)
def test_neighbours_are_independent(name: str, shift: int) -> None:
    one, other = neighbours(name)
    cells = ((one >> shift) & 15) * 16 + ((other >> shift) & 15)
    assert abs(chi_square_z(np.bincount(cells, minlength=256), one.size / 256)) < 5
    correlation = np.corrcoef(one.astype(np.float64), other.astype(np.float64))[0, 1]
    assert abs(correlation) * np.sqrt(one.size) < 4.5
    flipped = [(((one ^ other) >> bit) & 1).mean() for bit in range(32)]
    assert np.abs(np.array(flipped) - 0.5).max() * 2 * np.sqrt(one.size) < 5


@pytest.mark.parametrize("seed", SEEDS)
def test_noise_follows_the_gumbel_distribution(seed: int) -> None:
    values = np.sort(np.array(gumbel_noise(seed, range(4), N // 4)).ravel().astype(np.float64))
    cumulative = np.exp(-np.exp(-values))
    steps = np.arange(N + 1) / N
    distance = max((cumulative - steps[:-1]).max(), (steps[1:] - cumulative).max())
    assert distance * np.sqrt(N) < 1.95  # Kolmogorov-Smirnov, p = 0.001


def test_noise_is_precise_where_it_is_large() -> None:
    words = np.concatenate([np.arange(2000), 2 ** np.arange(11, 23), 2 ** np.arange(23, 32)])
    got = np.array(gumbel_from_bits(mx.array(words.astype(np.uint32)))).astype(np.float64)
    true = -np.log(-np.log1p(-(words + 0.5) / 2**32))
    assert np.abs(got - true).max() < 4e-6
    assert np.abs((got - true) / true)[:2000].max() < 4e-7


def test_noise_is_finite_and_rising_at_both_ends() -> None:
    words = mx.array(np.array([2**32 - 1, 2**32 - 600, 2**31, 2, 1, 0], dtype=np.uint32))
    values = np.array(gumbel_from_bits(words))
    assert np.isfinite(values).all() and (np.diff(values) > 0).all()
    assert values[0] > -3 and 22.8 < values[-1] < 23


@pytest.mark.parametrize("vocabulary", [1, 2, 5, 257])
def test_a_row_is_the_same_alone_and_in_a_block(vocabulary: int) -> None:
    block = np.array(gumbel_noise(3, range(40, 48), vocabulary))
    for row in range(8):
        alone = np.array(gumbel_noise(3, [40 + row], vocabulary))
        assert alone.dtype == np.float32 and alone.shape == (1, vocabulary)
        assert (alone[0] == block[row]).all()


def test_a_larger_vocabulary_only_adds_tokens() -> None:
    small, large = gumbel_noise(3, [7], 100), gumbel_noise(3, [7], 257)
    assert mx.array_equal(small, large[:, :100]).item()


def test_fused_noise_is_the_plain_noise_on_every_thread(compiling: None) -> None:
    """What a Mac runs; there the whole function is compiled once for all threads."""
    fused = mx.compile(lambda keys: gumbel_from_bits(token_bits(keys, 257)))
    plain = gumbel_noise(11, range(3), 257)
    mx.eval(plain)
    same: list[bool] = []

    def compare() -> None:
        noise = fused(row_keys(11, range(3)))
        same.append(bool(np.array_equal(np.array(noise), np.array(plain))))

    compare()
    for _ in range(2):
        thread = threading.Thread(target=compare)
        thread.start()
        thread.join()
    assert same == [True, True, True]
