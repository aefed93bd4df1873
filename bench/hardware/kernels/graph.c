// Graphs with n vertices and eight edges each.
#include "kernels.h"

enum { DEGREE = 8 };
static uint32_t* edges;
static void build(long n) {
  edges = room((size_t)n * DEGREE * 4);
  for (long i = 0; i < n * DEGREE; ++i)
    edges[i] = (uint32_t)(random64() % (uint64_t)(random64() & 1 ? n : n / 16 + 1));
}

static uint64_t breadth(long rounds, long n) {
  build(n);
  uint32_t *queue = room((size_t)n * 4), *depth = room((size_t)n * 4);
  uint64_t sum = 0;
  for (long r = 0; r < rounds; ++r) {
    memset(depth, 255, (size_t)n * 4);
    long head = 0, tail = 0;
    queue[tail++] = (uint32_t)(r * 97 % n);
    depth[queue[0]] = 0;
    while (head < tail) {
      const uint32_t u = queue[head++];
      for (int k = 0; k < DEGREE; ++k) {
        const uint32_t v = edges[(long)u * DEGREE + k];
        if (depth[v] == ~0u) depth[v] = depth[u] + 1, queue[tail++] = v;
      }
    }
    sum += depth[queue[tail - 1]] + (uint64_t)tail;
  }
  return sum;
}

static uint64_t rank(long rounds, long n) {
  build(n);
  float *now = room((size_t)n * 4), *next = room((size_t)n * 4);
  for (long i = 0; i < n; ++i) now[i] = 1;
  for (long r = 0; r < rounds; ++r) {
    for (long i = 0; i < n; ++i) next[i] = 0.15f;
    for (long i = 0; i < n; ++i) {
      const float give = now[i] * (0.85f / DEGREE);
      for (int k = 0; k < DEGREE; ++k) next[edges[i * DEGREE + k]] += give;
    }
    float* t = now;
    now = next, next = t;
  }
  return (uint64_t)(now[3] * 1000);
}

static uint64_t shortest(long rounds, long n) {  // Dijkstra with a binary heap
  build(n);
  uint32_t* distance = room((size_t)n * 4);
  uint64_t *heap = room((size_t)n * DEGREE * 8), sum = 0;
  for (long r = 0; r < rounds; ++r) {
    memset(distance, 255, (size_t)n * 4);
    long size = 1;
    heap[0] = (uint64_t)(r % n);
    distance[r % n] = 0;
    while (size > 0) {
      const uint64_t top = heap[0], last = heap[--size];
      long i = 0;
      for (long child; (child = 2 * i + 1) < size; i = child) {
        if (child + 1 < size && heap[child + 1] < heap[child]) ++child;
        if (heap[child] >= last) break;
        heap[i] = heap[child];
      }
      heap[i] = last;
      const uint32_t u = (uint32_t)top, d = (uint32_t)(top >> 32);
      if (d > distance[u]) continue;
      for (int k = 0; k < DEGREE; ++k) {
        const uint32_t v = edges[(long)u * DEGREE + k], w = d + 1 + ((u ^ v) & 63);
        if (w >= distance[v]) continue;
        distance[v] = w;
        const uint64_t item = (uint64_t)w << 32 | v;
        long at = size++;
        for (; at > 0 && heap[(at - 1) / 2] > item; at = (at - 1) / 2) heap[at] = heap[(at - 1) / 2];
        heap[at] = item;
      }
    }
    sum += distance[n / 2];
  }
  return sum;
}

static uint32_t* parent;
static uint32_t find(uint32_t x) {
  while (parent[x] != x) x = parent[x] = parent[parent[x]];
  return x;
}
static uint64_t components(long rounds, long n) {
  build(n);
  parent = room((size_t)n * 4);
  uint64_t sum = 0;
  for (long r = 0; r < rounds; ++r) {
    for (long i = 0; i < n; ++i) parent[i] = (uint32_t)i;
    for (long i = 0; i < n; ++i)
      for (int k = 0; k < DEGREE; k += 4) {
        const uint32_t x = find((uint32_t)i), y = find(edges[i * DEGREE + k]);
        if (x != y) parent[x] = y, ++sum;
      }
  }
  return sum;
}
static const struct kernel kernels[] = {
    {"breadth", breadth}, {"rank", rank}, {"shortest", shortest}, {"components", components}};
MAIN(kernels)
