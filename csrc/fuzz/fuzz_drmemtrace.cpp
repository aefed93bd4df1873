// Any bytes in any pieces: rows stay well formed, convert without a fault, and come back from the
// codec as they were.
#include <algorithm>

#include "formats/drmemtrace/drmemtrace.hpp"
#include "fuzz/native_trip.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tracekit;
  if (size == 0) return 0;
  const std::size_t piece = 1 + data[0];
  EncodingTable table;
  DrmemtraceParser parser(table);
  fuzz::NativeTrip trip(table, data[0] & 1 ? Described::regdeps : Described::branch_kind,
                        data[0] & 2, fuzz::Choices(data, size));
  NativeBatch batch;
  std::vector<Timestamp> times;
  const auto drain = [&] {
    parser.take(batch, times);
    for (const Timestamp& t : times) fuzz::require(t.row <= batch.size());
    trip.add(batch);
  };
  try {
    for (std::size_t at = 1; at < size; at += piece) {
      parser.feed(data + at, std::min(piece, size - at));
      drain();
    }
    parser.finish();
  } catch (const FormatFault&) {
  }
  drain();
  trip.finish();
  return 0;
}
