// A machine with a stack, run in three ways: by a switch, by jumps, by calls.
#include "kernels.h"

enum op { PUSH, ADD, SUB, MUL, DUP, SWAP, JNZ, LOAD, STORE, XOR, SHIFT, LESS, END, OPS };
static int code[4096];
static int64_t memory[256], stack[256];

static void program(void) {  // loops over a few hundred random but balanced operations
  int n = 0;
  code[n++] = PUSH, code[n++] = 1000;
  code[n++] = STORE, code[n++] = 0;
  const int start = n;
  for (int i = 0; i < 200; ++i) {
    code[n++] = LOAD, code[n++] = (int)(random64() % 16) + 1;
    code[n++] = LOAD, code[n++] = (int)(random64() % 16) + 1;
    static const enum op binary[] = {ADD, SUB, MUL, XOR, LESS, ADD};
    code[n++] = (int)binary[random64() % 6];
    if (random64() & 1) code[n++] = DUP, code[n++] = XOR, code[n++] = PUSH, code[n++] = 5, code[n++] = ADD;
    if (random64() & 1) code[n++] = PUSH, code[n++] = i, code[n++] = SWAP, code[n++] = SUB;
    if (random64() & 1) code[n++] = SHIFT;
    code[n++] = STORE, code[n++] = (int)(random64() % 16) + 1;
  }
  code[n++] = LOAD, code[n++] = 0, code[n++] = PUSH, code[n++] = 1, code[n++] = SUB;
  code[n++] = DUP, code[n++] = STORE, code[n++] = 0;
  code[n++] = JNZ, code[n++] = start;
  code[n++] = END;
}

static uint64_t by_switch(long rounds, long n) {
  program();
  for (long r = 0; r < rounds * n; ++r) {
    const int* p = code;
    int64_t* s = stack;
    for (int running = 1; running;) switch (*p++) {
        case PUSH: *s++ = *p++; break;
        case ADD: --s, s[-1] += s[0]; break;
        case SUB: --s, s[-1] -= s[0]; break;
        case MUL: --s, s[-1] *= s[0]; break;
        case XOR: --s, s[-1] ^= s[0]; break;
        case LESS: --s, s[-1] = s[-1] < s[0]; break;
        case SHIFT: s[-1] >>= 1; break;
        case DUP: *s = s[-1], ++s; break;
        case SWAP: { const int64_t t = s[-1]; s[-1] = s[-2], s[-2] = t; break; }
        case LOAD: *s++ = memory[*p++]; break;
        case STORE: memory[*p++] = *--s; break;
        case JNZ: p = *--s ? code + *p : p + 1; break;
        default: running = 0;
      }
  }
  return (uint64_t)memory[3];
}

static uint64_t by_jumps(long rounds, long n) {
  program();
  static const void* const labels[OPS] = {&&push, &&add,  &&sub,   &&mul, &&dup,   &&swap, &&jnz,
                                          &&load, &&store, &&xor_, &&shift, &&less, &&end};
#define NEXT goto* labels[*p++]
  for (long r = 0; r < rounds * n; ++r) {
    const int* p = code;
    int64_t* s = stack;
    NEXT;
  push: *s++ = *p++; NEXT;
  add: --s, s[-1] += s[0]; NEXT;
  sub: --s, s[-1] -= s[0]; NEXT;
  mul: --s, s[-1] *= s[0]; NEXT;
  xor_: --s, s[-1] ^= s[0]; NEXT;
  less: --s, s[-1] = s[-1] < s[0]; NEXT;
  shift: s[-1] >>= 1; NEXT;
  dup: *s = s[-1], ++s; NEXT;
  swap: { const int64_t t = s[-1]; s[-1] = s[-2], s[-2] = t; } NEXT;
  load: *s++ = memory[*p++]; NEXT;
  store: memory[*p++] = *--s; NEXT;
  jnz: p = *--s ? code + *p : p + 1; NEXT;
  end:;
  }
  return (uint64_t)memory[3];
}

struct state {
  const int* p;
  int64_t* s;
  int running;
};
typedef void (*action)(struct state*);
#define ACTION(name, body) \
  static void do_##name(struct state* m) { body; }
ACTION(push, *m->s++ = *m->p++)
ACTION(add, --m->s; m->s[-1] += m->s[0])
ACTION(sub, --m->s; m->s[-1] -= m->s[0])
ACTION(mul, --m->s; m->s[-1] *= m->s[0])
ACTION(xor, --m->s; m->s[-1] ^= m->s[0])
ACTION(less, --m->s; m->s[-1] = m->s[-1] < m->s[0])
ACTION(shift, m->s[-1] >>= 1)
ACTION(dup, *m->s = m->s[-1]; ++m->s)
ACTION(swap, const int64_t t = m->s[-1]; m->s[-1] = m->s[-2]; m->s[-2] = t)
ACTION(load, *m->s++ = memory[*m->p++])
ACTION(store, memory[*m->p++] = *--m->s)
ACTION(jnz, m->p = *--m->s ? code + *m->p : m->p + 1)
ACTION(end, m->running = 0)
static uint64_t by_calls(long rounds, long n) {
  program();
  static const action actions[OPS] = {do_push, do_add,  do_sub,   do_mul, do_dup,   do_swap, do_jnz,
                                      do_load, do_store, do_xor, do_shift, do_less, do_end};
  for (long r = 0; r < rounds * n; ++r) {
    struct state m = {code, stack, 1};
    while (m.running) actions[*m.p++](&m);
  }
  return (uint64_t)memory[3];
}
static const struct kernel kernels[] = {
    {"switch", by_switch}, {"jumps", by_jumps}, {"calls", by_calls}};
MAIN(kernels)
