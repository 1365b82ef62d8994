// MSL with real address spaces, which clang checks, and for a GPU it makes code for, whose
// registers are counted. What Metal does in one instruction is an opaque one; nothing is ever run.
#pragma once
#define device __attribute__((address_space(1)))
#define constant __attribute__((address_space(4)))
#define threadgroup __attribute__((address_space(3)))
#define thread
#define kernel gnu::always_inline
#define METAL_FUNC inline __attribute__((always_inline))

typedef __UINT8_TYPE__ uint8_t;
typedef __UINT16_TYPE__ uint16_t;
typedef __UINT32_TYPE__ uint32_t;
typedef unsigned long uint64_t, ulong, size_t;
typedef __INT8_TYPE__ int8_t;
typedef __INT16_TYPE__ int16_t;
typedef __INT32_TYPE__ int32_t;
typedef long int64_t, ptrdiff_t;
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef _Float16 half, float16_t;
typedef __bf16 bfloat, bfloat16_t;
struct complex64_t { float real, imag; };

#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
#define MAXFLOAT __FLT_MAX__
#define FLT_MAX __FLT_MAX__
#define M_PI_F 3.14159274f
#define M_E_F 2.71828183f
#define M_LN2_F 0.69314718f
#define M_LOG2E_F 1.44269504f
#define M_SQRT2_F 1.41421356f

namespace metal {
template <typename T, int N> using vec = T __attribute__((ext_vector_type(N)));

template <typename T> struct shape { enum { width = 1 }; };
#define SHAPE(N) template <typename T> struct shape<T __attribute__((ext_vector_type(N)))> { enum { width = N }; };
SHAPE(2) SHAPE(3) SHAPE(4)
template <typename V> struct made {
  template <typename A> static void put(V& v, int& at, A a) {
    if constexpr (shape<A>::width == 1) v[at++] = a;
    else for (int i = 0; i < shape<A>::width; i++) v[at++] = a[i];
  }
  template <typename A, typename... Rest> static V of(A a, Rest... rest) {
    if constexpr (sizeof...(Rest) == 0 && shape<A>::width == 1) return V(a);
    V v;
    int at = 0;
    put(v, at, a);
    (put(v, at, rest), ...);
    return v;
  }
};

#ifdef __AMDGCN__
#define IN_REGISTER "v"
#define MSL_KERNEL __attribute__((amdgpu_kernel, amdgpu_num_vgpr(128)))  // Apple's most
#else
#define IN_REGISTER "r"
#define MSL_KERNEL
#endif
// One instruction from x and y; `volatile`: it keeps its place among those like it.
#define OPAQUE(name, keep)                                                            \
  template <typename T> T name(T x, T y) {                                            \
    if constexpr (shape<T>::width > 1) {                                              \
      for (int i = 0; i < shape<T>::width; i++) x[i] = name(x[i], y[i]);              \
      return x;                                                                       \
    } else if constexpr (sizeof(T) == 8) {                                            \
      asm keep("; " #name " %0 %1" : "+" IN_REGISTER(x) : IN_REGISTER(y));                               \
      return x;                                                                       \
    } else if constexpr (T(0.5f) != T(0)) {                                           \
      float wide = float(x);                                                          \
      asm keep("; " #name " %0 %1" : "+" IN_REGISTER(wide) : IN_REGISTER(float(y)));                     \
      return T(wide);                                                                 \
    } else {                                                                          \
      int wide = int(x);                                                              \
      asm keep("; " #name " %0 %1" : "+" IN_REGISTER(wide) : IN_REGISTER(int(y)));                       \
      return T(wide);                                                                 \
    }                                                                                 \
  }
OPAQUE(computed, )
OPAQUE(exchanged, volatile)
template <typename T> struct numeric_limits {
  static T max() { return computed(T(1), T(1)); }
  static T min() { return computed(T(2), T(1)); }
  static T lowest() { return computed(T(3), T(1)); }
  static T infinity() { return computed(T(4), T(1)); }
  static T epsilon() { return computed(T(5), T(1)); }
  static T quiet_NaN() { return computed(T(6), T(1)); }
};
template <typename A, typename B> struct is_same { static constexpr bool value = false; };
template <typename A> struct is_same<A, A> { static constexpr bool value = true; };
template <typename A, typename B> constexpr bool is_same_v = is_same<A, B>::value;
template <bool B, typename T, typename F> struct conditional { typedef T type; };
template <typename T, typename F> struct conditional<false, T, F> { typedef F type; };
template <bool B, typename T, typename F> using conditional_t = typename conditional<B, T, F>::type;
template <bool B, typename T = void> struct enable_if {};
template <typename T> struct enable_if<true, T> { typedef T type; };
template <bool B, typename T = void> using enable_if_t = typename enable_if<B, T>::type;

#define ONE(name) template <typename T> T name(T x) { return computed(x, x); }
#define ALL_OF_ONE ONE(exp) ONE(exp2) ONE(exp10) ONE(log) ONE(log2) ONE(log10) ONE(sin) ONE(cos) \
  ONE(tan) ONE(sinh) ONE(cosh) ONE(tanh) ONE(asin) ONE(acos) ONE(atan) ONE(asinh) ONE(acosh)     \
  ONE(atanh) ONE(sqrt) ONE(rsqrt) ONE(floor) ONE(ceil) ONE(trunc) ONE(round) ONE(rint) ONE(fabs) \
  ONE(abs) ONE(fract) ONE(sinpi) ONE(cospi)
#define TWO(name) template <typename T> T name(T x, T y) { return computed(x, y); }
#define ALL_OF_TWO TWO(pow) TWO(powr) TWO(atan2) TWO(fmod) TWO(fmin) TWO(fmax) TWO(copysign) \
  TWO(divide)                                                                                 \
  template <typename T> T min(T x, T y) { return __builtin_elementwise_min(x, y); }          \
  template <typename T> T max(T x, T y) { return __builtin_elementwise_max(x, y); }
ALL_OF_ONE ALL_OF_TWO
namespace fast { ALL_OF_ONE ALL_OF_TWO }
namespace precise { ALL_OF_ONE ALL_OF_TWO }
ONE(saturate) ONE(sign) ONE(popcount) ONE(clz) ONE(ctz) ONE(reverse_bits)
TWO(step) TWO(rotate) TWO(mulhi) TWO(absdiff)
template <typename T> T fma(T a, T b, T c) { return __builtin_elementwise_fma(a, b, c); }
template <typename T> T mad(T a, T b, T c) { return fma(a, b, c); }
template <typename T> T clamp(T x, T low, T high) { return min(max(x, low), high); }
template <typename T> T mix(T a, T b, T t) { return a + (b - a) * t; }
template <typename T> T min3(T a, T b, T c) { return min(min(a, b), c); }
template <typename T> T max3(T a, T b, T c) { return max(max(a, b), c); }
template <typename T, typename C> T select(T a, T b, C c) { return c ? b : a; }
template <typename T> T ldexp(T x, int e) { return computed(x, T(e)); }
template <typename T> T extract_bits(T x, uint from, uint count) { return x >> from & ((1u << count) - 1); }
template <typename T> bool isnan(T x) { return x != x; }
template <typename T> bool isinf(T x) { return abs(x) == INFINITY; }
template <typename T> bool isfinite(T x) { return abs(x) < INFINITY; }
template <typename T> bool any(T x) { return __builtin_reduce_or(x); }
template <typename T> bool all(T x) { return __builtin_reduce_and(x); }
#define DOT(N)                                                                              \
  template <typename T> T dot(vec<T, N> a, vec<T, N> b) {                                   \
    T sum = a[0] * b[0];                                                                    \
    for (int i = 1; i < N; i++) sum += a[i] * b[i];                                         \
    return sum;                                                                             \
  }                                                                                         \
  template <typename T> T length(vec<T, N> v) { return sqrt(dot(v, v)); }
DOT(2) DOT(3) DOT(4)

template <typename T> struct not_across_lanes { static constexpr bool value = false; };
template <> struct not_across_lanes<long> { static constexpr bool value = true; };
template <> struct not_across_lanes<unsigned long> { static constexpr bool value = true; };
#define ACROSS(name, ...)                                                             \
  template <typename T> T name(T x __VA_ARGS__) {                                     \
    static_assert(!not_across_lanes<T>::value, "no 64-bit operations across lanes");  \
    return exchanged(x, x);                                                           \
  }
#define ALL_ACROSS(scope) ACROSS(scope##_sum) ACROSS(scope##_product) ACROSS(scope##_min)          \
  ACROSS(scope##_max) ACROSS(scope##_and) ACROSS(scope##_or) ACROSS(scope##_xor)                   \
  ACROSS(scope##_prefix_inclusive_sum) ACROSS(scope##_prefix_exclusive_sum)                        \
  ACROSS(scope##_prefix_inclusive_product) ACROSS(scope##_prefix_exclusive_product)                \
  ACROSS(scope##_broadcast_first) ACROSS(scope##_shuffle, , ushort) ACROSS(scope##_broadcast, , ushort) \
  ACROSS(scope##_shuffle_xor, , ushort) ACROSS(scope##_shuffle_down, , ushort)                     \
  ACROSS(scope##_shuffle_up, , ushort) ACROSS(scope##_shuffle_rotate_down, , ushort)               \
  ACROSS(scope##_shuffle_rotate_up, , ushort)                                                      \
  ACROSS(scope##_shuffle_and_fill_down, , T, ushort) ACROSS(scope##_shuffle_and_fill_up, , T, ushort)
ALL_ACROSS(simd) ALL_ACROSS(quad)
struct simd_vote {
  ulong bits;
  explicit operator ulong() const { return bits; }
  bool any() const { return bits != 0; }
  bool all() const { return bits == 0xffffffff; }
};
inline simd_vote simd_ballot(bool x) { return {ulong(uint(exchanged(int(x), 0)))}; }
inline bool simd_any(bool x) { return exchanged(int(x), 0); }
inline bool simd_all(bool x) { return exchanged(int(x), 0); }
inline bool simd_is_first() { return exchanged(0, 0); }

enum class mem_flags { mem_none = 0, mem_device = 1, mem_threadgroup = 2, mem_texture = 4 };
constexpr mem_flags operator|(mem_flags a, mem_flags b) { return mem_flags((int)a | (int)b); }
inline void threadgroup_barrier(mem_flags) { asm volatile("s_barrier" ::: "memory"); }
inline void simdgroup_barrier(mem_flags) { asm volatile("; simdgroup_barrier" ::: "memory"); }

enum memory_order { memory_order_relaxed };
template <typename T> struct atomic { T value; };
typedef atomic<int> atomic_int;
typedef atomic<uint> atomic_uint;
typedef atomic<float> atomic_float;
typedef atomic<bool> atomic_bool;
#define ATOMIC_IN(space, name)                                                              \
  template <typename T, typename U> T name(volatile space atomic<T>* p, U by, memory_order) {  \
    const T old = p->value;                                                                 \
    p->value = T(by);                                                                       \
    return old;                                                                             \
  }
#define ATOMIC(name) ATOMIC_IN(device, name) ATOMIC_IN(threadgroup, name)
ATOMIC(atomic_exchange_explicit) ATOMIC(atomic_store_explicit) ATOMIC(atomic_fetch_add_explicit)
ATOMIC(atomic_fetch_sub_explicit) ATOMIC(atomic_fetch_min_explicit) ATOMIC(atomic_fetch_max_explicit)
ATOMIC(atomic_fetch_and_explicit) ATOMIC(atomic_fetch_or_explicit) ATOMIC(atomic_fetch_xor_explicit)
template <typename T> T atomic_load_explicit(const volatile device atomic<T>* p, memory_order) { return p->value; }
template <typename T> T atomic_load_explicit(const volatile threadgroup atomic<T>* p, memory_order) { return p->value; }
#define EXCHANGE(space)                                                                     \
  template <typename T, typename U> bool atomic_compare_exchange_weak_explicit(             \
      volatile space atomic<T>* p, T* expected, U wanted, memory_order, memory_order) {     \
    const T old = p->value;                                                                 \
    if (old == *expected) p->value = T(wanted);                                             \
    *expected = old;                                                                        \
    return old == *expected;                                                                \
  }
EXCHANGE(device) EXCHANGE(threadgroup)

typedef unsigned long ulong2_ __attribute__((ext_vector_type(2)));
// Two of the 64 elements in each lane, as on Apple's GPUs.
template <typename T, int R, int C> struct simdgroup_matrix {
  vec<T, 2> its;
  simdgroup_matrix() = default;
  explicit simdgroup_matrix(T value) : its(value) {}
  vec<T, 2>& thread_elements() { return its; }
};
typedef simdgroup_matrix<float, 8, 8> simdgroup_float8x8;
typedef simdgroup_matrix<half, 8, 8> simdgroup_half8x8;
typedef simdgroup_matrix<bfloat, 8, 8> simdgroup_bfloat8x8;
template <typename T, int R, int C> simdgroup_matrix<T, R, C> make_filled_simdgroup_matrix(T value) {
  return simdgroup_matrix<T, R, C>(value);
}
inline uint lane_of_matrix() { return computed(0u, 1u); }
#define MATRIX_MEMORY(space)                                                                     \
  template <typename T> void simdgroup_load(simdgroup_matrix<T, 8, 8>& m, const space T* p,      \
                                            ulong row = 8, ulong2_ = 0, bool = false) {          \
    p += lane_of_matrix() / 4 * row + lane_of_matrix() % 4 * 2;                                  \
    m.its[0] = p[0], m.its[1] = p[1];                                                            \
  }                                                                                              \
  template <typename T> void simdgroup_store(const simdgroup_matrix<T, 8, 8>& m, space T* p,     \
                                             ulong row = 8, ulong2_ = 0, bool = false) {         \
    p += lane_of_matrix() / 4 * row + lane_of_matrix() % 4 * 2;                                  \
    p[0] = m.its[0], p[1] = m.its[1];                                                            \
  }
MATRIX_MEMORY(device) MATRIX_MEMORY(threadgroup)
template <typename D, typename A, typename B, typename S>
void simdgroup_multiply_accumulate(simdgroup_matrix<D, 8, 8>& d, const simdgroup_matrix<A, 8, 8>& a,
                                   const simdgroup_matrix<B, 8, 8>& b, const simdgroup_matrix<S, 8, 8>& c) {
  for (int i = 0; i < 2; i++) d.its[i] = exchanged(D(a.its[i]), D(b.its[i])) + D(c.its[i]);
}
template <typename D, typename A, typename B>
void simdgroup_multiply(simdgroup_matrix<D, 8, 8>& d, const simdgroup_matrix<A, 8, 8>& a,
                        const simdgroup_matrix<B, 8, 8>& b) {
  for (int i = 0; i < 2; i++) d.its[i] = exchanged(D(a.its[i]), D(b.its[i]));
}
}  // namespace metal

template <typename To, typename From> To as_type(From x) {
  static_assert(sizeof(To) == sizeof(From), "as_type needs types of one size");
  return __builtin_bit_cast(To, x);
}
constexpr half operator""h(long double value) { return half(value); }
template <typename U> struct Limits { static constexpr U max{}, min{}, finite_max{}, finite_min{}; };
inline float log1p(float x) { return metal::computed(x, x); }
template <typename T, typename U> T ceildiv(T n, U m) { return (n + m - 1) / m; }
template <typename IdxT = int64_t>
IdxT elem_to_loc(IdxT element, constant const int* shape, constant const int64_t* strides, int ndim) {
  IdxT place = 0;
  for (int d = ndim - 1; d >= 0 && element > 0; --d) {
    place += element % shape[d] * IdxT(strides[d]);
    element /= shape[d];
  }
  return place;
}

#define PACKED(T, N) typedef T packed_##T##N __attribute__((ext_vector_type(N), aligned(sizeof(T))));
#define VECTORS(T) typedef metal::vec<T, 2> T##2; typedef metal::vec<T, 3> T##3; typedef metal::vec<T, 4> T##4; \
  PACKED(T, 2) PACKED(T, 3) PACKED(T, 4)
VECTORS(float) VECTORS(half) VECTORS(bool) VECTORS(char) VECTORS(uchar) VECTORS(short)
VECTORS(ushort) VECTORS(int) VECTORS(uint) VECTORS(long) VECTORS(ulong)
#define float2(...) metal::made<float2>::of(__VA_ARGS__)
#define float3(...) metal::made<float3>::of(__VA_ARGS__)
#define float4(...) metal::made<float4>::of(__VA_ARGS__)
#define half2(...) metal::made<half2>::of(__VA_ARGS__)
#define half3(...) metal::made<half3>::of(__VA_ARGS__)
#define half4(...) metal::made<half4>::of(__VA_ARGS__)
#define bool2(...) metal::made<bool2>::of(__VA_ARGS__)
#define bool3(...) metal::made<bool3>::of(__VA_ARGS__)
#define bool4(...) metal::made<bool4>::of(__VA_ARGS__)
#define char2(...) metal::made<char2>::of(__VA_ARGS__)
#define char3(...) metal::made<char3>::of(__VA_ARGS__)
#define char4(...) metal::made<char4>::of(__VA_ARGS__)
#define uchar2(...) metal::made<uchar2>::of(__VA_ARGS__)
#define uchar3(...) metal::made<uchar3>::of(__VA_ARGS__)
#define uchar4(...) metal::made<uchar4>::of(__VA_ARGS__)
#define short2(...) metal::made<short2>::of(__VA_ARGS__)
#define short3(...) metal::made<short3>::of(__VA_ARGS__)
#define short4(...) metal::made<short4>::of(__VA_ARGS__)
#define ushort2(...) metal::made<ushort2>::of(__VA_ARGS__)
#define ushort3(...) metal::made<ushort3>::of(__VA_ARGS__)
#define ushort4(...) metal::made<ushort4>::of(__VA_ARGS__)
#define int2(...) metal::made<int2>::of(__VA_ARGS__)
#define int3(...) metal::made<int3>::of(__VA_ARGS__)
#define int4(...) metal::made<int4>::of(__VA_ARGS__)
#define uint2(...) metal::made<uint2>::of(__VA_ARGS__)
#define uint3(...) metal::made<uint3>::of(__VA_ARGS__)
#define uint4(...) metal::made<uint4>::of(__VA_ARGS__)
#define long2(...) metal::made<long2>::of(__VA_ARGS__)
#define long3(...) metal::made<long3>::of(__VA_ARGS__)
#define long4(...) metal::made<long4>::of(__VA_ARGS__)
#define ulong2(...) metal::made<ulong2>::of(__VA_ARGS__)
#define ulong3(...) metal::made<ulong3>::of(__VA_ARGS__)
#define ulong4(...) metal::made<ulong4>::of(__VA_ARGS__)
using namespace metal;

// A thread's place, for the entry that Python writes: no two lanes' alike, so none is a constant.
struct msl_launch {
  uint grid[3], group[3], groups[3];
};
struct msl_thread {
  uint in_grid[3], in_group[3], group[3], group_size[3];
  uint index, lane, simd, lanes, simds;
};
inline uint msl_own(uint x) {
  asm("; own %0" : "+" IN_REGISTER(x));
  return x;
}
inline msl_thread msl_placed(constant const msl_launch& run) {
  msl_thread t;
  for (int d = 0; d < 3; d++) {
    t.in_grid[d] = msl_own(d), t.in_group[d] = msl_own(3 + d), t.group[d] = msl_own(6 + d);
    t.group_size[d] = run.group[d];
  }
  t.index = msl_own(9), t.lane = msl_own(10), t.simd = msl_own(11);
  t.lanes = run.group[0], t.simds = run.group[1];
  return t;
}
#define msl_dispatched() (msl_run.group[0] * msl_run.group[1] * msl_run.group[2])
#define msl_group_threads(t) (t.group_size[0] * t.group_size[1] * t.group_size[2])
#define MSL_ENTRY                                    \
  extern "C" MSL_KERNEL void     \
  msl_entry(constant const msl_launch* launched, constant const ulong* b)
#define MSL_ATTRIBUTES                               \
  constant const msl_launch& msl_run = *launched;    \
  const msl_thread t = msl_placed(msl_run);          \
  (void)t;
#pragma GCC poison double
