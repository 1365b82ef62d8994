// Atomics: threads run one at a time, so a plain read and write will do once the access is recorded.
#pragma once
#include "msl_matrix.h"

namespace metal {
enum memory_order { memory_order_relaxed };
template <typename T> struct atomic { T value; };
typedef atomic<int> atomic_int;
typedef atomic<uint> atomic_uint;
typedef atomic<bool> atomic_bool;
typedef atomic<float> atomic_float;

template <typename T> MSL_QUIET T msl_swap(const atomic<T>* a, T value) {
  T before = a->value;
  const_cast<atomic<T>*>(a)->value = value;
  return before;
}
template <typename T> MSL_QUIET T msl_see(const atomic<T>* a, int write) {
  msl_atomic_access(a, sizeof(T), write);
  return a->value;
}
template <typename T> T atomic_load_explicit(const atomic<T>* a, memory_order) { return msl_see(a, 0); }
template <typename T, typename U> void atomic_store_explicit(atomic<T>* a, U value, memory_order) {
  msl_atomic_access(a, sizeof(T), 2);
  msl_swap(a, (T)value);
}
#define MSL_ATOMIC(name, result)                                                         \
  template <typename T, typename U> T name(atomic<T>* a, U operand, memory_order) {      \
    T before = msl_see(a, 1), value = (T)operand;                                        \
    return msl_swap(a, T(result));                                                       \
  }
MSL_ATOMIC(atomic_exchange_explicit, value)
MSL_ATOMIC(atomic_fetch_add_explicit, before + value)
MSL_ATOMIC(atomic_fetch_sub_explicit, before - value)
MSL_ATOMIC(atomic_fetch_min_explicit, min(before, value))
MSL_ATOMIC(atomic_fetch_max_explicit, max(before, value))
MSL_ATOMIC(atomic_fetch_and_explicit, before & value)
MSL_ATOMIC(atomic_fetch_or_explicit, before | value)
MSL_ATOMIC(atomic_fetch_xor_explicit, before ^ value)
template <typename T, typename U>
bool atomic_compare_exchange_weak_explicit(atomic<T>* a, T* expected, U desired, memory_order,
                                           memory_order) {
  T before = msl_see(a, 1);
  bool same = before == *expected;
  if (same) msl_swap(a, (T)desired); else *expected = before;
  return same;
}
inline void atomic_thread_fence(mem_flags, memory_order) {}
}  // namespace metal
