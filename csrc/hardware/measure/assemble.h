// Text that the assembler turns into bytes which nothing runs into, between two labels.
#ifndef TRACEKIT_ASSEMBLE_H
#define TRACEKIT_ASSEMBLE_H

#if defined(__x86_64__)
#define ASSEMBLER_BEFORE ".intel_syntax noprefix\n"
#define ASSEMBLER_AFTER "\n.att_syntax prefix\n"
#elif defined(__aarch64__)
#define ASSEMBLER_BEFORE ".arch armv8.2-a+crypto+fp16+dotprod\n"
#define ASSEMBLER_AFTER "\n"
#else
#error "calibrate has kernels for x86-64 and aarch64"
#endif

#define ASSEMBLED(name, text)                                                            \
  __asm__(".pushsection .rodata\n.hidden tk_begin_" #name "\n.hidden tk_end_" #name      \
          "\n.globl tk_begin_" #name "\n.globl tk_end_" #name "\ntk_begin_" #name ":\n"  \
          ASSEMBLER_BEFORE text ASSEMBLER_AFTER "tk_end_" #name ":\n.popsection\n");     \
  extern const unsigned char tk_begin_##name[] __attribute__((visibility("hidden")));    \
  extern const unsigned char tk_end_##name[] __attribute__((visibility("hidden")));
#define BEGIN(name) tk_begin_##name
#define END(name) tk_end_##name

#endif
