#include "bind/rows.hpp"

#include <algorithm>
#include <numeric>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace py = pybind11;

namespace tracekit {

const char* arch_name(Arch arch) {
  constexpr const char* names[] = {"unknown", "arm", "x86", "riscv"};
  return names[static_cast<unsigned>(arch)];
}

Arch arch_of(const std::string& name) {
  for (const Arch arch : {Arch::unknown, Arch::arm, Arch::x86, Arch::riscv})
    if (name == arch_name(arch)) return arch;
  throw py::value_error("unknown instruction set '" + name + "': arm, x86, riscv or unknown");
}

py::object text(std::string_view bytes) {
  return py::reinterpret_steal<py::object>(
      PyUnicode_DecodeUTF8(bytes.data(), static_cast<py::ssize_t>(bytes.size()), "replace"));
}

py::dict export_counters(const Counters& counters) {
  py::dict d;
  for (const auto& [kind, a] : counters.kinds()) {
    py::dict one;
    one["count"] = a.count;
    if (a.first_offset) one["first_offset"] = *a.first_offset;
    d[py::str(kind)] = one;
  }
  return d;
}

py::dict export_statics(const StaticTable& table) {
  const auto n = static_cast<py::ssize_t>(table.size());
  py::array_t<std::uint64_t> pc(n), flags(n);
  py::array_t<std::uint16_t> upc(n), access_size(n);
  py::array_t<std::uint8_t> op(n), branch(n), inferred(n), lost(n);
  py::array_t<std::uint8_t> src_class({n, py::ssize_t{max_src}}),
      dst_class({n, py::ssize_t{max_dst}});
  py::array_t<std::uint16_t> src_index({n, py::ssize_t{max_src}}),
      dst_index({n, py::ssize_t{max_dst}});
  py::list disassembly, bytes, op_name;
  constexpr std::uint8_t no_reg = 255;
  for (py::ssize_t i = 0; i < n; ++i) {
    const StaticInst& s = table[static_cast<std::uint32_t>(i)];
    pc.mutable_at(i) = s.pc;
    upc.mutable_at(i) = s.upc;
    op.mutable_at(i) = static_cast<std::uint8_t>(s.op);
    flags.mutable_at(i) = s.flags;
    branch.mutable_at(i) = static_cast<std::uint8_t>(s.branch);
    access_size.mutable_at(i) = s.access_size;
    inferred.mutable_at(i) = s.inferred;
    lost.mutable_at(i) = static_cast<std::uint8_t>(s.src.dropped() + s.dst.dropped());
    const auto regs = [&](const auto& from, auto& cls, auto& index, std::size_t width) {
      for (std::size_t k = 0; k < width; ++k) {
        cls.mutable_at(i, k) = k < from.size() ? static_cast<std::uint8_t>(from[k].cls) : no_reg;
        index.mutable_at(i, k) = k < from.size() ? from[k].index : std::uint16_t{0};
      }
    };
    regs(s.src, src_class, src_index, max_src);
    regs(s.dst, dst_class, dst_index, max_dst);
    disassembly.append(text(s.disassembly));
    bytes.append(py::bytes(s.bytes));
    op_name.append(text(s.op_name));
  }
  py::dict d;
  d["pc"] = pc, d["upc"] = upc, d["op"] = op, d["flags"] = flags, d["branch"] = branch;
  d["access_size"] = access_size, d["inferred"] = inferred, d["operands_lost"] = lost;
  d["src_class"] = src_class, d["src_index"] = src_index;
  d["dst_class"] = dst_class, d["dst_index"] = dst_index;
  d["disassembly"] = disassembly, d["bytes"] = bytes, d["op_name"] = op_name;
  return d;
}

py::tuple static_forms(const py::list& texts, const py::list& codes,
                       const py::array_t<std::uint8_t, py::array::c_style>& rest) {
  const std::size_t n = texts.size();
  if (codes.size() != n || rest.ndim() != 2 || static_cast<std::size_t>(rest.shape(0)) != n)
    throw py::value_error("static columns of different lengths");
  const auto width = static_cast<std::size_t>(rest.shape(1));
  // Each instruction's content in one string: fixed fields, text with its length, machine code.
  std::string content;
  std::vector<std::size_t> ends{0};
  std::vector<std::string_view> text(n);
  for (std::size_t i = 0; i < n; ++i) {
    Py_ssize_t size = 0;
    const char* p = PyUnicode_AsUTF8AndSize(py::handle(texts[i]).ptr(), &size);
    if (!p) throw py::error_already_set();
    text[i] = {p, static_cast<std::size_t>(size)};
    char* code = nullptr;
    Py_ssize_t code_size = 0;
    if (PyBytes_AsStringAndSize(py::handle(codes[i]).ptr(), &code, &code_size) != 0)
      throw py::error_already_set();
    content.append(reinterpret_cast<const char*>(rest.data()) + i * width, width);
    content.append(reinterpret_cast<const char*>(&size), sizeof size);
    content.append(text[i]).append(code, static_cast<std::size_t>(code_size));
    ends.push_back(content.size());
  }
  std::unordered_map<std::string_view, std::uint32_t> known;
  std::vector<std::uint32_t> first, number(n);  // of each form: its first instruction
  for (std::size_t i = 0; i < n; ++i) {
    const std::string_view key(content.data() + ends[i], ends[i + 1] - ends[i]);
    const auto [it, fresh] = known.try_emplace(key, static_cast<std::uint32_t>(first.size()));
    if (fresh) first.push_back(static_cast<std::uint32_t>(i));
    number[i] = it->second;
  }
  // By text: neighbours are alike, which is what zstd feeds on.
  std::vector<std::uint32_t> order(first.size()), place(first.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return text[first[a]] < text[first[b]];
  });
  py::array_t<std::int64_t> members(static_cast<py::ssize_t>(first.size()));
  for (std::size_t k = 0; k < order.size(); ++k) {
    place[order[k]] = static_cast<std::uint32_t>(k);
    members.mutable_at(k) = first[order[k]];
  }
  py::array_t<std::uint32_t> form(static_cast<py::ssize_t>(n));
  for (std::size_t i = 0; i < n; ++i) form.mutable_at(i) = place[number[i]];
  return py::make_tuple(members, form);
}

}  // namespace tracekit
