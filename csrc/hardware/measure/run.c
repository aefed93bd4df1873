#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "measure.h"

#define LARGE_PAGE ((size_t)2 << 20)

typedef uint64_t kernel(uint64_t a, uint64_t b, uint64_t scratch, uint64_t count);

void *tk_code_pages(size_t bytes) {
  void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return p == MAP_FAILED ? NULL : p;
}

int tk_code_seal(void *pages, size_t bytes) {
  __builtin___clear_cache((char *)pages, (char *)pages + bytes);
  return mprotect(pages, bytes, PROT_READ | PROT_EXEC);
}

void *tk_data_pages(size_t bytes, int large) {
  size_t whole = bytes + LARGE_PAGE;
  char *p = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return NULL;
  char *first = (char *)(((uintptr_t)p + LARGE_PAGE - 1) & ~(uintptr_t)(LARGE_PAGE - 1));
  if (first != p) munmap(p, (size_t)(first - p));
  munmap(first + bytes, (size_t)(p + whole - (first + bytes)));
  madvise(first, bytes, large ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  memset(first, 0, bytes);
  return first;
}

void tk_free_pages(void *pages, size_t bytes) { munmap(pages, bytes); }

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

double tk_clock_step(void) {
  double least = 1e9;
  for (int i = 0; i < 1000; ++i) {
    double a = now(), b = now();
    if (b > a && b - a < least) least = b - a;
  }
  return least;
}

// What a kernel may leave behind that C does not expect.
static void tidy(unsigned mxcsr) {
#if defined(__x86_64__)
  unsigned short control = 0x37f;
  __asm__ volatile("cld\n\temms\n\tldmxcsr %0\n\tfldcw %1" ::"m"(mxcsr), "m"(control));
#else
  (void)mxcsr;
#endif
}

static sigjmp_buf back;
static const int guarded[] = {SIGILL, SIGSEGV, SIGBUS, SIGFPE, SIGTRAP};
#define GUARDED (sizeof guarded / sizeof *guarded)

static void fault(int number) { siglongjmp(back, number); }

int tk_time(const struct tk_call *call, size_t calls, size_t rounds, double *nanoseconds) {
  static char stack[1 << 16];
  stack_t own = {.ss_sp = stack, .ss_size = sizeof stack}, old_stack;
  struct sigaction act, old[GUARDED];
  memset(&act, 0, sizeof act);
  act.sa_handler = fault;
  act.sa_flags = SA_ONSTACK;
  sigaltstack(&own, &old_stack);
  for (size_t i = 0; i < GUARDED; ++i) sigaction(guarded[i], &act, &old[i]);
  int signal = sigsetjmp(back, 1);
  if (signal == 0) {
    tidy(0x9fc0);  // what is too small for a float is 0, and takes no longer
    for (size_t r = 0; r < rounds; ++r) {
      for (size_t i = 0; i < calls; ++i) {
        const struct tk_call *c = &call[i];
        if (c->lead) ((kernel *)(uintptr_t)c->code)(c->a, c->b, c->scratch, c->lead);
        double start = now();
        ((kernel *)(uintptr_t)c->code)(c->a, c->b, c->scratch, c->count);
        nanoseconds[r * calls + i] = now() - start;
      }
    }
  }
  tidy(0x1f80);
  for (size_t i = 0; i < GUARDED; ++i) sigaction(guarded[i], &old[i], NULL);
  sigaltstack(&old_stack, NULL);
  return signal;
}
