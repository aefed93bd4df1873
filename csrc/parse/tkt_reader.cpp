#include "parse/tkt_reader.hpp"

#include <algorithm>
#include <bit>
#include <string_view>

#include "isa/text_decode.hpp"

namespace tracekit {
namespace {

// Fields of one record, in order; reading past its end yields zeros and is remembered.
class Fields {
 public:
  Fields(const char* p, std::size_t n) : at_(p), end_(p + n) {}
  template <class T>
  T number() {
    if (static_cast<std::size_t>(end_ - at_) < sizeof(T)) {
      short_ = true;
      at_ = end_;
      return 0;
    }
    const T v = tkt::get<T>(at_);
    at_ += sizeof(T);
    return v;
  }
  std::string_view bytes(std::size_t n) {
    if (static_cast<std::size_t>(end_ - at_) < n) {
      short_ = true;
      n = 0;
      at_ = end_;
    }
    const std::string_view v(at_, n);
    at_ += n;
    return v;
  }
  std::string_view text() { return bytes(number<std::uint16_t>()); }
  bool too_short() const { return short_; }

 private:
  const char *at_, *end_;
  bool short_{};
};

Arch arch_named(std::string_view isa) {
  if (isa == "arm") return Arch::arm;
  if (isa == "x86") return Arch::x86;
  if (isa == "riscv") return Arch::riscv;
  return Arch::unknown;
}

std::string_view trim(std::string_view s) {
  while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
  while (!s.empty() && s.back() == ' ') s.remove_suffix(1);
  return s;
}

RegClass reg_class_named(std::string_view name) {
  constexpr std::string_view names[] = {"integer",        "floating_point",   "vector",
                                        "vector_element", "vector_predicate", "condition_code"};
  for (std::size_t i = 0; i < std::size(names); ++i)
    if (name == names[i]) return static_cast<RegClass>(i);
  return RegClass::misc;
}

// A row's bits for its flags, in a stream that tells these.
std::uint8_t bits_of(std::uint8_t flags, std::uint16_t knows, bool timed) {
  std::uint8_t bits = 0;
  if (knows & tkt::knows::taken) bits |= row_bit::taken_known;
  if (knows & tkt::knows::fault) bits |= row_bit::fault_known;
  if (flags & tkt::row_flag::has_addr) bits |= row_bit::has_addr;
  if (flags & tkt::row_flag::taken) bits |= row_bit::taken;
  if (flags & tkt::row_flag::fault) bits |= row_bit::fault;
  if (flags & tkt::row_flag::predicated_off) bits |= row_bit::predicated_off;
  if (flags & tkt::row_flag::mispredicted) bits |= row_bit::mispredicted;
  if (timed && flags & tkt::row_flag::untimed) bits |= row_bit::untimed;
  return bits;
}

}  // namespace

void TktReader::feed(const char* data, std::size_t n) {
  if (dead_) return;
  if (ended_) {
    if (n) counters_.add("bytes_after_end", offset_, n);
    return;
  }
  // A record that the last call left incomplete is completed by copying; the rest is read in place.
  if (!pending_.empty()) {
    const std::size_t before = pending_.size();
    const std::size_t limit = has_header_ ? tkt::max_record : tkt::preamble_size + tkt::max_header;
    pending_.append(data, std::min(n, limit - before));  // a whole record always fits the limit
    const std::size_t used = read_records(pending_.data(), pending_.size());
    if (dead_ || used < before) return;  // still incomplete
    pending_.clear();
    data += used - before;
    n -= used - before;
    if (ended_) return feed(data, n);
  }
  const std::size_t used = read_records(data, n);
  if (dead_) return;
  if (ended_) return feed(data + used, n - used);
  pending_.assign(data + used, n - used);
}

void TktReader::finish() {
  if (!has_header_)
    throw FormatFault("the stream ends inside the .tkt header", pending_.size(),
                      "the file was cut off, or is no .tkt trace");
  if (dead_ || ended_) return;
  counters_.add("cut_off", offset_);
}

std::size_t TktReader::read_header(const char* p, std::size_t n) {
  const std::size_t seen = std::min(n, tkt::magic.size());
  if (std::string_view(p, seen) != tkt::magic.substr(0, seen))
    throw FormatFault("not a .tkt trace: it does not begin with the magic number", 0);
  if (n < tkt::preamble_size) return 0;
  const auto version = tkt::get<std::uint16_t>(p + 8);
  if (version != tkt::version)
    throw FormatFault("version " + std::to_string(version) +
                          " of the .tkt format; this reader knows " + std::to_string(tkt::version),
                      8, "use a newer tracekit");
  const auto length = tkt::get<std::uint32_t>(p + 12);
  if (length > tkt::max_header) throw FormatFault("the .tkt header claims more than 1 MiB", 12);
  if (n < tkt::preamble_size + length) return 0;

  header_.knows = tkt::get<std::uint16_t>(p + 10);
  Fields f(p + tkt::preamble_size, length);
  header_.tick_frequency = f.number<std::uint64_t>();
  header_.tick_unit = f.number<std::uint64_t>();
  header_.stages = f.number<std::uint16_t>();
  header_.cpu = f.number<std::uint16_t>();
  header_.threads = f.number<std::uint16_t>();
  for (auto* s : {&header_.isa, &header_.cpu_name, &header_.model, &header_.producer})
    *s = f.text();
  for (auto* table : {&header_.op_classes, &header_.flags, &header_.reg_classes}) {
    const auto count = f.number<std::uint16_t>();
    if (count > tkt::max_names)
      throw FormatFault("a name table of the .tkt header is too large", 16);
    for (unsigned i = 0; i < count && !f.too_short(); ++i) table->emplace_back(f.text());
  }
  if (f.too_short()) throw FormatFault("the .tkt header is shorter than its tables", 16);
  if (header_.tick_unit == 0 || header_.tick_unit > 0xffffffffu)
    throw FormatFault("the .tkt header's tick unit is out of range", 24);

  arch_ = arch_named(header_.isa);
  for (const auto& name : header_.op_classes)
    ops_.push_back(op_class_from(name).value_or(OpClass::Other));
  for (const auto& name : header_.flags) {
    const auto bit = flag_from(name);
    if (!bit) counters_.add("unknown_flag", 0);
    flags_.push_back(bit.value_or(0));
  }
  for (const auto& name : header_.reg_classes) reg_classes_.push_back(reg_class_named(name));
  timed_ = batch_.timed = (header_.stages & (1u << tkt::stage::retire)) != 0;
  for (unsigned flags = 0; flags < row_size_.size(); ++flags) {
    row_size_[flags] =
        static_cast<std::uint8_t>(tkt::row_size(static_cast<std::uint8_t>(flags), header_.stages));
    bits_[flags] = bits_of(static_cast<std::uint8_t>(flags), header_.knows, timed_);
  }
  has_header_ = true;
  return tkt::preamble_size + length;
}

// Reads whole records; returns how many bytes they take.
std::size_t TktReader::read_records(const char* p, std::size_t n) {
  std::size_t at = 0;
  const std::uint64_t base = offset_;
  if (!has_header_) {
    at = read_header(p, n);
    if (!has_header_) return 0;
  }
  while (at < n && !ended_ && !dead_) {
    offset_ = base + at;
    const auto first = static_cast<std::uint8_t>(p[at]);
    if ((first & 15) == tkt::kind::row) {
      const std::size_t used = read_rows(p + at, n - at);
      at += used;
      if (used == 0) break;  // the rest of the row is still to come
      continue;
    }
    if (n - at < tkt::record_head) return at;
    const std::size_t length = tkt::get<std::uint16_t>(p + at + 2);
    if (n - at < tkt::record_head + length) return at;
    const char* payload = p + at + tkt::record_head;
    if (p[at + 1] != 0) {
      stop("damaged_record");
    } else if (first == tkt::kind::statics) {
      read_static(payload, length);
    } else if (first == tkt::kind::end) {
      read_end(payload, length);
    } else if (first == tkt::kind::mark) {
      // Rows simply go on after a mark; the distance between regions is in their ticks.
    } else {
      counters_.add("unknown_record", offset_);
    }
    at += tkt::record_head + length;
  }
  offset_ = base + at;
  return at;
}

void TktReader::read_static(const char* p, std::size_t n) {
  if (ids_.size() >= tkt::max_statics) return stop("too_many_statics");
  Fields f(p, n);
  StaticInst inst;
  inst.pc = f.number<std::uint64_t>();
  const auto flags = f.number<std::uint64_t>();
  inst.upc = f.number<std::uint16_t>();
  const auto op = f.number<std::uint16_t>();
  f.number<std::uint8_t>();  // length: that of `bytes`, where they are known
  inst.bytes = f.bytes(f.number<std::uint8_t>());
  SrcRegs src;
  DstRegs dst;
  const auto reg = [&] {
    const auto cls = f.number<std::uint8_t>();
    const auto index = f.number<std::uint16_t>();
    return Reg{cls < reg_classes_.size() ? reg_classes_[cls] : RegClass::misc, index};
  };
  for (unsigned k = f.number<std::uint8_t>(); k && !f.too_short(); --k) src.push_back(reg());
  for (unsigned k = f.number<std::uint8_t>(); k && !f.too_short(); --k) dst.push_back(reg());
  inst.disassembly = trim(f.text());
  if (f.too_short()) counters_.add("cut_static", offset_);
  inst.op = op < ops_.size() ? ops_[op] : OpClass::Other;
  if (inst.op == OpClass::Other) {
    counters_.add("unknown_op_class", offset_);
    if (op < header_.op_classes.size()) inst.op_name = header_.op_classes[op];
  }
  for (std::uint64_t left = flags; left; left &= left - 1)
    if (const auto i = static_cast<std::size_t>(std::countr_zero(left)); i < flags_.size())
      inst.flags |= flags_[i];
  decode_text(arch_, inst);
  if (operands_ == Operands::trace) {
    inst.src = src;
    inst.dst = dst;
    inst.access_size = 0;  // the first access tells it
  }
  ids_.push_back(table_.add(std::move(inst)));
}

void TktReader::read_end(const char* p, std::size_t n) {
  Fields f(p, n);
  const auto rows = f.number<std::uint64_t>();
  const auto statics = f.number<std::uint64_t>();
  ended_ = true;
  complete_ = !f.too_short() && rows == rows_ && statics == ids_.size();
  if (!complete_) counters_.add("end_mismatch", offset_);
}

// Rows, up to a record of another kind or one that is not whole; returns how many bytes they take.
std::size_t TktReader::read_rows(const char* p, std::size_t n) {
  std::size_t at = 0;
  batch_.timed = timed_;  // whoever took the last batch left a fresh one
  const bool all = header_.stages == (1u << tkt::stage::count) - 1;
  for (bool more = true; more && !dead_;) {
    // Columns grow by many rows at a time, and are cut back to those that came.
    const std::size_t begin = batch_.size();
    const std::size_t room = std::min<std::size_t>((n - at) / tkt::row_head, 4096);
    batch_.resize(begin + room);
    std::size_t i = begin;
    for (; i < begin + room; ++i) {
      const char* row = p + at;
      more = n - at >= tkt::row_head;
      if (!more) break;
      const auto flags = static_cast<std::uint8_t>(row[1]);
      const std::size_t size = row_size_[flags];
      more = n - at >= size && (row[0] & 15) == tkt::kind::row;
      if (!more) break;
      const auto sid = tkt::get<std::uint32_t>(row + 4);
      if (sid >= ids_.size()) {
        offset_ += at;
        ++rows_;
        stop("undefined_static");
        break;
      }
      if (all && !(flags & (tkt::row_flag::wide | tkt::row_flag::untimed)))
        read_full_row(row, flags, sid, i);
      else
        read_row(row, flags, sid, i);
      at += size;
    }
    if (room == 0) more = false;
    rows_ += i - begin;
    batch_.resize(i);
  }
  return at;
}

// The usual row of an O3 CPU, all stages in the narrow form: no branch depends on the data.
inline void TktReader::read_full_row(const char* p, std::uint8_t flags, std::uint32_t sid,
                                     std::size_t i) {
  const bool has_addr = (flags & tkt::row_flag::has_addr) != 0;
  const bool has_store = (flags & tkt::row_flag::has_store) != 0;
  write_head(p, flags, sid, i, has_addr ? tkt::get<std::uint64_t>(p + tkt::row_head) : 0);
  p += tkt::row_head + (has_addr ? 8 : 0);

  const std::uint64_t unit = header_.tick_unit;
  const auto step = static_cast<std::int32_t>(tkt::get<std::uint32_t>(p));
  const std::uint64_t fetch = last_fetch_ + static_cast<std::uint64_t>(std::int64_t{step}) * unit;
  last_fetch_ = fetch;
  batch_.ticks[stage::fetch][i] = fetch;
  p += 4;
  for (unsigned s = stage::decode; s < stage::store; ++s, p += 2) {
    const auto d = tkt::get<std::uint16_t>(p);
    batch_.ticks[s][i] = d == tkt::not_reached ? 0 : fetch + d * unit;
  }
  const auto stored = tkt::get<std::uint32_t>(has_store ? p : p - 4);
  batch_.ticks[stage::store][i] = has_store ? fetch + stored : 0;
}

// What all rows have.
inline void TktReader::write_head(const char* p, std::uint8_t flags, std::uint32_t sid,
                                  std::size_t i, std::uint64_t addr) {
  if (operands_ == Operands::trace)
    if (const auto size = tkt::get<std::uint16_t>(p + 2))
      if (StaticInst& inst = table_.at(ids_[sid]); inst.access_size == 0) inst.access_size = size;
  batch_.sid[i] = ids_[sid];
  batch_.addr[i] = addr;
  batch_.bits[i] = bits_[flags];
}

void TktReader::read_row(const char* p, std::uint8_t flags, std::uint32_t sid, std::size_t i) {
  const bool has_addr = (flags & tkt::row_flag::has_addr) != 0;
  write_head(p, flags, sid, i, has_addr ? tkt::get<std::uint64_t>(p + tkt::row_head) : 0);
  if (!timed_) return;  // ticks without a retire tick are no timing
  p += tkt::row_head + (has_addr ? 8 : 0);

  std::uint64_t t[stage::count] = {};
  const std::uint16_t stages = header_.stages;
  if (flags & tkt::row_flag::untimed) {
    // No tick is known.
  } else if (flags & tkt::row_flag::wide) {
    for (unsigned s = stage::fetch; s < stage::store; ++s)
      if (stages & (1u << s)) {
        t[s] = tkt::get<std::uint64_t>(p);
        p += 8;
      }
    if (flags & tkt::row_flag::has_store) t[stage::store] = tkt::get<std::uint64_t>(p);
    last_fetch_ = t[stage::fetch];
  } else {
    const std::uint64_t unit = header_.tick_unit;
    if (stages & (1u << stage::fetch)) {
      const auto step = static_cast<std::int32_t>(tkt::get<std::uint32_t>(p));
      last_fetch_ += static_cast<std::uint64_t>(std::int64_t{step}) * unit;
      p += 4;
    }
    t[stage::fetch] = last_fetch_;
    for (unsigned s = stage::decode; s < stage::store; ++s)
      if (stages & (1u << s)) {
        const auto d = tkt::get<std::uint16_t>(p);
        if (d != tkt::not_reached) t[s] = last_fetch_ + d * unit;
        p += 2;
      }
    if (flags & tkt::row_flag::has_store)
      t[stage::store] = last_fetch_ + tkt::get<std::uint32_t>(p);
  }
  for (unsigned s = 0; s < stage::count; ++s) batch_.ticks[s][i] = t[s];
}

}  // namespace tracekit
