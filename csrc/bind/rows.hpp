// What a source hands to the feature stage: rows, and the static instructions that are new in them.
#pragma once

#include <memory>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "bind/register.hpp"
#include "core/counters.hpp"
#include "core/row_batch.hpp"
#include "core/static_table.hpp"
#include "isa/hot_static.hpp"

namespace tracekit {

// Batches that were read and are written again: their memory is mapped already.
class RowPool {
 public:
  RowBatch take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return {};
    RowBatch out = std::move(free_.back());
    free_.pop_back();
    return out;
  }
  void give(RowBatch batch) {
    batch.clear();
    batch.timed = false;
    const std::lock_guard lock(mutex_);
    if (free_.size() < most) free_.push_back(std::move(batch));
  }

 private:
  static constexpr std::size_t most = 4;
  std::mutex mutex_;
  std::vector<RowBatch> free_;
};

struct Rows {
  RowBatch batch;
  std::vector<HotStatic> statics;
  std::size_t used{};  // rows that the feature stage has taken
  std::shared_ptr<RowPool> pool;

  Rows() = default;
  Rows(Rows&&) = default;
  Rows& operator=(Rows&&) = delete;
  ~Rows() {
    if (pool) pool->give(std::move(batch));
  }
};

// What of one CPU's rows and statics was handed over.
class Handover {
 public:
  RowBatch spare() { return pool_->take(); }
  // With the statics that are new since the last call.
  Rows rows(RowBatch batch, Arch arch, const StaticTable& table) {
    Rows out;
    out.batch = std::move(batch);
    out.pool = pool_;
    for (; taken_ < table.size(); ++taken_)
      out.statics.push_back(make_hot(arch, table, static_cast<std::uint32_t>(taken_)));
    return out;
  }
  // The rows in `from`, leaving room in it: the next block brings about as many.
  Rows all(RowBatch& from, Arch arch, const StaticTable& table) {
    RowBatch batch = std::exchange(from, spare());
    from.reserve(batch.size());
    return rows(std::move(batch), arch, table);
  }

 private:
  std::shared_ptr<RowPool> pool_ = std::make_shared<RowPool>();
  std::size_t taken_{};
};

// The text of a trace is untrusted: what is no UTF-8 in it is replaced, and never an exception.
pybind11::object text(std::string_view bytes);
// The table as a dict of NumPy arrays and lists; its keys are documented in
// tracekit/store/statics.py.
pybind11::dict export_statics(const StaticTable& table);
// (an instruction of each form, sorted by text; the form of each): instructions of one form have
// equal texts, machine codes and `rest`, a row of bytes.
pybind11::tuple static_forms(const pybind11::list& texts, const pybind11::list& codes,
                             const pybind11::array_t<std::uint8_t, pybind11::array::c_style>& rest);
pybind11::dict export_counters(const Counters& counters);
const char* arch_name(Arch arch);
Arch arch_of(const std::string& name);  // ValueError for a name that arch_name does not give

}  // namespace tracekit
