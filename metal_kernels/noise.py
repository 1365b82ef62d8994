"""Gumbel noise from two key words and a token id: the same bits as the plain-ops version.

    bits = mix(mix(token ^ key0) + key1),  mix: the hash "lowbias32" (Wellons 2018)
    u = (float(bits) + 0.5) / 2^32, at most 1 - 2^-24;  noise = -log(-log1p(-u))

The logarithms are the functions that MLX's own GPU operations call (`log1p` comes with its kernel
utilities), so there the noise is equal bit for bit too.

Cost: 8 bytes a row read, 4 a value written; 24 flops a value, a logarithm counted as ten.
"""

import mlx.core as mx

from metal_kernels.kernel import KernelSource, Launch, Launcher, pipeline

HEADER = """
inline uint mix_bits(uint word) {
  word = (word ^ (word >> 16)) * 0x7FEB352Du;
  word = (word ^ (word >> 15)) * 0x846CA68Bu;
  return word ^ (word >> 16);
}

inline float gumbel_of(uint key0, uint key1, uint token) {
  const uint bits = mix_bits(mix_bits(token ^ key0) + key1);
  const float uniform = (float(bits) + 0.5f) * 2.3283064365386963e-10f;
  const float below_one = min(uniform, 0.99999994f);
  return -precise::log(-log1p(-below_one));
}
"""

BODY = """
const uint token = thread_position_in_grid.x;
const uint row = thread_position_in_grid.y;
const float value = gumbel_of(keys[2 * row], keys[2 * row + 1], token);
noise[size_t(row) * threads_per_grid.x + token] = value;
"""

SOURCE = KernelSource("position_noise", ("keys",), ("noise",), BODY, HEADER)
THREADS = 256


def gumbel_noise(keys: mx.array, vocabulary: int, launcher: Launcher) -> mx.array:
    """Gumbel noise for every token: keys uint32 [R, 2] -> float32 [R, vocabulary]."""
    shape = (keys.shape[0], vocabulary)
    grid = (vocabulary, keys.shape[0], 1)
    launch = Launch(pipeline(SOURCE), (shape,), (mx.float32,), grid, (THREADS, 1, 1))
    return launcher.run(launch, (keys,))[0]


def reference(keys: mx.array, vocabulary: int) -> mx.array:
    """Gumbel noise in plain MLX operations, to check the kernel gumbel_noise against."""
    return gumbel_from_bits(token_bits(keys, vocabulary))


def token_bits(keys: mx.array, vocabulary: int) -> mx.array:
    """Hash keys uint32 [R, 2] and token ids to random bits, uint32 [R, vocabulary]."""
    tokens = mx.arange(vocabulary, dtype=mx.uint32)
    return _mix_bits(_mix_bits(tokens ^ keys[:, :1]) + keys[:, 1:])


def gumbel_from_bits(bits: mx.array) -> mx.array:
    """Convert random bits, uint32, to Gumbel(0, 1) noise, float32 between -2.9 and 22.9.

    Uniform numbers near 0 are exact: the upper tail, which decides unlikely picks, is precise.
    """
    uniform = (bits.astype(mx.float32) + 0.5) * 2.0**-32
    below_one = mx.minimum(uniform, 1 - 2.0**-24)  # the largest bits round up to 1
    return -mx.log(-mx.log1p(-below_one))


def _mix_bits(word: mx.array) -> mx.array:
    word = (word ^ (word >> 16)) * mx.array(0x7FEB352D, mx.uint32)
    word = (word ^ (word >> 15)) * mx.array(0x846CA68B, mx.uint32)
    return word ^ (word >> 16)
