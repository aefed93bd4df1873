// Any bytes as ChampSim records: read, converted to rows, through the codec; written, read again
// with the same meaning.
#include <algorithm>

#include "formats/champsim/champsim.hpp"
#include "formats/native_rows/native_rows.hpp"
#include "fuzz/round_trip.hpp"

namespace {

using namespace tracekit;

void read(const std::uint8_t* data, std::size_t size, bool wide, std::size_t piece,
          StaticTable& statics, RowBatch& out) {
  EncodingTable table;
  ChampsimParser parser(table, wide);
  for (std::size_t at = 0; at < size; at += piece)
    parser.feed(data + at, std::min(piece, size - at));
  parser.finish();
  NativeBatch batch;
  parser.take(batch);
  NativeRows rows(table, statics, Described::champsim, false);
  std::vector<std::uint32_t> ids;
  rows.meet(batch, ids);
  rows.convert(batch, out);
  rows.finish(out);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  StaticTable first, second;
  RowBatch a, b;
  read(data + 1, size - 1, data[0] & 1, 1 + (data[0] >> 1), first, a);
  fuzz::Choices choices(data, size);
  fuzz::RoundTrip trip;
  trip.add(a, Arch::unknown, first, choices);
  trip.finish(first, choices);
  ChampsimWriter writer(Arch::unknown);
  std::vector<std::uint8_t> bytes, again;
  writer.encode(first, a.sid.data(), a.addr.data(), a.bits.data(), a.size(), bytes);
  if (bytes.size() != 64 * writer.records()) __builtin_trap();
  read(bytes.data(), bytes.size(), false, 64, second, b);
  ChampsimWriter twice(Arch::unknown);
  twice.encode(second, b.sid.data(), b.addr.data(), b.bits.data(), b.size(), again);
  if (bytes != again) __builtin_trap();
  return 0;
}
