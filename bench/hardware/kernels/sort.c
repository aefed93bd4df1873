// Sorting algorithms on 32-bit numbers.
#include "kernels.h"

typedef void (*sorter)(uint32_t*, long);

static void insertion(uint32_t* a, long n) {
  for (long i = 1; i < n; ++i) {
    const uint32_t x = a[i];
    long j = i;
    for (; j > 0 && a[j - 1] > x; --j) a[j] = a[j - 1];
    a[j] = x;
  }
}

static void quick(uint32_t* a, long n) {
  while (n > 16) {
    const uint32_t x = a[0], y = a[n / 2], z = a[n - 1];
    const uint32_t pivot = x < y ? (y < z ? y : x < z ? z : x) : (x < z ? x : y < z ? z : y);
    long i = 0, j = n - 1;
    while (i <= j) {
      while (a[i] < pivot) ++i;
      while (a[j] > pivot) --j;
      if (i <= j) {
        const uint32_t t = a[i];
        a[i++] = a[j];
        a[j--] = t;
      }
    }
    if (j + 1 < n - i) {
      quick(a, j + 1);
      a += i, n -= i;
    } else {
      quick(a + i, n - i);
      n = j + 1;
    }
  }
  insertion(a, n);
}

static void heap(uint32_t* a, long n) {
  for (long start = n / 2 - 1, end = n; end > 1;) {
    if (start >= 0) {
      --start;
    } else {
      const uint32_t t = a[--end];
      a[end] = a[0];
      a[0] = t;
    }
    long root = start + 1 > 0 ? start + 1 : 0;
    if (start < 0) root = 0;
    const uint32_t x = a[root];
    for (long child; (child = 2 * root + 1) < end; root = child) {
      if (child + 1 < end && a[child] < a[child + 1]) ++child;
      if (a[child] <= x) break;
      a[root] = a[child];
    }
    a[root] = x;
  }
}

static uint32_t* spare;
static void merge(uint32_t* a, long n) {
  if (n <= 16) {
    insertion(a, n);
    return;
  }
  const long half = n / 2;
  merge(a, half);
  merge(a + half, n - half);
  memcpy(spare, a, (size_t)half * 4);
  for (long i = 0, j = half, k = 0; i < half; ++k)
    a[k] = j < n && a[j] < spare[i] ? a[j++] : spare[i++];
}

static void shell(uint32_t* a, long n) {
  static const long gaps[] = {797161, 265720, 88573, 29524, 9841, 3280, 1093, 364, 121, 40, 13, 4, 1};
  for (size_t g = 0; g < sizeof gaps / sizeof *gaps; ++g)
    for (long gap = gaps[g], i = gap; i < n; ++i) {
      const uint32_t x = a[i];
      long j = i;
      for (; j >= gap && a[j - gap] > x; j -= gap) a[j] = a[j - gap];
      a[j] = x;
    }
}

static void radix(uint32_t* a, long n) {
  for (int shift = 0; shift < 32; shift += 8) {
    long count[257] = {0};
    for (long i = 0; i < n; ++i) ++count[(a[i] >> shift & 255) + 1];
    for (int i = 0; i < 256; ++i) count[i + 1] += count[i];
    for (long i = 0; i < n; ++i) spare[count[a[i] >> shift & 255]++] = a[i];
    memcpy(a, spare, (size_t)n * 4);
  }
}

static int compare(const void* a, const void* b) {
  const uint32_t x = *(const uint32_t*)a, y = *(const uint32_t*)b;
  return (x > y) - (x < y);
}
static void library(uint32_t* a, long n) { qsort(a, (size_t)n, 4, compare); }

static uint64_t with(sorter sort, long rounds, long n) {
  uint32_t* a = room((size_t)n * 4);
  spare = room((size_t)n * 4);
  uint64_t sum = 0;
  for (long r = 0; r < rounds; ++r) {
    for (long i = 0; i < n; ++i) a[i] = (uint32_t)random64();
    sort(a, n);
    for (long i = 1; i < n; ++i)
      if (a[i - 1] > a[i]) abort();
    sum = sum * 31 + a[n / 3];
  }
  return sum;
}
#define SORT(name) \
  static uint64_t run_##name(long r, long n) { return with(name, r, n); }
SORT(insertion) SORT(quick) SORT(heap) SORT(merge) SORT(shell) SORT(radix) SORT(library)
static const struct kernel kernels[] = {
    {"insertion", run_insertion}, {"quick", run_quick}, {"heap", run_heap},   {"merge", run_merge},
    {"shell", run_shell},         {"radix", run_radix}, {"library", run_library}};
MAIN(kernels)
