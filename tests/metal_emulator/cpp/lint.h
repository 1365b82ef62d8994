// Declarations only, with real address spaces: clang checks a kernel against them.
#pragma once
#define device __attribute__((address_space(1)))
#define constant __attribute__((address_space(2)))
#define threadgroup __attribute__((address_space(3)))
#define thread
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
template <typename V> struct made { template <typename... A> static V of(A...); };
template <typename T> struct numeric_limits {
  static constexpr T max(), min(), lowest(), infinity(), epsilon(), quiet_NaN();
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

#define ONE(name) template <typename T> T name(T);
#define ALL_OF_ONE ONE(exp) ONE(exp2) ONE(exp10) ONE(log) ONE(log2) ONE(log10) ONE(sin) ONE(cos) \
  ONE(tan) ONE(sinh) ONE(cosh) ONE(tanh) ONE(asin) ONE(acos) ONE(atan) ONE(asinh) ONE(acosh)     \
  ONE(atanh) ONE(sqrt) ONE(rsqrt) ONE(floor) ONE(ceil) ONE(trunc) ONE(round) ONE(rint) ONE(fabs) \
  ONE(abs) ONE(fract) ONE(sinpi) ONE(cospi)
#define TWO(name) template <typename T> T name(T, T);
#define ALL_OF_TWO TWO(pow) TWO(powr) TWO(atan2) TWO(fmod) TWO(fmin) TWO(fmax) TWO(copysign) \
  TWO(divide) TWO(min) TWO(max)
ALL_OF_ONE ALL_OF_TWO
namespace fast { ALL_OF_ONE ALL_OF_TWO }
namespace precise { ALL_OF_ONE ALL_OF_TWO }
ONE(saturate) ONE(sign) ONE(popcount) ONE(clz) ONE(ctz) ONE(reverse_bits)
TWO(step) TWO(rotate) TWO(mulhi) TWO(absdiff)
template <typename T> T fma(T, T, T);
template <typename T> T mad(T, T, T);
template <typename T> T clamp(T, T, T);
template <typename T> T mix(T, T, T);
template <typename T> T min3(T, T, T);
template <typename T> T max3(T, T, T);
template <typename T, typename C> T select(T, T, C);
template <typename T> T ldexp(T, int);
template <typename T> T extract_bits(T, uint, uint);
template <typename T> bool isnan(T);
template <typename T> bool isinf(T);
template <typename T> bool isfinite(T);
template <typename T> bool any(T);
template <typename T> bool all(T);
#define DOT(N) template <typename T> T dot(vec<T, N>, vec<T, N>); template <typename T> T length(vec<T, N>);
DOT(2) DOT(3) DOT(4)

template <typename T> struct not_across_lanes { static constexpr bool value = false; };
template <> struct not_across_lanes<long> { static constexpr bool value = true; };
template <> struct not_across_lanes<unsigned long> { static constexpr bool value = true; };
#define ACROSS(name, ...)                                                             \
  template <typename T> T name(T __VA_ARGS__) {                                       \
    static_assert(!not_across_lanes<T>::value, "no 64-bit operations across lanes");  \
    return T();                                                                       \
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
struct simd_vote { explicit operator ulong() const; bool any() const; bool all() const; };
simd_vote simd_ballot(bool);
bool simd_any(bool), simd_all(bool), simd_is_first();

enum class mem_flags { mem_none = 0, mem_device = 1, mem_threadgroup = 2, mem_texture = 4 };
constexpr mem_flags operator|(mem_flags a, mem_flags b) { return mem_flags((int)a | (int)b); }
void threadgroup_barrier(mem_flags);
void simdgroup_barrier(mem_flags);

enum memory_order { memory_order_relaxed };
template <typename T> struct atomic { T value; };
typedef atomic<int> atomic_int;
typedef atomic<uint> atomic_uint;
typedef atomic<float> atomic_float;
typedef atomic<bool> atomic_bool;
#define ATOMIC(name)                                                                       \
  template <typename T, typename U> T name(volatile device atomic<T>*, U, memory_order);   \
  template <typename T, typename U> T name(volatile threadgroup atomic<T>*, U, memory_order);
ATOMIC(atomic_exchange_explicit) ATOMIC(atomic_store_explicit) ATOMIC(atomic_fetch_add_explicit)
ATOMIC(atomic_fetch_sub_explicit) ATOMIC(atomic_fetch_min_explicit) ATOMIC(atomic_fetch_max_explicit)
ATOMIC(atomic_fetch_and_explicit) ATOMIC(atomic_fetch_or_explicit) ATOMIC(atomic_fetch_xor_explicit)
template <typename T> T atomic_load_explicit(const volatile device atomic<T>*, memory_order);
template <typename T> T atomic_load_explicit(const volatile threadgroup atomic<T>*, memory_order);
#define EXCHANGE(space) template <typename T, typename U> bool atomic_compare_exchange_weak_explicit( \
  volatile space atomic<T>*, T*, U, memory_order, memory_order);
EXCHANGE(device) EXCHANGE(threadgroup)

typedef unsigned long ulong2_ __attribute__((ext_vector_type(2)));
template <typename T, int R, int C> struct simdgroup_matrix {
  simdgroup_matrix() = default;
  explicit simdgroup_matrix(T);
  vec<T, 2>& thread_elements();
};
typedef simdgroup_matrix<float, 8, 8> simdgroup_float8x8;
typedef simdgroup_matrix<half, 8, 8> simdgroup_half8x8;
typedef simdgroup_matrix<bfloat, 8, 8> simdgroup_bfloat8x8;
template <typename T, int R, int C> simdgroup_matrix<T, R, C> make_filled_simdgroup_matrix(T);
#define MATRIX_MEMORY(space)                                                                     \
  template <typename T> void simdgroup_load(simdgroup_matrix<T, 8, 8>&, const space T*,          \
                                            ulong = 8, ulong2_ = 0, bool = false);               \
  template <typename T> void simdgroup_store(const simdgroup_matrix<T, 8, 8>&, space T*,         \
                                             ulong = 8, ulong2_ = 0, bool = false);
MATRIX_MEMORY(device) MATRIX_MEMORY(threadgroup)
template <typename D, typename A, typename B, typename S>
void simdgroup_multiply_accumulate(simdgroup_matrix<D, 8, 8>&, const simdgroup_matrix<A, 8, 8>&,
                                   const simdgroup_matrix<B, 8, 8>&, const simdgroup_matrix<S, 8, 8>&);
template <typename D, typename A, typename B>
void simdgroup_multiply(simdgroup_matrix<D, 8, 8>&, const simdgroup_matrix<A, 8, 8>&,
                        const simdgroup_matrix<B, 8, 8>&);
}  // namespace metal

template <typename To, typename From> To as_type(From) {
  static_assert(sizeof(To) == sizeof(From), "as_type needs types of one size");
  return To();
}
constexpr half operator""h(long double);
template <typename U> struct Limits { static constexpr U max{}, min{}, finite_max{}, finite_min{}; };
float log1p(float);
template <typename T, typename U> T ceildiv(T, U);
template <typename IdxT = int64_t>
IdxT elem_to_loc(IdxT, constant const int*, constant const int64_t*, int);

#define VECTORS(T) typedef metal::vec<T, 2> T##2; typedef metal::vec<T, 3> T##3; typedef metal::vec<T, 4> T##4;
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
#pragma GCC poison double
