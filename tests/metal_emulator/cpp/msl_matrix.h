// simdgroup_matrix: 8x8, two elements a lane, laid out as MLX's get_coord says.
#pragma once
#include "msl_simd.h"

namespace metal {
template <typename T, int R, int C> struct simdgroup_matrix {
  static_assert(R == 8 && C == 8, "simdgroup_matrix is 8x8");
  vec<T, 2> own;
  simdgroup_matrix() = default;
  explicit simdgroup_matrix(T diagonal) {
    own[0] = row() == column() ? diagonal : T(0);
    own[1] = row() == column() + 1 ? diagonal : T(0);
  }
  vec<T, 2>& thread_elements() { return own; }
  const vec<T, 2>& thread_elements() const { return own; }
  MSL_QUIET static unsigned row() { return row_of(msl_now->lane); }
  MSL_QUIET static unsigned column() { return column_of(msl_now->lane); }
  static unsigned row_of(unsigned lane) { return (lane / 4 & 4) + lane / 2 % 4; }
  static unsigned column_of(unsigned lane) { return (lane / 4 & 2) * 2 + lane % 2 * 2; }
  static unsigned lane_at(unsigned r, unsigned c) { return r / 4 * 16 + c / 4 * 8 + r % 4 * 2 + c / 2 % 2; }
};
typedef simdgroup_matrix<float, 8, 8> simdgroup_float8x8;
typedef simdgroup_matrix<half, 8, 8> simdgroup_half8x8;
typedef simdgroup_matrix<bfloat, 8, 8> simdgroup_bfloat8x8;

template <typename T, int R, int C> simdgroup_matrix<T, R, C> make_filled_simdgroup_matrix(T value) {
  simdgroup_matrix<T, R, C> m;
  m.own = vec<T, 2>(value);
  return m;
}
template <typename T>
size_t msl_place(unsigned r, unsigned c, size_t stride, vec<T, 2> origin, bool transpose) {
  const size_t x = (transpose ? r : c) + (size_t)origin.x, y = (transpose ? c : r) + (size_t)origin.y;
  return y * stride + x;
}
template <typename T>
void simdgroup_load(simdgroup_matrix<T, 8, 8>& m, const T* p, size_t stride = 8,
                    ulong2 origin = ulong2(0), bool transpose = false, MSL_AT) {
  msl_lanes<int>(0, "simdgroup_load", file, line);
  for (unsigned i = 0; i < 2; i++)
    m.own[i] = p[msl_place(m.row(), m.column() + i, stride, origin, transpose)];
}
template <typename T>
void simdgroup_store(const simdgroup_matrix<T, 8, 8>& m, T* p, size_t stride = 8,
                     ulong2 origin = ulong2(0), bool transpose = false, MSL_AT) {
  msl_lanes<int>(0, "simdgroup_store", file, line);
  for (unsigned i = 0; i < 2; i++)
    p[msl_place(m.row(), m.column() + i, stride, origin, transpose)] = m.own[i];
}

// d = a b + c, summed in float in ascending order of the inner index.
template <typename D, typename A, typename B, typename S>
MSL_APART void simdgroup_multiply_accumulate(
    simdgroup_matrix<D, 8, 8>& d, const simdgroup_matrix<A, 8, 8>& a,
    const simdgroup_matrix<B, 8, 8>& b, const simdgroup_matrix<S, 8, 8>& c, MSL_AT) {
  struct Pair { A a[2]; B b[2]; };
  Pair mine;
  for (int i = 0; i < 2; i++) mine.a[i] = a.own[i], mine.b[i] = b.own[i];
  msl_lanes<Pair> lanes(mine, "simdgroup_multiply_accumulate", file, line);
  for (unsigned i = 0; i < 16; i++) MSL_TICK(float, MSL_FMA);
  MSL_MUTE;
  const unsigned row = d.row(), column = d.column();
  float sums[2] = {(float)c.own[0], (float)c.own[1]};
  for (unsigned k = 0; k < 8; k++) {
    const Pair left = lanes.at(d.lane_at(row, k)), right = lanes.at(d.lane_at(k, column));
    for (unsigned i = 0; i < 2; i++) sums[i] += (float)left.a[k % 2] * (float)right.b[i];
  }
  for (unsigned i = 0; i < 2; i++) d.own[i] = D(sums[i]);
}
template <typename D, typename A, typename B>
void simdgroup_multiply(simdgroup_matrix<D, 8, 8>& d, const simdgroup_matrix<A, 8, 8>& a,
                        const simdgroup_matrix<B, 8, 8>& b, MSL_AT) {
  simdgroup_multiply_accumulate(d, a, b, make_filled_simdgroup_matrix<D, 8, 8>(D(0)), file, line);
}
}  // namespace metal
