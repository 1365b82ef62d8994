// What a kernel of mx.fast.metal_kernel finds in scope: MSL as C++, with MLX's own small additions.
#pragma once
#include "msl_atomic.h"

#define device
#define constant
#define thread
#define threadgroup
#define METAL_FUNC inline __attribute__((always_inline))
#define MLX_MTL_PRAGMA_UNROLL

#define INFINITY float(__builtin_inff())
#define NAN float(__builtin_nanf(""))
#define MAXFLOAT float(__FLT_MAX__)
#define FLT_MAX float(__FLT_MAX__)
#define M_PI_F float(3.14159274101257324f)
#define M_E_F float(2.71828182845904523f)
#define M_LN2_F float(0.69314718055994531f)
#define M_LOG2E_F float(1.44269504088896341f)
#define M_SQRT2_F float(1.41421356237309505f)

using namespace metal;

template <typename T> MSL_QUIET T& msl_tg(int id, const char* name) {
  return *(T*)msl_threadgroup_array(id, name, sizeof(T));
}

template <typename U> struct Limits {
  static constexpr U max = metal::numeric_limits<U>::max();
  static constexpr U min = metal::numeric_limits<U>::min();
  static constexpr U finite_max = max, finite_min = min;
};
#define MSL_MLX_LIMITS(T)                                                    \
  template <> struct Limits<T> {                                             \
    static constexpr T max = metal::numeric_limits<T>::infinity();           \
    static constexpr T min = T(-(float)metal::numeric_limits<T>::infinity()); \
    static constexpr T finite_max = metal::numeric_limits<T>::max();         \
    static constexpr T finite_min = metal::numeric_limits<T>::lowest();      \
  };
MSL_MLX_LIMITS(float) MSL_MLX_LIMITS(half) MSL_MLX_LIMITS(bfloat)

template <typename IdxT = int64_t>
IdxT elem_to_loc(IdxT element, const int* shape, const int64_t* strides, int ndim) {
  IdxT place = 0;
  for (int d = ndim - 1; d >= 0 && element > 0; --d) {
    place += (element % shape[d]) * IdxT(strides[d]);
    element /= shape[d];
  }
  return place;
}
// MLX's GPU has its own formula; here it is the C library's, as in MLX's CPU backend.
inline float log1p(float x) { MSL_TICK(float, MSL_FUNCTION); return __builtin_log1pf(x); }
template <typename T, typename U> inline T ceildiv(T n, U m) { return (n + m - 1) / m; }

struct complex64_t {
  float real, imag;
};

// Used by the entry that Python writes.
#define MSL_ENTRY extern "C" MSL_QUIET void msl_entry(void** b)
#define MSL_ATTRIBUTES const msl_thread& t = *msl_now; (void)t;
MSL_QUIET inline uint msl_dispatched() { return msl_run.group[0] * msl_run.group[1] * msl_run.group[2]; }
MSL_QUIET inline uint msl_group_threads(const msl_thread& t) {
  return t.group_size[0] * t.group_size[1] * t.group_size[2];
}
