#include "formats/gem5_text/gem5_text.hpp"

#include <algorithm>
#include <cstring>

#include "formats/common/scan.hpp"
#include "formats/gem5_text/same_bytes.hpp"
#include "formats/gem5_text/text_views.hpp"
#include "isa/text_decode.hpp"

namespace tracekit {
namespace {

bool same(const char* p, std::string_view text) { return same_bytes(p, text.data(), text.size()); }

// "<tick>:store:<tick>\n" behind "O3PipeView:retire:", or nullptr.
template <class F>
const char* fast_retire(const char* q, std::uint64_t (&tick)[stage::count], F number) {
  const auto read = [&](std::uint64_t& t) {
    if (q[0] == '0' && (q[1] == ':' || q[1] == '\n'))
      ++q;
    else
      q = number(q, t);
    return q != nullptr;
  };
  if (!read(tick[stage::retire]) || !scan::starts(q, ":store:")) return nullptr;
  q += 7;
  return read(tick[stage::store]) && *q == '\n' ? q + 1 : nullptr;
}

}  // namespace

void Gem5Text::feed(const char* data, std::size_t size) {
  const char* p = data;
  const char* const end = data + size;
  if (!carry_.empty() || skipping_) {
    const auto* nl = static_cast<const char*>(std::memchr(p, '\n', size));
    const char* upto = nl ? nl + 1 : end;
    const std::uint64_t begin = base_ - carry_.size(),
                        after = base_ + static_cast<std::uint64_t>(upto - p);
    if (!skipping_) carry_.append(p, upto);
    if (carry_.size() > max_line) {
      counters_.add("overlong_line", begin);
      carry_.clear();
      skipping_ = true;
    }
    if (nl) {
      if (!skipping_) {
        std::string line;
        line.swap(carry_);
        base_ = begin;
        chunk_ = line.data();
        chunk_end_ = chunk_ + line.size();
        slow_line(chunk_, chunk_end_ - 1);
      }
      skipping_ = false;
    }
    base_ = after;
    p = upto;
  }
  if (p == end) return;
  const auto* last = static_cast<const char*>(memrchr(p, '\n', static_cast<std::size_t>(end - p)));
  const char* whole = last ? last + 1 : p;
  chunk_ = p;
  chunk_end_ = end;
  whole_lines(p, whole);
  base_ += static_cast<std::uint64_t>(whole - p);
  carry_.assign(whole, end);
  base_ += carry_.size();
  if (carry_.size() > max_line) {
    counters_.add("overlong_line", base_ - carry_.size());
    carry_.clear();
    skipping_ = true;
  }
}

void Gem5Text::whole_lines(const char* p, const char* end) {
  while (p != end) {
    if (end - p >= 4096) {  // room for the unchecked readers
      const char* next = nullptr;
      if (*p == 'O')
        next = fast_block(p, end);
      else if (last_cpu_)
        next = fast_exec(p, end);
      if (next) {
        p = next;
        continue;
      }
    }
    const auto* nl =
        static_cast<const char*>(std::memchr(p, '\n', static_cast<std::size_t>(end - p)));
    if (nl - p > static_cast<std::ptrdiff_t>(max_line))
      count("overlong_line", p);
    else
      slow_line(p, nl);
    p = nl + 1;
  }
}

// A tick, or nullptr where there is none that fits.
inline const char* Gem5Text::fast_tick(const char* p, std::uint64_t& tick) {
  if (const char* q = near_.read(p, tick)) return q;
  const char* q = scan::decimal(p, tick);
  if (!q || q == p || tick >= max_tick) return nullptr;
  if (near_.anchor(p, q, tick)) shape_.set(p, q, near_.base());
  return q;
}

// A whole block as gem5 prints it, or nullptr where anything differs: then its lines go the slow
// way.
const char* Gem5Text::fast_block(const char* p, const char* end) {
  if (in_block_ || !scan::starts(p, "O3PipeView:fetch:")) return nullptr;
  Block b;
  std::uint64_t upc = 0;
  const char* q = fast_tick(p + 17, b.tick[stage::fetch]);
  if (!q || !scan::starts(q, ":0x")) return nullptr;
  const char* digits = q + 3;
  q = scan::hexadecimal(digits, b.pc);
  if (!q || q == digits || *q != ':') return nullptr;
  digits = q + 1;
  if (digits[1] == ':') {  // nearly always
    upc = static_cast<unsigned char>(digits[0]) - std::uint64_t{'0'};
    if (upc > 9) return nullptr;
    q = digits + 1;
  } else {
    q = scan::decimal(digits, upc);
    if (!q || q == digits || *q != ':' || upc > 0xffff) return nullptr;
  }
  b.upc = static_cast<std::uint16_t>(upc);
  digits = q + 1;
  q = scan::decimal(digits, b.seq);
  if (!q || q == digits || *q != ':') return nullptr;
  const char* text = q + 1;
  const auto* nl =
      static_cast<const char*>(std::memchr(text, '\n', static_cast<std::size_t>(end - text)));
  if (!nl || end - nl < std::ptrdiff_t{2 * BlockShape::max_size} || nl[-1] == '\r' ||
      nl - p > std::ptrdiff_t{max_line})
    return nullptr;
  q = shape_.read(nl + 1, b.tick);
  q = q ? fast_retire(q, b.tick,
                      [this](const char* at, std::uint64_t& t) { return fast_tick(at, t); })
        : fast_lines(nl + 1, b);
  if (q) {
    open_at_ = base_ + offset(p);
    take_block(b, view(text, nl));
  }
  return q;
}

// The lines behind the fetch, one by one.
const char* Gem5Text::fast_lines(const char* q, Block& b) {
  // A stage that was not reached is followed by none that was: one comparison for the rest of the
  // block.
  static constexpr char rest[] =
      "O3PipeView:decode:0\nO3PipeView:rename:0\nO3PipeView:dispatch:0\nO3PipeView:issue:0\n"
      "O3PipeView:complete:0\nO3PipeView:retire:0:store:0\n";
  constexpr std::size_t rest_size = sizeof rest - 1;
  static constexpr std::size_t rest_of[] = {0, 0, 20, 40, 62};  // where a stage's line stands in it
  bool ended = false;
  const auto line = [&](const auto& name, unsigned s, const auto& after) {
    constexpr std::size_t n = sizeof(name) - 1, m = sizeof(after) - 1;
    if (std::memcmp(q, name, n) != 0) return false;
    const char* digits = q + n;
    if (s <= stage::issue && *digits == '0') {
      const std::size_t from = rest_of[s];
      if (std::memcmp(q, rest + from, rest_size - from) == 0) {
        q += rest_size - from;
        return ended = true;
      }
    }
    q = fast_tick(digits, b.tick[s]);
    if (!q || std::memcmp(q, after, m) != 0) return false;
    q += m;
    return true;
  };
  const bool whole = line("O3PipeView:decode:", stage::decode, "\n") &&
                     (ended || line("O3PipeView:rename:", stage::rename, "\n")) &&
                     (ended || line("O3PipeView:dispatch:", stage::dispatch, "\n")) &&
                     (ended || line("O3PipeView:issue:", stage::issue, "\n")) &&
                     (ended || (line("O3PipeView:complete:", stage::complete, "\n") &&
                                line("O3PipeView:retire:", stage::retire, ":store:") &&
                                line("", stage::store, "\n")));
  return whole ? q : nullptr;
}

// An Exec line of a CPU and a static instruction already seen, or nullptr.
const char* Gem5Text::fast_exec(const char* p, const char* end) {
  const char* q = p;
  for (int i = 0; i < 8 && *q == ' '; ++i) ++q;
  std::uint64_t when = 0;
  q = fast_tick(q, when);
  if (!q || !scan::starts(q, ": ")) return nullptr;
  q += 2;
  CpuStream* c = last_cpu_;
  if (!same(q, c->prefix)) {
    const auto it =
        std::find_if(cpus_.begin(), cpus_.end(), [&](const auto& o) { return same(q, o->prefix); });
    if (it == cpus_.end()) return nullptr;
    c = it->get();
  }
  q += c->prefix.size();

  const char* const head = q;
  ExecFields f;
  const auto fits = [&](std::uint32_t sid) {
    const StaticText::Known& t = c->text[sid];
    if (end - head < static_cast<std::ptrdiff_t>(t.head_size) + t.tail_size + 128) return false;
    if (!same_bytes(head, c->text.head(t), t.head_size)) return false;
    q = head + t.head_size;
    f = {};
    if (q[0] == ' ' && scan::starts(q, " A=0x")) {
      const char* hex = q + 5;
      q = scan::hexadecimal(hex, f.addr);
      if (!q || q == hex) return false;
      f.has_addr = true;
    }
    if (scan::starts(q, "  FetchSeq=")) {
      const char* number = q + 11;
      q = scan::decimal(number, f.seq);
      if (!q || q == number) return false;
      f.has_seq = true;
    }
    if (!same_bytes(q, c->text.tail(t), t.tail_size)) return false;
    q += t.tail_size;
    return *q == '\n';
  };
  std::uint32_t sid = StaticTable::none;
  if (c->last != StaticTable::none) {
    for (std::uint32_t guess : c->text[c->last].next)
      if (guess != StaticTable::none && fits(guess)) {
        sid = guess;
        break;
      }
  }
  if (sid == StaticTable::none) {
    std::uint64_t pc = 0, upc = 0;
    if (!scan::starts(head, "0x")) return nullptr;
    const char* r = scan::hexadecimal(head + 2, pc);
    if (!r) return nullptr;
    if (*r == '.') {
      r += r[1] == ' ' ? 2 : 1;
      if (!scan::decimal(r, upc) || upc > 0xffff) return nullptr;
    }
    for (std::uint32_t s = c->statics.find(pc, static_cast<std::uint16_t>(upc));
         s != StaticTable::none; s = c->statics.next(s))
      if (fits(s)) {
        sid = s;
        break;
      }
    if (sid == StaticTable::none) return nullptr;
  }
  last_cpu_ = c;
  take_line(*c, sid, when, f, p);
  return q + 1;
}

// A line that is whole: a row.
inline void Gem5Text::take_line(CpuStream& c, std::uint32_t sid, std::uint64_t when,
                                const ExecFields& f, const char* at) {
  follow(c, sid);
  ++exec_lines_;
  ++c.lines;
  has_seq_ |= f.has_seq;
  if (when < c.when || (f.seq && f.seq < c.seq)) count("another_run", at);
  c.when = when;
  c.seq = f.seq;
  std::uint8_t bits = 0;
  if (f.has_addr) bits |= row_bit::has_addr;
  if (f.predicated_off) bits |= row_bit::predicated_off;
  const StaticText::Known& inst = c.text[sid];
  if (c.order.add(f.seq, when, inst.pc, inst.upc, sid, f.addr, bits) && c.order.forced() == 1)
    c.gave_up_at = base_ + offset(at);
}

bool Gem5Text::exec_line(const char* begin, const char* end) {
  scan::Cursor c(begin, end);
  std::uint64_t when = 0, ignored = 0, thread = 0;
  c.skip_blanks();
  if (!c.eat_decimal(when) || !c.eat(": ")) return false;
  c.eat("ExecEnable: ");  // FmtFlag
  const std::string_view rest = view(c.at(), end);
  const std::size_t colon = rest.find(": ");
  if (colon == std::string_view::npos || colon == 0) return false;
  std::string_view name = rest.substr(0, colon);
  if (name.find(' ') != std::string_view::npos) return false;
  c.skip(colon + 2);
  if (c.peek() == 'A') {
    c.skip(1);
    if (!c.eat_decimal(ignored) || !c.eat(" ")) return false;
  }
  if (c.peek() == 'T') {
    c.skip(1);
    if (!c.eat_decimal(thread) || !c.eat(" : ")) return false;
  }
  const auto text = split_exec(view(c.at(), end));
  const bool begins_like_one = c.left() > 1 && c.at()[0] == '0' && c.at()[1] == 'x';
  if (!text && !begins_like_one) return false;
  if (!text || when >= max_tick) {
    count("malformed_line", begin);
    return true;
  }
  if (!std::all_of(name.begin(), name.end(), [](char ch) { return ch > ' ' && ch <= '~'; })) {
    count("damaged_cpu_name", begin);
    return true;
  }
  if (text->macro_line) {
    count("macro_op_line", begin);
    return true;
  }
  std::string of_thread;  // each of an SMT core's threads is a stream of its own
  if (thread > 0) name = of_thread = std::string(name) + ".T" + std::to_string(thread);
  const auto known = [&](const auto& one) { return one->name == name; };
  if (cpus_.size() >= max_cpus && std::none_of(cpus_.begin(), cpus_.end(), known)) {
    count("line_of_too_many_cpus", begin);
    return true;
  }
  if (!exec_lines_) {
    if (seq_order_.started()) {
      count("exec_line_after_blocks",
            begin);  // too late to join: blocks alone made the rows so far
      return true;
    }
    // The blocks before the first Exec line belong to instructions from before it.
    CpuStream& first = cpu(name);
    for (const Early& e : early_)
      if (first.order.unmatched(e.block.tick[stage::retire]))
        counters_.add("block_without_exec", e.at);
    early_.clear();
    early_.shrink_to_fit();
  }
  ExecFields f;
  parse_exec_fields(text->fields, f);
  CpuStream& s = cpu(name);
  last_cpu_ = &s;
  std::uint32_t sid = StaticTable::none;
  for (sid = s.statics.find(text->pc, text->upc); sid != StaticTable::none;
       sid = s.statics.next(sid))
    if (s.text.is(sid, text->head, text->tail)) break;
  if (sid == StaticTable::none) {
    ExecStatic fresh = make_static(*text);
    if (fresh.unknown_op) {
      count("unknown_op_class", begin);
      fresh.inst.op_name = std::string(text->op_class);
    }
    if (fresh.unknown_flag) count("unknown_flag", begin);
    has_flags_ |= !text->tail.empty();
    sid = add_static(s, std::move(fresh.inst), text->head, text->tail);
  }
  take_line(s, sid, when, f, begin);
  return true;
}

void Gem5Text::take_checked(const Block& b, std::string_view disassembly) {
  if (std::all_of(std::begin(b.tick), std::end(b.tick),
                  [](std::uint64_t t) { return t < max_tick; }))
    take_block(b, disassembly);
  else
    counters_.add("malformed_line", open_at_);
}

void Gem5Text::take_block(const Block& b, std::string_view disassembly) {
  ++blocks_;
  if (exec_lines_) {
    const auto find = [&b](const CpuStream& c) {
      return c.order.find(b.seq, b.pc, b.upc, b.tick[stage::fetch]);
    };
    CpuStream* owner = last_cpu_;
    std::uint64_t row = find(*owner);
    if (cpus_.size() > 1) {
      for (const auto& c : cpus_) {
        const std::uint64_t other = c.get() != last_cpu_ ? find(*c) : ExecOrder::none;
        if (other == ExecOrder::none) continue;
        if (row != ExecOrder::none) {
          counters_.add("ambiguous_block", open_at_);
        } else {
          owner = c.get();
          row = other;
        }
      }
    }
    if (row != ExecOrder::none) {
      owner->order.complete(row, b.tick);
      ++owner->blocks;
    } else if (last_cpu_->order.unmatched(b.tick[stage::retire])) {
      counters_.add("block_without_exec", open_at_);
    }
    return;
  }
  constexpr std::size_t undecided = 1 << 16;
  if (!seq_order_.started() && early_.size() < undecided) {
    early_.push_back({b, std::string(disassembly), open_at_});
    return;
  }
  flush_early();
  sort_block(b, disassembly, open_at_);
}

void Gem5Text::flush_early() {
  std::vector<Early> early;
  early.swap(early_);
  for (const Early& e : early) sort_block(e.block, e.text, e.at);
}

void Gem5Text::sort_block(const Block& b, std::string_view disassembly, std::uint64_t at) {
  CpuStream& c = cpu("");
  ++c.blocks;
  std::uint32_t sid = 0;
  if (b.tick[stage::retire]) {
    for (sid = c.statics.find(b.pc, b.upc); sid != StaticTable::none; sid = c.statics.next(sid))
      if (c.text.is(sid, disassembly, {})) break;
    if (sid == StaticTable::none) {
      StaticInst inst;
      inst.pc = b.pc;
      inst.upc = b.upc;
      inst.inferred = true;
      inst.disassembly = std::string(disassembly);
      sid = add_static(c, std::move(inst), disassembly, {});
    }
  }
  if (!seq_order_.add(b, sid, c.rows)) counters_.add("late_block", at);
}

CpuStream& Gem5Text::cpu(std::string_view name) {
  for (const auto& c : cpus_)
    if (c->name == name) return *c;
  cpus_.push_back(std::make_unique<CpuStream>());
  CpuStream& c = *cpus_.back();
  c.name = std::string(name);
  c.prefix = c.name + ": ";
  return c;
}

std::uint32_t Gem5Text::add_static(CpuStream& c, StaticInst inst, std::string_view head,
                                   std::string_view tail) {
  if (arch_ == Arch::unknown) arch_ = detect_arch(inst.disassembly);
  inst.disassembly = std::string(trim(inst.disassembly));
  decode_text(arch_, inst);
  c.text.add(inst.pc, inst.upc, head, tail);
  return c.statics.add(std::move(inst));
}

void Gem5Text::follow(CpuStream& c, std::uint32_t sid) {
  if (c.last != StaticTable::none) c.text.follow(c.last, sid);
  c.last = sid;
}

Counters Gem5Text::counters() const {
  Counters all = counters_;
  for (const auto& c : cpus_)
    if (c->order.blocks_seen() && c->order.forced())
      all.add("block_missing", c->gave_up_at, c->order.forced());
  return all;
}

OrderStats Gem5Text::order_stats() const {
  OrderStats sum = seq_order_.stats();
  for (const auto& c : cpus_) {
    const OrderStats& s = c->order.stats();
    sum.squashed += s.squashed;
    sum.trapped += s.trapped;
    sum.untimed += s.untimed;
  }
  return sum;
}

}  // namespace tracekit
