// Moving instructions between native batches.
#pragma once

#include <cstring>

#include "formats/common/native_batch.hpp"

namespace tracekit {

// The instructions [from, to) of `src`, which must exist, with their accesses.
inline void append_rows(NativeBatch& into, const NativeBatch& src, std::size_t from,
                        std::size_t to) {
  if (from >= to) return;
  const auto join = [](auto& out, const auto& in, std::size_t lo, std::size_t hi) {
    const std::size_t at = out.size();
    out.resize(at + (hi - lo));
    if (hi > lo) std::memcpy(out.data() + at, in.data() + lo, (hi - lo) * sizeof(in[0]));
  };
  const std::size_t a0 = src.first_access[from], a1 = src.end_access(to - 1);
  const std::size_t row = into.size(), shift = into.accesses() - a0;
  join(into.encoding, src.encoding, from, to);
  join(into.bits, src.bits, from, to);
  join(into.first_access, src.first_access, from, to);
  for (std::size_t i = row; i < into.size(); ++i) into.first_access[i] += shift;
  join(into.address, src.address, a0, a1);
  join(into.access_size, src.access_size, a0, a1);
  join(into.is_store, src.is_store, a0, a1);
}

// Moves the last instruction of `rows`, which may still be incomplete, to the empty batch `rest`.
inline void split_last(NativeBatch& rows, NativeBatch& rest) {
  if (rows.size() == 0) return;
  const std::size_t last = rows.size() - 1, from = rows.first_access[last];
  append_rows(rest, rows, last, last + 1);
  rows.encoding.resize(last);
  rows.bits.resize(last);
  rows.first_access.resize(last);
  rows.address.resize(from);
  rows.access_size.resize(from);
  rows.is_store.resize(from);
}

}  // namespace tracekit
