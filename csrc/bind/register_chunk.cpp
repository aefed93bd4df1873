#include <memory>

#include "bind/buffer.hpp"
#include "bind/register.hpp"
#include "encode/column_hash.hpp"

namespace py = pybind11;

namespace tracekit {
namespace {

struct HotTable {
  std::vector<HotStatic> statics;
};

std::span<const std::uint8_t> span_of(const ByteView& v) { return {v.bytes(), v.size()}; }

template <class T>
py::array_t<T> make(std::size_t n) {
  return py::array_t<T>(static_cast<py::ssize_t>(n));
}

struct Chunk {
  std::shared_ptr<const HotTable> table;  // the decoder points into it
  ChunkDecoder decoder;
};

template <class T, class F>
py::array_t<T> column_of(const Chunk& c, const py::buffer& data, F&& decode) {
  const ByteView view(data);
  auto out = make<T>(c.decoder.size());
  T* to = out.mutable_data();
  {
    py::gil_scoped_release release;
    decode(span_of(view), to);
  }
  return out;
}

}  // namespace

void register_chunk(py::module_& m) {
  py::register_exception<DecodeError>(m, "DecodeError", PyExc_ValueError);

  py::class_<HotTable, std::shared_ptr<HotTable>>(m, "HotTable",
                                                  "What decoding asks of each static instruction.")
      .def(py::init([](const py::array_t<std::uint64_t>& pc, const py::array_t<std::uint16_t>& upc,
                       const py::array_t<std::uint8_t>& bits,
                       const py::array_t<std::uint8_t>& fall) {
             const py::ssize_t n = pc.size();
             if (upc.size() != n || bits.size() != n || fall.ndim() != 2 || fall.shape(0) != n ||
                 fall.shape(1) != 2)
               throw py::value_error("static columns of different lengths");
             auto t = std::make_shared<HotTable>();
             t->statics.resize(static_cast<std::size_t>(n));
             for (py::ssize_t i = 0; i < n; ++i) {
               const StoredHot s{pc.at(i), upc.at(i), bits.at(i), {fall.at(i, 0), fall.at(i, 1)}};
               t->statics[static_cast<std::size_t>(i)] = restored(s);
             }
             return t;
           }),
           py::arg("pc"), py::arg("upc"), py::arg("bits"), py::arg("fall"));

  py::class_<Chunk>(m, "Chunk", "Decoder of one chunk's streams.")
      .def(py::init([](std::shared_ptr<HotTable> table, std::size_t rows,
                       const py::buffer& static_id, const py::buffer& bits) {
             const ByteView a(static_id), b(bits);
             py::gil_scoped_release release;
             ChunkDecoder decoder(table->statics, rows, span_of(a), span_of(b));
             return Chunk{std::move(table), std::move(decoder)};
           }),
           py::arg("table"), py::arg("rows"), py::arg("static_id"), py::arg("bits"))
      .def("static_id",
           [](const Chunk& c) {
             return py::array_t<std::uint32_t>(static_cast<py::ssize_t>(c.decoder.size()),
                                               c.decoder.sid().data());
           })
      .def("bits",
           [](const Chunk& c) {
             return py::array_t<std::uint8_t>(static_cast<py::ssize_t>(c.decoder.size()),
                                              c.decoder.bits().data());
           })
      .def("addr",
           [](const Chunk& c, const py::buffer& b) {
             return column_of<std::uint64_t>(c, b,
                                             [&](auto in, auto* to) { c.decoder.addr(in, to); });
           })
      .def("fetch_distance",
           [](const Chunk& c, const py::buffer& b, unsigned line_bits) {
             if (line_bits > 63) throw py::value_error("line_bits: 0 to 63");
             return column_of<std::uint32_t>(
                 c, b, [&](auto in, auto* to) { c.decoder.fetch_distance(in, line_bits, to); });
           })
      .def("distance",
           [](const Chunk& c, const py::buffer& b) {
             return column_of<std::uint32_t>(
                 c, b, [&](auto in, auto* to) { c.decoder.distance(in, to); });
           })
      .def("distance_ref",
           [](const Chunk& c, const py::buffer& b, const py::array_t<std::uint32_t>& plain) {
             if (static_cast<std::size_t>(plain.size()) != c.decoder.size())
               throw py::value_error("plain: one value a row");
             const std::uint32_t* p = plain.data();
             return column_of<std::uint32_t>(
                 c, b, [&](auto in, auto* to) { c.decoder.distance_ref(in, p, to); });
           })
      .def("reuse",
           [](const Chunk& c, const py::buffer& b) {
             return column_of<std::uint16_t>(c, b,
                                             [&](auto in, auto* to) { c.decoder.reuse(in, to); });
           })
      .def("window",
           [](const Chunk& c, const py::buffer& b) {
             return column_of<std::uint8_t>(c, b,
                                            [&](auto in, auto* to) { c.decoder.window(in, to); });
           })
      .def("probability",
           [](const Chunk& c, const py::buffer& b) {
             return column_of<float>(c, b,
                                     [&](auto in, auto* to) { c.decoder.probability(in, to); });
           })
      .def("hashes",
           [](const Chunk& c, const std::vector<py::buffer>& streams, std::uint64_t tick_unit,
              unsigned line_bits, bool timed) {
             if (streams.size() != column::count) throw py::value_error("one stream a column");
             if (line_bits > 63) throw py::value_error("line_bits: 0 to 63");
             std::vector<ByteView> views;
             for (const auto& s : streams) views.emplace_back(s);
             ColumnStreams in;
             for (unsigned id = 0; id < column::count; ++id) in[id] = span_of(views[id]);
             py::gil_scoped_release release;
             return decoded_hashes(c.decoder, in, {tick_unit, line_bits, timed});
           })
      .def("ticks", [](const Chunk& c, const std::vector<py::buffer>& streams, std::uint64_t unit) {
        if (streams.size() != stage::count) throw py::value_error("one stream a stage");
        std::vector<ByteView> views;
        for (const auto& s : streams) views.emplace_back(s);
        std::array<std::span<const std::uint8_t>, stage::count> in;
        std::array<std::uint64_t*, stage::count> out;
        py::list arrays;
        for (unsigned s = 0; s < stage::count; ++s) {
          in[s] = span_of(views[s]);
          auto a = make<std::uint64_t>(c.decoder.size());
          out[s] = a.mutable_data();
          arrays.append(a);
        }
        {
          py::gil_scoped_release release;
          c.decoder.ticks(in, unit, out);
        }
        return arrays;
      });

  py::list columns;
#define COLUMN(name, type, domain, unit, doc) \
  columns.append(py::make_tuple(#name, py::dtype::of<type>(), #domain, unit, doc));
#include "core/column.def"
#undef COLUMN
  m.attr("COLUMNS") = py::tuple(columns);
}

}  // namespace tracekit
