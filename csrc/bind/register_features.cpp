#include <algorithm>
#include <array>
#include <memory>
#include <optional>

#include "bind/register.hpp"
#include "bind/rows.hpp"
#include "encode/column_hash.hpp"
#include "encode/column_moments.hpp"
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
  struct Options {
    unsigned history, line_bits;
    bool macro;
    std::size_t unseen, skip, count, chunk_rows;
    bool hashes, moments;
  };
  explicit FeatureStage(const Options& o)
      : engine_({o.history, o.line_bits, o.macro}),
        encoder_(o.line_bits),
        unseen_(o.unseen),
        skip_(o.skip),
        left_(o.count),
        chunk_rows_(o.chunk_rows) {
    if (o.history < 1 || o.history > BranchEntropy::max_history)
      throw py::value_error("history: 1 to 24");
    if (o.line_bits > 20) throw py::value_error("line_bits: 0 to 20");
    if (o.chunk_rows < 1) throw py::value_error("chunk_rows: at least 1");
    if (o.macro) macro_.emplace();
    if (o.hashes) hasher_.emplace();
    if (o.moments) moments_.emplace();
  }
  // Takes rows until a chunk is whole (true; the rest when called with the same rows again) or all
  // are taken.
  bool add(Rows& rows) {
    if (rows.used == 0) take_statics(rows);
    const RowBatch& in = rows.batch;
    for (; unseen_ > 0 && rows.used < in.size(); ++rows.used)
      unseen_ -= !macro_ || engine_.statics()[in.sid[rows.used]].is(HotStatic::last);
    for (;;) {
      if (encode_ready()) return true;
      if (rows.used == in.size() || done()) return false;
      const std::size_t end = std::min(in.size(), rows.used + block_rows);
      engine_.add(in, rows.used, end);
      rows.used = end;
      join();
    }
  }
  // After the last row: true as often as there is a chunk left.
  bool finish() {
    if (!finished_) {
      engine_.finish();
      join();
      if (macro_) macro_->finish(engine_.statics());
      finished_ = true;
    }
    if (encode_ready()) return true;
    if (encoder_.size() == 0) return false;
    end_chunk();
    return true;
  }
  bool done() const { return left_ == 0; }

  struct Chunk {
    std::size_t rows;
    std::uint64_t unit, retired_before;
    bool timed;
    std::optional<ColumnHashes> hashes;  // of the rows before they were encoded
  };
  // The one that add or finish told of.
  const Chunk& chunk() const { return chunk_; }
  std::span<const std::uint8_t> stream(unsigned id) const { return encoder_.stream(id); }
  const std::vector<HotStatic>& statics() const {
    return macro_ ? macro_->statics() : engine_.statics();
  }
  std::vector<std::uint64_t> counts() {
    counts_.resize(statics().size());
    return counts_;
  }
  const std::optional<ColumnMoments>& moments() const { return moments_; }
  std::size_t skipped() const { return skipped_; }
  std::size_t unfinished() const { return macro_ ? macro_->unfinished() : 0; }
  std::array<std::uint64_t, 8> bit_counts() const {
    std::array<std::uint64_t, 8> out{};
    for (unsigned b = 0; b < of_bits_.size(); ++b)
      for (unsigned k = 0; k < 8; ++k) out[k] += b >> k & 1 ? of_bits_[b] : 0;
    return out;
  }
  std::optional<StaticTable> macro_table(const StaticTable& micro) const {
    if (!macro_) return std::nullopt;
    return join_statics(micro, macro_->members());
  }

 private:
  // Rows that go through all passes at once: their columns stay in a core's own cache.
  static constexpr std::size_t block_rows = 2048;

  void take_statics(Rows& rows) {
    for (const HotStatic& h : rows.statics) engine_.add_static(h);
    rows.statics.clear();
    const auto& sid = rows.batch.sid;
    if (!sid.empty() &&
        *std::max_element(sid.data(), sid.data() + sid.size()) >= engine_.statics().size())
      throw py::index_error("rows name a static instruction that was never handed over");
  }
  void join() {
    if (!macro_) return;
    macro_->add(engine_.rows(), engine_.ready(), engine_.statics());
    engine_.drop_front(engine_.ready());
  }
  FeatureBatch& batch() { return macro_ ? macro_->rows() : engine_.rows(); }
  std::size_t ready() const {
    if (!macro_) return engine_.ready();
    const std::size_t n = macro_->size();
    return finished_ || n == 0 ? n : n - 1;  // the last one may still be open
  }
  // Encodes the rows that are ready; true when that makes a chunk whole.
  bool encode_ready() {
    const std::size_t n = ready();
    if (const std::size_t k = std::min(skip_, n - front_)) {
      skip_ -= k, skipped_ += k, front_ += k;
      begun_ = true;  // the clock starts at the first row that is kept
    }
    const std::size_t k =
        std::min({n - front_, left_, chunk_rows_ - std::min(chunk_rows_, encoder_.size())});
    if (k) encode(front_, front_ + k);
    front_ += k;
    left_ -= k;
    const bool whole = encoder_.size() >= chunk_rows_ || (encoder_.size() && done());
    if (whole) end_chunk();
    if (front_ == n) {
      if (macro_)
        macro_->rows().drop_front(front_);
      else
        engine_.drop_front(front_);
      front_ = 0;
    }
    return whole;
  }
  void encode(std::size_t begin, std::size_t end) {
    FeatureBatch& rows = batch();
    if (encoder_.size() == 0) chunk_ = {0, 0, retired_, false, std::nullopt};
    if (hasher_) hasher_->add(rows, begin, end);
    if (moments_) moments_->add(rows, begin, end, statics());
    encoder_.append(rows, begin, end, statics());
    chunk_.timed = rows.timed;
    counts_.resize(statics().size());
    for (std::size_t i = begin; i < end; ++i) {
      ++counts_[rows.sid[i]];
      ++of_bits_[rows.bits[i]];
      retired_ = std::max(retired_, rows.ticks[stage::retire][i]);
    }
  }
  void end_chunk() {
    // The sum over an instruction's micro-ops: also of the first one, whose first micro-op starts
    // the clock.
    if (macro_ && !begun_) {
      chunk_.retired_before = macro_->first_retire();
      retired_ = std::max(retired_, chunk_.retired_before);
    }
    begun_ = true;
    chunk_.rows = encoder_.size();
    encoder_.finish(statics());
    chunk_.unit = encoder_.tick_unit();
    if (hasher_) chunk_.hashes = hasher_->take();
  }

  FeatureEngine engine_;
  std::optional<MacroJoin> macro_;
  ChunkEncoder encoder_;
  std::optional<ColumnHasher> hasher_;
  std::optional<ColumnMoments> moments_;  // of all rows
  Chunk chunk_{};
  std::size_t front_{};  // ready rows that are encoded or skipped
  std::vector<std::uint64_t> counts_;
  std::array<std::uint64_t, 256> of_bits_{};  // rows with these bits
  std::uint64_t retired_{};
  bool finished_{}, begun_{};
  std::size_t unseen_;            // rows still to be left out,
  std::size_t skip_, skipped_{};  // to be known to the features alone,
  std::size_t left_;              // and to be encoded behind them
  std::size_t chunk_rows_;
};

py::dict export_hot(const std::vector<HotStatic>& statics) {
  const auto n = static_cast<py::ssize_t>(statics.size());
  py::array_t<std::uint64_t> pc(n);
  py::array_t<std::uint16_t> upc(n);
  py::array_t<std::uint8_t> bits(n);
  py::array_t<std::uint8_t> fall({n, py::ssize_t{2}});
  for (py::ssize_t i = 0; i < n; ++i) {
    const StoredHot s = stored(statics[static_cast<std::size_t>(i)]);
    pc.mutable_at(i) = s.pc;
    upc.mutable_at(i) = s.upc;
    bits.mutable_at(i) = s.bits;
    for (int k = 0; k < 2; ++k) fall.mutable_at(i, k) = s.fall[k];
  }
  py::dict d;
  d["pc"] = pc;
  d["upc"] = upc;
  d["hot_bits"] = bits;
  d["fall"] = fall;
  return d;
}

py::object export_moments(const ColumnMoments& moments) {
  py::dict d;
  for (unsigned id = 0; id < column::count; ++id) {
    if (!ColumnMoments::has(id)) continue;
    const Moments& m = moments.of(id);
    d[py::str(column::names[id].data(), column::names[id].size())] =
        py::make_tuple(m.count, m.never, m.total, m.squares, m.least, m.most);
  }
  d["ticks"] = py::make_tuple(moments.first_retired(), moments.last_retired());
  d["instructions"] = moments.instructions();
  return d;
}

}  // namespace

void register_features(py::module_& m) {
  m.attr("NEVER") = py::int_(far_distance);
  py::class_<StaticTable>(m, "StaticTable", "The static instructions of one stream.")
      .def("__len__", &StaticTable::size)
      .def("columns", [](const StaticTable& t) { return export_statics(t); });

  m.def("static_forms", &static_forms, py::arg("texts"), py::arg("codes"), py::arg("rest"),
        "(an instruction of each form, sorted by text; the form of each instruction).");

  py::class_<Rows>(m, "Rows", "Rows in commit order, on their way to the feature stage.")
      .def("__len__", [](const Rows& r) { return r.batch.size(); })
      .def("__bool__", [](const Rows& r) { return r.batch.size() != 0 || !r.statics.empty(); });

  py::class_<FeatureStage>(m, "FeatureStage", "Rows to features to the streams of chunks.")
      .def(py::init([](unsigned history, unsigned line_bits, bool macro, std::size_t unseen,
                       std::size_t skip, std::optional<std::size_t> count, std::size_t chunk_rows,
                       bool hashes, bool moments) {
             return std::make_unique<FeatureStage>(FeatureStage::Options{
                 history, line_bits, macro, unseen, skip, count.value_or(~std::size_t{0}),
                 chunk_rows, hashes, moments});
           }),
           py::arg("history"), py::arg("line_bits"), py::arg("macro"), py::arg("unseen") = 0,
           py::arg("skip") = 0, py::arg("count") = py::none(),
           py::arg("chunk_rows") = std::size_t{1} << 16, py::arg("hashes") = false,
           py::arg("moments") = false)
      .def("add", &FeatureStage::add, py::arg("rows"), py::call_guard<py::gil_scoped_release>(),
           "True when a chunk is whole: take it, then call again with the same rows.")
      .def("finish", &FeatureStage::finish, py::call_guard<py::gil_scoped_release>(),
           "True as long as there is a chunk to take.")
      .def("chunk",
           [](const FeatureStage& s) {
             py::dict streams;
             for (unsigned id = 0; id < column::count; ++id) {
               const auto stream = s.stream(id);
               if (stream.empty()) continue;
               streams[py::str(column::names[id].data(), column::names[id].size())] =
                   py::bytes(reinterpret_cast<const char*>(stream.data()), stream.size());
             }
             const FeatureStage::Chunk& c = s.chunk();
             py::dict d;
             d["rows"] = c.rows;
             d["tick_unit"] = c.unit;
             d["retired_before"] = c.retired_before;
             d["timed"] = c.timed;
             d["streams"] = streams;
             if (c.hashes) d["hashes"] = *c.hashes;
             return d;
           })
      .def_property_readonly("done", &FeatureStage::done, "Whether `count` rows are encoded.")
      .def_property_readonly("skipped", &FeatureStage::skipped)
      .def(
          "moments",
          [](const FeatureStage& s) {
            return s.moments() ? export_moments(*s.moments()) : py::none();
          },
          "By column: rows that have a value, first touches, sum, sum of squares, least, most; "
          "`ticks`: the first retirement's and the last one's.  None unless asked for.")
      .def("unfinished", &FeatureStage::unfinished)
      .def("counts", [](FeatureStage& s) { return to_array(s.counts()); })
      .def("bit_counts", &FeatureStage::bit_counts)
      .def("hot", [](const FeatureStage& s) { return export_hot(s.statics()); })
      .def("macro_table", &FeatureStage::macro_table, py::arg("micro"));
}

}  // namespace tracekit
