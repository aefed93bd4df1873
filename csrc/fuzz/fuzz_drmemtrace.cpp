// Any bytes in any pieces: rows must stay well formed and convert without a fault.
#include <algorithm>

#include "streams/drmemtrace.hpp"
#include "streams/native_rows.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tracekit;
  if (size == 0) return 0;
  const std::size_t piece = 1 + data[0];
  EncodingTable table;
  StaticTable statics;
  DrmemtraceParser parser(table);
  NativeRows rows(table, statics, data[0] & 1 ? Described::regdeps : Described::branch_kind,
                  data[0] & 2);
  NativeBatch batch;
  RowBatch out;
  std::vector<Timestamp> times;
  std::vector<std::uint32_t> ids;
  const auto drain = [&] {
    parser.take(batch, times);
    for (const Timestamp& t : times)
      if (t.row > batch.size()) __builtin_trap();
    ids.clear();
    rows.meet(batch, ids);
    for (const std::uint32_t id : ids) rows.define(id, {}, 0);
    rows.convert(batch, out);
    for (std::size_t i = 0; i < out.size(); ++i)
      if (out.sid[i] >= statics.size()) __builtin_trap();
    out.clear();
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
  rows.finish(out);
  return 0;
}
