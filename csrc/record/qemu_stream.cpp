#include "record/qemu_stream.hpp"

#include <algorithm>
#include <cstring>

#include "core/touched_lines.hpp"
#include "formats/common/format_fault.hpp"
#include "formats/common/native_append.hpp"
#include "record/qemu/wire.h"

namespace tracekit::record {

namespace {

constexpr std::uint64_t max_frame = std::uint64_t{1} << 30;

template <class T>
T number_at(std::string_view bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

[[noreturn]] void damaged(const std::string& what) {
  throw FormatFault("the plug-in sent " + what, 0);
}

}  // namespace

void QemuCode::describe_new() {
  if (traits_.size() == table_->size()) return;
  std::vector<Encoding> fresh;
  for (std::size_t i = traits_.size(); i < table_->size(); ++i)
    fresh.push_back((*table_)[static_cast<std::uint32_t>(i)]);
  std::vector<QemuTraits> traits = describe_(fresh);
  traits.resize(fresh.size());
  traits_.insert(traits_.end(), traits.begin(), traits.end());
}

void QemuStream::feed(std::string_view bytes) {
  // Events, which are nearly all, are read where they lie.
  if (!rest_.empty()) {
    rest_ += bytes;
    bytes = rest_;
  }
  std::size_t at = 0;
  while (!waits_ && bytes.size() - at >= sizeof(tk_frame)) {
    const auto head = number_at<tk_frame>(bytes, at);
    if (head.magic != TK_MAGIC || head.bytes > max_frame) damaged("what is no frame");
    if (bytes.size() - at - sizeof head < head.bytes) break;
    frame(head.kind, head.tid, head.sequence, head.ns, bytes.substr(at + sizeof head, head.bytes));
    at += sizeof head + head.bytes;
  }
  std::string left(bytes.substr(at));
  rest_ = std::move(left);
}

void QemuStream::frame(std::uint32_t kind, std::uint32_t tid, std::uint32_t sequence,
                       std::uint64_t ns, std::string_view payload) {
  switch (kind) {
    case TK_HELLO:
      if (!greeted_) waits_ = payload.find(std::string_view("inherits=0\0", 11)) == payload.npos;
      greeted_ = true;
      [[fallthrough]];
    case TK_MAP:
    case TK_NOTE:
      texts_.push_back({kind, std::string(payload)});
      return;
    case TK_BLOCKS:
      return define(payload);
    case TK_EVENTS:
      sent_[tid] = sequence;
      return events(tid, ns, payload);
    case TK_LINES:
      return lines(tid, ns, payload);
    case TK_COUNTS:
      return count(payload);
    default:
      damaged("a frame of an unknown kind");
  }
}

void QemuStream::define(std::string_view payload) {
  std::size_t at = 0;
  while (at < payload.size()) {
    if (payload.size() - at < 4) damaged("a block that is cut short");
    const auto n = number_at<std::uint32_t>(payload, at);
    at += 4;
    if (n == 0 || n > TK_INDEX_MASK + 1) damaged("a block of an impossible length");
    Block b{code_of_.size(), n};
    for (std::uint32_t i = 0; i < n; ++i) {
      if (payload.size() - at < 9) damaged("a block that is cut short");
      const auto pc = number_at<std::uint64_t>(payload, at);
      const std::size_t length = static_cast<std::uint8_t>(payload[at + 8]);
      at += 9;
      if (length == 0 || length > Encoding::max_bytes || payload.size() - at < length)
        damaged("an instruction of an impossible length");
      code_of_.push_back(code_->intern(pc, payload.substr(at, length)));
      at += length;
    }
    blocks_.push_back(b);
  }
}

void QemuStream::inherit(const QemuStream& parent, std::uint64_t blocks) {
  if (blocks > parent.blocks_.size()) damaged("more blocks than the process before the fork had");
  blocks_.assign(parent.blocks_.begin(),
                 parent.blocks_.begin() + static_cast<std::ptrdiff_t>(blocks));
  const std::uint64_t end = blocks == 0 ? 0 : blocks_.back().first + blocks_.back().n;
  code_of_.assign(parent.code_of_.begin(),
                  parent.code_of_.begin() + static_cast<std::ptrdiff_t>(end));
  waits_ = false;
  feed({});
}

void QemuStream::events(std::uint64_t tid, std::uint64_t ns, std::string_view words) {
  if (words.size() % 8 != 0) damaged("events that are cut short");
  code_->describe_new();
  if (running_ != tid) {  // in the order in which they ran
    if (const auto before = threads_.find(running_); before != threads_.end())
      cut(running_, before->second);
    running_ = tid;
  }
  Thread& t = threads_[tid];
  if (t.rows.size() <= 1) t.ns = ns;
  for (std::size_t at = 0; at < words.size(); at += 8) {
    event(t, number_at<std::uint64_t>(words, at));
    if (t.rows.size() >= piece_) {
      cut(tid, t);
      t.ns = ns;
    }
  }
}

void QemuStream::event(Thread& t, std::uint64_t word) {
  switch (word >> 61) {
    case TK_LOAD:
      return access(t, word, false);
    case TK_STORE:
      return access(t, word, true);
    case TK_BLOCK:
      return begin_block(t, word);
    case TK_REACHED:
      t.reached = true;
      return;
    case TK_SYSCALL:
      return;
    case TK_WIDE:
      t.high = word << TK_ADDRESS_BITS;
      return;
    case TK_FROM:
      t.from = t.next = static_cast<std::uint32_t>(word & TK_N_MASK);
      return;
    default:  // TK_UNTO
      t.unto = static_cast<std::uint32_t>(word & TK_N_MASK);
  }
}

void QemuStream::begin_block(Thread& t, std::uint64_t word) {
  const std::uint64_t id = word & 0xffffffff;
  if (id >= blocks_.size()) damaged("a block that it did not describe");
  const Block& b = blocks_[id];
  end_block(t, &b);
  t.block = &b;
  t.next = t.from = 0;
  t.unto = b.n;
  t.reached = (word & TK_REACHED_BIT) != 0;
}

// Rows of what is left of the block before `following`, or before the end.
void QemuStream::end_block(Thread& t, const Block* following) {
  if (t.block == nullptr) return;
  const Block& b = *t.block;
  if (!t.reached && t.unto == b.n) {
    interrupted(t, following);
    t.block = nullptr;
    t.joins = false;
    return;
  }
  const std::uint32_t last = b.n - 1;
  while (t.next < std::min(last, t.unto)) row(t, t.next);
  if (t.unto == b.n) {
    const std::uint32_t id = at(b, last);
    const QemuTraits& traits = code_->traits(id);
    const Encoding& e = code_->encoding(id);
    const bool begun = t.next > last;
    const bool missing = !begun ? traits.loads || traits.stores : incomplete(t, traits);
    bool faulted = false;
    if (missing && !traits.rep && !traits.silent) {
      const std::uint64_t next = following ? code_->encoding(at(*following, 0)).pc : ~e.pc;
      const bool falls = next == e.pc + e.length;
      faulted = traits.branch == BranchKind::none ? !falls : !falls && !traits.direct;
      if (traits.direct) faulted = !falls && next != traits.target;
    }
    if (faulted && begun) drop_last(t);
    if (!faulted && !begun) row(t, last);
    t.joins = traits.rep && !faulted && following != nullptr && at(*following, 0) == id;
  }
  t.block = nullptr;
}

// A fault (or a store to the block's own code) left the block before its last instruction.
void QemuStream::interrupted(Thread& t, const Block* following) {
  const Block& b = *t.block;
  const std::uint64_t next = following ? code_->encoding(at(*following, 0)).pc : 0;
  std::uint32_t again = b.n;
  for (std::uint32_t i = t.next > 0 ? t.next - 1 : 0; following && i < b.n; ++i)
    if (code_->encoding(at(b, i)).pc == next) {
      again = i;
      break;
    }
  if (again == b.n) {
    again = t.next;
    // The last row may be of what faulted.
    if (t.next > t.from && incomplete(t, code_->traits(at(b, t.next - 1)))) again = t.next - 1;
    while (again + 1 < b.n && again >= t.next && !code_->traits(at(b, again)).may_fault) ++again;
  }
  if (again < t.next && t.next > t.from) return drop_last(t);
  while (t.next < again) row(t, t.next);
}

void QemuStream::drop_last(Thread& t) {
  if (t.rows.size() == 0) return;
  const std::size_t last = t.rows.size() - 1, from = t.rows.first_access[last];
  t.dropped_pc = code_->encoding(t.rows.encoding[last]).pc;
  t.dropped = true;
  t.rows.encoding.resize(last);
  t.rows.bits.resize(last);
  t.rows.first_access.resize(last);
  t.rows.address.resize(from);
  t.rows.access_size.resize(from);
  t.rows.is_store.resize(from);
}

// The outcome of the last row's branch, and whether the next row follows from it.
std::uint8_t QemuStream::decide(Thread& t, std::uint64_t next_pc) {
  if (!t.continues) return native_bit::restart;
  if (t.dropped) {
    t.dropped = false;
    return next_pc == t.dropped_pc ? 0 : native_bit::restart;
  }
  const QemuTraits& traits = code_->traits(t.last);
  const Encoding& e = code_->encoding(t.last);
  const bool falls = next_pc == e.pc + e.length;
  std::uint8_t& bits = t.rows.bits[t.rows.size() - 1];
  if (traits.branch == BranchKind::none) return falls ? 0 : native_bit::restart;
  const bool conditional = traits.branch == BranchKind::conditional;
  const bool reaches = !traits.direct || next_pc == traits.target || (conditional && falls);
  if (!conditional || reaches)
    bits |= native_bit::taken_known | (conditional && falls ? 0 : native_bit::taken);
  return reaches ? 0 : native_bit::restart;
}

void QemuStream::row(Thread& t, std::uint32_t index) {
  const std::uint32_t id = at(*t.block, index);
  t.next = index + 1;
  if (t.joins && index == 0) {  // another round
    t.joins = false;
    return;
  }
  settle(t);
  const std::uint8_t bits = decide(t, code_->encoding(id).pc);
  t.rows.add_instruction(id, bits);
  t.last = id;
  t.continues = true;
  t.kept_from = t.rows.accesses();
  t.loaded = t.stored = false;
  if (code_->traits(id).silent) count_silent(t);
}

// The last row ran to its end.  Helpers of newer QEMU access memory without telling: x87's ten
// bytes, fxsave and the like.
void QemuStream::settle(Thread& t) {
  if (!t.continues || t.dropped || code_->traits(t.last).rep) return;
  if (incomplete(t, code_->traits(t.last))) count_silent(t);
}

void QemuStream::count_silent(Thread& t) {
  ++t.silent;
  ++silent_[t.last];
}

void QemuStream::access(Thread& t, std::uint64_t word, bool store) {
  const auto index = static_cast<std::uint32_t>(word >> TK_INDEX_SHIFT & TK_INDEX_MASK);
  const std::uint64_t address = t.high | (word & ((std::uint64_t{1} << TK_ADDRESS_BITS) - 1));
  t.high = 0;
  if (t.block == nullptr || index >= t.block->n) {
    anomalies_.add("an access of no instruction", 0);
    return;
  }
  if (index < t.from || index >= t.unto) return;
  while (t.next <= index) row(t, t.next);
  if (index + 1 < t.next) {
    anomalies_.add("an access of an instruction that was over", 0);
    return;
  }
  const QemuTraits& traits = code_->traits(t.last);
  if (!store && traits.load_size == QemuTraits::no_loads) return;
  const std::uint32_t whole = store ? traits.store_size : traits.load_size;
  const std::uint32_t size = 1U << (word >> TK_SIZE_SHIFT & TK_SIZE_MASK);
  NativeBatch& rows = t.rows;
  const bool again = std::exchange(store ? t.stored : t.loaded, true);
  if (traits.silent && !again) {  // this QEMU tells its registers
    --t.silent;
    --silent_[t.last];
  }
  if (traits.area) {
    if (again) return;
    rows.add_access(address, whole, store);
    return;
  }
  if (rows.accesses() > t.kept_from) {
    const std::size_t a = rows.accesses() - 1;
    if ((rows.is_store[a] != 0) == store && rows.address[a] + rows.access_size[a] == address &&
        rows.access_size[a] + size <= whole) {
      rows.access_size[a] += size;
      return;
    }
  }
  // An atomic update is one event, a store.
  if (store && traits.loads && !t.loaded) {
    t.loaded = true;
    rows.add_access(address, size, false);
  }
  rows.add_access(address, size, store);
}

// Hands out the rows but the last, whose outcome and accesses are still open.
void QemuStream::cut(std::uint64_t tid, Thread& t) {
  if (t.rows.size() < 2) return;
  NativeBatch rest;
  split_last(t.rows, rest);
  pieces_.push_back({tid, t.ns, t.silent, std::move(t.rows)});
  t.rows = std::move(rest);
  t.silent = 0;
  t.kept_from = 0;
}

void QemuStream::leftover(std::string_view file) {
  if (file.size() < sizeof(tk_buffer)) return;
  const auto head = number_at<tk_buffer>(file, 0);
  if (head.magic != TK_MAGIC || head.used > (file.size() - sizeof head) / 8) return;
  if (const auto sent = sent_.find(head.tid); sent != sent_.end() && sent->second == head.sequence)
    return;
  events(head.tid, head.ns, file.substr(sizeof head, 8 * head.used));
}

void QemuStream::finish() {
  for (auto& [tid, t] : threads_) {
    end_block(t, nullptr);
    if (t.rows.size() == 0) continue;
    settle(t);
    if (code_->traits(t.last).ends) t.rows.bits[t.rows.size() - 1] |= native_bit::no_end;
    hand_out(tid, t);
  }
}

void QemuStream::hand_out(std::uint64_t tid, Thread& t) {
  if (t.rows.size() > 0) pieces_.push_back({tid, t.ns, t.silent, std::move(t.rows)});
  t = Thread{};
}

// A sample begins: what was touched since the one before, in an order of its own.
void QemuStream::lines(std::uint64_t tid, std::uint64_t ns, std::string_view words) {
  if (words.size() % 8 != 0) damaged("lines that are cut short");
  for (auto& [other, t] : threads_) {
    end_block(t, nullptr);
    hand_out(other, t);
  }
  const std::uint32_t load = code_->intern(touched_line::read_pc, code_->touch(false));
  const std::uint32_t store = code_->intern(touched_line::written_pc, code_->touch(true));
  const std::uint32_t fetch = code_->intern(touched_line::code_pc, code_->touch(false));
  code_->describe_new();
  Thread t;
  t.ns = ns;
  for (std::size_t at = 0; at < words.size(); at += 8) {
    const auto word = number_at<std::uint64_t>(words, at);
    const bool written = (word & 1) != 0;
    t.rows.add_instruction((word & 2) != 0 ? fetch : written ? store : load, native_bit::restart);
    t.rows.add_access(word & ~std::uint64_t{63}, 4, written);
    if (t.rows.size() == piece_) {
      hand_out(tid, t);
      t.ns = ns;
    }
  }
  hand_out(tid, t);
}

void QemuStream::count(std::string_view words) {
  if (words.size() % 24 != 0) damaged("counts that are cut short");
  for (std::size_t at = 0; at < words.size(); at += 24) {
    const auto id = number_at<std::uint64_t>(words, at);
    if (id >= blocks_.size()) damaged("counts of a block that it did not describe");
    auto& [runs, joined] = runs_[id];
    runs += number_at<std::uint64_t>(words, at + 8);
    joined += number_at<std::uint64_t>(words, at + 16);
  }
}

std::map<std::uint32_t, std::uint64_t> QemuStream::executed() const {
  std::map<std::uint32_t, std::uint64_t> out;
  for (const auto& [id, counted] : runs_) {
    const Block& b = blocks_[id];
    for (std::uint32_t i = 0; i < b.n; ++i)
      out[at(b, i)] += counted.first - (i == 0 ? counted.second : 0);
  }
  return out;
}

std::vector<QemuStream::Piece> QemuStream::take() { return std::exchange(pieces_, {}); }
std::vector<QemuStream::Text> QemuStream::take_texts() { return std::exchange(texts_, {}); }

}  // namespace tracekit::record
