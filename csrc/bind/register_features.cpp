#include <algorithm>
#include <array>
#include <memory>
#include <optional>

#include "bind/register.hpp"
#include "bind/rows.hpp"
#include "encode/chunk_codec.hpp"
#include "features/engine.hpp"
#include "macro/macro_join.hpp"

namespace py = pybind11;

namespace tracekit {
namespace {

template <class T>
py::array_t<T> to_array(const std::vector<T>& v) {
  return py::array_t<T>(static_cast<py::ssize_t>(v.size()), v.data());
}

// Feature engine, macro join where asked for, and the encoder of chunks.
class FeatureStage {
 public:
  FeatureStage(unsigned history, unsigned line_bits, bool macro, std::size_t unseen)
      : engine_({history, line_bits, macro}), encoder_(line_bits), unseen_(unseen) {
    if (history < 1 || history > BranchEntropy::max_history)
      throw py::value_error("history: 1 to 24");
    if (line_bits > 20) throw py::value_error("line_bits: 0 to 20");
    if (macro) macro_.emplace();
  }
  void add(const Rows& rows) {
    for (const HotStatic& h : rows.statics) engine_.add_static(h);
    const auto& sid = rows.batch.sid;
    const std::uint32_t largest =
        sid.empty() ? 0 : *std::max_element(sid.data(), sid.data() + sid.size());
    if (!sid.empty() && largest >= engine_.statics().size())
      throw py::index_error("rows name a static instruction that was never handed over");
    if (unseen_ == 0) {
      engine_.add(rows.batch);
    } else {
      const RowBatch seen = after_unseen(rows.batch);
      engine_.add(seen);
    }
    join();
  }
  void finish() {
    engine_.finish();
    join();
    if (macro_) macro_->finish(engine_.statics());
    finished_ = true;
  }
  std::size_t ready() const {
    if (!macro_) return engine_.ready();
    const std::size_t n = macro_->size();
    return finished_ || n == 0 ? n : n - 1;  // the last one may still be open
  }
  void drop(std::size_t n) {
    if (macro_)
      macro_->rows().drop_front(n);
    else
      engine_.drop_front(n);
  }
  void skip(std::size_t n) {
    drop(std::min(n, ready()));
    begun_ = true;  // the clock starts at the first row that is kept
  }

  // The rows without the first ones, which no feature is to know of: rows, or whole instructions.
  RowBatch after_unseen(const RowBatch& in) {
    std::size_t at = 0;
    for (; at < in.size() && unseen_ > 0; ++at)
      unseen_ -= !macro_ || engine_.statics()[in.sid[at]].is(HotStatic::last);
    RowBatch out;
    out.timed = in.timed;
    out.resize(in.size() - at);
    for (std::size_t i = at; i < in.size(); ++i) {
      out.sid[i - at] = in.sid[i], out.addr[i - at] = in.addr[i], out.bits[i - at] = in.bits[i];
      if (!in.timed) continue;
      for (unsigned s = 0; s < stage::count; ++s) out.ticks[s][i - at] = in.ticks[s][i];
    }
    return out;
  }

  struct Chunk {
    std::size_t rows;
    std::uint64_t unit, retired_before;
    bool timed;
  };
  // The first n rows as streams; they are gone afterwards.
  Chunk encode(std::size_t n) {
    n = std::min(n, ready());
    FeatureBatch& rows = batch();
    encoder_.encode(rows, n, statics());
    // The sum over an instruction's micro-ops: also of the first one, whose first micro-op starts
    // the clock.
    if (macro_ && !begun_) retired_ = macro_->first_retire();
    begun_ = true;
    Chunk c{n, encoder_.tick_unit(), retired_, rows.timed};
    counts_.resize(statics().size());
    std::array<std::uint64_t, 256> of_bits{};
    for (std::size_t i = 0; i < n; ++i) {
      ++counts_[rows.sid[i]];
      ++of_bits[rows.bits[i]];
      retired_ = std::max(retired_, rows.ticks[stage::retire][i]);
    }
    for (unsigned b = 0; b < 256; ++b)
      for (unsigned k = 0; k < 8; ++k) bit_counts_[k] += b >> k & 1 ? of_bits[b] : 0;
    drop(n);
    return c;
  }
  std::span<const std::uint8_t> stream(unsigned id) const { return encoder_.stream(id); }
  const std::vector<HotStatic>& statics() const {
    return macro_ ? macro_->statics() : engine_.statics();
  }
  FeatureBatch& batch() { return macro_ ? macro_->rows() : engine_.rows(); }
  std::vector<std::uint64_t> counts() {
    counts_.resize(statics().size());
    return counts_;
  }
  std::size_t unfinished() const { return macro_ ? macro_->unfinished() : 0; }
  const std::uint64_t* bit_counts() const { return bit_counts_; }
  std::optional<StaticTable> macro_table(const StaticTable& micro) const {
    if (!macro_) return std::nullopt;
    return join_statics(micro, macro_->members());
  }

 private:
  void join() {
    if (!macro_) return;
    macro_->add(engine_.rows(), engine_.ready(), engine_.statics());
    engine_.drop_front(engine_.ready());
  }
  FeatureEngine engine_;
  std::optional<MacroJoin> macro_;
  ChunkEncoder encoder_;
  std::vector<std::uint64_t> counts_;
  std::uint64_t bit_counts_[8]{};
  std::uint64_t retired_{};
  bool finished_{}, begun_{};
  std::size_t unseen_;  // rows still to be left out
};

py::dict export_hot(const std::vector<HotStatic>& statics) {
  const auto n = static_cast<py::ssize_t>(statics.size());
  py::array_t<std::uint8_t> bits(n);
  py::array_t<std::uint8_t> fall({n, py::ssize_t{2}});
  for (py::ssize_t i = 0; i < n; ++i) {
    const HotStatic& h = statics[static_cast<std::size_t>(i)];
    bits.mutable_at(i) = h.bits;
    for (int k = 0; k < 2; ++k)
      fall.mutable_at(i, k) = static_cast<std::uint8_t>(h.fall[k] ? h.fall[k] - h.pc : 0);
  }
  py::dict d;
  d["hot_bits"] = bits;
  d["fall"] = fall;
  return d;
}

}  // namespace

void register_features(py::module_& m) {
  py::class_<StaticTable>(m, "StaticTable", "The static instructions of one stream.")
      .def("__len__", &StaticTable::size)
      .def("columns", [](const StaticTable& t) { return export_statics(t); });

  py::class_<Rows>(m, "Rows", "Rows in commit order, on their way to the feature stage.")
      .def("__len__", [](const Rows& r) { return r.batch.size(); })
      .def("__bool__", [](const Rows& r) { return r.batch.size() != 0 || !r.statics.empty(); });

  py::class_<FeatureStage>(m, "FeatureStage", "Rows to features to the streams of a chunk.")
      .def(py::init<unsigned, unsigned, bool, std::size_t>(), py::arg("history"),
           py::arg("line_bits"), py::arg("macro"), py::arg("unseen") = 0)
      .def("add", &FeatureStage::add, py::arg("rows"), py::call_guard<py::gil_scoped_release>())
      .def("finish", &FeatureStage::finish, py::call_guard<py::gil_scoped_release>())
      .def("ready", &FeatureStage::ready)
      .def("skip", &FeatureStage::skip, py::arg("rows"))
      .def(
          "encode",
          [](FeatureStage& s, std::size_t n) {
            FeatureStage::Chunk c{};
            {
              py::gil_scoped_release release;
              c = s.encode(n);
            }
            py::dict streams;
            for (unsigned id = 0; id < column::count; ++id) {
              const auto stream = s.stream(id);
              if (stream.empty()) continue;
              streams[py::str(column::names[id].data(), column::names[id].size())] =
                  py::bytes(reinterpret_cast<const char*>(stream.data()), stream.size());
            }
            py::dict d;
            d["rows"] = c.rows;
            d["tick_unit"] = c.unit;
            d["retired_before"] = c.retired_before;
            d["timed"] = c.timed;
            d["streams"] = streams;
            return d;
          },
          py::arg("rows"))
      .def("unfinished", &FeatureStage::unfinished)
      .def("counts", [](FeatureStage& s) { return to_array(s.counts()); })
      .def("bit_counts",
           [](const FeatureStage& s) {
             py::list l;
             for (int k = 0; k < 8; ++k) l.append(s.bit_counts()[k]);
             return l;
           })
      .def("hot", [](const FeatureStage& s) { return export_hot(s.statics()); })
      .def("macro_table", &FeatureStage::macro_table, py::arg("micro"));
}

}  // namespace tracekit
