#define KERNELS portable_kernels
#include "features/stack_distance_kernel.inc"
