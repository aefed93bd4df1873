#include "bind/register.hpp"
#include "formats/tks/tks.hpp"

#if defined(__linux__) && defined(__x86_64__)
#include "record/recorder.hpp"
#endif

namespace py = pybind11;

namespace tracekit {

namespace {

py::dict info_dict(const tks::EpochInfo& i) {
  py::dict d;
#define X(name) d[#name] = i.name;
  TRACEKIT_EPOCH_FIELDS(X)
#undef X
  return d;
}

// What `d` lacks is 0.
tks::EpochInfo info_from(const py::dict& d) {
  tks::EpochInfo i;
#define X(name) \
  if (d.contains(#name)) i.name = d[#name].cast<std::uint64_t>();
  TRACEKIT_EPOCH_FIELDS(X)
#undef X
  return i;
}

py::tuple names(const auto& all) {
  py::list l;
  for (const std::string_view n : all) l.append(py::str(n.data(), n.size()));
  return py::tuple(l);
}

void register_tks(py::module_& m) {
  m.attr("END_REASONS") = names(end_reason_names);
  m.attr("EPOCH_FIELDS") = names(tks::epoch_field_names);
  m.def("tks_text_block", [](int kind, const std::string& json) {
    return py::bytes(tks::encode_text(static_cast<tks::BlockKind>(kind), json));
  });
  m.def("tks_code_block", [](const EncodingTable& table, std::size_t from) {
    if (from > table.size()) throw py::index_error("no such machine code");
    return py::bytes(from == table.size() ? std::string()
                                          : tks::encode_code(table, from, table.size()));
  });
  m.def("tks_epoch_block", [](const py::dict& info, const NativeBatch& rows) {
    const tks::EpochInfo fields = info_from(info);
    std::string out;
    {
      const py::gil_scoped_release free;
      out = tks::encode_epoch(fields, rows);
    }
    return py::bytes(out);
  });
  py::class_<tks::Decoder>(m, "TksDecoder", "Decodes a recording's blocks, one after another.")
      .def(py::init<EncodingTable&>(), py::arg("table"), py::keep_alive<1, 2>())
      .def("block",
           [](tks::Decoder& d, const py::bytes& payload) {
             const std::string_view view = payload;
             const py::gil_scoped_release free;
             return static_cast<int>(d.block(view));
           })
      .def_property_readonly("text",
                             [](const tks::Decoder& d) { return py::bytes(std::string(d.text())); })
      .def_property_readonly("info", [](const tks::Decoder& d) { return info_dict(d.info()); })
      .def(
          "take",
          [](tks::Decoder& d) {
            auto rows = std::make_unique<NativeBatch>(std::move(d.batch()));
            d.batch() = NativeBatch();
            return rows;
          },
          "The instructions of the last epoch, once.");
}

#if defined(__linux__) && defined(__x86_64__)

record::Operand operand_from(const py::handle& h) {
  using record::Operand;
  const auto t = py::cast<py::dict>(h);
  const auto number = [&](const char* key, long otherwise) {
    return t.contains(key) ? py::cast<long>(t[key]) : otherwise;
  };
  const auto byte = [&](const char* key, long otherwise) {
    return static_cast<std::uint8_t>(number(key, otherwise));
  };
  Operand o;
  o.kind = static_cast<Operand::Kind>(number("kind", 0));
  o.segment = static_cast<Operand::Segment>(number("segment", 0));
  o.base = byte("base", record::no_reg);
  o.index = byte("index", record::no_reg);
  o.scale = byte("scale", 1);
  o.short_address = number("short_address", 0) != 0;
  o.load = number("load", 0) != 0;
  o.store = number("store", 0) != 0;
  o.size = static_cast<std::uint32_t>(number("size", 0));
  o.disp = number("disp", 0);
  o.elements = byte("elements", 0);
  o.index_bytes = byte("index_bytes", 0);
  o.mask_is_vector = number("mask_is_vector", 0) != 0;
  o.mask = byte("mask", record::no_reg);
  return o;
}

record::Recipe recipe_from(const py::object& answer) {
  record::Recipe r;
  if (answer.is_none()) return r;
  const auto t = py::cast<py::dict>(answer);
  r.length = py::cast<std::uint8_t>(t["length"]);
  r.branch = static_cast<BranchKind>(py::cast<int>(t["branch"]));
  r.special = static_cast<record::Special>(py::cast<int>(t["special"]));
  r.rep = py::cast<bool>(t["rep"]);
  r.rep_counted = py::cast<bool>(t["rep_counted"]);
  for (const py::handle o : py::cast<py::list>(t["operands"]))
    r.operands.push_back(operand_from(o));
  return r;
}

record::Decode decoder(py::function decode) {
  return [decode](std::uint64_t pc, std::string_view bytes) {
    const py::gil_scoped_acquire held;
    return recipe_from(decode(pc, py::bytes(bytes.data(), bytes.size())));
  };
}

void check_signals() {
  const py::gil_scoped_acquire held;
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
}

py::dict result_dict(const record::EpochResult& r) {
  py::dict d;
  d["outcome"] = record::outcome_name(r.outcome);
  d["info"] = info_dict(r.info);
  d["waited_ns"] = r.waited_ns;
  d["reap_ns"] = r.reap_ns;
  d["crowded_ns"] = r.crowded_ns;
  d["instructions"] = r.size;
  d["accesses"] = r.accesses;
  d["maps"] = py::bytes(r.maps);
  d["handled_faults"] = r.handled;
  d["clone_errno"] = r.clone_errno;
  d["exit_status"] = r.exit_status ? py::object(py::int_(*r.exit_status)) : py::object(py::none());
  return d;
}

record::EpochRequest request(pid_t tid, pid_t tgid, std::uint64_t number,
                             std::uint64_t instructions, std::uint64_t time_ns,
                             std::uint64_t wait_ns, std::uint64_t accesses, int pidfd,
                             bool lowest_priority, bool follow_exec, bool continues) {
  record::EpochRequest r;
  r.tid = tid;
  r.tgid = tgid;
  r.number = number;
  r.limits.instructions = instructions;
  r.limits.time_ns = time_ns;
  r.limits.accesses = accesses;
  r.limits.program = pidfd;
  r.limits.original = tgid;
  r.limits.follow_exec = follow_exec;
  r.limits.continues = continues;
  r.wait_ns = wait_ns;
  r.lowest_priority = lowest_priority;
  return r;
}

void register_recorder(py::module_& m) {
  static py::exception<record::Error> failed(m, "RecordSystemError", PyExc_OSError);
  py::register_exception_translator([](std::exception_ptr p) {
    try {
      if (p) std::rethrow_exception(p);
    } catch (const record::Error& e) {
      PyErr_SetObject(failed.ptr(), py::make_tuple(e.kind(), e.what()).ptr());
    }
  });
  py::class_<record::EpochRequest>(m, "EpochRequest")
      .def(py::init(&request), py::kw_only(), py::arg("tid"), py::arg("tgid"), py::arg("number"),
           py::arg("instructions"), py::arg("time_ns"), py::arg("wait_ns"), py::arg("accesses"),
           py::arg("pidfd"), py::arg("lowest_priority"), py::arg("follow_exec"),
           py::arg("continues") = false);
  using Method =
      record::EpochResult (record::Recorder::*)(const record::EpochRequest&, const record::Poll&);
  const auto run = [](Method method) {
    return [method](record::Recorder& r, const record::EpochRequest& request) {
      record::EpochResult out;
      {
        const py::gil_scoped_release free;
        out = (r.*method)(request, check_signals);
      }
      return result_dict(out);
    };
  };
  py::class_<record::Recorder>(m, "Recorder", "Records epochs of running programs.")
      .def(py::init([](py::function decode) {
        return std::make_unique<record::Recorder>(decoder(std::move(decode)));
      }))
      .def("epoch", run(&record::Recorder::epoch))
      .def("in_place", run(&record::Recorder::in_place))
      .def(
          "full",
          [](record::Recorder& r, const record::EpochRequest& request, bool let_go) {
            record::EpochResult out;
            {
              const py::gil_scoped_release free;
              out = r.full(request, let_go, check_signals);
            }
            return result_dict(out);
          },
          py::arg("request"), py::arg("let_go"))
      .def("encode", [](record::Recorder& r) {
        const auto [code, epoch] = r.encode();
        return py::make_tuple(py::bytes(code), py::bytes(epoch));
      });
  m.def("record_start", &record::start, py::arg("arguments"), py::arg("environment"),
        py::arg("output") = -1, py::arg("folder") = "", py::call_guard<py::gil_scoped_release>());
  m.def("minor_faults", &record::minor_faults);
  m.def("page_copy_ns", &record::page_copy_ns, py::call_guard<py::gil_scoped_release>());
  m.def("bare_step_ns", &record::bare_step_ns, py::call_guard<py::gil_scoped_release>());
}

#endif

}  // namespace

void register_record(py::module_& m) {
  register_tks(m);
#if defined(__linux__) && defined(__x86_64__)
  register_recorder(m);
#endif
}

}  // namespace tracekit
