// Reads .tkt streams (docs/tkt-format.md) into rows in commit order and their static instructions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/counters.hpp"
#include "core/row_batch.hpp"
#include "core/static_table.hpp"
#include "formats/common/format_fault.hpp"
#include "formats/tkt/tkt_format.hpp"

namespace tracekit {

class TktReader {
 public:
  // Whose registers and access sizes a static instruction gets.
  enum class Operands : std::uint8_t {
    text,   // from the disassembly, as from text traces: the same numbers from both
    trace,  // gem5's own: exact, its architectural indices, misc registers included
  };

  explicit TktReader(Operands operands = Operands::text) : operands_(operands) {}
  // For the static instructions that come from now on.
  void use(Operands operands) { operands_ = operands; }

  // Takes the next bytes, cut anywhere.  Throws FormatFault where nothing can be read from the
  // stream; damage further on ends the rows there and is counted.
  void feed(const char* data, std::size_t n);
  // After the last byte: counts a stream that was cut off.  Throws FormatFault when it had no
  // header.
  void finish();

  // Rows since the last take; the caller clears it when it has used them.
  RowBatch& batch() { return batch_; }
  const StaticTable& statics() const { return table_; }
  const Counters& counters() const { return counters_; }
  bool has_header() const { return has_header_; }
  const tkt::Header& header() const { return header_; }
  bool complete() const { return complete_; }  // the end marker came, and its counts are right
  Arch arch() const { return arch_; }

 private:
  void leave_out(std::size_t n);  // bytes behind the end
  std::size_t read_header(const char* p, std::size_t n);
  std::size_t read_records(const char* p, std::size_t n);
  void read_static(const char* p, std::size_t n);
  void read_end(const char* p, std::size_t n);
  std::size_t read_rows(const char* p, std::size_t n);
  template <bool all_stages>
  std::size_t read_rows_of(const char* p, std::size_t n);
  void stop_at(std::size_t bytes, const char* damage);
  void stop(const char* why) {
    counters_.add(why, offset_);
    dead_ = true;
  }

  Operands operands_;
  std::string pending_;
  tkt::Header header_;
  Arch arch_{Arch::unknown};
  std::vector<OpClass> ops_;
  std::array<Flags, 64> flags_{};  // of a static's bits; 0: the header names none
  std::vector<RegClass> reg_classes_;
  // What follows from the bits of a row's head: its size (without the lowest four), and row_bit.
  std::array<std::uint8_t, 4096> row_size_{};
  std::array<std::uint8_t, 16> bits_{};
  std::array<std::uint8_t, 64> ticks_size_{};  // with the head's bits 4 to 9
  struct Known {
    std::uint32_t id;      // in the table
    std::uint64_t addr{};  // of its last access
  };
  void access(Known& known, std::uint16_t size);
  std::vector<Known> known_;  // by the stream's numbers
  StaticTable table_;
  RowBatch batch_;
  Counters counters_;
  std::uint64_t offset_{};  // of the record being read
  std::uint64_t rows_{};
  struct Last {  // what the next row's differences are to
    std::uint64_t fetch{}, retire{};
    std::uint32_t sid{0xffffffffu};
  };
  Last last_;
  bool has_header_{}, timed_{}, complete_{}, ended_{}, dead_{};
};

}  // namespace tracekit
