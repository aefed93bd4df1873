#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "bind/read_cores.hpp"
#include "bind/register.hpp"
#include "sim/core_set.hpp"
#include "sim/plugins.hpp"
#include "sim/predictors/make.hpp"

namespace py = pybind11;

namespace tracekit {
namespace {

template <class T>
using Array = py::array_t<T, py::array::c_style>;

[[noreturn]] void refuse(const std::string& why) { throw py::value_error(why); }

std::vector<CoreInst> read_insts(const Array<std::uint64_t>& pc, const Array<std::uint32_t>& flags,
                                 const Array<std::uint8_t>& op, const Array<std::uint8_t>& branch,
                                 const Array<std::uint16_t>& size,
                                 const Array<std::uint8_t>& offset, const Array<std::uint16_t>& src,
                                 const Array<std::uint16_t>& dst) {
  const py::ssize_t n = pc.size();
  const auto table = [n](const auto& a, std::size_t width) {
    return a.ndim() == 2 && a.shape(0) == n && a.shape(1) == static_cast<py::ssize_t>(width);
  };
  if (flags.size() != n || op.size() != n || branch.size() != n || size.size() != n ||
      offset.size() != n || !table(src, CoreInst::sources) || !table(dst, CoreInst::destinations))
    refuse("static arrays of different lengths");
  std::vector<CoreInst> out(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto k = static_cast<py::ssize_t>(i);
    CoreInst& inst = out[i];
    if (op.at(k) >= op_class_names.size() || branch.at(k) >= branch_kind_names.size())
      refuse("op class or branch kind out of range");
    inst.pc = pc.at(k);
    inst.flags = flags.at(k);
    inst.op = static_cast<OpClass>(op.at(k));
    inst.branch = branch.at(k);
    inst.access(size.at(k));
    inst.offset = offset.at(k);
    std::memcpy(inst.src, src.data(k, 0), sizeof inst.src);
    std::memcpy(inst.dst, dst.data(k, 0), sizeof inst.dst);
    for (const std::uint16_t r : inst.src)
      if (r != CoreInst::no_register && r >= CoreInst::most_registers)
        refuse("register out of range");
    for (const std::uint16_t r : inst.dst)
      if (r != CoreInst::no_register && r >= CoreInst::most_registers)
        refuse("register out of range");
  }
  return out;
}

std::vector<std::uint32_t> read_parts(const Array<std::uint32_t>& begin, py::ssize_t insts) {
  std::vector<std::uint32_t> out(begin.data(), begin.data() + begin.size());
  if (out.empty() || out.front() != 0 || out.back() != insts)
    refuse("parts: from 0 to all of them");
  for (std::size_t i = 1; i < out.size(); ++i)
    if (out[i] <= out[i - 1]) refuse("parts: at least one for each instruction");
  return out;
}

std::vector<RegisterValue> read_values(const Array<std::uint8_t>& told,
                                       const Array<std::uint16_t>& base,
                                       const Array<std::int64_t>& number, py::ssize_t insts) {
  if (base.size() != told.size() || number.size() != told.size() ||
      (told.size() != 0 && told.size() != insts))
    refuse("values of registers: of every part or of none");
  std::vector<RegisterValue> out(static_cast<std::size_t>(told.size()));
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto k = static_cast<py::ssize_t>(i);
    if (told.at(k) >= RegisterValue::count) refuse("no such value of a register");
    const auto kind = static_cast<RegisterValue::Kind>(told.at(k));
    const bool has_base = kind == RegisterValue::access || kind == RegisterValue::sum;
    if (has_base && base.at(k) >= CoreInst::most_registers) refuse("register out of range");
    out[i] = {number.at(k), base.at(k), kind};
  }
  return out;
}

// Loops of instructions `sids`: their first parts, branches and turns.
MicrocodeLoops read_loops(const Array<std::uint32_t>& sids, const Array<std::uint32_t>& from,
                          const Array<std::uint32_t>& branch, const Array<std::uint8_t>& turns,
                          const Array<std::uint32_t>& begin) {
  const py::ssize_t n = sids.size();
  constexpr auto cases = static_cast<py::ssize_t>(MicrocodeLoop::cases);
  if (from.size() != n || branch.size() != n || turns.ndim() != 2 || turns.shape(0) != n ||
      turns.shape(1) != cases)
    refuse("loops: " + std::to_string(cases) + " turns of each");
  std::vector<MicrocodeLoop> out(static_cast<std::size_t>(n));
  for (py::ssize_t i = 0; i < n; ++i) {
    const std::uint32_t sid = sids.at(i);
    if (sid + std::size_t{1} >= static_cast<std::size_t>(begin.size()))
      refuse("loops: no such instruction");
    if (from.at(i) < begin.at(sid) || branch.at(i) < from.at(i) ||
        branch.at(i) >= begin.at(sid + std::size_t{1}))
      refuse("loops: parts of another instruction");
    MicrocodeLoop& loop = out[static_cast<std::size_t>(i)];
    loop.from = from.at(i);
    loop.branch = branch.at(i);
    std::copy_n(turns.data(i, 0), MicrocodeLoop::cases, loop.turns.begin());
  }
  return {std::vector<std::uint32_t>(sids.data(), sids.data() + n), std::move(out),
          static_cast<std::size_t>(begin.size())};
}

// The rows behind a block: the id of the next one, or ids, addresses and bits of some.
std::vector<SimulatedCores::Row> rows_ahead(const py::object& next, std::uint32_t known) {
  std::vector<SimulatedCores::Row> out;
  if (py::isinstance<py::int_>(next)) {
    out.push_back({next.cast<std::uint32_t>(), 0, 0});
  } else {
    const auto [sid, addr, bits] =
        next.cast<std::tuple<Array<std::uint32_t>, Array<std::uint64_t>, Array<std::uint8_t>>>();
    if (addr.size() != sid.size() || bits.size() != sid.size())
      refuse("columns of different lengths");
    for (py::ssize_t i = 0; i < std::min<py::ssize_t>(sid.size(), RowsAround::most); ++i)
      out.push_back({sid.at(i), addr.at(i), bits.at(i)});
  }
  for (const SimulatedCores::Row& row : out)
    if (row.sid >= known) refuse("next names a static instruction that the table does not have");
  return out;
}

class Cores {
 public:
  Cores(const Array<std::uint64_t>& pc, const Array<std::uint32_t>& flags,
        const Array<std::uint8_t>& op, const Array<std::uint8_t>& branch,
        const Array<std::uint16_t>& size, const Array<std::uint8_t>& offset,
        const Array<std::uint16_t>& src, const Array<std::uint16_t>& dst,
        const Array<std::uint32_t>& parts, const Array<std::uint8_t>& told,
        const Array<std::uint16_t>& base, const Array<std::int64_t>& number, unsigned reach,
        const Array<std::uint32_t>& loop_ids, const Array<std::uint32_t>& loop_from,
        const Array<std::uint32_t>& loop_branch, const Array<std::uint8_t>& loop_turns, bool joined,
        std::pair<std::uint64_t, std::uint64_t> image, const Array<double>& cores, bool causes)
      : cores_(read_insts(pc, flags, op, branch, size, offset, src, dst),
               read_values(told, base, number, pc.size()), reach, read_parts(parts, pc.size()),
               read_loops(loop_ids, loop_from, loop_branch, loop_turns, parts), joined,
               {image.first, image.second}, read_cores(cores), causes),
        causes_(causes) {}

  py::tuple run(const Array<std::uint32_t>& sid, const Array<std::uint64_t>& addr,
                const Array<std::uint8_t>& bits, const py::object& next, unsigned threads,
                bool timed, bool difficulty) {
    const SimulatedCores::Block block = checked(sid, addr, bits, next);
    std::vector<py::ssize_t> shape{sid.size(), static_cast<py::ssize_t>(cores_.cores())};
    if (timed) shape.push_back(core_timing::count);
    Array<float> out(shape);
    Array<std::uint8_t> wrong(difficulty ? sid.size() : 0);
    float* to = out.mutable_data();
    std::uint8_t* wrong_to = difficulty ? wrong.mutable_data() : nullptr;
    {
      py::gil_scoped_release free;
      cores_.run(block, to, threads, timed, wrong_to);
    }
    return py::make_tuple(out, wrong);
  }

  Array<double> sums(const Array<std::uint32_t>& sid, const Array<std::uint64_t>& addr,
                     const Array<std::uint8_t>& bits, const py::object& next,
                     const Array<std::uint32_t>& edges, unsigned threads) {
    const SimulatedCores::Block block = checked(sid, addr, bits, next);
    const std::span<const std::uint32_t> at{edges.data(), static_cast<std::size_t>(edges.size())};
    if (at.size() < 2 || at.back() > block.sid.size() || !std::is_sorted(at.begin(), at.end()))
      refuse("edges: at least two row numbers of the block, increasing");
    Array<double> out({edges.size() - 1, static_cast<py::ssize_t>(cores_.cores())});
    double* to = out.mutable_data();
    {
      py::gil_scoped_release free;
      cores_.sums(block, at, to, threads);
    }
    return out;
  }

  Array<double> class_sums(const Array<std::uint32_t>& sid, const Array<std::uint64_t>& addr,
                           const Array<std::uint8_t>& bits, const py::object& next,
                           const Array<std::uint16_t>& labels, std::uint32_t classes,
                           unsigned threads) {
    const SimulatedCores::Block block = checked(sid, addr, bits, next);
    if (labels.ndim() != 2 || labels.shape(1) != sid.size()) refuse("labels: divisions x rows");
    const std::span<const std::uint16_t> of{labels.data(), static_cast<std::size_t>(labels.size())};
    if (classes < 1 || classes > 65536) refuse("classes: from 1 to 65536");
    if (!of.empty() && *std::ranges::max_element(of) >= classes) refuse("a label is no class");
    Array<double> out(
        {static_cast<py::ssize_t>(classes), static_cast<py::ssize_t>(cores_.cores())});
    double* to = out.mutable_data();
    {
      py::gil_scoped_release free;
      cores_.class_sums(block, of, classes, to, threads);
    }
    return out;
  }

  void cause_sums(const Array<std::uint32_t>& sid, const Array<std::uint64_t>& addr,
                  const Array<std::uint8_t>& bits, const py::object& next,
                  const Array<std::uint32_t>& labels, Array<double> out, unsigned threads) {
    const SimulatedCores::Block block = checked(sid, addr, bits, next);
    if (!causes_) refuse("cores that were not made with causes");
    const std::span<const std::uint32_t> of{labels.data(), static_cast<std::size_t>(labels.size())};
    if (of.size() != block.sid.size()) refuse("labels: one for each row");
    if (out.ndim() != 3 || out.shape(1) != static_cast<py::ssize_t>(cores_.cores()) ||
        out.shape(2) != static_cast<py::ssize_t>(cause_count))
      refuse("out: labels x cores x causes");
    if (!of.empty() && *std::ranges::max_element(of) >= out.shape(0))
      refuse("a label is no row of out");
    double* to = out.mutable_data();
    py::gil_scoped_release free;
    cores_.cause_sums(block, of, to, threads);
  }

  Array<std::uint8_t> events(const Array<std::uint32_t>& sid, const Array<std::uint64_t>& addr,
                             const Array<std::uint8_t>& bits, const py::object& next,
                             unsigned threads) {
    const SimulatedCores::Block block = checked(sid, addr, bits, next);
    if (!causes_) refuse("cores that were not made with causes");
    Array<std::uint8_t> out({sid.size(), static_cast<py::ssize_t>(cores_.cores())});
    std::uint8_t* to = out.mutable_data();
    {
      py::gil_scoped_release free;
      cores_.events(block, to, threads);
    }
    return out;
  }

  void observe(const Array<std::uint32_t>& sid, const Array<std::uint64_t>& addr,
               const Array<std::uint8_t>& bits, const py::object& next, unsigned threads) {
    const SimulatedCores::Block block = checked(sid, addr, bits, next);
    py::gil_scoped_release free;
    cores_.observe(block, threads);
  }

  void observe_lines(const Array<std::uint32_t>& sid, const Array<std::uint64_t>& addr,
                     const Array<std::uint8_t>& bits, const py::object& next, unsigned threads) {
    const SimulatedCores::Block block = checked(sid, addr, bits, next);
    py::gil_scoped_release free;
    cores_.observe_lines(block, threads);
  }

  void begin_behind(const Array<std::uint32_t>& sid, const Array<std::uint64_t>& addr,
                    const Array<std::uint8_t>& bits, const py::object& next, unsigned threads) {
    const SimulatedCores::Block block = checked(sid, addr, bits, next);
    py::gil_scoped_release free;
    cores_.begin_behind(block, threads);
  }

  Cores begun_behind(const Array<std::uint32_t>& sid, const Array<std::uint64_t>& addr,
                     const Array<std::uint8_t>& bits, const py::object& next) {
    const SimulatedCores::Block block = checked(sid, addr, bits, next);
    py::gil_scoped_release free;
    return {cores_.begun_behind(block), causes_};
  }

 private:
  Cores(SimulatedCores cores, bool causes) : cores_(std::move(cores)), causes_(causes) {}

  SimulatedCores::Block checked(const Array<std::uint32_t>& sid, const Array<std::uint64_t>& addr,
                                const Array<std::uint8_t>& bits, const py::object& next) const {
    const py::ssize_t n = sid.size();
    if (addr.size() != n || bits.size() != n) refuse("columns of different lengths");
    const auto known = static_cast<std::uint32_t>(cores_.statics());
    for (py::ssize_t i = 0; i < n; ++i)
      if (sid.data()[i] >= known)
        refuse("a row names a static instruction that the table does not have");
    const auto rows = static_cast<std::size_t>(n);
    return {{sid.data(), rows},
            {addr.data(), rows},
            {bits.data(), rows},
            n ? rows_ahead(next, known) : std::vector<SimulatedCores::Row>{}};
  }

  SimulatedCores cores_;
  bool causes_;
};

// What a predictor says of each branch, told the outcomes of the first committed[i] branches before
// branch i is fetched.  Where detours[i] is not 0 the front end follows a wrong path behind it,
// and comes by as many branches that follow: what it says of those that are conditional, too.
py::tuple predict_directions(unsigned kind, const Array<std::uint64_t>& pc,
                             const Array<std::uint64_t>& next, const Array<std::uint8_t>& branch,
                             const Array<std::uint8_t>& taken,
                             const Array<std::uint32_t>& committed,
                             const Array<std::uint8_t>& detours) {
  const py::ssize_t n = pc.size();
  if (next.size() != n || branch.size() != n || taken.size() != n || committed.size() != n ||
      (detours.size() != n && detours.size() != 0))
    refuse("columns of different lengths");
  if (kind >= predictor::count && kind < plugin::first_number) refuse("no such predictor");
  const auto predictor = make_predictor(kind);
  const auto conditional = [&](py::ssize_t i) {
    return static_cast<BranchKind>(branch.at(i)) == BranchKind::conditional;
  };
  Array<std::uint8_t> out(n);
  std::vector<std::uint8_t> foreseen;
  std::uint32_t done = 0;
  for (py::ssize_t i = 0; i < n; ++i) {
    if (committed.at(i) < done || committed.at(i) > i) refuse("commits out of order");
    if (branch.at(i) >= branch_kind_names.size()) refuse("no such kind of branch");
    for (; done < committed.at(i); ++done) predictor->commit();
    const BranchEvent event{pc.at(i), next.at(i), static_cast<BranchKind>(branch.at(i)),
                            taken.at(i) != 0};
    out.mutable_at(i) = predictor->fetch(event);
    const py::ssize_t detour = detours.size() == 0 ? 0 : detours.at(i);
    if (detour == 0) continue;
    predictor->go_wrong(conditional(i));
    for (py::ssize_t k = i + 1; k < std::min(n, i + 1 + detour); ++k) {
      const bool goes = !conditional(k) || predictor->foresee(pc.at(k));
      if (conditional(k)) foreseen.push_back(goes);
      predictor->pass(pc.at(k), static_cast<BranchKind>(branch.at(k)), goes);
    }
    predictor->go_back();
  }
  return py::make_tuple(
      out, Array<std::uint8_t>(static_cast<py::ssize_t>(foreseen.size()), foreseen.data()));
}

// Which of the lines a cache finds; those that it does not, it takes in.
py::array_t<bool> cache_hits(int kb, int ways, const Array<std::uint64_t>& lines, int policy) {
  if (kb < 1 || ways < 1 || kb > 65536 || ways > 64) throw py::value_error("no such cache");
  const auto line = lines.unchecked<1>();
  py::array_t<bool> out(line.shape(0));
  Cache cache(kb, ways, policy);
  for (py::ssize_t i = 0; i < line.shape(0); ++i) {
    const bool hit = cache.find(line(i)) != nullptr;
    if (!hit) cache.put(line(i), 0, false);
    out.mutable_at(i) = hit;
  }
  return out;
}

template <std::size_t N>
py::tuple names(const std::array<std::string_view, N>& of) {
  py::list out;
  for (const auto n : of) out.append(std::string(n));
  return py::tuple(out);
}

// What Python's side of the cores takes from this one.
void register_definitions(py::module_& m) {
  py::list ranges, causes;
  for (const auto& r : core_parameter_ranges)
    ranges.append(py::make_tuple(std::string(r.name), r.least, r.most));
  m.attr("CORE_PARAMETERS") = py::tuple(ranges);
  for (const auto& c : cause_names)
    causes.append(py::make_tuple(std::string(c.name), std::string(c.group)));
  m.attr("CAUSES") = py::tuple(causes);
  py::dict bits;
#define BIT(name, value) bits[#name] = py::int_(value);
  TRACEKIT_CORE_INST_BITS(BIT)
#undef BIT
  m.attr("CORE_INST_BITS") = bits;
  m.attr("CORE_INST_SOURCES") = py::int_(CoreInst::sources);
  m.attr("MICROCODE_LOOP_CASES") = py::int_(MicrocodeLoop::cases);
  m.attr("CORE_INST_DESTINATIONS") = py::int_(CoreInst::destinations);
  m.attr("NO_REGISTER") = py::int_(CoreInst::no_register);
  m.attr("MOST_CORE_REGISTERS") = py::int_(CoreInst::most_registers);
  m.attr("ROWS_AHEAD") = py::int_(RowsAround::most);
  m.attr("EVENT_LEVEL_MASK") = py::int_(int{row_event::level_mask});
  m.attr("EVENT_FETCH_SHIFT") = py::int_(int{row_event::fetch_shift});
  m.attr("EVENT_MISPREDICTED") = py::int_(int{row_event::mispredicted});
  m.attr("EVENT_RESTEERED") = py::int_(int{row_event::resteered});
  m.attr("CORE_TIMING") = names(core_timing::names);
  m.attr("PREDICTORS") = names(predictor_names);
  m.attr("PREFETCHERS") = names(prefetcher_names);
  m.attr("REPLACEMENTS") = names(replacement_names);
}

}  // namespace

void register_sim(py::module_& m) {
  register_definitions(m);
  m.def("cache_hits", cache_hits, py::arg("kb"), py::arg("ways"), py::arg("lines"),
        py::arg("policy") = 0);
  m.def("predict_directions", predict_directions, py::arg("kind"), py::arg("pc"), py::arg("next"),
        py::arg("branch"), py::arg("taken"), py::arg("committed"),
        py::arg("detours") = Array<std::uint8_t>(0));
  py::class_<Cores>(m, "SimulatedCores")
      .def(py::init<
               const Array<std::uint64_t>&, const Array<std::uint32_t>&, const Array<std::uint8_t>&,
               const Array<std::uint8_t>&, const Array<std::uint16_t>&, const Array<std::uint8_t>&,
               const Array<std::uint16_t>&, const Array<std::uint16_t>&,
               const Array<std::uint32_t>&, const Array<std::uint8_t>&, const Array<std::uint16_t>&,
               const Array<std::int64_t>&, unsigned, const Array<std::uint32_t>&,
               const Array<std::uint32_t>&, const Array<std::uint32_t>&, const Array<std::uint8_t>&,
               bool, std::pair<std::uint64_t, std::uint64_t>, const Array<double>&, bool>(),
           py::arg("pc"), py::arg("flags"), py::arg("op"), py::arg("branch"), py::arg("size"),
           py::arg("offset"), py::arg("src"), py::arg("dst"), py::arg("parts"),
           py::arg("told") = Array<std::uint8_t>(0), py::arg("base") = Array<std::uint16_t>(0),
           py::arg("number") = Array<std::int64_t>(0), py::arg("reach") = 0,
           py::arg("loop_ids") = Array<std::uint32_t>(0),
           py::arg("loop_from") = Array<std::uint32_t>(0),
           py::arg("loop_branch") = Array<std::uint32_t>(0),
           py::arg("loop_turns") =
               Array<std::uint8_t>(std::vector<py::ssize_t>{0, MicrocodeLoop::cases}),
           py::arg("joined") = false, py::arg("image") = std::pair{0, 0}, py::arg("cores"),
           py::arg("causes") = false)
      .def("run", &Cores::run, py::arg("sid"), py::arg("addr"), py::arg("bits"), py::arg("next"),
           py::arg("threads") = 1, py::arg("timed") = false, py::arg("difficulty") = false)
      .def("sums", &Cores::sums, py::arg("sid"), py::arg("addr"), py::arg("bits"), py::arg("next"),
           py::arg("edges"), py::arg("threads") = 1)
      .def("class_sums", &Cores::class_sums, py::arg("sid"), py::arg("addr"), py::arg("bits"),
           py::arg("next"), py::arg("labels"), py::arg("classes"), py::arg("threads") = 1)
      .def("cause_sums", &Cores::cause_sums, py::arg("sid"), py::arg("addr"), py::arg("bits"),
           py::arg("next"), py::arg("labels"), py::arg("out").noconvert(), py::arg("threads") = 1)
      .def("observe", &Cores::observe, py::arg("sid"), py::arg("addr"), py::arg("bits"),
           py::arg("next"), py::arg("threads") = 1)
      .def("observe_lines", &Cores::observe_lines, py::arg("sid"), py::arg("addr"), py::arg("bits"),
           py::arg("next"), py::arg("threads") = 1)
      .def("begin_behind", &Cores::begin_behind, py::arg("sid"), py::arg("addr"), py::arg("bits"),
           py::arg("next"), py::arg("threads") = 1)
      .def("begun_behind", &Cores::begun_behind, py::arg("sid"), py::arg("addr"), py::arg("bits"),
           py::arg("next"))
      .def("events", &Cores::events, py::arg("sid"), py::arg("addr"), py::arg("bits"),
           py::arg("next"), py::arg("threads") = 1);
}

}  // namespace tracekit
