// Operations across a SIMD-group or quad; every lane must reach the same one.
#pragma once
#include "msl_math.h"

namespace metal {
#define MSL_AT const char *file = __builtin_FILE(), int line = __builtin_LINE()

// The lanes' values; those of lanes that the threadgroup does not have are NaN bits.
template <typename T> struct msl_lanes {
  msl_meeting* meeting;
  unsigned lane, count;
  MSL_QUIET msl_lanes(T mine, const char* op, const char* file, int line) {
    static_assert(sizeof(T) <= MSL_SLOT, "too wide for an operation across lanes");
    meeting = msl_exchange(&mine, sizeof(T), op, file, line);
    lane = msl_now->lane;
    count = msl_now->lanes;
  }
  MSL_QUIET T at(unsigned i) const {
    T its;
    if (i < count)
      __builtin_memcpy((void*)&its, meeting->of + i * sizeof its, sizeof its);
    else
      __builtin_memset((void*)&its, 0xff, sizeof its);
    return its;
  }
};

// A tree of neighbours: the ascending butterfly, lane xor 1, 2, 4, 8, 16. Lanes that are not there
// are left out.
template <typename T, typename F>
MSL_QUIET T msl_tree(const msl_lanes<T>& lanes, unsigned first, unsigned most, F join) {
  MSL_MUTE;
  T level[MSL_LANES];
  unsigned have = lanes.count - first < most ? lanes.count - first : most;
  __builtin_memcpy((void*)level, lanes.meeting->of + first * sizeof(T), have * sizeof(T));
  for (; have > 1; have = (have + 1) / 2) {
    for (unsigned i = 0; i + 1 < have; i += 2) level[i / 2] = join(level[i], level[i + 1]);
    if (have % 2) level[have / 2] = level[have - 1];
  }
  return level[0];
}
struct msl_sum { template <typename T> MSL_QUIET T operator()(T a, T b) const { return T(a + b); } };
struct msl_product { template <typename T> MSL_QUIET T operator()(T a, T b) const { return T(a * b); } };
struct msl_least { template <typename T> MSL_QUIET T operator()(T a, T b) const { return min(a, b); } };
struct msl_most { template <typename T> MSL_QUIET T operator()(T a, T b) const { return max(a, b); } };
struct msl_and { template <typename T> MSL_QUIET T operator()(T a, T b) const { return a & b; } };
struct msl_or { template <typename T> MSL_QUIET T operator()(T a, T b) const { return a | b; } };
struct msl_xor { template <typename T> MSL_QUIET T operator()(T a, T b) const { return a ^ b; } };

#define MSL_REDUCE(name, join)                                          \
  template <typename T> MSL_APART T simd_##name(T x, MSL_AT) {          \
    msl_lanes<T> lanes(x, "simd_" #name, file, line);                   \
    T joint;                                                            \
    if (lanes.meeting->joined) {                                        \
      __builtin_memcpy((void*)&joint, lanes.meeting->joint, sizeof joint); \
      return joint;                                                     \
    }                                                                   \
    joint = msl_tree(lanes, 0, MSL_LANES, join());                      \
    __builtin_memcpy(lanes.meeting->joint, (void*)&joint, sizeof joint); \
    lanes.meeting->joined = true;                                       \
    return joint;                                                       \
  }                                                                     \
  template <typename T> MSL_APART T quad_##name(T x, MSL_AT) {          \
    msl_lanes<T> lanes(x, "quad_" #name, file, line);                   \
    return msl_tree(lanes, lanes.lane & ~3u, 4, join());                \
  }
MSL_REDUCE(sum, msl_sum) MSL_REDUCE(product, msl_product) MSL_REDUCE(min, msl_least)
MSL_REDUCE(max, msl_most) MSL_REDUCE(and, msl_and) MSL_REDUCE(or, msl_or) MSL_REDUCE(xor, msl_xor)

#define MSL_PREFIX(scope, width, name, identity, op)                                        \
  template <typename T> MSL_QUIET T scope##_prefix_inclusive_##name(T x, MSL_AT) {          \
    msl_lanes<T> lanes(x, #scope "_prefix_inclusive_" #name, file, line);                   \
    MSL_MUTE;                                                                                  \
    T total = T(identity);                                                                  \
    for (unsigned i = lanes.lane / width * width; i <= lanes.lane; i++) total = T(total op lanes.at(i)); \
    return total;                                                                           \
  }                                                                                         \
  template <typename T> MSL_QUIET T scope##_prefix_exclusive_##name(T x, MSL_AT) {          \
    msl_lanes<T> lanes(x, #scope "_prefix_exclusive_" #name, file, line);                   \
    MSL_MUTE;                                                                                  \
    T total = T(identity);                                                                  \
    for (unsigned i = lanes.lane / width * width; i < lanes.lane; i++) total = T(total op lanes.at(i)); \
    return total;                                                                           \
  }
MSL_PREFIX(simd, 32, sum, 0, +) MSL_PREFIX(simd, 32, product, 1, *)
MSL_PREFIX(quad, 4, sum, 0, +) MSL_PREFIX(quad, 4, product, 1, *)

#define MSL_MOVE(scope, width, name, from)                                           \
  template <typename T> MSL_APART T scope##_##name(T x, ushort by, MSL_AT) {         \
    msl_lanes<T> lanes(x, #scope "_" #name, file, line);                             \
    const unsigned base = lanes.lane / width * width, lane = lanes.lane % width;     \
    const unsigned source = from;                                                    \
    return lanes.at(source < width ? base + source : MSL_LANES);                     \
  }
#define MSL_MOVES(scope, width)                                  \
  MSL_MOVE(scope, width, shuffle, by)                            \
  MSL_MOVE(scope, width, broadcast, by)                          \
  MSL_MOVE(scope, width, shuffle_xor, lane ^ by)                 \
  MSL_MOVE(scope, width, shuffle_down, lane + by)                \
  MSL_MOVE(scope, width, shuffle_up, lane - by)                  \
  MSL_MOVE(scope, width, shuffle_rotate_down, (lane + by) % width) \
  MSL_MOVE(scope, width, shuffle_rotate_up, (lane + width - by % width) % width)
MSL_MOVES(simd, 32)
MSL_MOVES(quad, 4)
template <typename T>
MSL_QUIET T simd_shuffle_and_fill_down(T x, T filling, ushort by, MSL_AT) {
  msl_lanes<T> lanes(x, "simd_shuffle_and_fill_down", file, line);
  msl_lanes<T> fill(filling, "simd_shuffle_and_fill_down", file, line);
  const unsigned source = lanes.lane + by;
  return source < MSL_LANES ? lanes.at(source) : fill.at(source - MSL_LANES);
}
template <typename T>
MSL_QUIET T simd_shuffle_and_fill_up(T x, T filling, ushort by, MSL_AT) {
  msl_lanes<T> lanes(x, "simd_shuffle_and_fill_up", file, line);
  msl_lanes<T> fill(filling, "simd_shuffle_and_fill_up", file, line);
  return lanes.lane >= by ? lanes.at(lanes.lane - by) : fill.at(MSL_LANES + lanes.lane - by);
}
template <typename T> MSL_QUIET T simd_broadcast_first(T x, MSL_AT) {
  return msl_lanes<T>(x, "simd_broadcast_first", file, line).at(0);
}

struct simd_vote {
  ulong bits;
  explicit operator ulong() const { return bits; }
  bool any() const { return bits != 0; }
  bool all() const { return bits == 0xffffffff; }
};
MSL_QUIET inline simd_vote simd_ballot(bool x, MSL_AT) {
  msl_lanes<bool> lanes(x, "simd_ballot", file, line);
  ulong bits = 0;
  for (unsigned i = 0; i < lanes.count; i++) bits |= (ulong)lanes.at(i) << i;
  return {bits};
}
MSL_QUIET inline bool simd_any(bool x, MSL_AT) { return simd_or((int)x, file, line); }
MSL_QUIET inline bool simd_all(bool x, MSL_AT) { return simd_and((int)x, file, line); }
MSL_QUIET inline bool simd_is_first() { return msl_now->lane == 0; }

enum class mem_flags { mem_none = 0, mem_device = 1, mem_threadgroup = 2, mem_texture = 4 };
constexpr mem_flags operator|(mem_flags a, mem_flags b) { return mem_flags((int)a | (int)b); }
inline void threadgroup_barrier(mem_flags flags, MSL_AT) { msl_barrier((int)flags, file, line); }
inline void simdgroup_barrier(mem_flags flags, MSL_AT) { msl_simd_barrier((int)flags, file, line); }
}  // namespace metal
