// Backtracking, games.
#include "kernels.h"

static uint64_t place(uint32_t all, uint32_t columns, uint32_t left, uint32_t right) {
  if (columns == all) return 1;
  uint64_t n = 0;
  for (uint32_t free = all & ~(columns | left | right); free; free &= free - 1) {
    const uint32_t bit = free & -free;
    n += place(all, columns | bit, (left | bit) << 1, (right | bit) >> 1);
  }
  return n;
}
static uint64_t queens(long rounds, long n) {
  uint64_t sum = 0;
  for (long r = 0; r < rounds; ++r) sum += place((1u << n) - 1, 0, 0, 0);
  return sum;
}

static int taken[32];
static uint64_t put(int row, int n) {
  if (row == n) return 1;
  uint64_t found = 0;
  for (int x = 0; x < n; ++x) {
    int good = 1;
    for (int y = 0; y < row && good; ++y)
      good = taken[y] != x && taken[y] - x != row - y && x - taken[y] != row - y;
    if (!good) continue;
    taken[row] = x;
    found += put(row + 1, n);
  }
  return found;
}
static uint64_t slow_queens(long rounds, long n) {
  uint64_t sum = 0;
  for (long r = 0; r < rounds; ++r) sum += put(0, (int)n);
  return sum;
}

static int grid[81];
static uint64_t tried;
static int solve(void) {
  int best = -1, fewest = 10, options = 0;
  for (int i = 0; i < 81 && fewest > 1; ++i) {
    if (grid[i]) continue;
    int used = 0;
    for (int k = 0; k < 9; ++k) {
      used |= 1 << grid[i / 9 * 9 + k] | 1 << grid[k * 9 + i % 9];
      used |= 1 << grid[(i / 27 * 3 + k / 3) * 9 + i % 9 / 3 * 3 + k % 3];
    }
    const int free = ~used & 0x3fe, n = __builtin_popcount((unsigned)free);
    if (n < fewest) fewest = n, best = i, options = free;
  }
  if (best < 0) return 1;
  for (int v = 1; v <= 9; ++v)
    if (options >> v & 1) {
      ++tried;
      grid[best] = v;
      if (solve()) return 1;
      grid[best] = 0;
    }
  return 0;
}
static uint64_t sudoku(long rounds, long n) {
  static const char hard[] =
      "8..........36......7..9.2...5...7.......457.....1...3...1....68..85...1..9....4..";
  for (long r = 0; r < rounds * n; ++r) {
    for (int i = 0; i < 81; ++i) grid[i] = hard[i] == '.' ? 0 : hard[i] - '0';
    solve();
  }
  return tried;
}

static uint64_t life(long rounds, long n) {
  uint8_t *a = room((size_t)(n * n)), *b = room((size_t)(n * n));
  for (long i = 0; i < n * n; ++i) a[i] = random64() & 1;
  for (long r = 0; r < rounds; ++r) {
    for (long y = 1; y + 1 < n; ++y)
      for (long x = 1; x + 1 < n; ++x) {
        const uint8_t* p = a + y * n + x;
        const int k = p[-n - 1] + p[-n] + p[-n + 1] + p[-1] + p[1] + p[n - 1] + p[n] + p[n + 1];
        if (k == 3)
          b[y * n + x] = 1;
        else if (k != 2)
          b[y * n + x] = 0;
        else
          b[y * n + x] = *p;
      }
    uint8_t* t = a;
    a = b, b = t;
  }
  uint64_t sum = 0;
  for (long i = 0; i < n * n; ++i) sum += a[i];
  return sum;
}

static int8_t board[9];
static int score(int player) {
  static const uint16_t lines[8] = {7, 56, 448, 73, 146, 292, 273, 84};
  for (int p = -1; p <= 1; p += 2) {
    int mask = 0;
    for (int i = 0; i < 9; ++i)
      if (board[i] == p) mask |= 1 << i;
    for (int i = 0; i < 8; ++i)
      if ((mask & lines[i]) == lines[i]) return p * player;
  }
  int best = -2;
  for (int i = 0; i < 9; ++i) {
    if (board[i]) continue;
    board[i] = (int8_t)player;
    const int s = -score(-player);
    board[i] = 0;
    if (s > best) best = s;
  }
  return best == -2 ? 0 : best;
}
static uint64_t game(long rounds, long n) {
  uint64_t sum = 0;
  for (long r = 0; r < rounds * n; ++r) {
    board[r % 9] = 1;
    sum += (uint64_t)(score(-1) + 1);
    board[r % 9] = 0;
  }
  return sum;
}
static const struct kernel kernels[] = {{"queens", queens},
                                        {"slow_queens", slow_queens},
                                        {"sudoku", sudoku},
                                        {"life", life},
                                        {"game", game}};
MAIN(kernels)
