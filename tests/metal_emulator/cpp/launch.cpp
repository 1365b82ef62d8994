// One launch: the fibers of each threadgroup set up in turn, and what Python calls.
#include "scheduler.cpp"

static void set_up_thread(unsigned i, const unsigned group[3], const unsigned size[3], unsigned g) {
  Fiber& fiber = fibers[i];
  msl_thread& self = fiber.self;
  unsigned place[3] = {i % size[0], i / size[0] % size[1], i / (size[0] * size[1])};
  for (int d = 0; d < 3; d++) {
    self.group[d] = group[d];
    self.group_size[d] = size[d];
    self.in_group[d] = place[d];
    self.in_grid[d] = group[d] * msl_run.group[d] + place[d];
  }
  self.index = i;
  self.lane = i % MSL_LANES;
  self.simd = i / MSL_LANES;
  self.simds = (alive + MSL_LANES - 1) / MSL_LANES;
  unsigned rest = alive - self.simd * MSL_LANES;
  self.lanes = rest < MSL_LANES ? rest : MSL_LANES;
  self.global = g * MSL_MOST_THREADS + i;
  // not all at the same place of a page, for which a cache has few lines
  msl_address end = msl_stacks + (i + 1) * (msl_address)MSL_STACK - self.lane * 17 * 64;
  void** top = (void**)end - SAVED;
  memset(top, 0, SAVED * sizeof(void*));
  top[RETURN_SLOT] = (void*)body;
  fiber.stack_pointer = top;
  fiber.state = READY;
  fiber.op = fiber.file = "";
  fiber.line = 0;
  if (msl_run.watched) msl_private_begin(i);
}

static bool run_threadgroup(unsigned g) {
  const unsigned* groups = msl_run.groups;
  unsigned group[3] = {g % groups[0], g / groups[0] % groups[1], g / (groups[0] * groups[1])};
  unsigned size[3];
  for (int d = 0; d < 3; d++) {
    unsigned left = msl_run.grid[d] - group[d] * msl_run.group[d];
    size[d] = left < msl_run.group[d] ? left : msl_run.group[d];
  }
  alive = size[0] * size[1] * size[2];
  msl_count.threads += alive;
  for (unsigned i = 0; i < alive; i++) set_up_thread(i, group, size, g);
  msl_epoch[0]++;
  msl_epoch[1]++;
  choose_order();
  msl_checks_begin_group();
  return run_group() && msl_checks_end_group();
}

static void set_alarm(double seconds) {
  itimerval value = {};
  value.it_value.tv_sec = (long)seconds;
  value.it_value.tv_usec = (long)((seconds - (long)seconds) * 1e6);
  value.it_interval.tv_usec = seconds > 0 ? 20000 : 0;
  setitimer(ITIMER_REAL, &value, 0);
}

// Runs all threadgroups one after the other. Returns the kind of the first fault, 0 for none.
extern "C" int msl_go(Entry kernel, void** buffers, const msl_launch* launch) {
  if (!msl_stacks)
    msl_stacks = (msl_address)mmap(0, (msl_address)MSL_STACK * MSL_MOST_THREADS, PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | MAP_ANON | MAP_NORESERVE, -1, 0);
  if (msl_stacks == (msl_address)MAP_FAILED) abort();
  msl_run = *launch;
  entry = kernel;
  arguments = buffers;
  memset(&msl_count, 0, sizeof msl_count);
  memset(&msl_error, 0, sizeof msl_error);
  msl_error.buffer = -1;
  timed_out = 0;
  owner = pthread_self();
  random_state = launch->seed;
  struct sigaction mine = {}, before;
  mine.sa_sigaction = on_alarm;
  mine.sa_flags = SA_SIGINFO | SA_NODEFER | SA_RESTART;
  sigaction(SIGALRM, &mine, &before);
  set_alarm(launch->seconds);
  unsigned count = launch->groups[0] * launch->groups[1] * launch->groups[2];
  for (unsigned g = 0; g < count && run_threadgroup(g); g++) {}
  set_alarm(0);
  sigaction(SIGALRM, &before, 0);
  return msl_error.kind ? msl_error.kind : msl_checks_end();
}

msl_thread msl_thread_of(unsigned global) {
  msl_thread thread = {};
  unsigned g = global / MSL_MOST_THREADS, i = global % MSL_MOST_THREADS;
  const unsigned* groups = msl_run.groups;
  unsigned group[3] = {g % groups[0], g / groups[0] % groups[1], g / (groups[0] * groups[1])};
  unsigned size[3];
  for (int d = 0; d < 3; d++) {
    unsigned left = msl_run.grid[d] - group[d] * msl_run.group[d];
    size[d] = left < msl_run.group[d] ? left : msl_run.group[d];
    thread.group[d] = group[d];
  }
  thread.in_group[0] = i % size[0];
  thread.in_group[1] = i / size[0] % size[1];
  thread.in_group[2] = i / (size[0] * size[1]);
  for (int d = 0; d < 3; d++)
    thread.in_grid[d] = group[d] * msl_run.group[d] + thread.in_group[d];
  thread.lane = i % MSL_LANES;
  thread.simd = i / MSL_LANES;
  return thread;
}

extern "C" const msl_fault* msl_last_fault() { return &msl_error; }
extern "C" const msl_counts* msl_last_counts() { return &msl_count; }
extern "C" unsigned msl_threads_alive() { return alive; }

// Where thread i of the last threadgroup stood: 0 runs, 1 SIMD operation, 2 barrier, 3 returned.
extern "C" int msl_stood(unsigned i, const char** op, const char** file, int* line) {
  *op = fibers[i].op;
  *file = fibers[i].file;
  *line = fibers[i].line;
  return fibers[i].state;
}
