#include "formats/tkt/tkt_reader.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
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
  bool done() const { return at_ == end_; }

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

// A row's bits for the facts in its head, in a stream that tells these.
std::uint8_t bits_of(unsigned facts, std::uint16_t knows) {
  std::uint8_t bits = 0;
  if (knows & tkt::knows::taken) bits |= row_bit::taken_known;
  if (knows & tkt::knows::fault) bits |= row_bit::fault_known;
  if (facts & tkt::row_flag::taken) bits |= row_bit::taken;
  if (facts & tkt::row_flag::fault) bits |= row_bit::fault;
  if (facts & tkt::row_flag::predicated_off) bits |= row_bit::predicated_off;
  if (facts & tkt::row_flag::mispredicted) bits |= row_bit::mispredicted;
  return bits;
}

}  // namespace

void TktReader::feed(const char* data, std::size_t n) {
  if (dead_) return;
  if (ended_) return leave_out(n);
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
    if (ended_) return leave_out(n);
  }
  const std::size_t used = read_records(data, n);
  if (dead_) return;
  if (ended_) return leave_out(n - used);
  pending_.assign(data + used, n - used);
}

void TktReader::leave_out(std::size_t n) {
  if (n) counters_.add("bytes_after_end", offset_, n);
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
                      8,
                      version > tkt::version ? "use a newer tracekit"
                                             : "trace again with the plug-in of this tracekit");
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
  if (!f.done()) {  // a writer that tells it; those before it end here
    const auto size = f.number<std::uint32_t>();
    if (size > tkt::max_configuration)
      throw FormatFault("the .tkt header's configuration claims more than 512 KiB", 16);
    header_.configuration = f.bytes(size);
    if (f.too_short()) throw FormatFault("the .tkt header is shorter than its configuration", 16);
  }
  if (header_.tick_unit == 0 || header_.tick_unit > 0xffffffffu)
    throw FormatFault("the .tkt header's tick unit is out of range", 24);

  arch_ = arch_named(header_.isa);
  for (const auto& name : header_.op_classes)
    ops_.push_back(op_class_from(name).value_or(OpClass::Other));
  for (std::size_t i = 0; i < header_.flags.size(); ++i) {
    const auto bit = flag_from(header_.flags[i]);
    if (!bit) counters_.add("unknown_flag", 0);
    if (i < flags_.size()) flags_[i] = bit.value_or(0);
  }
  for (const auto& name : header_.reg_classes) reg_classes_.push_back(reg_class_named(name));
  timed_ = batch_.timed = (header_.stages & (1u << tkt::stage::retire)) != 0;
  for (unsigned i = 0; i < row_size_.size(); ++i)
    row_size_[i] = static_cast<std::uint8_t>(tkt::row_size(i << 4, header_.stages));
  for (unsigned i = 0; i < ticks_size_.size(); ++i)
    ticks_size_[i] = row_size_[i & (tkt::row_head::has_store >> 4 | 3u << 4)];
  for (unsigned i = 0; i < bits_.size(); ++i) bits_[i] = bits_of(i, header_.knows);
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
    if (first & tkt::row_head::row) {
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
  if (known_.size() >= tkt::max_statics) return stop("too_many_statics");
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
    inst.flags |= flags_[static_cast<std::size_t>(std::countr_zero(left))];
  decode_text(arch_, inst);
  if (operands_ == Operands::trace) {
    inst.src = src;
    inst.dst = dst;
    inst.access_size = 0;  // the first access tells it
  }
  known_.push_back({table_.add(std::move(inst))});
}

void TktReader::read_end(const char* p, std::size_t n) {
  Fields f(p, n);
  const auto rows = f.number<std::uint64_t>();
  const auto statics = f.number<std::uint64_t>();
  ended_ = true;
  complete_ = !f.too_short() && rows == rows_ && statics == known_.size();
  if (!complete_) counters_.add("end_mismatch", offset_);
}

namespace {

// A signed number of 0, 1, 2, 4 or 8 bytes; those behind it are read, too.
inline std::uint64_t signed_field(const char* p, unsigned bytes) {
  constexpr std::uint64_t mask[] = {0, 0xff, 0xffff, 0, 0xffffffff, 0, 0, 0, ~std::uint64_t{0}};
  constexpr std::uint64_t sign[] = {0, 0x80, 0x8000, 0, 0x80000000, 0, 0, 0, 0};
  return ((tkt::get<std::uint64_t>(p) & mask[bytes]) ^ sign[bytes]) - sign[bytes];
}

// Ticks from here on are damage, as in gem5's text: differences of such do not fit a file's column.
constexpr unsigned tick_bits = 61;

// A row's ticks from their form; those that are absent stay 0.  Returns a number that has the bits
// of all from which the others are not far.
template <bool all_stages, class Last>
inline std::uint64_t read_ticks(const char* p, unsigned head, unsigned stages, std::uint64_t unit,
                                Last& last, std::uint64_t (&t)[stage::count]) {
  const unsigned form = head >> tkt::row_head::form_shift & 3;
  const bool has_store = (head & tkt::row_head::has_store) != 0;
  std::uint64_t all = 0;
  const auto has = [stages](unsigned s) { return all_stages || stages >> s & 1; };
  if (form == tkt::tick_form::bytes) [[likely]] {
    const auto byte = [&p] { return static_cast<unsigned char>(*p++); };
    if (has(stage::fetch)) last.fetch += byte() * unit;
    std::uint64_t before = t[stage::fetch] = last.fetch;
    for (unsigned s = stage::decode; s < stage::retire; ++s) {
      if (!has(s)) continue;
      const unsigned d = byte();
      const std::uint64_t tick = before + d * unit;
      t[s] = d == tkt::not_reached_byte ? 0 : tick;
      before = d == tkt::not_reached_byte ? before : tick;
    }
    const unsigned d = byte();  // a timed stream has retire ticks
    const std::uint64_t tick = last.retire + d * unit;
    t[stage::retire] = d == tkt::not_reached_byte ? 0 : tick;
    last.retire = d == tkt::not_reached_byte ? last.retire : tick;
    if (has_store) t[stage::store] = last.fetch + tkt::get<std::uint32_t>(p);
    return last.fetch | last.retire;
  }
  if (form == tkt::tick_form::shorts) {
    if (has(stage::fetch)) {
      const auto step = static_cast<std::int32_t>(tkt::get<std::uint32_t>(p));
      last.fetch += static_cast<std::uint64_t>(std::int64_t{step}) * unit;
      p += 4;
    }
    t[stage::fetch] = last.fetch;
    for (unsigned s = stage::decode; s < stage::store; ++s) {
      if (!has(s)) continue;
      const auto d = tkt::get<std::uint16_t>(p);
      if (d != tkt::not_reached_short) t[s] = last.fetch + d * unit;
      p += 2;
    }
    if (has_store) t[stage::store] = last.fetch + tkt::get<std::uint32_t>(p);
  } else if (form == tkt::tick_form::wide) {
    for (unsigned s = stage::fetch; s < stage::store; ++s)
      if (has(s)) t[s] = tkt::get<std::uint64_t>(p), p += 8;
    if (has_store) t[stage::store] = tkt::get<std::uint64_t>(p);
    last.fetch = t[stage::fetch];
    for (const std::uint64_t tick : t) all |= tick;
  }
  if (t[stage::retire]) last.retire = t[stage::retire];
  return all | last.fetch | last.retire;
}

}  // namespace

std::size_t TktReader::read_rows(const char* p, std::size_t n) {
  batch_.timed = timed_;  // whoever took the last batch left a fresh one
  const bool all = header_.stages == (1u << tkt::stage::count) - 1;
  return all ? read_rows_of<true>(p, n) : read_rows_of<false>(p, n);
}

// Rows, up to a record of another kind or one that is not whole; returns how many bytes they take.
template <bool all_stages>
std::size_t TktReader::read_rows_of(const char* p, std::size_t n) {
  // Fields are read eight bytes wide, whatever their width: the last rows from a padded copy.
  constexpr std::size_t slack = 8;
  char padded[tkt::max_row + slack];
  const unsigned stages = header_.stages;
  const std::uint64_t unit = header_.tick_unit;
  Last last = last_;
  std::size_t at = 0;
  const char* damage = nullptr;
  for (bool more = true; more && !damage;) {
    // Columns grow by many rows at a time, and are cut back to those that came.
    const std::size_t begin = batch_.size();
    const std::size_t room = std::min<std::size_t>((n - at) / tkt::row_head_size, 4096);
    if (room == 0) break;
    batch_.resize(begin + room);
    std::uint32_t* const sids = batch_.sid.data();
    std::uint64_t* const addrs = batch_.addr.data();
    std::uint8_t* const all_bits = batch_.bits.data();
    std::uint64_t* ticks[stage::count];
    for (unsigned s = 0; s < stage::count; ++s) ticks[s] = batch_.ticks[s].data();
    std::size_t i = begin;
    for (; i < begin + room; ++i) {
      more = n - at >= tkt::row_head_size;
      if (!more) break;
      const char* row = p + at;
      const unsigned head = tkt::get<std::uint16_t>(row);
      const std::size_t size = row_size_[head >> 4 & 0xfff];
      more = n - at >= size && (head & tkt::row_head::row);
      if (!more) break;
      if (n - at < size + slack) [[unlikely]] {
        std::memcpy(padded, row, size);
        std::memset(padded + size, 0, slack);
        row = padded;
      }
      const unsigned sid_size = tkt::sid_bytes[head >> tkt::row_head::sid_shift & 3];
      const unsigned addr_form = head >> tkt::row_head::addr_shift & 7;
      if (head >= tkt::row_head::reserved || addr_form > 5) [[unlikely]] {
        damage = "damaged_record";
        break;
      }
      const char* field = row + ticks_size_[head >> 4 & 63];
      const auto sid = static_cast<std::uint32_t>(last.sid + 1 + signed_field(field, sid_size));
      if (sid >= known_.size()) [[unlikely]] {
        damage = "undefined_static";
        break;
      }
      last.sid = sid;
      Known& known = known_[sid];
      unsigned bits = bits_[head & tkt::row_head::facts];
      std::uint64_t addr = 0;
      if (addr_form) {
        const unsigned addr_size = tkt::addr_bytes[addr_form];
        addr = known.addr += signed_field(field + sid_size, addr_size);
        bits |= row_bit::has_addr;
        if (head & tkt::row_head::has_size)
          access(known, tkt::get<std::uint16_t>(field + sid_size + addr_size));
      }
      if (timed_) {
        if (!(head & 3u << tkt::row_head::form_shift)) bits |= row_bit::untimed;
        std::uint64_t t[stage::count] = {};
        if (read_ticks<all_stages>(row + tkt::row_head_size, head, stages, unit, last, t) >>
            tick_bits) [[unlikely]] {
          damage = "damaged_record";
          break;
        }
        for (unsigned s = 0; s < stage::count; ++s) ticks[s][i] = t[s];
      }
      sids[i] = known.id;
      addrs[i] = addr;
      all_bits[i] = static_cast<std::uint8_t>(bits);
      at += size;
    }
    rows_ += i - begin;
    batch_.resize(i);
  }
  last_ = last;
  if (damage) stop_at(at, damage);
  return at;
}

// At a damaged row, so many bytes behind the last record's end.
void TktReader::stop_at(std::size_t bytes, const char* damage) {
  offset_ += bytes;
  ++rows_;
  stop(damage);
}

// An access of another size than this instruction's last one.
void TktReader::access(Known& known, std::uint16_t size) {
  if (operands_ != Operands::trace) return;
  if (StaticInst& inst = table_.at(known.id); inst.access_size == 0) inst.access_size = size;
}

}  // namespace tracekit
