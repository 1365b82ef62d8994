// MSL's vectors: components, swizzles, arithmetic by component.
#pragma once
#include "msl_scalar.h"

namespace metal {
template <typename T, int N> struct vec;

template <typename V, typename T, int N, int... I> struct swizzle {
  T data[N];
  operator V() const { return V(data[I]...); }
  swizzle& operator=(V value) {
    int k = 0;
    ((data[I] = value[k++]), ...);
    return *this;
  }
  swizzle& operator+=(V value) { return *this = V(*this) + value; }
  swizzle& operator-=(V value) { return *this = V(*this) - value; }
  swizzle& operator*=(V value) { return *this = V(*this) * value; }
};

#define MSL_PAIR(a, b, i, j) swizzle<vec<T, 2>, T, N_, i, j> a##b;
#define MSL_PAIRS_OF_2 MSL_PAIR(x, x, 0, 0) MSL_PAIR(x, y, 0, 1) MSL_PAIR(y, x, 1, 0) MSL_PAIR(y, y, 1, 1)
#define MSL_PAIRS_OF_3 MSL_PAIRS_OF_2 MSL_PAIR(x, z, 0, 2) MSL_PAIR(y, z, 1, 2) \
  MSL_PAIR(z, x, 2, 0) MSL_PAIR(z, y, 2, 1) MSL_PAIR(z, z, 2, 2)
#define MSL_PAIRS_OF_4 MSL_PAIRS_OF_3 MSL_PAIR(x, w, 0, 3) MSL_PAIR(y, w, 1, 3) MSL_PAIR(z, w, 2, 3) \
  MSL_PAIR(w, x, 3, 0) MSL_PAIR(w, y, 3, 1) MSL_PAIR(w, z, 3, 2) MSL_PAIR(w, w, 3, 3)
#define MSL_TRIPLES_OF_3 swizzle<vec<T, 3>, T, N_, 0, 1, 2> xyz; swizzle<vec<T, 3>, T, N_, 2, 1, 0> zyx;
#define MSL_TRIPLES_OF_4 MSL_TRIPLES_OF_3 swizzle<vec<T, 3>, T, N_, 1, 2, 3> yzw; \
  swizzle<vec<T, 4>, T, N_, 0, 1, 2, 3> xyzw; swizzle<vec<T, 4>, T, N_, 3, 2, 1, 0> wzyx;

template <typename T, int N> struct alignas(sizeof(T) * (N == 3 ? 4 : N)) msl_storage;
template <typename T> struct alignas(sizeof(T) * 2) msl_storage<T, 2> {
  enum { N_ = 2 };
  union { struct { T x, y; }; struct { T r, g; }; T data[2]; MSL_PAIRS_OF_2 };
};
template <typename T> struct alignas(sizeof(T) * 4) msl_storage<T, 3> {
  enum { N_ = 3 };
  union { struct { T x, y, z; }; struct { T r, g, b; }; T data[3]; MSL_PAIRS_OF_3 MSL_TRIPLES_OF_3 };
};
template <typename T> struct alignas(sizeof(T) * 4) msl_storage<T, 4> {
  enum { N_ = 4 };
  union { struct { T x, y, z, w; }; struct { T r, g, b, a; }; T data[4]; MSL_PAIRS_OF_4 MSL_TRIPLES_OF_4 };
};

template <typename T, int N> struct vec : msl_storage<T, N> {
  using msl_storage<T, N>::data;
  typedef T element;
  vec() = default;
  // Written out, as clang looks at the address of what is copied only where a function is called.
  vec(const vec& other) : msl_storage<T, N>(other) {}
  vec& operator=(const vec& other) {
    msl_storage<T, N>::operator=(other);
    return *this;
  }
  template <typename S, typename msl_if<msl_scalar<S>, int>::type = 0> vec(S value) {
    for (int i = 0; i < N; i++) data[i] = T(value);
  }
  template <typename U> explicit vec(vec<U, N> other) {
    for (int i = 0; i < N; i++) data[i] = T(other[i]);
  }
  template <typename A, typename B, typename... Rest> vec(A a, B b, Rest... rest) {
    int at = 0;
    put(at, a), put(at, b), (put(at, rest), ...);
  }
  template <typename S> void put(int& at, S value) {
    if constexpr (msl_scalar<S>) data[at++] = T(value);
    else for (int i = 0; i < (int)(sizeof(S) / sizeof(T)) && at < N; i++) data[at++] = T(value[i]);
  }
  T& operator[](int i) { return data[i]; }
  const T& operator[](int i) const { return data[i]; }
  vec operator-() const { vec r; for (int i = 0; i < N; i++) r[i] = -data[i]; return r; }
  vec operator~() const { vec r; for (int i = 0; i < N; i++) r[i] = ~data[i]; return r; }
#define MSL_BINARY(op)                                                                          \
  friend vec operator op(vec a, vec b) {                                                        \
    vec r;                                                                                      \
    for (int i = 0; i < N; i++) r[i] = T(a[i] op b[i]);                                         \
    return r;                                                                                   \
  }                                                                                             \
  vec& operator op##=(vec b) { return *this = *this op b; }
  MSL_BINARY(+) MSL_BINARY(-) MSL_BINARY(*) MSL_BINARY(/) MSL_BINARY(%) MSL_BINARY(&)
  MSL_BINARY(|) MSL_BINARY(^) MSL_BINARY(<<) MSL_BINARY(>>)
#undef MSL_BINARY
#define MSL_COMPARE(op)                                            \
  friend vec<bool, N> operator op(vec a, vec b) {                  \
    vec<bool, N> r;                                                \
    for (int i = 0; i < N; i++) r[i] = a[i] op b[i];               \
    return r;                                                      \
  }
  MSL_COMPARE(==) MSL_COMPARE(!=) MSL_COMPARE(<) MSL_COMPARE(>) MSL_COMPARE(<=) MSL_COMPARE(>=)
#undef MSL_COMPARE
  friend T dot(vec a, vec b) {
    T sum = a[0] * b[0];
    for (int i = 1; i < N; i++) sum = T(sum + a[i] * b[i]);
    return sum;
  }
};

template <int N> bool any(vec<bool, N> v) { bool r = false; for (int i = 0; i < N; i++) r |= v[i]; return r; }
template <int N> bool all(vec<bool, N> v) { bool r = true; for (int i = 0; i < N; i++) r &= v[i]; return r; }
inline bool any(bool v) { return v; }
inline bool all(bool v) { return v; }

template <int BYTES> struct msl_word;
template <> struct msl_word<4> { typedef unsigned type; };
template <> struct msl_word<8> { typedef unsigned long long type; };
template <> struct msl_word<16> { typedef unsigned __int128 type; };

// Tightly packed, with the alignment of one component; read in one access, but three components.
template <typename T, int N> struct packed_vec {
  T data[N];
  packed_vec() = default;
  packed_vec(vec<T, N> v) { for (int i = 0; i < N; i++) data[i] = v[i]; }
  operator vec<T, N>() const {
    vec<T, N> v;
    if constexpr (N == 3 || sizeof *this > 16 || sizeof *this < 4) {
      for (int i = 0; i < N; i++) v[i] = data[i];
    } else {
      typedef typename msl_word<sizeof(T) * N>::type Word;
      typedef Word Packed __attribute__((aligned(alignof(T)), may_alias));
      const Word all = *(const Packed*)data;
      __builtin_memcpy((void*)v.data, (const void*)&all, sizeof all);
    }
    return v;
  }
  T& operator[](int i) { return data[i]; }
  const T& operator[](int i) const { return data[i]; }
};
}  // namespace metal

#define MSL_VECTORS(T)                                                        \
  typedef metal::vec<T, 2> T##2; typedef metal::vec<T, 3> T##3;               \
  typedef metal::vec<T, 4> T##4; typedef metal::packed_vec<T, 2> packed_##T##2; \
  typedef metal::packed_vec<T, 3> packed_##T##3; typedef metal::packed_vec<T, 4> packed_##T##4;
MSL_VECTORS(float) MSL_VECTORS(half) MSL_VECTORS(bfloat) MSL_VECTORS(bool)
MSL_VECTORS(char) MSL_VECTORS(uchar) MSL_VECTORS(short) MSL_VECTORS(ushort)
MSL_VECTORS(int) MSL_VECTORS(uint) MSL_VECTORS(long) MSL_VECTORS(ulong)
