// Walks along pointers; SIZE is the number of nodes.
#include "kernels.h"

struct node {
  struct node *next, *left, *right;
  uint64_t key, pad[4];
};

static void shuffle(uint32_t* order, long n) {
  for (long i = 0; i < n; ++i) order[i] = (uint32_t)i;
  for (long i = n - 1; i > 0; --i) {
    const long j = (long)(random64() % (uint64_t)(i + 1));
    const uint32_t t = order[i];
    order[i] = order[j], order[j] = t;
  }
}

static uint64_t chase(long rounds, long n) {  // rounds: thousands of steps
  struct node* nodes = room((size_t)n * sizeof *nodes);
  uint32_t* order = room((size_t)n * 4);
  shuffle(order, n);
  for (long i = 0; i < n; ++i) {
    nodes[order[i]].next = &nodes[order[(i + 1) % n]];
    nodes[order[i]].key = (uint64_t)i;
  }
  uint64_t sum = 0;
  struct node* p = nodes;
  for (long i = 0; i < rounds * 1000; ++i) sum += p->key, p = p->next;
  return sum;
}

static uint64_t ordered(long rounds, long n) {  // the same list, laid out in its order
  struct node* nodes = room((size_t)n * sizeof *nodes);
  for (long i = 0; i < n; ++i) nodes[i].next = &nodes[(i + 1) % n], nodes[i].key = (uint64_t)i;
  uint64_t sum = 0;
  struct node* p = nodes;
  for (long i = 0; i < rounds * 1000; ++i) sum += p->key, p = p->next;
  return sum;
}

static uint64_t four(long rounds, long n) {  // four walks at once
  struct node* nodes = room((size_t)n * sizeof *nodes);
  uint32_t* order = room((size_t)n * 4);
  shuffle(order, n);
  for (long i = 0; i < n; ++i) {
    nodes[order[i]].next = &nodes[order[(i + 1) % n]];
    nodes[order[i]].key = (uint64_t)i;
  }
  struct node *p = &nodes[order[0]], *q = &nodes[order[n / 4]], *r = &nodes[order[n / 2]],
              *s = &nodes[order[n / 4 * 3]];
  uint64_t sum = 0;
  for (long i = 0; i < rounds * 250; ++i) {
    sum += p->key ^ q->key ^ r->key ^ s->key;
    p = p->next, q = q->next, r = r->next, s = s->next;
  }
  return sum;
}

static uint64_t tree(long rounds, long n) {
  struct node *nodes = room((size_t)n * sizeof *nodes), *root = NULL;
  for (long i = 0; i < n; ++i) {
    nodes[i].key = random64();
    struct node** at = &root;
    while (*at != NULL) at = nodes[i].key < (*at)->key ? &(*at)->left : &(*at)->right;
    *at = &nodes[i];
  }
  uint64_t sum = 0;
  for (long i = 0; i < rounds * 1000; ++i) {
    const uint64_t key = random64();
    for (struct node* p = root; p != NULL;) {
      sum += p->key & 1;
      p = key < p->key ? p->left : p->right;
    }
  }
  return sum;
}

static uint64_t array(long rounds, long n) {  // the tree's work: binary search
  uint64_t *keys = room((size_t)n * 8), sum = 0;
  for (long i = 0; i < n; ++i) keys[i] = (uint64_t)i * (~0ull / (uint64_t)n);
  for (long i = 0; i < rounds * 1000; ++i) {
    const uint64_t key = random64();
    long low = 0, high = n;
    while (low < high) {
      const long middle = (low + high) / 2;
      if (keys[middle] < key)
        low = middle + 1;
      else
        high = middle;
    }
    sum += (uint64_t)low;
  }
  return sum;
}
static const struct kernel kernels[] = {
    {"chase", chase}, {"ordered", ordered}, {"four", four}, {"tree", tree}, {"array", array}};
MAIN(kernels)
