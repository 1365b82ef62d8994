// MSL's scalar types as C++ sees them, and what a kernel finds in <metal_stdlib>'s limits.
#pragma once
#include "runtime.h"

typedef __UINT8_TYPE__ uint8_t;
typedef __UINT16_TYPE__ uint16_t;
typedef __UINT32_TYPE__ uint32_t;
typedef __UINT64_TYPE__ uint64_t;
typedef __INT8_TYPE__ int8_t;
typedef __INT16_TYPE__ int16_t;
typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;
typedef __SIZE_TYPE__ size_t;
typedef __PTRDIFF_TYPE__ ptrdiff_t;
typedef float msl_raw;  // a float that is never counted
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;

#define MSL_QUIET __attribute__((no_sanitize("thread")))
#define MSL_APART MSL_QUIET __attribute__((noinline))  // what a loop has often is compiled once

template <bool B, typename T = void> struct msl_if {};
template <typename T> struct msl_if<true, T> { typedef T type; };
template <typename T> constexpr bool msl_integer = false;
#define MSL_INTEGER(T) template <> inline constexpr bool msl_integer<T> = true;
MSL_INTEGER(bool) MSL_INTEGER(char) MSL_INTEGER(signed char) MSL_INTEGER(unsigned char)
MSL_INTEGER(short) MSL_INTEGER(unsigned short) MSL_INTEGER(int) MSL_INTEGER(unsigned)
MSL_INTEGER(long) MSL_INTEGER(unsigned long) MSL_INTEGER(long long) MSL_INTEGER(unsigned long long)

// Sixteen bits; arithmetic goes through float and is rounded to nearest even each time.
struct msl_bfloat {
  uint16_t bits;
  msl_bfloat() = default;
  constexpr explicit msl_bfloat(float value)
      : bits(rounded(__builtin_bit_cast(uint32_t, value))) {}
  constexpr explicit msl_bfloat(double value) : msl_bfloat((float)value) {}
  constexpr explicit msl_bfloat(_Float16 value) : msl_bfloat((float)value) {}
  template <typename T, typename msl_if<msl_integer<T>, int>::type = 0>
  constexpr msl_bfloat(T value) : msl_bfloat((float)value) {}
  constexpr operator float() const { return __builtin_bit_cast(float, (uint32_t)bits << 16); }
  static constexpr uint16_t rounded(uint32_t u) {
    if ((u & 0x7fffffff) > 0x7f800000) return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
  }
  constexpr msl_bfloat operator-() const { return msl_bfloat(-(float)*this); }
  msl_bfloat& operator++() { return *this = *this + msl_bfloat(1); }
#define MSL_BINARY(op)                                                      \
  friend constexpr msl_bfloat operator op(msl_bfloat a, msl_bfloat b) {     \
    return msl_bfloat((float)a op(float) b);                                \
  }                                                                         \
  template <typename T, typename msl_if<msl_integer<T>, int>::type = 0>     \
  friend constexpr msl_bfloat operator op(msl_bfloat a, T b) {              \
    return msl_bfloat((float)a op(float) b);                                \
  }                                                                         \
  template <typename T, typename msl_if<msl_integer<T>, int>::type = 0>     \
  friend constexpr msl_bfloat operator op(T a, msl_bfloat b) {              \
    return msl_bfloat((float)a op(float) b);                                \
  }                                                                         \
  template <typename T> msl_bfloat& operator op##=(T b) {                   \
    return *this = msl_bfloat((float)*this op(float) b);                    \
  }
  MSL_BINARY(+) MSL_BINARY(-) MSL_BINARY(*) MSL_BINARY(/)
#undef MSL_BINARY
};

#ifdef MSL_COUNT
#include "msl_count.h"
#else
typedef _Float16 half;
typedef msl_bfloat bfloat;
#define MSL_TICK(T, operation) (void)0
#define MSL_MUTE (void)0
#endif

template <typename T> constexpr bool msl_scalar = msl_integer<T>;
template <> inline constexpr bool msl_scalar<float> = true;
template <> inline constexpr bool msl_scalar<double> = true;
template <> inline constexpr bool msl_scalar<half> = true;
template <> inline constexpr bool msl_scalar<bfloat> = true;
constexpr half operator""h(long double value) { return half((double)value); }
typedef half float16_t;
typedef bfloat bfloat16_t;

template <typename To, typename From> constexpr To as_type(From value) {
  static_assert(sizeof(To) == sizeof(From), "as_type needs types of one size");
  if constexpr (__is_trivially_copyable(To) && __is_trivially_copyable(From)) {
    return __builtin_bit_cast(To, value);
  } else {
    To bits;
    __builtin_memcpy((void*)&bits, (const void*)&value, sizeof bits);
    return bits;
  }
}
inline uint16_t bfloat16_to_uint16(bfloat x) { return as_type<uint16_t>(x); }
inline bfloat uint16_to_bfloat16(uint16_t x) { return as_type<bfloat>(x); }

namespace metal {
template <typename T> struct numeric_limits {
  static constexpr bool is_signed = T(-1) < T(0);
  static constexpr int digits = sizeof(T) * 8 - is_signed;
  static constexpr T lowest() { return is_signed ? T(T(1) << (sizeof(T) * 8 - 1)) : T(0); }
  static constexpr T min() { return lowest(); }
  static constexpr T max() { return T(~lowest()); }
};
template <> struct numeric_limits<bool> {
  static constexpr bool min() { return false; }
  static constexpr bool max() { return true; }
};
#define MSL_LIMITS(T, MAX, MIN, EPSILON)                             \
  template <> struct numeric_limits<T> {                             \
    static constexpr T max() { return T(MAX); }                      \
    static constexpr T lowest() { return T(-(MAX)); }                \
    static constexpr T min() { return T(MIN); }                      \
    static constexpr T epsilon() { return T(EPSILON); }              \
    static constexpr T infinity() { return T(__builtin_inff()); }    \
    static constexpr T quiet_NaN() { return T(__builtin_nanf("")); } \
  };
MSL_LIMITS(float, __FLT_MAX__, __FLT_MIN__, __FLT_EPSILON__)
MSL_LIMITS(half, 65504.0f, 6.103515625e-05f, 0.0009765625f)
MSL_LIMITS(bfloat, 3.3895313892515355e38f, __FLT_MIN__, 0.0078125f)

template <typename A, typename B> struct is_same { static constexpr bool value = false; };
template <typename A> struct is_same<A, A> { static constexpr bool value = true; };
template <typename A, typename B> constexpr bool is_same_v = is_same<A, B>::value;
template <bool B, typename T = void> using enable_if_t = typename msl_if<B, T>::type;
template <bool B, typename T, typename F> struct conditional { typedef T type; };
template <typename T, typename F> struct conditional<false, T, F> { typedef F type; };
template <bool B, typename T, typename F> using conditional_t = typename conditional<B, T, F>::type;
template <typename T> constexpr bool is_integral_v = msl_integer<T>;
template <typename T> constexpr bool is_floating_point_v =
    is_same_v<T, float> || is_same_v<T, half> || is_same_v<T, bfloat>;
}  // namespace metal
