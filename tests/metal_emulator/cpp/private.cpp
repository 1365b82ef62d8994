// Private variables used before they are written, found with clang's MemorySanitizer: kernels built
// for it ask here, as Linux's kernel would answer (KMSAN), where the shadow of their bytes lies. A bit
// set there says that the variable's bit is nobody's; origins say of which variable.
#include "runtime.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { NOWHERE = 1 << 20, STATE = 4096, PARAMETERS = 800 };
static const msl_address STACKS = (msl_address)MSL_STACK * MSL_MOST_THREADS;
static unsigned char *shadows, *origins, *states, *zeros;

// A store outside the thread's stack: looked at when the store is done.
static struct {
  unsigned size;
  msl_address pc;
  unsigned char shadow[MSL_SLOT], origin[MSL_SLOT];
} stored;

struct Shadow {
  void* bits;
  unsigned* origin;
};

static unsigned char* room(msl_address size) {
  void* memory = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) abort();
  return (unsigned char*)memory;
}

static bool is_private(msl_address a) { return a - msl_stack_low < msl_stack_high - msl_stack_low; }
static unsigned char* bits_of(msl_address a) { return shadows + (a - msl_stacks); }
static unsigned* origin_of(msl_address a) { return (unsigned*)(origins + (a - msl_stacks & ~(msl_address)3)); }

// variable: where its name is, from the start of the kernel's library.
static void used(unsigned variable, msl_address pc) {
  msl_error.memory = MSL_PRIVATE;
  msl_error.buffer = (int)variable;
  msl_fail(MSL_UNINITIALISED, "uses what nobody wrote", pc);
}

static void look_at(const unsigned char* bits, const unsigned* origin, unsigned size, msl_address pc) {
  for (unsigned i = 0; i < size; i++)
    if (bits[i]) used(origin[i / 4], pc);
}

static void look_at_stored() {
  unsigned size = stored.size;
  stored.size = 0;
  look_at(stored.shadow, (unsigned*)stored.origin, size, stored.pc);
}

void msl_private_begin(unsigned thread) {
  if (!states) {
    shadows = room(STACKS);
    origins = room(STACKS);
    states = room((msl_address)STATE * MSL_MOST_THREADS);
    zeros = room(NOWHERE);
  }
  memset(states + thread * STATE, 0, PARAMETERS);
}

void msl_private_end() { look_at_stored(); }

void msl_private_exchanged(const void* value, unsigned size, const char* file, int line) {
  look_at_stored();
  msl_error.file = file;
  msl_error.line = line;
  look_at(bits_of((msl_address)value), origin_of((msl_address)value), size, 0);
  msl_error.file = 0;
}

static Shadow loaded(const void* p) {
  look_at_stored();
  if (is_private((msl_address)p)) return {bits_of((msl_address)p), origin_of((msl_address)p)};
  return {zeros, (unsigned*)zeros};
}

static Shadow storing(void* p, unsigned size, msl_address pc) {
  look_at_stored();
  if (is_private((msl_address)p)) return {bits_of((msl_address)p), origin_of((msl_address)p)};
  stored.size = size < MSL_SLOT ? size : MSL_SLOT;
  stored.pc = pc;
  return {stored.shadow, (unsigned*)stored.origin};
}

#define PC ((msl_address)__builtin_return_address(0))
#define HOOKS(n)                                                                          \
  extern "C" Shadow __msan_metadata_ptr_for_load_##n(void* p) { return loaded(p); }       \
  extern "C" Shadow __msan_metadata_ptr_for_store_##n(void* p) { return storing(p, n, PC); }
HOOKS(1)
HOOKS(2)
HOOKS(4)
HOOKS(8)
extern "C" Shadow __msan_metadata_ptr_for_load_n(void* p, msl_address) { return loaded(p); }
extern "C" Shadow __msan_metadata_ptr_for_store_n(void* p, msl_address n) { return storing(p, n, PC); }

extern "C" void* __msan_get_context_state() { return states + msl_now->index * STATE; }
extern "C" void __msan_warning(unsigned origin) { used(origin, PC); }
extern "C" unsigned __msan_chain_origin(unsigned origin) { return origin; }

extern "C" void __msan_poison_alloca(void* p, msl_address size, const char* name) {
  memset(bits_of((msl_address)p), 0xff, size);
  unsigned* origin = origin_of((msl_address)p);
  for (msl_address i = 0; i < (size + 3) / 4; i++) origin[i] = (unsigned)((msl_address)name - msl_image());
}
extern "C" void __msan_unpoison_alloca(void* p, msl_address size) {
  memset(bits_of((msl_address)p), 0, size);
}

extern "C" void* __msan_memmove(void* to, const void* from, msl_address size) {
  memmove(to, from, size);
  Shadow mine = storing(to, size, PC);
  if (size > MSL_SLOT && !is_private((msl_address)to)) return to;
  if (!is_private((msl_address)from)) {
    memset(mine.bits, 0, size);
    return to;
  }
  memmove(mine.bits, bits_of((msl_address)from), size);
  memmove(mine.origin, origin_of((msl_address)from), (size + 3) / 4 * 4);
  return to;
}
extern "C" void* __msan_memcpy(void* to, const void* from, msl_address size) {
  return __msan_memmove(to, from, size);
}
extern "C" void* __msan_memset(void* to, int value, msl_address size) {
  memset(to, value, size);
  if (is_private((msl_address)to)) memset(bits_of((msl_address)to), 0, size);
  return to;
}
