// What kernels, the scheduler and the memory checks share. No C++ standard library anywhere.
#pragma once

typedef __UINTPTR_TYPE__ msl_address;
typedef unsigned long long msl_u64;

enum msl_kind {
  MSL_NONE, MSL_DIVERGENCE, MSL_BOUNDS, MSL_RACE, MSL_UNINITIALISED, MSL_UNWRITTEN, MSL_LIMIT,
  MSL_ENDLESS, MSL_READ_ONLY, MSL_ALIGNMENT
};
enum msl_memory { MSL_DEVICE = 0, MSL_THREADGROUP = 1, MSL_PRIVATE = 2 };
const unsigned MSL_LANES = 32, MSL_MOST_THREADS = 1024, MSL_SLOT = 64, MSL_STACK = 256 * 1024;

// One thread of the grid; the attributes a kernel may ask for.
struct msl_thread {
  unsigned in_grid[3], in_group[3], group[3], group_size[3];
  unsigned index, lane, simd, lanes, simds, global;
};

// One launch, filled by Python. seconds 0: no limit. seed 0: threads in ascending order.
struct msl_launch {
  unsigned grid[3], group[3], groups[3];
  unsigned seed;
  int checked, watched;  // watched: its private variables
  double seconds;
};

// Where the lanes of a SIMD-group lay down what they bring to an operation, one after another. The
// first that goes on may leave in `joint` what is the same for all.
struct msl_meeting {
  alignas(MSL_SLOT) unsigned char of[MSL_LANES * MSL_SLOT], joint[MSL_SLOT];
  bool joined;
};

// One buffer; the counters are of a whole launch.
struct msl_buffer {
  unsigned char* data;
  msl_u64 size;
  int writable, initialised;
  msl_u64 loads, stores, bytes_loaded, bytes_stored;
  msl_u64 lines_loaded, lines_stored, unique_lines;
  msl_u64 together;  // most bytes a thread loads before it meets another
};

struct msl_counts {
  msl_u64 simd_ops, barriers, threads, threadgroup_bytes, group_loads, group_stores;
  msl_u64 arithmetic[3][8];  // float, half, bfloat; see msl_scalar.h for the kinds
};

// The first fault of a launch. place: "lane at op" faults carry file and line themselves.
struct msl_fault {
  int kind, write, memory, buffer;  // buffer: index, -1 none; of a private variable: see used()
  msl_u64 offset, size;
  msl_thread thread, other;
  int has_other;
  msl_address pc, other_pc;
  const char* what;
  const char* file;  // and line: known without the address of the code
  int line;
};

extern "C" {
extern msl_thread* msl_now;
extern msl_launch msl_run;
extern msl_counts msl_count;

msl_meeting* msl_exchange(
    const void* value, unsigned size, const char* op, const char* file, int line);
void msl_barrier(int flags, const char* file, int line);
void msl_simd_barrier(int flags, const char* file, int line);
void* msl_threadgroup_array(int id, const char* name, unsigned size);
void msl_atomic_access(const void* address, unsigned size, int write);
msl_u64 msl_image();
}

// Between the scheduler and the checks.
extern msl_fault msl_error;
extern unsigned msl_epoch[2], msl_turn;  // msl_turn: threads resumed so far
extern unsigned msl_simd_epoch[MSL_LANES][2];
extern msl_address msl_stacks, msl_stack_low, msl_stack_high;  // of all threads; of the one that runs
[[noreturn]] void msl_fail(int kind, const char* what, msl_address pc);
void msl_checks_begin_group();
void msl_checks_flush();
bool msl_checks_end_group();
int msl_checks_end();
msl_thread msl_thread_of(unsigned global);
void msl_private_begin(unsigned thread);
void msl_private_end();
void msl_private_exchanged(const void* value, unsigned size, const char* file, int line);
