// For each line the time stamp of its last access: the lookup that every stack distance begins
// with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "features/aligned_array.hpp"

namespace tracekit {

// Two layouts, because neither is good at everything.  `paged`: a hash directory of regions of 1024
// lines, each with a plain array of stamps; 4 bytes a line and twice a hash's speed where lines lie
// close together.  `flat`: one hash slot a line, for lines strewn over the address space.  The
// table starts paged and changes over by itself, both ways, as the density of the lines shows. A
// stamp is never 0: that is a line not seen yet.
class LastAccessTable {
 public:
  static constexpr unsigned region_bits = 10;
  static constexpr std::size_t region_lines = std::size_t{1} << region_bits;

  struct Region {
    std::uint64_t key;  // line >> region_bits; no_region when empty
    std::uint32_t* stamps;
  };
  struct Slot {
    std::uint64_t line;
    std::uint32_t stamp;  // 0 when empty
    std::uint32_t unused;
  };
  static constexpr std::uint64_t no_region = ~std::uint64_t{0};

  // What the batch kernels read directly; every call of find_or_insert may change it.
  struct View {
    bool paged;
    unsigned shift;  // hash >> shift is the home position
    std::uint64_t mask;
    Region* regions;
    Slot* slots;
  };

  LastAccessTable();
  LastAccessTable(const LastAccessTable& o);
  LastAccessTable(LastAccessTable&&) noexcept = default;  // what was moved from is only destroyed
  LastAccessTable& operator=(LastAccessTable o) noexcept;
  ~LastAccessTable() = default;

  // Both are called by code compiled for wider instruction sets, and must not exist outside of it.
  [[gnu::always_inline]] const View& view() const { return view_; }

  // The line's stamp, or null when there is no place for it yet (then it was never seen).
  const std::uint32_t* find(std::uint64_t line) const {
    if (view_.paged) {
      const std::uint64_t key = line >> region_bits;
      for (std::uint64_t h = home(key, view_.shift);; h = (h + 1) & view_.mask) {
        if (view_.regions[h].key == key)
          return view_.regions[h].stamps + (line & (region_lines - 1));
        if (view_.regions[h].key == no_region) return nullptr;
      }
    }
    for (std::uint64_t h = home(line, view_.shift);; h = (h + 1) & view_.mask) {
      if (view_.slots[h].stamp == 0) return nullptr;
      if (view_.slots[h].line == line) return &view_.slots[h].stamp;
    }
  }
  std::uint32_t* find(std::uint64_t line) {
    return const_cast<std::uint32_t*>(static_cast<const LastAccessTable*>(this)->find(line));
  }
  std::uint32_t stamp_of(std::uint64_t line) const;  // 0 when it was never seen
  // The line's stamp, with a place made for it where there was none.  The caller must store a stamp
  // before the next call.
  std::uint32_t* find_or_insert(std::uint64_t line);

  // All stamps in runs of equal stride, zeros included: call(first, count, stride in words).
  template <class Call>
  void each_array(Call&& call) {
    if (view_.paged) {
      for (auto& c : chunks_) call(c.data(), c.size(), std::size_t{1});
    } else {
      call(&slots_.data()->stamp, slots_.size(), sizeof(Slot) / sizeof(std::uint32_t));
    }
  }
  // How many stamps each_array visits.
  std::size_t places() const;
  std::size_t bytes() const;

  [[gnu::always_inline]] static std::uint64_t home(std::uint64_t key, unsigned shift) {
    return (key * 0x9e3779b97f4a7c15ULL) >> shift;  // Fibonacci hashing: the top bits are good
  }

 private:
  explicit LastAccessTable(std::size_t slots);
  std::uint32_t* new_stamps();
  void reserve_regions(std::size_t n);
  std::uint32_t* insert_region(std::uint64_t key);
  std::uint32_t* insert_slot(std::uint64_t line);
  void grow_slots();
  std::size_t seen() const;  // lines, in the paged layout
  void to_slots();
  void to_regions();
  void set_view();

  View view_{};
  AlignedArray<Region> regions_;
  std::size_t regions_used_{};
  std::vector<AlignedArray<std::uint32_t>> chunks_;  // what the regions' stamps point into
  std::size_t used_in_last_{};
  AlignedArray<Slot> slots_;
  std::size_t slots_used_{};
};

}  // namespace tracekit
