// The two-file trace of PerfVec's authors (their modified gem5; facts in docs/inputs.md).
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "core/counters.hpp"
#include "core/row_batch.hpp"
#include "core/static_table.hpp"

namespace tracekit {

// X.txt holds a line an instruction; of a store only its first nine numbers, and the rest is the
// next line of X.sq.txt.  Feed the one; while `wants_stores()`, feed the other.
class PerfvecText {
 public:
  void feed(const char* data, std::size_t size);
  void feed_stores(const char* data, std::size_t size);
  void stores_end() { stores_.ended = true, run(); }
  void finish();
  bool wants_stores() const { return wants_stores_; }

  StaticTable& statics() { return statics_; }
  RowBatch& rows() { return rows_; }
  const Counters& counters() const { return counters_; }
  std::uint64_t lines() const { return lines_; }

 private:
  static constexpr std::size_t max_line = 1 << 12;
  struct Side {
    std::string text;
    std::size_t at{};        // first byte not yet taken
    std::size_t searched{};  // no line ends between `at` and here
    std::uint64_t base{};    // of text[0] in the file
    bool ended{};
    bool line(std::string_view& out);
    void trim();
    std::uint64_t offset() const { return base + at; }
  };
  struct StoreLine {
    std::vector<std::int64_t> numbers;
    std::uint64_t offset;
  };
  enum class Paired { found, missing, unread };
  void run();
  Paired pair();
  bool read_stores(std::size_t count);
  void drop_stores(std::size_t count);
  bool numbers(std::string_view line, std::vector<std::int64_t>& out) const;
  void row(const std::vector<std::int64_t>& head, const std::vector<std::int64_t>& body,
           std::size_t skip, std::uint64_t at);
  std::uint16_t micro_op(std::uint64_t pc, bool is_micro_op);
  std::uint32_t intern(const StaticInst& inst);

  Side main_, stores_;
  bool wants_stores_{};
  std::vector<std::int64_t> head_;
  std::deque<StoreLine> ahead_;  // lines of stores that no instruction has taken yet
  StaticTable statics_;
  RowBatch rows_;
  Counters counters_;
  std::uint64_t lines_{};
  std::uint64_t pc_{};  // of the row before, with its micro-op's number, and whether it ends it
  std::uint16_t number_{};
  bool ends_{};
};

}  // namespace tracekit
