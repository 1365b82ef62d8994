// Runs every thread of a grid as a fiber: SIMD-groups, barriers, divergence, time limit.
#include "runtime.h"
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <ucontext.h>

enum State { READY, AT_SIMD, AT_BARRIER, DONE };

struct Fiber {
  void* stack_pointer;
  State state;
  int flags, line;
  const char *op, *file;
  msl_thread self;
};

extern "C" {
msl_thread* msl_now;
msl_launch msl_run;
msl_counts msl_count;
}
msl_fault msl_error;
unsigned msl_epoch[2], msl_turn, msl_simd_epoch[MSL_LANES][2];
msl_address msl_stacks, msl_stack_low, msl_stack_high;

static Fiber fibers[MSL_MOST_THREADS];
static msl_meeting meetings[MSL_LANES][2];  // of each SIMD-group in turns
static int parity[MSL_LANES];
static unsigned alive, order[MSL_LANES], random_state;
static Fiber* group;  // the SIMD-group that runs, its lanes, and how far its turn has come in `order`
static unsigned group_lanes, turn;
static void* scheduler_pointer;
static Fiber* volatile running;
static volatile int timed_out;
static pthread_t owner;
typedef void (*Entry)(void**);
static Entry entry;
static void** arguments;

extern "C" void msl_switch(void** save, void* load);
#ifdef __APPLE__
#define SYMBOL "_msl_switch"
#else
#define SYMBOL "msl_switch"
#endif
#if defined(__x86_64__)
asm(".text\n.globl " SYMBOL "\n" SYMBOL ":\n"
    "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
    "movq %rsp,(%rdi)\nmovq %rsi,%rsp\n"
    "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n");
enum { SAVED = 8, RETURN_SLOT = 6 };  // six registers, the return address, one of padding
#elif defined(__aarch64__)
asm(".text\n.globl " SYMBOL "\n.p2align 2\n" SYMBOL ":\n"
    "sub sp,sp,#160\nstp x19,x20,[sp]\nstp x21,x22,[sp,#16]\nstp x23,x24,[sp,#32]\n"
    "stp x25,x26,[sp,#48]\nstp x27,x28,[sp,#64]\nstp x29,x30,[sp,#80]\n"
    "stp d8,d9,[sp,#96]\nstp d10,d11,[sp,#112]\nstp d12,d13,[sp,#128]\nstp d14,d15,[sp,#144]\n"
    "mov x9,sp\nstr x9,[x0]\nmov sp,x1\n"
    "ldp x19,x20,[sp]\nldp x21,x22,[sp,#16]\nldp x23,x24,[sp,#32]\nldp x25,x26,[sp,#48]\n"
    "ldp x27,x28,[sp,#64]\nldp x29,x30,[sp,#80]\nldp d8,d9,[sp,#96]\nldp d10,d11,[sp,#112]\n"
    "ldp d12,d13,[sp,#128]\nldp d14,d15,[sp,#144]\nadd sp,sp,#160\nret\n");
enum { SAVED = 20, RETURN_SLOT = 11 };
#else
#error "no fiber switch for this processor"
#endif

static void leave() {
  Fiber* me = running;
  running = 0;
  msl_switch(&me->stack_pointer, scheduler_pointer);
}

static Fiber* next_lane() {
  while (turn < MSL_LANES) {
    unsigned lane = order[turn++];
    if (lane < group_lanes && group[lane].state == READY) return group + lane;
  }
  return 0;
}

static void enter(Fiber* fiber) {
  msl_now = &fiber->self;
  msl_stack_low = msl_stacks + (fiber - fibers) * (msl_address)MSL_STACK;
  msl_stack_high = msl_stack_low + MSL_STACK;
  running = fiber;
  msl_turn++;
}

// To the next lane of the SIMD-group; the last goes back to the scheduler.
static void pass_on() {
  Fiber *me = running, *next = next_lane();
  if (!next) return leave();
  enter(next);
  msl_switch(&me->stack_pointer, next->stack_pointer);
}

static void body() {
  entry(arguments);
  msl_checks_flush();
  if (msl_run.watched) msl_private_end();
  running->state = DONE;
  pass_on();
  abort();
}

void msl_fail(int kind, const char* what, msl_address pc) {
  msl_error.kind = kind;
  msl_error.what = what;
  msl_error.pc = pc;
  msl_error.thread = *msl_now;
  leave();
  abort();
}

static void wait_as(State state, int flags, const char* op, const char* file, int line) {
  msl_checks_flush();
  Fiber* me = running;
  me->state = state;
  me->flags = flags;
  me->op = op;
  me->file = file;
  me->line = line;
  pass_on();
}

extern "C" msl_meeting* msl_exchange(
    const void* value, unsigned size, const char* op, const char* file, int line) {
  if (msl_run.watched) msl_private_exchanged(value, size, file, line);
  unsigned simd = msl_now->simd;
  msl_meeting* mine = &meetings[simd][parity[simd]];
  memcpy(mine->of + msl_now->lane * size, value, size);
  mine->joined = false;
  wait_as(AT_SIMD, 0, op, file, line);
  return mine;
}

extern "C" void msl_simd_barrier(int flags, const char* file, int line) {
  wait_as(AT_SIMD, flags, "simdgroup_barrier", file, line);
}

extern "C" void msl_barrier(int flags, const char* file, int line) {
  wait_as(AT_BARRIER, flags, "threadgroup_barrier", file, line);
}

static void on_alarm(int number, siginfo_t*, void* context) {
  if (!pthread_equal(pthread_self(), owner)) {
    pthread_kill(owner, number);
    return;
  }
  timed_out = 1;
  msl_address here = (msl_address)&number;
  if (!running || here - msl_stack_low >= MSL_STACK) return;  // not in a thread: the next alarm is
  msl_address pc = 0;
#if defined(__linux__) && defined(__x86_64__)
  pc = ((ucontext_t*)context)->uc_mcontext.gregs[REG_RIP];
#elif defined(__linux__) && defined(__aarch64__)
  pc = ((ucontext_t*)context)->uc_mcontext.pc;
#else
  (void)context;
#endif
  msl_fail(MSL_ENDLESS, "still running at the time limit", pc);
}

// Each lane that is ready in turn, until it waits.
static void run_lanes() {
  turn = 0;
  Fiber* first = next_lane();
  if (!first) return;
  enter(first);
  msl_switch(&scheduler_pointer, first->stack_pointer);
  running = 0;
  if (timed_out && !msl_error.kind) {
    msl_error.kind = MSL_ENDLESS;
    msl_error.thread = *msl_now;
    msl_error.what = "still running at the time limit";
  }
}

static bool same(const char* a, const char* b) { return a == b || !strcmp(a, b); }

static bool same_place(const Fiber& a, const Fiber& b) {
  return a.state == b.state && a.line == b.line && same(a.op, b.op) && same(a.file, b.file);
}

static bool diverged(const char* what, const Fiber& fiber) {
  msl_error.kind = MSL_DIVERGENCE;
  msl_error.what = what;
  msl_error.thread = fiber.self;
  return false;
}

// Runs one SIMD-group until its lanes are done or at a barrier. False: a fault.
static bool run_simd_group(unsigned simd, unsigned first, unsigned lanes) {
  group = fibers + first;
  group_lanes = lanes;
  for (;;) {
    run_lanes();
    if (msl_error.kind) return false;
    unsigned waiting = 0;
    Fiber* one = 0;
    for (unsigned i = first; i < first + lanes; i++)
      if (fibers[i].state == AT_SIMD) one = &fibers[i], waiting++;
    if (!waiting) return true;
    for (unsigned i = first; i < first + lanes; i++)
      if (!same_place(*one, fibers[i])) return diverged(one->op, *one);
    for (unsigned k = 0; k < 2; k++)
      if (one->flags >> k & 1) msl_simd_epoch[simd][k]++;
    parity[simd] ^= 1;
    msl_count.simd_ops++;
    for (unsigned i = first; i < first + lanes; i++) fibers[i].state = READY;
  }
}

static bool run_group() {
  unsigned simds = (alive + MSL_LANES - 1) / MSL_LANES;
  for (;;) {
    for (unsigned s = 0; s < simds; s++) {
      unsigned simd = msl_run.seed ? (s + random_state % simds) % simds : s;
      unsigned first = simd * MSL_LANES;
      if (!run_simd_group(simd, first, alive - first < MSL_LANES ? alive - first : MSL_LANES))
        return false;
    }
    unsigned done = 0;
    Fiber* one = 0;
    for (unsigned i = 0; i < alive; i++)
      if (fibers[i].state == DONE) done++; else one = &fibers[i];
    if (done == alive) return true;
    for (unsigned i = 0; i < alive; i++)
      if (!same_place(*one, fibers[i])) return diverged(one->op, *one);
    for (unsigned k = 0; k < 2; k++)
      if (one->flags >> k & 1) msl_epoch[k]++;
    msl_count.barriers++;
    for (unsigned i = 0; i < alive; i++) fibers[i].state = READY;
  }
}

// The order of lanes within any SIMD-group: a permutation of 0..31, new for each threadgroup.
static void choose_order() {
  for (unsigned i = 0; i < MSL_LANES; i++) order[i] = i;
  if (!msl_run.seed) return;
  for (unsigned i = MSL_LANES - 1; i > 0; i--) {
    random_state = random_state * 1664525u + 1013904223u;
    unsigned j = (random_state >> 8) % (i + 1), kept = order[i];
    order[i] = order[j];
    order[j] = kept;
  }
}
