"""The token that top-k, top-p and min-p leave, drawn from its row's logits in one launch, unsorted.

With l the logits of a row, T the temperature and V the vocabulary:

    d[n] = (max(l) - l[n]) / T                  how far a token lies behind the likeliest
    m[n] = floor(2^40 exp(-d[n]))               its mass, an integer of 64 bits
    place[n] = (d[n], n)                        likelier tokens first, then lower ids
    kept = the first tokens by place, until they are top_k, or together reach top_p of all mass;
           of those the ones with d[n] <= -log(min_p)
    picked = the n of largest noise(key, n) - d[n] among them, the lowest among equals

A float that is not negative is ordered as its bits are, so a place is an integer of 31 + 21 bits,
and the last place that is kept is found digit by digit (radix selection): the tokens that share all
digits so far are counted into 2^11 bins by the next, and the bins are walked until one reaches what
is sought. Three digits find the last distance. Where not all tokens at that distance are kept, two
more find the last id among them. Sums of integers are exact in any order, so threads may add as
they come, and the reference, which sorts, keeps the same tokens. Masses below 2^-40 of the
likeliest count as nothing; with top_p their tokens, most of a vocabulary and crowded into few bins,
are not counted: what is sought is reached before them.

A threadgroup a row, whose logits it walks five times (seven at ties), in rounds of as many
neighbours as there are threads; the bins lie in its memory. A mass is added in two halves: whoever
sees the lower one overflow carries. A row with a NaN, with +inf, or with less than the lowest that
is allowed picks token -1: the caller raises.

Cost: logits read five to seven times, of which all but the first come from caches; four bytes a row
written; some 60 flops a token, 24 more for each that is kept; one launch.
"""

from functools import cache
from math import inf, log
from typing import NamedTuple

import mlx.core as mx
import numpy as np

from metal_kernels.kernel import KernelSource, Launch, Launcher, parameters, pipeline
from metal_kernels.noise import HEADER as NOISE_HEADER
from metal_kernels.noise import reference as noise_reference
from metal_kernels.stock_on_cpu import MLX
from metal_kernels.vocabulary_pick import HEADER as CHOICE_HEADER

MOST_TOKENS = 2**21
"""Of a vocabulary: what 21 bits tell apart."""

THREADS = 1024
"""A row's."""

_COLDEST = 1e-30  # a temperature that any float32 logits can be divided by, without 0 / 0
_WHOLE = 2.0**40  # the mass of a row's likeliest token
_SHARE_BITS = 32

HEADER = """
// Without the sign: the distance of equal zeros is -0 where the row's largest logit is -0.
inline uint bits_of(float distance) {
  return as_type<uint>(distance) & 0x7fffffff;
}

inline ulong mass_of(float distance) {
  return ulong(precise::exp(-distance) * 1099511627776.0f);
}
"""

BODY = """
#define LOGIT(n) float(logits[size_t(row) * V + (n)])
#define DISTANCE(n) ((largest - LOGIT(n)) * inverse_temperature)
#define COUNT(bin) atomic_load_explicit(&counts[bin], memory_order_relaxed)
#define LOW(bin) atomic_load_explicit(&low[bin], memory_order_relaxed)
#define HIGH(bin) atomic_load_explicit(&high[bin], memory_order_relaxed)
#define MASS(bin) ((ulong(HIGH(bin)) << 32) + LOW(bin))
#define REACHED(count, mass) ((count) >= count_left || (by_mass && (mass) >= mass_left))

constexpr int BINS = 2048;
constexpr int RUN = BINS / 32;
constexpr int GROUPS = THREADS / 32;
threadgroup atomic_uint counts[BINS];
threadgroup atomic_uint low[BINS];
threadgroup atomic_uint high[BINS];
threadgroup uint run_counts[32];
threadgroup ulong run_masses[32];
threadgroup float largest_values[GROUPS];
threadgroup bool are_unsound[GROUPS];
threadgroup float best_values[GROUPS];
threadgroup int best_tokens[GROUPS];
threadgroup uint found_prefix;
threadgroup bool found_all;

const int thread_id = thread_index_in_threadgroup;
const int lane = thread_index_in_simdgroup;
const int simd = simdgroup_index_in_threadgroup;
const int row = threadgroup_position_in_grid.x;
const int V = logits_shape[1];
const float inverse_temperature = as_type<float>(settings[0]);
const float farthest = as_type<float>(settings[1]);
const float lowest = as_type<float>(settings[2]);
const uint top_k = settings[3];
const uint share = settings[4];

float largest = -INFINITY;
bool sound = true;
for (int n = thread_id; n < V; n += THREADS) {
  const float logit = LOGIT(n);
  sound = sound && logit >= lowest && logit < INFINITY;
  largest = max(largest, logit);
}
const float its_largest = simd_max(largest);
const bool is_unsound = simd_any(!sound);
if (lane == 0) {
  largest_values[simd] = its_largest;
  are_unsound[simd] = is_unsound;
}
threadgroup_barrier(mem_flags::mem_threadgroup);
largest = simd_max(largest_values[lane % GROUPS]);
sound = !simd_any(are_unsound[lane % GROUPS]);
if (!sound || largest == -INFINITY) {
  if (thread_id == 0) {
    picked[row] = -1;
  }
  return;
}

// The last place that is kept: bits of its distance, and its id among equal ones.
uint last_distance = 0x7fffffff;
uint last_id = 0xffffffff;
// What is left to be reached among places that begin with the digits found; thread 0 keeps it.
uint count_left = top_k == 0 ? uint(V) : min(top_k, uint(V));
ulong mass_left = 0;
uint prefix = 0;
int above = 31;  // bits that are not found
bool by_mass = share != 0;
for (int digit = 0; digit < 5 && (top_k != 0 || share != 0); digit++) {
  const bool by_id = digit > 2;
  const int shift = above - (digit == 0 || digit == 3 ? 11 : 10);
  for (int bin = thread_id; bin < BINS; bin += THREADS) {
    atomic_store_explicit(&counts[bin], 0u, memory_order_relaxed);
    atomic_store_explicit(&low[bin], 0u, memory_order_relaxed);
    atomic_store_explicit(&high[bin], 0u, memory_order_relaxed);
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (int n = thread_id; n < V; n += THREADS) {
    const float distance = DISTANCE(n);
    const uint its_bits = bits_of(distance);
    const uint digits = by_id ? uint(n) : its_bits;
    const bool is_level = !by_id || its_bits == last_distance;
    const bool has_mass = share == 0 || distance < 28.0f;
    if ((digits >> above) == prefix && is_level && has_mass) {
      const int bin = (digits >> shift) & ((1 << (above - shift)) - 1);
      atomic_fetch_add_explicit(&counts[bin], 1u, memory_order_relaxed);
      if (by_mass && !by_id) {
        const ulong mass = mass_of(distance);
        const uint lower = uint(mass);
        const uint before = atomic_fetch_add_explicit(&low[bin], lower, memory_order_relaxed);
        const uint upper = uint(mass >> 32) + (before + lower < before ? 1u : 0u);
        if (upper != 0) {
          atomic_fetch_add_explicit(&high[bin], upper, memory_order_relaxed);
        }
      }
    }
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (simd == 0) {
    uint count = 0;
    ulong mass = 0;
    for (int bin = lane * RUN; bin < (lane + 1) * RUN; bin++) {
      count += COUNT(bin);
      mass += MASS(bin);
    }
    run_counts[lane] = count;
    run_masses[lane] = mass;
    simdgroup_barrier(mem_flags::mem_threadgroup);
    if (lane == 0) {
      if (digit == 0) {
        ulong total = 0;
        for (int run = 0; run < 32; run++) {
          total += run_masses[run];
        }
        mass_left = (total >> 32) * share + (((total & 0xffffffff) * share) >> 32);
        mass_left = max(mass_left, ulong(1));
      }
      int run = 0;
      while (run < 31 && !REACHED(run_counts[run], run_masses[run])) {
        count_left -= run_counts[run];
        mass_left -= run_masses[run];
        run++;
      }
      int bin = run * RUN;
      while (bin < run * RUN + RUN - 1 && !REACHED(COUNT(bin), MASS(bin))) {
        count_left -= COUNT(bin);
        mass_left -= MASS(bin);
        bin++;
      }
      found_prefix = (prefix << (above - shift)) | bin;
      found_all = false;
      if (digit == 2) {
        const ulong each = mass_of(as_type<float>(found_prefix));
        if (by_mass && each > 0) {
          count_left = uint(min(ulong(count_left), (mass_left + each - 1) / each));
        }
        by_mass = false;
        found_all = count_left >= COUNT(bin);
      }
    }
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  prefix = found_prefix;
  above = shift;
  if (digit == 2) {
    last_distance = prefix;
    prefix = 0;
    above = 21;
  } else if (digit == 4) {
    last_id = prefix;
  }
  if (found_all) {
    break;
  }
}

Choice mine = {-INFINITY, -1};
for (int n = thread_id; n < V; n += THREADS) {
  const float distance = DISTANCE(n);
  const uint its_bits = bits_of(distance);
  const bool is_among = its_bits == last_distance && uint(n) <= last_id;
  if ((its_bits < last_distance || is_among) && distance <= farthest) {
    const float noise = gumbel_of(keys[2 * row], keys[2 * row + 1], n);
    const Choice its = {fma(LOGIT(n) - largest, inverse_temperature, noise), n};
    if (before(its, mine)) {
      mine = its;
    }
  }
}
const int token = best_token(mine, false, best_values, best_tokens, GROUPS, simd, lane);
if (thread_id == 0) {
  picked[row] = token;
}
"""

SOURCE = KernelSource(
    "filtered_pick",
    ("logits", "keys", "settings"),
    ("picked",),
    BODY,
    NOISE_HEADER + CHOICE_HEADER + HEADER,
)


class SamplingFilters(NamedTuple):
    """Temperature and sampling filters; top_k 0, top_p 1 and min_p 0 are off.

    top_k keeps exactly top_k tokens, top_p the fewest whose probabilities reach top_p (nucleus,
    Holtzman et al. 2020), min_p those at least min_p times as likely as the likeliest (Nguyen et
    al. 2024). Each is applied to the full softmax of the tempered logits; tokens that pass all of
    them stay.
    """

    temperature: float
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0

    @property
    def any_filter_on(self) -> bool:
        """Whether any of top-k, top-p and min-p removes tokens."""
        return self.top_k > 0 or self.top_p < 1 or self.min_p > 0

    def kernel_settings(self, lowest_logit: float = -inf) -> mx.array:
        """These filters as an argument of the kernel filtered_pick, uint32 [5].

        lowest_logit: smaller logits count as not finite.
        """
        farthest = -log(self.min_p) if self.min_p > 0 else inf
        numbers = [_inverse_temperature(self.temperature), farthest, lowest_logit]
        bits = np.array(numbers, dtype=np.float32).view(np.uint32)
        share = _fixed_point_share(self.top_p) if self.top_p < 1 else 0
        return mx.array(np.array([*bits, min(self.top_k, MOST_TOKENS), share], dtype=np.uint32))


def filtered_pick(
    logits: mx.array, keys: mx.array, settings: mx.array, launcher: Launcher
) -> mx.array:
    """Sample from filtered logits [R, V] -> tokens int32 [R]; -1 for a row not all finite.

    keys: noise keys, uint32 [R, 2]. settings: of Filters. V is at most MOST_TOKENS.
    """
    return launcher.run(_make_launch(logits.shape[0]), (logits, keys, settings))[0]


@cache
def _make_launch(rows: int) -> Launch:
    made = pipeline(SOURCE, parameters(THREADS=THREADS))
    return Launch(made, ((rows,),), (mx.int32,), (THREADS * rows, 1, 1), (THREADS, 1, 1))


def reference(logits: mx.array, keys: mx.array, filters: SamplingFilters) -> mx.array:
    """Filter and sample in plain MLX operations, to check the kernel filtered_pick against.

    Logits must be finite; the last bit of a sum may differ.
    """
    kept = filter_tempered(
        apply_temperature(logits.astype(mx.float32), filters.temperature), filters
    )
    return mx.argmax(kept + noise_reference(keys, logits.shape[1]), axis=-1).astype(mx.int32)


def apply_temperature(logits: mx.array, temperature: float) -> mx.array:
    """Divide float32 logits by a temperature and shift each row so that its maximum is 0.

    The shift changes no softmax, and keeps precision and range at very low temperatures.
    """
    largest = mx.max(logits, axis=-1, keepdims=True)
    return (logits - largest) * _inverse_temperature(temperature)


def filter_tempered(tempered_logits: mx.array, filters: SamplingFilters) -> mx.array:
    """Set tokens that a filter removes to -inf in tempered logits [R, V]."""
    vocabulary = tempered_logits.shape[-1]
    kept = tempered_logits
    has_count = 0 < filters.top_k < vocabulary
    if has_count or filters.top_p < 1:
        count = filters.top_k if has_count else vocabulary
        descending = MLX.top_values(tempered_logits, count)[:, ::-1]
        size = _nucleus_size(tempered_logits, descending, filters.top_p)
        kept = _keep_highest(tempered_logits, descending, size)
    if filters.min_p > 0:
        kept = mx.where(tempered_logits >= log(filters.min_p), kept, -mx.inf)
    return kept


def _inverse_temperature(temperature: float) -> float:
    return float(np.float32(1 / max(temperature, _COLDEST)))


def _fixed_point_share(top_p: float) -> int:
    whole = 1 << _SHARE_BITS
    return min(max(round(top_p * whole), 1), whole - 1)


def _nucleus_size(tempered_logits: mx.array, sorted_logits: mx.array, top_p: float) -> mx.array:
    rows, count = sorted_logits.shape
    if top_p >= 1:
        return mx.full((rows, 1), count, dtype=mx.int32)
    whole = mx.sum(_fixed_point_weights(tempered_logits), axis=-1, keepdims=True)
    high, low = whole >> _SHARE_BITS, whole & (2**_SHARE_BITS - 1)
    share = mx.array(_fixed_point_share(top_p), dtype=mx.uint64)
    wanted = high * share + (low * share >> _SHARE_BITS)
    mass = _fixed_point_weights(sorted_logits)
    needed = mx.cumsum(mass, axis=-1) - mass < wanted
    return mx.maximum(mx.sum(needed, axis=-1, keepdims=True), 1)


def _fixed_point_weights(tempered_logits: mx.array) -> mx.array:
    return (mx.exp(tempered_logits) * _WHOLE).astype(mx.uint64)


def _keep_highest(tempered_logits: mx.array, sorted_logits: mx.array, size: mx.array) -> mx.array:
    threshold = mx.take_along_axis(sorted_logits, size - 1, axis=-1)
    above = tempered_logits > threshold
    level = tempered_logits == threshold
    room = size - mx.sum(above, axis=-1, keepdims=True)
    kept = above | (level & (mx.cumsum(level, axis=-1) <= room))
    return mx.where(kept, tempered_logits, -mx.inf)
