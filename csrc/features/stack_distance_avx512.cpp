#if defined(__x86_64__)
#define KERNELS avx512_kernels
#include "features/stack_distance_kernel.inc"
#endif
