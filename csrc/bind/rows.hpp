// What a source hands to the feature stage: rows, and the static instructions that are new in them.
#pragma once

#include <utility>
#include <vector>

#include "bind/register.hpp"
#include "core/counters.hpp"
#include "core/hot_static.hpp"
#include "core/row_batch.hpp"
#include "core/static_table.hpp"

namespace tracekit {

struct Rows {
  RowBatch batch;
  std::vector<HotStatic> statics;
};

// The rows in `from`, leaving room in it: the next block brings about as many.
inline RowBatch take_batch(RowBatch& from) {
  RowBatch out = std::move(from);
  from = RowBatch{};
  from.reserve(out.size());
  return out;
}

// Rows with the statics from number `taken` on.
inline Rows take_rows(RowBatch batch, Arch arch, const StaticTable& table, std::size_t& taken) {
  Rows out;
  out.batch = std::move(batch);
  for (; taken < table.size(); ++taken)
    out.statics.push_back(make_hot(arch, table, static_cast<std::uint32_t>(taken)));
  return out;
}

// The table as a dict of NumPy arrays and lists; its keys are documented in
// tracekit/store/statics.py.
pybind11::dict export_statics(const StaticTable& table);
pybind11::dict export_counters(const Counters& counters);
const char* arch_name(Arch arch);

}  // namespace tracekit
