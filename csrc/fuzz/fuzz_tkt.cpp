// Any bytes, cut anywhere, leave the .tkt reader with consistent columns, which the codec gives
// back as they were, or with one of its own errors.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "formats/tkt/tkt_reader.hpp"
#include "fuzz/round_trip.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::size_t step = data[0] + 1u;
  const auto operands =
      data[1] & 1 ? tracekit::TktReader::Operands::trace : tracekit::TktReader::Operands::text;
  const char* p = reinterpret_cast<const char*>(data) + 2;
  size -= 2;
  tracekit::TktReader reader(operands);
  tracekit::fuzz::Choices choices(data, size);
  tracekit::fuzz::RoundTrip trip;
  try {
    for (std::size_t at = 0; at < size; at += step) {
      reader.feed(p + at, std::min(step, size - at));
      tracekit::RowBatch& rows = reader.batch();
      if (rows.addr.size() != rows.size() || rows.bits.size() != rows.size()) std::abort();
      for (const auto& ticks : rows.ticks)
        if (rows.timed && ticks.size() != rows.size()) std::abort();
      trip.add(rows, reader.arch(), reader.statics(), choices);
      rows.clear();
    }
    reader.finish();
  } catch (const tracekit::FormatFault&) {
  }
  trip.finish(reader.statics(), choices);
  return 0;
}
