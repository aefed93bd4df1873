// Two text formats of instruction streams: QEMU's execlog plug-in and Valgrind's lackey.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/counters.hpp"
#include "core/static_inst.hpp"
#include "formats/common/native_batch.hpp"

namespace tracekit {

enum class TextStream : std::uint8_t {
  // cpu, 0xpc, 0xcode, "disassembly"(, load|store, 0xaddr(, device)?)*
  // The code is the first four bytes as a number: of x86 instructions that may be a part only, and
  // zeros stand for the rest.
  execlog,
  // "I  pc,size", then " L addr,size", " S addr,size" or " M addr,size" (a load and a store), hex.
  lackey,
};

class TextStreamParser {
 public:
  // `arch` is that of the execlog; lackey has no machine code.
  TextStreamParser(EncodingTable& table, TextStream format, Arch arch)
      : table_(&table), format_(format), arch_(arch) {}
  // Throws FormatFault for a line of over 64 KiB.
  void feed(std::string_view text);
  void finish();
  void take(NativeBatch& rows);
  std::uint64_t lines() const { return lines_; }
  const Counters& anomalies() const { return anomalies_; }

 private:
  void line(std::string_view text);
  bool execlog(std::string_view text);
  bool lackey(std::string_view text);

  EncodingTable* table_;
  TextStream format_;
  Arch arch_;
  NativeBatch batch_;
  Counters anomalies_;
  std::string tail_;
  std::uint64_t offset_{}, lines_{};
  std::optional<std::uint64_t> cpu_;  // of the line before
  bool restart_{true}, open_{}, finished_{};
};

}  // namespace tracekit
