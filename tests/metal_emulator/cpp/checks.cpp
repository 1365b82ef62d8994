// Memory checks and traffic counts, fed by the compiler's own instrumentation of every access.
#include "runtime.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

// Who last wrote and read one byte. Threads are global numbers plus one; 0 is nobody.
struct Touch {
  unsigned thread, epoch, simd_epoch, place;  // place: of the code, from the start of its library
};
struct Cell {
  Touch write, read, read_elsewhere;
  bool atomic;
};
struct Buffer {
  msl_buffer shown;
  Cell* cells;
  unsigned *loaded_by, *stored_by;  // one stamp for each line: threadgroup number plus one
  unsigned turn;  // in which `since` bytes were loaded
  msl_u64 since;
};
struct GroupArray {
  const char* name;
  unsigned start, size;
};

enum { MOST_BUFFERS = 64, MOST_ARRAYS = 64, RED_ZONE = 256, SHIFT = 16, LINE_SHIFT = 6 };
enum { GROUP_LIMIT = 32768, GROUP_ARENA = 1 << 17 };
static const msl_address ARENA = (msl_address)1 << 33;
static unsigned char *arena, *page_of;
static msl_address arena_used;
static Buffer buffers[MOST_BUFFERS];
static unsigned buffer_count;
static GroupArray arrays[MOST_ARRAYS];
static unsigned array_end, most_of_group, group_bytes;  // most_of_group: of a launch, as array_end
static unsigned char array_at[GROUP_ARENA];
static Cell group_cells[GROUP_ARENA];
static unsigned current_group;
static msl_address known_page, kernel_image;
static msl_fault suspect;

static struct {
  bool set;
  const unsigned char* address;
  unsigned size;
  Touch other;
  msl_address pc;
  int memory, buffer;
  msl_address offset;
  unsigned char before[MSL_SLOT];
} pending;

#define PC ((msl_address)__builtin_return_address(0))

static void fail_at(int kind, const char* what, bool write, int memory, int buffer,
                    msl_address offset, unsigned size, msl_address pc) {
  msl_error.write = write;
  msl_error.memory = memory;
  msl_error.buffer = buffer;
  msl_error.offset = offset;
  msl_error.size = size;
  msl_fail(kind, what, pc);
}

static bool ordered(const Touch& touch, int memory) {
  unsigned thread = touch.thread - 1, mine = msl_now->global;
  if (!touch.thread || thread == mine) return true;
  if (thread / MSL_MOST_THREADS != mine / MSL_MOST_THREADS) return false;
  if (touch.epoch != msl_epoch[memory]) return true;
  return thread / MSL_LANES == mine / MSL_LANES &&
      touch.simd_epoch != msl_simd_epoch[msl_now->simd][memory];
}

static Touch now(int memory, msl_address pc) {
  return {msl_now->global + 1, msl_epoch[memory], msl_simd_epoch[msl_now->simd][memory],
          (unsigned)(pc - kernel_image)};
}

static void race(const Touch& other, const char* what, bool write, int memory, int buffer,
                 msl_address offset, unsigned size, msl_address pc) {
  msl_error.has_other = 1;
  msl_error.other_pc = kernel_image + other.place;
  msl_error.other = msl_thread_of(other.thread - 1);
  fail_at(MSL_RACE, what, write, memory, buffer, offset, size, pc);
}

// A store over another thread's store is a race only if it changes the value: looked at afterwards.
void msl_checks_flush() {
  if (!pending.set) return;
  pending.set = false;
  if (!memcmp(pending.before, pending.address, pending.size)) return;
  race(pending.other, "writes another value than", true, pending.memory, pending.buffer, pending.offset,
       pending.size, pending.pc);
}

// A read of what nobody wrote is a race if another thread writes it later without a barrier, so it
// is reported when its threadgroup ends without one.
static void suspect_read(int memory, int buffer, msl_address offset, unsigned size, msl_address pc) {
  if (suspect.kind) return;
  suspect = {};
  suspect.kind = MSL_UNINITIALISED;
  suspect.what = "reads what nobody wrote";
  suspect.memory = memory;
  suspect.buffer = buffer;
  suspect.offset = offset;
  suspect.size = size;
  suspect.pc = pc;
  suspect.thread = *msl_now;
}

bool msl_checks_end_group() {
  if (!suspect.kind) return true;
  msl_error = suspect;
  return false;
}

static void touch_read(Cell* cell, int memory, int buffer, msl_address offset, unsigned size,
                       bool initialised, bool atomic, msl_address pc) {
  unsigned group = msl_now->global / MSL_MOST_THREADS;
  for (unsigned i = 0; i < size; i++, cell++) {
    const Touch& w = cell->write;
    bool stale = memory == MSL_THREADGROUP && (w.thread - 1) / MSL_MOST_THREADS != group;
    if (!w.thread || stale) {
      if (!initialised) suspect_read(memory, buffer, offset + i, size, pc);
    } else if (!(atomic && cell->atomic) && !ordered(w, memory)) {
      race(w, "reads what this one wrote", false, memory, buffer, offset + i, size, pc);
    }
    if (atomic) continue;
    bool replace = ordered(cell->read, memory) ||
        (cell->read.thread - 1) / MSL_MOST_THREADS != group;
    (replace ? cell->read : cell->read_elsewhere) = now(memory, pc);
  }
}

static void touch_write(Cell* cell, int memory, int buffer, msl_address offset, unsigned size,
                        const void* address, bool atomic, msl_address pc) {
  unsigned group = msl_now->global / MSL_MOST_THREADS;
  for (unsigned i = 0; i < size; i++, cell++) {
    const Touch* reads[2] = {&cell->read, &cell->read_elsewhere};
    for (const Touch* r : reads) {
      bool stale = memory == MSL_THREADGROUP && (r->thread - 1) / MSL_MOST_THREADS != group;
      if (!stale && !ordered(*r, memory))
        race(*r, "overwrites what this one reads", true, memory, buffer, offset + i, size, pc);
    }
    const Touch& w = cell->write;
    bool stale = memory == MSL_THREADGROUP && (w.thread - 1) / MSL_MOST_THREADS != group;
    if (!stale && !(atomic && cell->atomic) && !ordered(w, memory) && !pending.set) {
      pending = {true, (const unsigned char*)address, size < MSL_SLOT ? size : MSL_SLOT,
                 w, pc, memory, buffer, offset, {}};
      memcpy(pending.before, address, pending.size);
    }
    cell->write = now(memory, pc);
    cell->atomic = atomic;
  }
}

static void count_line(unsigned* stamp, msl_u64& lines, const unsigned* other, msl_u64& unique) {
  if (!*stamp && !*other) unique++;
  if (*stamp == current_group) return;
  *stamp = current_group;
  lines++;
}

static void device_access(msl_address a, unsigned size, bool write, bool atomic, bool reads,
                          msl_address pc) {
  int index = page_of[(a - (msl_address)arena) >> SHIFT];
  Buffer& b = buffers[index];
  msl_address offset = a - (msl_address)b.shown.data;
  if (offset + size > b.shown.size || a < (msl_address)b.shown.data)
    fail_at(MSL_BOUNDS, "out of bounds", write, MSL_DEVICE, index, offset, size, pc);
  if (write && !b.shown.writable)
    fail_at(MSL_READ_ONLY, "writes to an input", write, MSL_DEVICE, index, offset, size, pc);
  (write ? b.shown.stores : b.shown.loads)++;
  (write ? b.shown.bytes_stored : b.shown.bytes_loaded) += size;
  for (msl_address l = offset >> LINE_SHIFT; l <= (offset + size - 1) >> LINE_SHIFT; l++)
    if (write)
      count_line(&b.stored_by[l], b.shown.lines_stored, &b.loaded_by[l], b.shown.unique_lines);
    else
      count_line(&b.loaded_by[l], b.shown.lines_loaded, &b.stored_by[l], b.shown.unique_lines);
  if (!write) {
    b.since = size + (b.turn == msl_turn ? b.since : 0);
    b.turn = msl_turn;
    if (b.since > b.shown.together) b.shown.together = b.since;
  }
  if (!b.cells) return;
  Cell* cell = b.cells + offset;
  if (!write || reads)
    touch_read(cell, MSL_DEVICE, index, offset, size, b.shown.initialised, atomic, pc);
  if (write) touch_write(cell, MSL_DEVICE, index, offset, size, (void*)a, atomic, pc);
}

static int nearest_array(msl_address offset) {
  int best = -1;
  msl_address least = ~(msl_address)0;
  for (int i = 0; i < MOST_ARRAYS; i++) {
    if (!arrays[i].name) continue;
    msl_address end = arrays[i].start + arrays[i].size;
    msl_address gap = offset < arrays[i].start ? arrays[i].start - offset : offset - end;
    if (gap < least) least = gap, best = i;
  }
  return best;
}

static void group_access(msl_address a, unsigned size, bool write, bool atomic, bool reads,
                         msl_address pc) {
  msl_address offset = a - (msl_address)arena;
  unsigned char id = array_at[offset];
  if (!id || array_at[offset + size - 1] != id) {
    int near = id ? id - 1 : nearest_array(offset);
    fail_at(MSL_BOUNDS, "out of bounds", write, MSL_THREADGROUP, near,
            near < 0 ? offset : offset - arrays[near].start, size, pc);
  }
  msl_address inside = offset - arrays[id - 1].start;
  (write ? msl_count.group_stores : msl_count.group_loads)++;
  Cell* cell = group_cells + offset;
  if (!write || reads)
    touch_read(cell, MSL_THREADGROUP, id - 1, inside, size, false, atomic, pc);
  if (write) touch_write(cell, MSL_THREADGROUP, id - 1, inside, size, (void*)a, atomic, pc);
}

// Tables the kernel declares at program scope lie in its own library.
static bool is_constant(msl_address a) {
  if (a >> 12 == known_page) return true;
  Dl_info info;
  if (!dladdr((void*)a, &info) || (msl_address)info.dli_fbase != kernel_image) return false;
  known_page = a >> 12;
  return true;
}

static inline __attribute__((always_inline)) void access(
    msl_address a, unsigned size, bool write, msl_address pc, bool atomic = false, bool reads = false) {
  if (a - msl_stack_low < msl_stack_high - msl_stack_low) return;
  if (pending.set) msl_checks_flush();
  if (a - (msl_address)arena < GROUP_ARENA - 64) 
    return group_access(a, size, write, atomic, reads, pc);
  if (a - (msl_address)arena < arena_used)
    return device_access(a, size, write, atomic, reads, pc);
  if (!write && is_constant(a)) return;
  fail_at(MSL_BOUNDS, "outside all buffers", write, MSL_DEVICE, -1, a, size, pc);
}

extern "C" void msl_atomic_access(const void* address, unsigned size, int write) {
  // write 0: load, 1: load and store, 2: store
  if (!msl_run.checked) return;
  access((msl_address)address, size, write != 0, PC, true, write == 1);
}

#include "checks_setup.inc"
