// MSL's math, integer and relational functions; float's through libm, half and bfloat through float.
// MLX's CPU backend calls the same libm, so both have the same bits on any system.
#pragma once
#include "msl_vector.h"

namespace metal {
#define MSL_ONE(name, expression)                                              \
  inline float name(float x) { MSL_TICK(float, MSL_FUNCTION); return expression; } \
  inline half name(half h) {                                                   \
    MSL_TICK(half, MSL_FUNCTION);                                              \
    MSL_MUTE;                                                                  \
    float x = (float)h;                                                        \
    return (half)(expression);                                                 \
  }                                                                            \
  inline bfloat name(bfloat h) {                                               \
    MSL_TICK(bfloat, MSL_FUNCTION);                                            \
    MSL_MUTE;                                                                  \
    float x = h;                                                               \
    return bfloat(expression);                                                 \
  }                                                                            \
  template <int N, typename T> vec<T, N> name(vec<T, N> v) {                   \
    vec<T, N> r;                                                               \
    for (int i = 0; i < N; i++) r[i] = name(v[i]);                             \
    return r;                                                                  \
  }
#define MSL_TWO(name, expression)                                              \
  inline float name(float x, float y) { MSL_TICK(float, MSL_FUNCTION); return expression; } \
  inline half name(half a, half b) {                                           \
    MSL_TICK(half, MSL_FUNCTION);                                              \
    MSL_MUTE;                                                                  \
    float x = (float)a, y = (float)b;                                          \
    return (half)(expression);                                                 \
  }                                                                            \
  inline bfloat name(bfloat a, bfloat b) {                                     \
    MSL_TICK(bfloat, MSL_FUNCTION);                                            \
    MSL_MUTE;                                                                  \
    float x = a, y = b;                                                        \
    return bfloat(expression);                                                 \
  }                                                                            \
  template <int N, typename T> vec<T, N> name(vec<T, N> a, vec<T, N> b) {      \
    vec<T, N> r;                                                               \
    for (int i = 0; i < N; i++) r[i] = name(a[i], b[i]);                       \
    return r;                                                                  \
  }
#define MSL_LIBM(X) X(exp) X(exp2) X(exp10) X(log) X(log2) X(log10) X(sin) X(cos) X(tan) X(sinh) \
  X(cosh) X(tanh) X(asin) X(acos) X(atan) X(asinh) X(acosh) X(atanh) X(sqrt) X(floor) X(ceil)   \
  X(trunc) X(round) X(rint) X(fabs)
#define MSL_FROM_LIBM(name) MSL_ONE(name, __builtin_##name##f(x))
#define MSL_FUNCTIONS                                          \
  MSL_LIBM(MSL_FROM_LIBM)                                      \
  MSL_ONE(rsqrt, 1.0f / __builtin_sqrtf(x))                    \
  MSL_ONE(fract, x - __builtin_floorf(x))                      \
  MSL_ONE(sinpi, __builtin_sinf(x * 3.14159265358979f))        \
  MSL_ONE(cospi, __builtin_cosf(x * 3.14159265358979f))        \
  MSL_TWO(pow, __builtin_powf(x, y))                           \
  MSL_TWO(powr, __builtin_powf(x, y))                          \
  MSL_TWO(atan2, __builtin_atan2f(x, y))                       \
  MSL_TWO(fmod, __builtin_fmodf(x, y))                         \
  MSL_TWO(fmin, __builtin_fminf(x, y))                         \
  MSL_TWO(fmax, __builtin_fmaxf(x, y))                         \
  MSL_TWO(copysign, __builtin_copysignf(x, y))                 \
  MSL_TWO(divide, x / y)
MSL_FUNCTIONS
namespace fast { MSL_FUNCTIONS }
namespace precise { MSL_FUNCTIONS }

template <typename T> constexpr T abs(T x) { return x < T(0) ? T(-x) : x; }
inline float abs(float x) { return __builtin_fabsf(x); }
inline half abs(half x) { return fabs(x); }
inline bfloat abs(bfloat x) { return fabs(x); }
#define MSL_MIN_MAX_OF(T, name)                                                 \
  inline T name(T a, T b) {                                                     \
    MSL_TICK(T, MSL_COMPARE);                                                   \
    return T(__builtin_f##name##f(a, b));                                       \
  }
#define MSL_MIN_MAX(name, op)                                                   \
  template <typename T, typename msl_if<msl_scalar<T>, int>::type = 0>          \
  constexpr T name(T a, T b) { return b op a ? b : a; }                         \
  MSL_MIN_MAX_OF(float, name) MSL_MIN_MAX_OF(half, name) MSL_MIN_MAX_OF(bfloat, name) \
  template <int N, typename T> vec<T, N> name(vec<T, N> a, vec<T, N> b) {       \
    vec<T, N> r;                                                                \
    for (int i = 0; i < N; i++) r[i] = name(a[i], b[i]);                        \
    return r;                                                                   \
  }                                                                             \
  template <int N, typename T> vec<T, N> name(vec<T, N> a, T b) { return name(a, vec<T, N>(b)); } \
  template <typename T> T name##3(T a, T b, T c) { return name(name(a, b), c); }
MSL_MIN_MAX(min, <)
MSL_MIN_MAX(max, >)
namespace fast { using metal::max; using metal::min; using metal::abs; }
namespace precise { using metal::max; using metal::min; using metal::abs; }

inline float fma(float a, float b, float c) {
  MSL_TICK(float, MSL_FMA);
  return __builtin_fmaf(a, b, c);
}
inline half fma(half a, half b, half c) {
  MSL_TICK(half, MSL_FMA);
  return (half)(_Float16)__builtin_fma((double)a, (double)b, (double)c);
}
inline bfloat fma(bfloat a, bfloat b, bfloat c) {
  MSL_TICK(bfloat, MSL_FMA);
  return bfloat(__builtin_fmaf(a, b, c));
}
template <int N, typename T> vec<T, N> fma(vec<T, N> a, vec<T, N> b, vec<T, N> c) {
  vec<T, N> r;
  for (int i = 0; i < N; i++) r[i] = fma(a[i], b[i], c[i]);
  return r;
}
template <typename T> T mad(T a, T b, T c) { return fma(a, b, c); }
namespace precise { using metal::fma; }
namespace fast { using metal::fma; }

template <typename T> T clamp(T x, T low, T high) { return min(max(x, low), high); }
template <int N, typename T> vec<T, N> clamp(vec<T, N> x, T low, T high) {
  return min(max(x, vec<T, N>(low)), vec<T, N>(high));
}
template <typename T> T saturate(T x) { return clamp(x, T(0), T(1)); }
template <typename T> T mix(T a, T b, T t) { return T(a + (b - a) * t); }
template <typename T> T step(T edge, T x) { return x < edge ? T(0) : T(1); }
template <typename T> T sign(T x) { return x > T(0) ? T(1) : x < T(0) ? T(-1) : T(0); }
template <typename T> T select(T a, T b, bool c) { return c ? b : a; }
template <int N, typename T> vec<T, N> select(vec<T, N> a, vec<T, N> b, vec<bool, N> c) {
  vec<T, N> r;
  for (int i = 0; i < N; i++) r[i] = c[i] ? b[i] : a[i];
  return r;
}
template <typename T> T ldexp(T x, int e) { return T(__builtin_ldexpf((float)x, e)); }
template <typename T> bool isnan(T x) { return __builtin_isnan((msl_raw)x); }
template <typename T> bool isinf(T x) { return __builtin_isinf((msl_raw)x); }
template <typename T> bool isfinite(T x) { return __builtin_isfinite((msl_raw)x); }
template <typename T> bool signbit(T x) { return __builtin_signbit((msl_raw)x); }
template <typename T, int N> T length_squared(vec<T, N> v) { return dot(v, v); }
template <typename T, int N> T length(vec<T, N> v) { return sqrt(dot(v, v)); }

// Integers. Shorter types are widened and narrowed without a sign.
template <typename T> struct msl_unsigned { typedef uint64_t type; };
template <> struct msl_unsigned<int> { typedef uint32_t type; };
template <> struct msl_unsigned<uint> { typedef uint32_t type; };
template <> struct msl_unsigned<short> { typedef uint16_t type; };
template <> struct msl_unsigned<ushort> { typedef uint16_t type; };
template <> struct msl_unsigned<int8_t> { typedef uint8_t type; };
template <> struct msl_unsigned<uchar> { typedef uint8_t type; };
template <typename T> uint64_t msl_bits(T x) { return (uint64_t)(typename msl_unsigned<T>::type)x; }
template <typename T> T popcount(T x) { return T(__builtin_popcountll(msl_bits(x))); }
template <typename T> T clz(T x) {
  return x ? T(__builtin_clzll(msl_bits(x)) - (64 - 8 * (int)sizeof(T))) : T(8 * sizeof(T));
}
template <typename T> T ctz(T x) { return x ? T(__builtin_ctzll(msl_bits(x))) : T(8 * sizeof(T)); }
template <typename T> T reverse_bits(T x) {
  uint64_t bits = msl_bits(x), r = 0;
  for (unsigned i = 0; i < 8 * sizeof(T); i++) r |= (bits >> i & 1) << (8 * sizeof(T) - 1 - i);
  return T(r);
}
template <typename T> T rotate(T x, T by) {
  unsigned width = 8 * sizeof(T), n = (unsigned)by % width;
  return n ? T(msl_bits(x) << n | msl_bits(x) >> (width - n)) : x;
}
template <typename T> T extract_bits(T x, uint from, uint count) {
  if (!count) return T(0);
  unsigned width = 8 * sizeof(T);
  return T(T(msl_bits(x) << (width - from - count)) >> (width - count));
}
inline uint mulhi(uint a, uint b) { return (uint)((uint64_t)a * b >> 32); }
inline int mulhi(int a, int b) { return (int)((int64_t)a * b >> 32); }
inline ulong mulhi(ulong a, ulong b) { return (ulong)((unsigned __int128)a * b >> 64); }
template <typename T> T absdiff(T a, T b) { return a > b ? T(a - b) : T(b - a); }
}  // namespace metal
