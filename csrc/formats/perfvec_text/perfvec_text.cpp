#include "formats/perfvec_text/perfvec_text.hpp"

#include <algorithm>

#include "core/op_class.hpp"
#include "formats/common/scan.hpp"

namespace tracekit {
namespace {

constexpr std::size_t head_size = 9, store_head_size = 11, body_size = 41;
// Of a store's two lines: the numbers that both begin with, and the last of them, a tick.
constexpr std::size_t shared_size = 3, fetch = 2;
// How many lines of the one file may be lost without a line of the other that loses its partner.
constexpr std::size_t most_ahead = 64;

// Numbers of a record behind the ticks.
namespace body {
enum : unsigned {
  op,
  micro,
  cond,
  uncond,
  direct,
  squash_after,
  serialize_after,
  serialize_before,
  atomic,
  store_cond,
  read_barrier,
  write_barrier,
  quiesce,
  non_spec,
  addr_valid,
  addr,
  size,
  pc = 27,
  branching,
  mispredicted,
  n_src = 39,
  n_dst,
  regs
};
}  // namespace body

// gem5 v20.1-v22.1's number of an op class is tracekit's, up to the last one that it had.
constexpr std::int64_t last_op = static_cast<std::int64_t>(OpClass::InstPrefetch);

}  // namespace

bool PerfvecText::Side::line(std::string_view& out) {
  const std::size_t nl = text.find('\n', std::max(at, searched));
  if (nl == std::string::npos) {
    // Of a line that is too long to be one only its length's excess matters: `numbers` refuses it.
    if (text.size() - at > 4 * max_line) {
      const std::size_t excess = text.size() - at - 2 * max_line;
      text.erase(at, excess);
      base += excess;
    }
    searched = text.size();
    return false;
  }
  out = std::string_view(text).substr(at, nl - at);
  at = nl + 1;
  return true;
}

void PerfvecText::Side::trim() {
  base += at;
  text.erase(0, at);
  searched -= std::min(searched, at);
  at = 0;
}

void PerfvecText::feed(const char* data, std::size_t size) {
  main_.trim();
  main_.text.append(data, size);
  run();
}

void PerfvecText::feed_stores(const char* data, std::size_t size) {
  stores_.trim();
  stores_.text.append(data, size);
  run();
}

void PerfvecText::finish() {
  run();
  if (main_.at != main_.text.size()) counters_.add("cut_line", main_.offset());
  drop_stores(ahead_.size());
  if (stores_.at != stores_.text.size())
    counters_.add("store_without_instruction", stores_.offset());
}

void PerfvecText::run() {
  wants_stores_ = false;
  std::string_view line;
  for (;;) {
    const std::size_t before = main_.at;
    const std::uint64_t offset = main_.offset();
    if (!main_.line(line)) break;
    if (!numbers(line, head_) || head_.size() < head_size) {
      if (!line.empty()) counters_.add("malformed_line", offset);
      continue;
    }
    if (head_.size() > head_size) {
      row(head_, head_, head_size, offset);
      continue;
    }
    switch (pair()) {
      case Paired::unread:
        main_.at = before;
        wants_stores_ = true;
        return;
      case Paired::missing:
        counters_.add("store_missing", offset);
        break;
      case Paired::found:
        row(head_, ahead_.front().numbers, store_head_size, offset);
        ahead_.pop_front();
    }
  }
}

// Leaves the line of the store `head_` at the front of those ahead.  Both lines repeat the fault,
// the place in the store queue and the tick of fetch: where a line is lost in either file, the
// others keep their partners.
PerfvecText::Paired PerfvecText::pair() {
  const auto is_of_head = [this](const StoreLine& s) {
    return std::equal(head_.begin(), head_.begin() + shared_size, s.numbers.begin());
  };
  if (!read_stores(1)) return Paired::unread;
  if (!ahead_.empty() && is_of_head(ahead_.front())) return Paired::found;
  if (!read_stores(most_ahead)) return Paired::unread;
  const auto found = std::ranges::find_if(ahead_, is_of_head);
  if (found != ahead_.end()) {
    drop_stores(static_cast<std::size_t>(found - ahead_.begin()));
    return Paired::found;
  }
  const auto is_older = [this](const StoreLine& s) { return s.numbers[fetch] < head_[fetch]; };
  if (std::ranges::all_of(ahead_, is_older)) drop_stores(ahead_.size());
  return Paired::missing;
}

// Whether there are `count` lines of stores ahead, or all that the file has.
bool PerfvecText::read_stores(std::size_t count) {
  std::string_view line;
  while (ahead_.size() < count) {
    const std::uint64_t offset = stores_.offset();
    if (!stores_.line(line)) return stores_.ended;
    std::vector<std::int64_t> found;
    if (numbers(line, found) && found.size() > store_head_size)
      ahead_.push_back({std::move(found), offset});
    else
      counters_.add("malformed_line", offset);
  }
  return true;
}

void PerfvecText::drop_stores(std::size_t count) {
  for (; count > 0; --count) {
    counters_.add("store_without_instruction", ahead_.front().offset);
    ahead_.pop_front();
  }
}

bool PerfvecText::numbers(std::string_view line, std::vector<std::int64_t>& out) const {
  out.clear();
  if (line.size() > max_line) return false;
  scan::Cursor c(line.data(), line.data() + line.size());
  for (;;) {
    while (c.peek() == ' ' || c.peek() == '\t' || c.peek() == '\r') c.skip(1);
    if (c.done()) return true;
    const bool negative = c.eat("-");
    std::uint64_t v = 0;
    if (!c.eat_decimal(v) || v >> 63) return false;
    out.push_back(negative ? -static_cast<std::int64_t>(v) : static_cast<std::int64_t>(v));
  }
}

// Whether the numbers of a record, n of them from b on, are ones that a row can have.
static bool sane(const std::vector<std::int64_t>& head, const std::int64_t* b, std::size_t n) {
  if (n < body_size) return false;
  const std::int64_t src = b[body::n_src], dst = b[body::n_dst];
  if (src < 0 || dst < 0 || src > 64 || dst > 64) return false;
  if (n != body_size + 2 * static_cast<std::size_t>(src + dst)) return false;
  if (b[body::op] < 0 || b[body::op] > last_op || b[body::addr] < 0 || b[body::pc] < 0)
    return false;
  for (std::size_t k = body::regs; k < n; k += 2)
    if (b[k] < 0 || b[k] > 6 || b[k + 1] < 0 || b[k + 1] > 0xffff) return false;
  return head[2] >= 0 && head[2] >> 61 == 0 &&
         std::all_of(head.begin() + 3, head.begin() + head_size,
                     [](std::int64_t d) { return d >= -1 && d >> 61 <= 0; });
}

void PerfvecText::row(const std::vector<std::int64_t>& head,
                      const std::vector<std::int64_t>& record, std::size_t skip, std::uint64_t at) {
  const std::int64_t* b = record.data() + skip;
  const std::size_t n = record.size() - skip;
  if (!sane(head, b, n)) {
    counters_.add("malformed_line", at);
    return;
  }
  ++lines_;
  StaticInst s;
  s.pc = static_cast<std::uint64_t>(b[body::pc]);
  s.upc = micro_op(s.pc, b[body::micro] != 0);
  ends_ = head[0] || b[body::branching];
  s.op = static_cast<OpClass>(b[body::op]);
  s.access_size = static_cast<std::uint16_t>(
      b[body::addr_valid] ? std::clamp<std::int64_t>(b[body::size], 0, 0xffff) : 0);
  const auto set = [&](bool on, Flags f) {
    if (on) s.flags |= f;
  };
  set(b[body::micro], flag::IsMicroop);
  set(b[body::cond] || b[body::uncond], flag::IsControl);
  set(b[body::cond], flag::IsCondControl);
  set(b[body::uncond], flag::IsUncondControl);
  set(b[body::direct], flag::IsDirectControl);
  set((b[body::cond] || b[body::uncond]) && !b[body::direct], flag::IsIndirectControl);
  set(b[body::squash_after], flag::IsSquashAfter);
  set(b[body::serialize_after], flag::IsSerializeAfter);
  set(b[body::serialize_before], flag::IsSerializeBefore);
  set(b[body::atomic], flag::IsAtomic);
  set(b[body::store_cond], flag::IsStoreConditional);
  set(b[body::read_barrier], flag::IsReadBarrier);
  set(b[body::write_barrier], flag::IsWriteBarrier);
  set(b[body::quiesce], flag::IsQuiesce);
  set(b[body::non_spec], flag::IsNonSpeculative);
  set(head[1] != -1, flag::IsStore);  // it has a place in the store queue
  set(reads_memory(s.op), flag::IsLoad);
  if (s.has(flag::IsControl))
    s.branch = b[body::direct]
                   ? (b[body::cond] ? BranchKind::conditional : BranchKind::jump)
                   : (b[body::cond] ? BranchKind::indirect_conditional : BranchKind::indirect);
  const std::int64_t* reg = b + body::regs;
  const auto next = [&] {
    const Reg r{static_cast<RegClass>(reg[0]), static_cast<std::uint16_t>(reg[1])};
    reg += 2;
    return r;
  };
  for (std::int64_t k = 0; k < b[body::n_src]; ++k) s.src.push_back(next());
  for (std::int64_t k = 0; k < b[body::n_dst]; ++k) s.dst.push_back(next());

  std::uint8_t bits = row_bit::taken_known | row_bit::fault_known;
  if (b[body::addr_valid]) bits |= row_bit::has_addr;
  if (b[body::branching]) bits |= row_bit::taken;
  if (b[body::mispredicted]) bits |= row_bit::mispredicted;
  if (head[0]) bits |= row_bit::fault;
  rows_.sid.push_back(intern(s));
  rows_.addr.push_back(b[body::addr_valid] ? static_cast<std::uint64_t>(b[body::addr]) : 0);
  rows_.bits.push_back(bits);
  rows_.timed = true;
  // head: isFault sqIdx fetch, then differences to it: outRob commit decode rename dispatch issue.
  const std::int64_t fetch = head[2];
  const auto tick = [&](std::int64_t delta) {
    return delta < 0 ? std::uint64_t{0} : static_cast<std::uint64_t>(fetch + delta);
  };
  const std::int64_t store = skip == store_head_size ? record[head_size] : -1;
  rows_.ticks[stage::fetch].push_back(static_cast<std::uint64_t>(fetch));
  rows_.ticks[stage::decode].push_back(tick(head[5]));
  rows_.ticks[stage::rename].push_back(tick(head[6]));
  rows_.ticks[stage::dispatch].push_back(tick(head[7]));
  rows_.ticks[stage::issue].push_back(tick(head[8]));
  rows_.ticks[stage::complete].push_back(0);  // not in this format
  rows_.ticks[stage::retire].push_back(head[0] ? 0 : tick(head[4]));
  rows_.ticks[stage::store].push_back(store >> 61 > 0 ? 0 : tick(store));
}

// The number of a row's micro-op in its instruction, which the format does not have: micro-ops of
// one pc follow each other, up to one that branches or traps.
std::uint16_t PerfvecText::micro_op(std::uint64_t pc, bool is_micro_op) {
  const bool goes_on = is_micro_op && !ends_ && lines_ > 1 && pc == pc_;
  pc_ = pc;
  return number_ = goes_on ? static_cast<std::uint16_t>(number_ + 1) : std::uint16_t{0};
}

std::uint32_t PerfvecText::intern(const StaticInst& s) {
  std::uint32_t id = statics_.find(s.pc, s.upc);
  for (; id != StaticTable::none; id = statics_.next(id)) {
    const StaticInst& o = statics_[id];
    if (o.op == s.op && o.flags == s.flags && o.access_size == s.access_size && o.src == s.src &&
        o.dst == s.dst)
      return id;
  }
  return statics_.add(s);
}

}  // namespace tracekit
