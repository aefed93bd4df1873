// Lines that the fast path of gem5_text.cpp leaves: other writers' blanks and line ends, blocks
// that are cut up, BOOM's blocks; and the end of a trace.
#include <algorithm>
#include <map>

#include "formats/common/scan.hpp"
#include "formats/gem5_text/gem5_text.hpp"
#include "formats/gem5_text/text_views.hpp"

namespace tracekit {
namespace {

constexpr std::string_view stage_names[] = {"fetch", "decode",   "rename", "dispatch",
                                            "issue", "complete", "retire", "store"};

// "<tick>:0x<pc>:<upc>:<seq>:<disassembly>" behind "O3PipeView:fetch:".
bool parse_fetch(scan::Cursor c, Block& b, std::string_view& disassembly) {
  std::uint64_t upc = 0;
  b = Block{};
  c.skip_blanks();
  if (!c.eat_decimal(b.tick[stage::fetch]) || !c.eat(":0x") || !c.eat_hex(b.pc) || !c.eat(":") ||
      !c.eat_decimal(upc) || upc > 0xffff || !c.eat(":"))
    return false;
  c.skip_blanks();
  if (!c.eat_decimal(b.seq)) return false;
  c.eat(":");
  b.upc = static_cast<std::uint16_t>(upc);
  disassembly = {c.at(), c.left()};
  return true;
}

// "<stage>:<tick>", and for retire ":<word>:<tick>" behind it.  Which stage, or -1.
int parse_stage(scan::Cursor c, std::uint64_t (&tick)[stage::count]) {
  for (unsigned s = stage::decode; s <= stage::retire; ++s) {
    const std::string_view name = stage_names[s];
    if (c.left() <= name.size() || view(c.at(), c.at() + name.size()) != name ||
        c.at()[name.size()] != ':')
      continue;
    c.skip(name.size() + 1);
    c.skip_blanks();
    if (!c.eat_decimal(tick[s])) return -1;
    if (s == stage::retire && c.eat(":store:")) {
      c.skip_blanks();
      if (!c.eat_decimal(tick[stage::store])) return -1;
    }
    return static_cast<int>(s);
  }
  return -1;
}

}  // namespace

// BOOM's blocks: one line a stage, in no order, no mark for a squash.  One that is this far behind
// the newest gets no further lines.
struct Gem5Text::Boom {
  static constexpr std::size_t window = std::size_t{1} << 16;
  struct Open {
    Block block;
    std::string text;
    bool fetched{};
  };
  std::map<std::uint64_t, Open> open;
};

Gem5Text::Gem5Text() = default;
Gem5Text::~Gem5Text() = default;

void Gem5Text::slow_line(const char* begin, const char* end) {
  if (end != begin && end[-1] == '\r') --end;
  if (end - begin > 12 && scan::starts(begin, "O3PipeView: ")) begin += 12;  // FmtFlag
  if (end - begin >= 11 && scan::starts(begin, "O3PipeView:")) {
    block_line(begin, end);
    return;
  }
  scan::Cursor c(begin, end);
  std::uint64_t number = 0;
  c.skip_blanks();
  if (c.eat_decimal(number)) {
    if (c.eat("; O3PipeView:")) {
      boom_line(number, view(c.at(), end), begin);
      return;
    }
    if (exec_line(begin, end)) return;
  }
  if (begin != end) count("other_line", begin);
}

void Gem5Text::block_line(const char* begin, const char* end) {
  scan::Cursor c(begin + 11, end);
  if (c.eat("fetch:")) {
    drop_open_block();
    std::string_view text;
    if (!parse_fetch(c, open_, text)) {
      count("malformed_line", begin);
      return;
    }
    open_text_.assign(text);
    open_at_ = base_ + offset(begin);
    open_stages_ = 1U << stage::fetch;
    in_block_ = true;
    return;
  }
  std::uint64_t ignored[stage::count];
  const int s = parse_stage(c, in_block_ ? open_.tick : ignored);
  if (s < 0) {
    // A stage that this table does not know (a fork's), or digits that are none.
    const bool known = std::any_of(std::begin(stage_names), std::end(stage_names),
                                   [&](auto name) { return view(c.at(), end).starts_with(name); });
    count(known ? "malformed_line" : "unknown_stage", begin);
    return;
  }
  if (!in_block_) {
    count("stray_stage_line", begin);
    return;
  }
  open_stages_ |= 1U << s;
  if (s == stage::retire) {
    in_block_ = false;
    constexpr unsigned all = (2U << stage::retire) - 1;
    if (open_stages_ != all) counters_.add("incomplete_block", open_at_);
    take_checked(open_, open_text_);
  }
}

void Gem5Text::drop_open_block() {
  if (in_block_) counters_.add("incomplete_block", open_at_);
  in_block_ = false;
}

void Gem5Text::boom_line(std::uint64_t seq, std::string_view rest, const char* begin) {
  if (!boom_) boom_ = std::make_unique<Boom>();
  open_at_ = base_ + offset(begin);
  scan::Cursor c(rest.data(), rest.data() + rest.size());
  Block b;
  std::string_view text;
  Boom::Open& o = boom_->open[seq];
  if (c.eat("fetch:")) {
    if (!parse_fetch(c, b, text)) {
      count("malformed_line", begin);
    } else {
      o.fetched = true;
      o.text.assign(trim(text));
      o.block.pc = b.pc;
      o.block.upc = b.upc;
      o.block.tick[stage::fetch] = b.tick[stage::fetch];
    }
  } else if (parse_stage(c, o.block.tick) < 0) {
    count("malformed_line", begin);
  }
  o.block.seq = seq;
  while (boom_->open.size() > Boom::window) {
    auto oldest = boom_->open.begin();
    if (oldest->second.fetched)
      take_checked(oldest->second.block, oldest->second.text);
    else
      counters_.add("incomplete_block", open_at_);
    boom_->open.erase(oldest);
  }
}

void Gem5Text::finish() {
  if (!carry_.empty()) counters_.add("cut_line", base_ - carry_.size());
  carry_.clear();
  drop_open_block();
  if (boom_) {
    for (auto& [seq, o] : boom_->open)
      if (o.fetched) take_checked(o.block, o.text);
    boom_.reset();
  }
  flush_early();
  if (seq_order_.started()) seq_order_.finish(cpu("").rows);
  for (const auto& c : cpus_) c->order.finish();
}

}  // namespace tracekit
