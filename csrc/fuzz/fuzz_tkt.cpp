// Any bytes, cut anywhere, leave the .tkt reader with consistent columns or one of its own errors.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "parse/tkt_reader.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::size_t step = data[0] + 1u;
  const auto operands =
      data[1] & 1 ? tracekit::TktReader::Operands::trace : tracekit::TktReader::Operands::text;
  const char* p = reinterpret_cast<const char*>(data) + 2;
  size -= 2;
  tracekit::TktReader reader(operands);
  try {
    for (std::size_t at = 0; at < size; at += step) {
      reader.feed(p + at, std::min(step, size - at));
      tracekit::RowBatch& rows = reader.batch();
      if (rows.addr.size() != rows.size() || rows.bits.size() != rows.size()) std::abort();
      for (const auto& ticks : rows.ticks)
        if (rows.timed && ticks.size() != rows.size()) std::abort();
      for (std::size_t i = 0; i < rows.size(); ++i)
        if (rows.sid[i] >= reader.statics().size()) std::abort();
      rows.clear();
    }
    reader.finish();
  } catch (const tracekit::FormatFault&) {
  }
  return 0;
}
