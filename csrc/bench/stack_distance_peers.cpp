#include "bench/stack_distance_peers.hpp"

#include <unordered_map>
#include <vector>

#include "features/last_access_table.hpp"

namespace tracekit::peers {
namespace {

constexpr std::uint32_t cold = 0xFFFFFFFF;

// Nodes are numbered from 1 (0 is "none"), keyed by time; the tree is splayed bottom-up.
class Splay {
 public:
  std::uint32_t add(std::uint64_t time) {
    nodes_.push_back({time, {0, 0}, 0, 1});
    return link(static_cast<std::uint32_t>(nodes_.size() - 1));
  }
  // Nodes later than x, and x becomes the latest with a new time.
  std::uint32_t renew(std::uint32_t x, std::uint64_t time) {
    splay(x);
    const std::uint32_t left = nodes_[x].child[0], right = nodes_[x].child[1];
    const std::uint32_t later = nodes_[right].size;
    nodes_[left].parent = nodes_[right].parent = 0;
    if (!left) {
      root_ = right;
    } else {
      std::uint32_t last = left;
      while (nodes_[last].child[1]) last = nodes_[last].child[1];
      root_ = left;
      splay(last);
      nodes_[last].child[1] = right;
      if (right) nodes_[right].parent = last;
      update(last);
    }
    nodes_[x] = {time, {0, 0}, 0, 1};
    link(x);
    return later;
  }

 private:
  struct Node {
    std::uint64_t time;
    std::uint32_t child[2], parent, size;
  };

  void update(std::uint32_t x) {
    nodes_[x].size = 1 + nodes_[nodes_[x].child[0]].size + nodes_[nodes_[x].child[1]].size;
  }
  void rotate(std::uint32_t x) {
    const std::uint32_t p = nodes_[x].parent, g = nodes_[p].parent;
    const int side = nodes_[p].child[1] == x;
    const std::uint32_t c = nodes_[x].child[1 - side];
    nodes_[p].child[side] = c;
    if (c) nodes_[c].parent = p;
    nodes_[x].child[1 - side] = p;
    nodes_[p].parent = x;
    nodes_[x].parent = g;
    if (g) nodes_[g].child[nodes_[g].child[1] == p] = x;
    update(p);
    update(x);
  }
  void splay(std::uint32_t x) {
    while (const std::uint32_t p = nodes_[x].parent) {
      if (const std::uint32_t g = nodes_[p].parent)
        rotate((nodes_[g].child[1] == p) == (nodes_[p].child[1] == x) ? p : x);
      rotate(x);
    }
    root_ = x;
  }
  // Makes x the latest of all.
  std::uint32_t link(std::uint32_t x) {
    nodes_[x].child[0] = root_;
    if (root_) nodes_[root_].parent = x;
    root_ = x;
    update(x);
    return x;
  }

  std::vector<Node> nodes_{Node{0, {0, 0}, 0, 0}};
  std::uint32_t root_ = 0;
};

}  // namespace

void splay_stack_distance(const std::uint64_t* lines, std::size_t n, std::uint32_t* out) {
  std::unordered_map<std::uint64_t, std::uint32_t> node_of;
  Splay tree;
  for (std::size_t i = 0; i < n; ++i) {
    const auto [at, fresh] = node_of.try_emplace(lines[i], 0);
    if (fresh)
      at->second = tree.add(i), out[i] = cold;
    else
      out[i] = 1 + tree.renew(at->second, i);
  }
}

void fenwick_stack_distance(const std::uint64_t* lines, std::size_t n, std::uint32_t* out) {
  std::unordered_map<std::uint64_t, std::size_t> last;
  std::vector<std::uint32_t> tree(n + 1);
  std::uint32_t live = 0;
  const auto add = [&](std::size_t i, std::uint32_t d) {
    for (++i; i <= n; i += i & -i) tree[i] += d;
  };
  const auto sum = [&](std::size_t i) {  // of [0, i)
    std::uint32_t s = 0;
    for (; i; i -= i & -i) s += tree[i];
    return s;
  };
  for (std::size_t i = 0; i < n; ++i) {
    const auto [at, fresh] = last.try_emplace(lines[i], i);
    if (fresh) {
      out[i] = cold;
      ++live;
    } else {
      out[i] = live - sum(at->second);
      add(at->second, ~std::uint32_t{0});
      at->second = i;
    }
    add(i, 1);
  }
}

std::uint64_t last_access_floor(const std::uint64_t* lines, std::size_t n) {
  using Table = LastAccessTable;
  Table table;
  std::uint64_t sum = 0;
  std::uint32_t now = 1;
  for (std::size_t i = 0; i < n; ++i) {
    const Table::View t = table.view();
    if (t.paged) {
      for (; i < n; ++i) {
        const std::uint64_t key = lines[i] >> Table::region_bits;
        const auto& region = t.regions[Table::home(key, t.shift)];
        if (__builtin_expect(region.key != key, 0)) break;
        std::uint32_t& stamp = region.stamps[lines[i] & (Table::region_lines - 1)];
        sum += stamp;
        stamp = now++;
      }
    } else {
      for (; i < n; ++i) {
        auto& slot = t.slots[Table::home(lines[i], t.shift)];
        if (__builtin_expect(slot.line != lines[i] || slot.stamp == 0, 0)) break;
        sum += slot.stamp;
        slot.stamp = now++;
      }
    }
    if (i == n) break;
    std::uint32_t& stamp = *table.find_or_insert(lines[i]);
    sum += stamp;
    stamp = now++;
  }
  return sum;
}

}  // namespace tracekit::peers
