// Parses one drmemtrace stream (one thread's file, decompressed) into native instructions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/counters.hpp"
#include "formats/common/format_fault.hpp"
#include "formats/common/native_batch.hpp"
#include "formats/common/pc_map.hpp"
#include "formats/drmemtrace/drmemtrace_format.hpp"

namespace tracekit {

// What DynamoRIO's basic_counts tool counts, under the same definitions.
struct DrCounts {
  std::uint64_t instructions{};  // fetched
  std::uint64_t no_fetch{};      // further iterations of `rep` instructions
  std::uint64_t kernel_instructions{};
  std::uint64_t loads{}, stores{}, prefetches{};
  std::uint64_t instr_flushes{}, data_flushes{};
  std::uint64_t schedule_markers{}, transfer_markers{}, hardware_transfer_markers{};
  std::uint64_t idle_markers{}, wait_markers{};
  std::uint64_t func_id_markers{}, func_retaddr_markers{}, func_arg_markers{},
      func_retval_markers{};
  std::uint64_t physical_markers{}, physical_unavailable_markers{};
  std::uint64_t syscall_markers{}, blocking_syscall_markers{}, skipped_access_markers{};
  std::uint64_t other_markers{};
  std::uint64_t encodings{};
};

// A timestamp marker stood before the instruction `row` of the batch.
struct Timestamp {
  std::size_t row;
  std::uint64_t value;  // microseconds since 1601
};

// Further iterations of a `rep` instruction (records without a fetch) join the instruction that
// they belong to, so that it is one row with all its accesses.
class DrmemtraceParser {
 public:
  explicit DrmemtraceParser(EncodingTable& table) : table_(&table) {}

  // Takes any piece of the stream; rows appear in `batch` once they are complete.  Throws
  // FormatFault where the stream cannot be read on.
  void feed(const std::uint8_t* data, std::size_t n);
  // The stream ended: completes the last row and counts what a truncated stream lacks.
  void finish();
  // Hands over the complete rows and the timestamps among them; what is open stays.
  void take(NativeBatch& rows, std::vector<Timestamp>& times);

  std::uint64_t version() const { return version_; }
  std::uint64_t filetype() const { return filetype_; }
  bool filetype_known() const { return filetype_known_; }
  std::uint64_t process() const { return pid_; }
  const std::vector<std::uint64_t>& threads() const { return threads_; }
  const DrCounts& counts() const { return counts_; }
  const Counters& anomalies() const { return anomalies_; }
  // The distinct pcs that were fetched, in no order, and the BranchKind of each.
  void fetched(std::vector<std::uint64_t>& pcs, std::vector<std::uint8_t>& kinds) const;

 private:
  void parse(const std::uint8_t* p, const std::uint8_t* end);
  void begin_stream(const std::uint8_t* p);
  void learn(PcEntry& e, std::uint64_t pc, std::uint16_t length, BranchKind branch);
  void add_code(std::uint16_t n, const std::uint8_t* bytes);
  struct Room;
  void add_access(Room& to, std::uint64_t at, std::uint16_t size, std::uint8_t is_store);
  void add_row(Room& to, std::uint64_t pc, std::uint16_t size, BranchKind branch, std::uint8_t bits,
               bool fetched);
  void iterate(Room& to, std::uint64_t pc, std::uint16_t size);
  void event(std::uint16_t type, std::uint16_t size, std::uint64_t value,
             const std::uint8_t* payload, std::size_t rows, std::uint8_t* bits);
  std::optional<std::uint64_t*> counter_of(std::uint16_t kind);
  void schedule_marker(std::uint16_t kind, std::uint64_t value, std::size_t rows);
  void marker(std::uint16_t kind, std::uint64_t value, std::size_t rows, std::uint8_t* bits);
  void set_thread(std::uint64_t tid);
  void discontinuity() { restart_ = true; }
  void break_off() {  // nothing tells the outcome of an open branch either
    outcome_open_ = false;
    discontinuity();
  }

  EncodingTable* table_;
  PcMap pcs_;
  NativeBatch batch_;
  std::vector<Timestamp> times_;
  DrCounts counts_;
  Counters anomalies_;
  std::vector<std::uint64_t> threads_;
  std::vector<std::uint64_t> repeats_of_;  // threads whose next timestamp and cpu repeat old ones

  std::uint8_t tail_[drmem::record_bytes]{};  // of a record that the last piece cut
  std::size_t tail_size_{};
  std::uint64_t offset_{};  // byte in the stream of the record at hand
  std::uint64_t version_{}, filetype_{}, tid_{}, pid_{}, chunk_{}, window_{};
  bool started_{}, filetype_known_{}, footer_{}, window_known_{};
  bool kernel_{};  // between the markers of a kernel trace

  std::uint8_t code_[Encoding::max_bytes]{};  // machine code that precedes its instruction
  std::uint8_t code_size_{};

  bool open_{};          // the last row of the batch may still get accesses and its outcome
  bool outcome_open_{};  // a conditional branch whose outcome the next pc tells
  bool attach_{};        // accesses belong to the open row
  bool restart_{true};   // the next row does not follow from the last
  std::uint64_t open_pc_{}, open_next_{};  // its pc and the pc after it
};

}  // namespace tracekit
