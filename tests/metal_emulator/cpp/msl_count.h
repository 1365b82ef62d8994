// float, half and bfloat that count their own arithmetic, for reports that ask for it.
#pragma once

enum msl_operation { MSL_ADD, MSL_MULTIPLY, MSL_DIVIDE, MSL_FMA, MSL_COMPARE, MSL_CONVERT, MSL_FUNCTION };
inline int msl_muted = 0;

// R: the number itself. ROW: its row of msl_count.arithmetic.
template <typename R, int ROW> struct msl_counted;
template <typename T> constexpr bool msl_is_counted = false;
template <typename R, int ROW> inline constexpr bool msl_is_counted<msl_counted<R, ROW>> = true;
template <typename T> constexpr bool msl_is_plain = msl_integer<T>;
template <> inline constexpr bool msl_is_plain<float> = true;
template <> inline constexpr bool msl_is_plain<double> = true;

MSL_QUIET inline void msl_tick_row(int row, int operation) {
  if (!msl_muted) msl_count.arithmetic[row][operation]++;
}
#define MSL_TICK(T, operation) \
  (__builtin_is_constant_evaluated() ? (void)0 : msl_tick_row(T::row, operation))

struct msl_muting {
  MSL_QUIET msl_muting() { msl_muted++; }
  MSL_QUIET ~msl_muting() { msl_muted--; }
};
#define MSL_MUTE msl_muting muting

template <typename R, int ROW> struct msl_counted {
  static constexpr int row = ROW;
  R raw;
  msl_counted() = default;
  constexpr msl_counted(float value) : raw((R)value) {}
  constexpr msl_counted(double value) : raw((R)(float)value) {}
  constexpr msl_counted(_Float16 value) : raw((R)(float)value) {}
  template <typename T, typename msl_if<msl_integer<T>, int>::type = 0>
  constexpr msl_counted(T value) : raw((R)(float)value) {
    if (!__builtin_constant_p(value)) MSL_TICK(msl_counted, MSL_CONVERT);
  }
  template <typename S, int FROM, typename msl_if<FROM != ROW, int>::type = 0>
  constexpr msl_counted(msl_counted<S, FROM> other) : raw((R)(float)other.raw) {
    MSL_TICK(msl_counted, MSL_CONVERT);
  }
  constexpr operator float() const { return (float)raw; }
  constexpr msl_counted operator-() const { return msl_counted(-(float)raw); }
  constexpr msl_counted operator+() const { return *this; }
  msl_counted& operator++() { return *this += 1; }
  msl_counted& operator--() { return *this -= 1; }
#define MSL_ASSIGN(op) \
  template <typename T> msl_counted& operator op##=(T b) { return *this = msl_counted(*this op b); }
  MSL_ASSIGN(+) MSL_ASSIGN(-) MSL_ASSIGN(*) MSL_ASSIGN(/)
#undef MSL_ASSIGN
};
typedef msl_counted<float, 0> msl_float;

// The wider of two: float beats half and bfloat, and is what those two make together.
template <typename A, typename B> struct msl_wider { typedef msl_float type; };
template <typename A> struct msl_wider<A, A> { typedef A type; };

#define MSL_OPERATOR(result, op, kind)                                                       \
  template <typename R, typename S, int A, int B>                                            \
  constexpr auto operator op(msl_counted<R, A> a, msl_counted<S, B> b) {                     \
    typedef typename msl_wider<msl_counted<R, A>, msl_counted<S, B>>::type Wide;             \
    Wide x = a, y = b;                                                                       \
    MSL_TICK(Wide, kind);                                                                    \
    return result;                                                                           \
  }                                                                                          \
  template <typename R, int A, typename T, typename msl_if<msl_is_plain<T>, int>::type = 0>  \
  constexpr auto operator op(msl_counted<R, A> x, T b) {                                     \
    typedef msl_counted<R, A> Wide;                                                          \
    Wide y = b;                                                                              \
    MSL_TICK(Wide, kind);                                                                    \
    return result;                                                                           \
  }                                                                                          \
  template <typename R, int A, typename T, typename msl_if<msl_is_plain<T>, int>::type = 0>  \
  constexpr auto operator op(T b, msl_counted<R, A> y) {                                     \
    typedef msl_counted<R, A> Wide;                                                          \
    Wide x = b;                                                                              \
    MSL_TICK(Wide, kind);                                                                    \
    return result;                                                                           \
  }
#define MSL_ARITHMETIC(op, kind) MSL_OPERATOR(Wide((float)x.raw op (float)y.raw), op, kind)
#define MSL_COMPARISON(op) MSL_OPERATOR((float)x.raw op (float)y.raw, op, MSL_COMPARE)
MSL_ARITHMETIC(+, MSL_ADD)
MSL_ARITHMETIC(-, MSL_ADD)
MSL_ARITHMETIC(*, MSL_MULTIPLY)
MSL_ARITHMETIC(/, MSL_DIVIDE)
MSL_COMPARISON(<)
MSL_COMPARISON(>)
MSL_COMPARISON(<=)
MSL_COMPARISON(>=)
MSL_COMPARISON(==)
MSL_COMPARISON(!=)
#undef MSL_OPERATOR

typedef msl_counted<_Float16, 1> half;
typedef msl_counted<msl_bfloat, 2> bfloat;
#define float msl_float
