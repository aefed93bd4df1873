#include "formats/gem5_text/exec_line.hpp"

#include <algorithm>

#include "formats/common/scan.hpp"

namespace tracekit {
namespace {

constexpr std::string_view separator = " : ";

std::string_view trim_right(std::string_view s) {
  while (!s.empty() && s.back() == ' ') s.remove_suffix(1);
  return s;
}

// Op classes begin with a capital and are one word; X86's micro-ops, which also follow a " : ", are
// not.
bool is_class_name(std::string_view s) {
  return !s.empty() && s.front() >= 'A' && s.front() <= 'Z' &&
         std::all_of(s.begin(), s.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '_';
         });
}

// Whether a line without whole fields shows that its instruction ran: a damaged one then, for a
// macro-op's own line ends with the disassembly.
bool has_run(std::string_view body) {
  for (const std::string_view field : {"  flags=(", "  FetchSeq=", " A=0x", " D=0x"})
    if (body.find(field) != std::string_view::npos) return true;
  for (std::size_t at = body.find(separator); at != std::string_view::npos;) {
    const std::size_t begin = at + separator.size(), next = body.find(separator, begin);
    if (is_class_name(trim_right(body.substr(begin, next - begin)))) return true;
    at = next;
  }
  return false;
}

bool parse_place(scan::Cursor& c, ExecText& t) {
  std::uint64_t upc = 0;
  if (!c.eat("0x") || !c.eat_hex(t.pc)) return false;
  if (c.eat(" @")) {  // symbol+offset, up to ". <upc>" or the blanks in its place
    const char* const name = c.at();
    while (!c.done() && c.peek() != ' ' && !(c.peek() == '.' && c.left() > 1 && c.at()[1] == ' '))
      c.skip(1);
    // Of ".<upc>" with two digits no blank tells where it begins; one blank is behind it, not four.
    const char* digits = c.at();
    while (digits != name && digits[-1] >= '0' && digits[-1] <= '9') --digits;
    if (c.left() > 1 && c.at()[1] == ':' && digits != name && digits[-1] == '.')
      c = scan::Cursor(digits - 1, c.at() + c.left());
  }
  if (c.eat(".")) {
    c.skip_blanks();
    if (!c.eat_decimal(upc) || upc > 0xffff) return false;
    t.upc = static_cast<std::uint16_t>(upc);
  } else if (!c.eat("   ")) {
    return false;
  }
  return c.eat(" : ");
}

}  // namespace

std::optional<ExecText> split_exec(std::string_view rest) {
  ExecText t;
  scan::Cursor c(rest.data(), rest.data() + rest.size());
  if (!parse_place(c, t)) return std::nullopt;
  std::string_view body(c.at(), c.left());
  if (const std::size_t at = body.rfind("  flags=(");
      at != std::string_view::npos && body.ends_with(')')) {
    t.tail = body.substr(at);
    t.flags = t.tail.substr(9, t.tail.size() - 10);
    body = body.substr(0, at);
  }
  // The fields stand behind the last " : "; none of them holds one.
  const std::size_t last = body.rfind(separator);
  ExecFields ignored;
  if (last == std::string_view::npos ||
      !parse_exec_fields(body.substr(last + separator.size()), ignored)) {
    if (!t.tail.empty() || has_run(body)) return std::nullopt;
    t.macro_line = true;
    t.disassembly = trim_right(body);
    return t;
  }
  t.fields = body.substr(last + separator.size());
  t.head = rest.substr(0, static_cast<std::size_t>(t.fields.data() - rest.data()));
  std::string_view shown = body.substr(0, last);
  const std::size_t before = shown.rfind(separator);
  if (before != std::string_view::npos && is_class_name(shown.substr(before + separator.size()))) {
    t.op_class = shown.substr(before + separator.size());
    shown = shown.substr(0, before);
  }
  t.disassembly = trim_right(shown);
  return t;
}

bool parse_exec_fields(std::string_view fields, ExecFields& out) {
  scan::Cursor c(fields.data(), fields.data() + fields.size());
  if (c.eat("Predicated False")) out.predicated_off = true;
  if (c.eat(" D=")) {
    if (c.peek() == '[')  // a vector's bytes may hold blanks
      while (!c.done() && c.peek() != ']') c.skip(1);
    while (!c.done() && c.peek() != ' ') c.skip(1);
  }
  if (c.eat(" A=0x")) {
    if (!c.eat_hex(out.addr)) return false;
    out.has_addr = true;
  }
  if (c.eat("  FetchSeq=")) {
    if (!c.eat_decimal(out.seq)) return false;
    out.has_seq = true;
  }
  std::uint64_t cp_seq = 0;
  if (c.eat("  CPSeq=") && !c.eat_decimal(cp_seq)) return false;
  return c.done();
}

ExecStatic make_static(const ExecText& text) {
  ExecStatic s;
  s.inst.pc = text.pc;
  s.inst.upc = text.upc;
  s.inst.disassembly = std::string(text.disassembly);
  s.inst.inferred = text.op_class.empty() || text.flags.data() == nullptr;
  if (!text.op_class.empty()) {
    const auto op = op_class_from(text.op_class);
    s.unknown_op = !op;
    s.inst.op = op.value_or(OpClass::Other);
  }
  std::string_view rest = text.flags;
  while (!rest.empty()) {
    const std::size_t bar = std::min(rest.find('|'), rest.size());
    if (const auto f = flag_from(rest.substr(0, bar)))
      s.inst.flags |= *f;
    else
      s.unknown_flag = true;
    rest.remove_prefix(std::min(bar + 1, rest.size()));
  }
  return s;
}

}  // namespace tracekit
