// From rows in commit order to every column of the file: the feature stage of the pipeline.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/row_batch.hpp"
#include "features/branch_entropy.hpp"
#include "features/data_reuse.hpp"
#include "features/instruction_ends.hpp"
#include "features/stack_distance.hpp"
#include "isa/hot_static.hpp"

namespace tracekit {

// A first touch, and every distance over it, is written as this (features.md).
inline constexpr std::uint32_t far_distance = 100'000'000;

// The columns of the file, whole: 0 where a row has no value.
struct FeatureBatch {
  Column<std::uint32_t> sid;
  Column<std::uint64_t> addr;
  Column<std::uint8_t> bits;  // row_bit, resolved
  Column<std::uint32_t> fetch_distance;
  Column<std::uint32_t> load_distance, store_distance;          // a load: whatever reads memory
  Column<std::uint32_t> load_distance_ref, store_distance_ref;  // a load: op class MemRead alone
  Column<std::uint32_t> data_distance;
  Column<std::uint16_t> data_reuse;
  Column<std::uint8_t> window_before, window_now;  // of conditional branches, see BranchState
  Column<float> p_local, p_global;
  std::array<Column<std::uint64_t>, stage::count> ticks;
  bool timed{};

  std::size_t size() const { return sid.size(); }
  template <class F>
  void each(F&& f) {
    f(sid), f(addr), f(bits), f(fetch_distance), f(load_distance), f(store_distance);
    f(load_distance_ref), f(store_distance_ref), f(data_distance), f(data_reuse);
    f(window_before), f(window_now), f(p_local), f(p_global);
    for (auto& t : ticks) f(t);
  }
  void resize(std::size_t n) {
    each([n](auto& column) { column.resize(n); });
  }
  // Takes the first n rows away.
  void drop_front(std::size_t n) {
    each([n](auto& column) { column.drop_front(n); });
  }
};

class FeatureEngine {
 public:
  struct Options {
    unsigned history = 8;    // outcomes in the histories of the local and global entropy
    unsigned line_bits = 6;  // log2 of the line size
    // data_reuse counts instructions, not their parts; the microcode's branches are none
    bool macro = false;
  };
  FeatureEngine() : FeatureEngine(Options{}) {}
  explicit FeatureEngine(const Options& options);

  // Static instructions, in the order of their ids; each before the first row that names it.
  void add_static(const HotStatic& hot);
  // Appends rows [begin, end); the last one stays unresolved until the next one is known.  A few
  // thousand at a time: every pass over them then finds them in the cache.
  void add(const RowBatch& in, std::size_t begin, std::size_t end);
  void finish();

  // The first `ready()` rows of `rows()` are whole; take them, then drop_front.
  FeatureBatch& rows() { return rows_; }
  std::size_t ready() const { return ready_; }
  void drop_front(std::size_t n) {
    rows_.drop_front(n);
    ready_ -= n;
  }
  const std::vector<HotStatic>& statics() const { return hot_; }

 private:
  // The stacks of loaded and of stored lines; an access asks both and updates that of its own kind.
  struct Pair {
    StackDistance load, store;
    void run(const std::uint64_t* addr, std::uint8_t* is_load, std::size_t n,
             std::uint32_t* to_load, std::uint32_t* to_store);
  };
  void resolve(std::size_t begin, std::size_t end, bool last_has_next);
  void fetch_pass(std::size_t begin, std::size_t end);
  void memory_pass(std::size_t begin, std::size_t end);
  void branch_pass(std::size_t begin, std::size_t end);

  std::vector<HotStatic> hot_;
  std::vector<std::uint32_t> branch_slot_;
  FeatureBatch rows_;
  std::size_t ready_{};
  std::uint64_t done_{};  // rows ever made ready

  unsigned line_bits_;
  std::uint64_t last_line_{~std::uint64_t{0}};
  StackDistance fetch_, data_;
  Pair pair_;
  // perfvec-ref sees a FloatMemRead as no load.  Until one comes both views are the same and one
  // pair serves both; then it is copied.
  std::optional<Pair> pair_ref_;
  DataReuse reuse_;
  bool macro_;
  InstructionEnds ends_;
  std::uint64_t instruction_{};  // ended so far, where `macro`
  BranchEntropy entropy_;

  // Scratch of one call.
  std::vector<std::uint64_t> lines_, number_;
  std::vector<std::uint32_t> at_, value_, value2_;
  std::vector<std::uint8_t> kind_, kind_ref_;
};

}  // namespace tracekit
