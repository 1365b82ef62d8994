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
MSL_QUIET void simdgroup_multiply_accumulate(
    simdgroup_matrix<D, 8, 8>& d, const simdgroup_matrix<A, 8, 8>& a,
    const simdgroup_matrix<B, 8, 8>& b, const simdgroup_matrix<S, 8, 8>& c, MSL_AT) {
  struct Pair { A a[2]; B b[2]; };
  Pair mine;
  for (int i = 0; i < 2; i++) mine.a[i] = a.own[i], mine.b[i] = b.own[i];
  msl_lanes<Pair> lanes(mine, "simdgroup_multiply_accumulate", file, line);
  for (unsigned i = 0; i < 16; i++) MSL_TICK(float, MSL_FMA);
  MSL_MUTE;
  float left[8], right[2][8];
  const unsigned row = d.row(), column = d.column();
  for (unsigned l = 0; l < MSL_LANES; l++) {
    const unsigned r = d.row_of(l), k = d.column_of(l);
    for (unsigned i = 0; i < 2; i++) {
      if (r == row) left[k + i] = (float)lanes.of[l].a[i];
      if (k == column) right[i][r] = (float)lanes.of[l].b[i];
    }
  }
  for (unsigned i = 0; i < 2; i++) {
    float sum = (float)c.own[i];
    for (unsigned k = 0; k < 8; k++) sum += left[k] * right[i][k];
    d.own[i] = D(sum);
  }
}
template <typename D, typename A, typename B>
void simdgroup_multiply(simdgroup_matrix<D, 8, 8>& d, const simdgroup_matrix<A, 8, 8>& a,
                        const simdgroup_matrix<B, 8, 8>& b, MSL_AT) {
  simdgroup_multiply_accumulate(d, a, b, make_filled_simdgroup_matrix<D, 8, 8>(D(0)), file, line);
}
}  // namespace metal
