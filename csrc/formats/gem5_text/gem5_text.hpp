// gem5's debug text: O3PipeView blocks (src/cpu/o3/dyn_inst.cc) and Exec lines
// (src/cpu/exetrace.cc), mixed in any way, in chunks cut anywhere.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/counters.hpp"
#include "core/row_batch.hpp"
#include "core/static_table.hpp"
#include "formats/common/scan.hpp"
#include "formats/gem5_text/block_shape.hpp"
#include "formats/gem5_text/exec_line.hpp"
#include "formats/gem5_text/static_text.hpp"
#include "order/commit_order.hpp"

namespace tracekit {

// One CPU's rows.  Blocks alone name no CPU: they are one stream without a name.
struct CpuStream {
  std::string name;
  StaticTable statics;
  ExecOrder order;
  RowBatch rows;                    // of blocks alone
  std::uint64_t lines{}, blocks{};  // its own of the text's
  std::uint64_t when{}, seq{};      // tick and FetchSeq of its last line
  std::uint64_t gave_up_at{};       // where the first row was written without its block

  // The rows that are whole, in commit order.  `spare`: an empty batch, for its memory.
  RowBatch take(RowBatch spare = {}) {
    return rows.size() ? std::exchange(rows, std::move(spare)) : order.take(std::move(spare));
  }

  StaticText text;
  std::uint32_t last = StaticTable::none;
  std::string prefix;  // name + ": ", as it stands in a line
};

class Gem5Text {
 public:
  Gem5Text();
  ~Gem5Text();

  // Parses what is whole, keeps the rest of a line for the next call.  Rows come out in commit
  // order from cpus()[i]->take().
  void feed(const char* data, std::size_t size);
  void finish();

  const std::vector<std::unique_ptr<CpuStream>>& cpus() const { return cpus_; }
  // Everything survived and everything worth counting, by kind.
  Counters counters() const;
  std::uint64_t bytes() const { return base_; }
  std::uint64_t exec_lines() const { return exec_lines_; }
  // Whether an Exec line had flags (ExecFlags), and a sequence number (ExecFetchSeq).
  bool has_flags() const { return has_flags_; }
  bool has_seq() const { return has_seq_; }
  std::uint64_t blocks() const { return blocks_; }
  Arch arch() const { return arch_; }
  OrderStats order_stats() const;

 private:
  static constexpr std::size_t max_line = 1 << 16;
  // Differences of ticks must fit 63 bits; a real one is far below (2^61 ps are 26 days).
  static constexpr std::uint64_t max_tick = std::uint64_t{1} << 61;
  static constexpr std::size_t max_cpus =
      256;  // names beyond these are damage, and each costs memory

  void whole_lines(const char* p, const char* end);
  void slow_line(const char* begin, const char* end);
  const char* fast_block(const char* p, const char* end);
  const char* fast_exec(const char* p, const char* end);
  const char* fast_lines(const char* q, Block& b);
  const char* fast_tick(const char* p, std::uint64_t& tick);

  void block_line(const char* begin, const char* end);
  void boom_line(std::uint64_t seq, std::string_view rest, const char* begin);
  bool exec_line(const char* begin, const char* end);
  void take_line(CpuStream& c, std::uint32_t sid, std::uint64_t when, const ExecFields& fields,
                 const char* at);
  void drop_open_block();
  // Ticks over max_tick are damage.
  void take_checked(const Block& b, std::string_view disassembly);
  void take_block(const Block& b, std::string_view disassembly);
  void sort_block(const Block& b, std::string_view disassembly, std::uint64_t at);
  void flush_early();
  CpuStream& cpu(std::string_view name);
  std::uint32_t add_static(CpuStream& c, StaticInst inst, std::string_view head,
                           std::string_view tail);
  static void follow(CpuStream& c, std::uint32_t sid);
  void count(const char* kind, const char* at) { counters_.add(kind, base_ + offset(at)); }
  std::uint64_t offset(const char* at) const {
    return at >= chunk_ && at <= chunk_end_ ? static_cast<std::uint64_t>(at - chunk_) : 0;
  }

  std::vector<std::unique_ptr<CpuStream>> cpus_;
  CpuStream* last_cpu_{};
  SeqOrder seq_order_;
  std::string carry_;  // the beginning of a line whose end has not come yet
  bool skipping_{};    // inside a line that is too long to be one
  std::uint64_t base_{};
  const char* chunk_{};
  const char* chunk_end_{};
  std::uint64_t exec_lines_{}, blocks_{};
  bool has_flags_{}, has_seq_{};
  Arch arch_{Arch::unknown};
  Counters counters_;

  // What ticks and blocks look like just now.
  scan::NearbyDecimal near_;
  BlockShape shape_;
  // The block that the slow path is in.
  Block open_;
  std::string open_text_;
  std::uint64_t open_at_{};
  unsigned open_stages_{};  // bit s: stage s had a line
  bool in_block_{};
  // BOOM's lines come one by one; blocks are put together by seq.
  struct Boom;
  std::unique_ptr<Boom> boom_;
  // The first blocks, kept until it is known whether there are Exec lines at all.
  struct Early {
    Block block;
    std::string text;
    std::uint64_t at;
  };
  std::vector<Early> early_;
};

}  // namespace tracekit
