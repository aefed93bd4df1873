#include "formats/drmemtrace/drmemtrace.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "formats/common/native_append.hpp"

namespace tracekit {

using namespace drmem;

namespace {

template <class T>
T load(const std::uint8_t* p) {
  static_assert(std::endian::native == std::endian::little);
  T v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

// What to do with a record, by type.
enum Class : std::uint8_t { other, fetch, iteration, maybe, hint };

struct TypeInfo {
  Class cls{other};
  BranchKind branch{BranchKind::none};
  std::uint8_t bits{};  // of the outcome
};

constexpr std::size_t n_types = rec::untaken_jump + 1;

constexpr std::array<TypeInfo, n_types> type_table() {
  std::array<TypeInfo, n_types> t{};
  constexpr std::uint8_t known = native_bit::taken_known, yes = known | native_bit::taken;
  t[rec::instr] = {fetch};
  t[rec::sysenter] = {fetch};
  t[rec::direct_jump] = {fetch, BranchKind::jump, yes};
  t[rec::indirect_jump] = {fetch, BranchKind::indirect, yes};
  t[rec::conditional_jump] = {fetch, BranchKind::conditional, 0};
  t[rec::taken_jump] = {fetch, BranchKind::conditional, yes};
  t[rec::untaken_jump] = {fetch, BranchKind::conditional, known};
  t[rec::direct_call] = {fetch, BranchKind::call, yes};
  t[rec::indirect_call] = {fetch, BranchKind::indirect_call, yes};
  t[rec::ret] = {fetch, BranchKind::ret, yes};
  t[rec::instr_no_fetch] = {iteration};
  t[rec::instr_maybe_fetch] = {maybe};
  for (unsigned i = rec::prefetch; i <= rec::prefetch_last; ++i) t[i] = {hint};
  for (unsigned i = rec::prefetch_hint; i <= rec::prefetch_hint_last; ++i) t[i] = {hint};
  t[rec::hardware_prefetch] = {hint};
  return t;
}

constexpr std::array<TypeInfo, n_types> types = type_table();

}  // namespace

void DrmemtraceParser::feed(const std::uint8_t* data, std::size_t n) {
  if (tail_size_ != 0) {
    const std::size_t more = std::min(n, record_bytes - tail_size_);
    std::memcpy(tail_ + tail_size_, data, more);
    tail_size_ += more;
    data += more;
    n -= more;
    if (tail_size_ < record_bytes) return;
    tail_size_ = 0;
    std::uint8_t whole[record_bytes];
    std::memcpy(whole, tail_, record_bytes);
    parse(whole, whole + record_bytes);
  }
  const std::size_t whole = n / record_bytes * record_bytes;
  parse(data, data + whole);
  tail_size_ = n - whole;
  std::memcpy(tail_, data + whole, tail_size_);
}

void DrmemtraceParser::begin_stream(const std::uint8_t* p) {
  if (load<std::uint16_t>(p) != rec::header)
    throw FormatFault("no drmemtrace header", offset_,
                      "raw traces must go through DynamoRIO's raw2trace first");
  version_ = load<std::uint64_t>(p + 4);
  started_ = true;
}

// Fills the entry of a pc that is new, or that has new code, another length or another kind.
void DrmemtraceParser::learn(PcEntry& e, std::uint64_t pc, std::uint16_t length,
                             BranchKind branch) {
  Encoding enc;
  enc.pc = pc;
  if (length <= 255)
    enc.length = static_cast<std::uint8_t>(length);
  else
    anomalies_.add("an instruction of over 255 bytes", offset_);
  const bool regdeps = (filetype_ & file::arch_regdeps) != 0;
  if (code_size_ != 0 && !regdeps && code_size_ != length) {
    anomalies_.add("machine code of another length than its instruction", offset_);
    code_size_ = 0;
  }
  if (code_size_ != 0) {
    ++counts_.encodings;
    std::memcpy(enc.bytes.data(), code_, code_size_);
    // Machine code that nobody here decodes (32-bit x86 and Arm) says no more than none.
    enc.known = !regdeps && (filetype_ & (file::arch_x86_64 | file::arch_aarch64)) != 0;
    if (!enc.known && !regdeps) {
      enc.bytes = {};
      anomalies_.add("machine code of an instruction set that is not decoded", offset_);
    }
  } else if (e.used && e.length == enc.length) {  // only the kind is new: keep the code
    const Encoding& old = (*table_)[e.enc];
    enc.bytes = old.bytes;
    enc.known = old.known;
  } else if (filetype_ & file::has_encodings) {
    anomalies_.add("no machine code for an instruction", offset_);
  }
  if (!enc.known) enc.bytes.back() = static_cast<std::uint8_t>(branch);
  code_size_ = 0;
  e = {pc, table_->intern(enc), enc.length, static_cast<std::uint8_t>(branch), true, e.fetched};
}

void DrmemtraceParser::add_code(std::uint16_t n, const std::uint8_t* bytes) {
  // A regdeps encoding is padded to four bytes; what it says ends within 13.
  const std::size_t room = Encoding::max_bytes - code_size_;
  const bool regdeps = (filetype_ & file::arch_regdeps) != 0;
  if (n > 8 || (n > room && !regdeps)) {
    anomalies_.add("machine code of over 15 bytes", offset_);
    return;
  }
  const std::size_t take = std::min<std::size_t>(n, room);
  std::memcpy(code_ + code_size_, bytes, take);
  code_size_ = static_cast<std::uint8_t>(code_size_ + take);
  if (regdeps) {  // what pads it is undefined: two equal instructions must look equal
    const std::size_t operands = (code_[0] & 15) + (code_[0] >> 4);
    const std::size_t used = operands ? 5 + operands : 4;
    for (std::size_t i = used; i < sizeof code_; ++i) code_[i] = 0;
  }
}

void DrmemtraceParser::set_thread(std::uint64_t tid) {
  if (tid == tid_ && !threads_.empty()) return;
  tid_ = tid;
  if (std::find(threads_.begin(), threads_.end(), tid) == threads_.end()) {
    if (threads_.size() == 1 << 16)
      throw FormatFault("more than 65536 threads in one stream", offset_);
    threads_.push_back(tid);
  }
  open_ = attach_ = outcome_open_ = false;
  discontinuity();
}

// Markers that are counted and say nothing else: their counter; null of those for readers, not for
// tools, and of the other half of a physical address.  Nothing for all others.
std::optional<std::uint64_t*> DrmemtraceParser::counter_of(std::uint16_t kind) {
  switch (kind) {
    case mark::core_idle:
      return &counts_.idle_markers;
    case mark::core_wait:
      return &counts_.wait_markers;
    case mark::func_id:
      return &counts_.func_id_markers;
    case mark::func_retaddr:
      return &counts_.func_retaddr_markers;
    case mark::func_arg:
      return &counts_.func_arg_markers;
    case mark::func_retval:
      return &counts_.func_retval_markers;
    case mark::physical_address:
      return &counts_.physical_markers;
    case mark::physical_address_not_available:
      return &counts_.physical_unavailable_markers;
    case mark::syscall:
      return &counts_.syscall_markers;
    case mark::maybe_blocking_syscall:
      return &counts_.blocking_syscall_markers;
    case mark::skipped_memref:
      return &counts_.skipped_access_markers;
    case mark::virtual_address:
    case mark::record_ordinal:
    case mark::branch_target:
      return nullptr;
    default:
      return std::nullopt;
  }
}

// A thread's time, or the processor that it goes on.
void DrmemtraceParser::schedule_marker(std::uint16_t kind, std::uint64_t value, std::size_t rows) {
  const auto at = std::find(repeats_of_.begin(), repeats_of_.end(), tid_);
  if (chunk_ != 0 && at != repeats_of_.end()) {  // the head of a chunk repeats them
    if (kind == mark::cpu_id) repeats_of_.erase(at);
    return;
  }
  ++counts_.schedule_markers;
  if (kind != mark::timestamp) return;
  // Of those at one place the latest is what counts, and their number is anyone's.
  if (!times_.empty() && times_.back().row == rows)
    times_.back().value = std::max(times_.back().value, value);
  else
    times_.push_back({rows, value});
}

void DrmemtraceParser::marker(std::uint16_t kind, std::uint64_t value, std::size_t rows,
                              std::uint8_t* bits) {
  if (const auto counter = counter_of(kind)) {
    if (*counter) ++**counter;
    return;
  }
  switch (kind) {
    case mark::timestamp:
    case mark::cpu_id:
      schedule_marker(kind, value, rows);
      return;
    case mark::kernel_event:
    case mark::hardware_event:
      if (outcome_open_ && version_ >= 3) {
        bits[rows - 1] |= native_bit::taken_known;
        if (value != open_next_) bits[rows - 1] |= native_bit::taken;
      }
      outcome_open_ = attach_ = false;
      discontinuity();
      ++(kind == mark::kernel_event ? counts_.transfer_markers : counts_.hardware_transfer_markers);
      return;
    case mark::kernel_xfer:
    case mark::hardware_context_return:
      break_off();
      ++(kind == mark::kernel_xfer ? counts_.transfer_markers : counts_.hardware_transfer_markers);
      return;
    case mark::filetype:
      if (filetype_known_ && value != filetype_)
        throw FormatFault("a second, different file type", offset_);
      filetype_ = value;
      filetype_known_ = true;
      break;
    case mark::version:
      version_ = value;
      break;
    case mark::chunk_instr_count:
      chunk_ = value;
      break;
    case mark::chunk_footer:
      if (chunk_ != 0 &&
          std::find(repeats_of_.begin(), repeats_of_.end(), tid_) == repeats_of_.end())
        repeats_of_.push_back(tid_);
      break;
    case mark::window_id:
      if (window_known_ && value != window_) break_off();
      window_ = value;
      window_known_ = true;
      break;
    case mark::syscall_trace_start:
    case mark::context_switch_start:
      kernel_ = true;
      break_off();
      break;
    case mark::syscall_trace_end:
    case mark::context_switch_end:
      kernel_ = false;
      break_off();
      break;
    case mark::filter_endpoint:
      discontinuity();
      break;
    default:
      break;
  }
  ++counts_.other_markers;
}

// The batch with room for the rows and accesses of so many records, each of which makes at most one
// row or one access: so the loop never checks.  At its end the batch is as long as it got.
struct DrmemtraceParser::Room {
  Room(NativeBatch& b, std::size_t records) : batch(b), rows(b.size()), accesses(b.accesses()) {
    resize(rows + records, accesses + records);
    encoding = b.encoding.data();
    bits = b.bits.data();
    first = b.first_access.data();
    address = b.address.data();
    bytes = b.access_size.data();
    store = b.is_store.data();
  }
  ~Room() { resize(rows, accesses); }
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;

  void resize(std::size_t r, std::size_t a) {
    batch.encoding.resize(r);
    batch.bits.resize(r);
    batch.first_access.resize(r);
    batch.address.resize(a);
    batch.access_size.resize(a);
    batch.is_store.resize(a);
  }

  NativeBatch& batch;
  std::size_t rows, accesses;
  std::uint32_t* encoding;
  std::uint8_t* bits;
  std::uint64_t* first;
  std::uint64_t* address;
  std::uint32_t* bytes;
  std::uint8_t* store;
};

inline void DrmemtraceParser::add_access(Room& to, std::uint64_t at, std::uint16_t size,
                                         std::uint8_t is_store) {
  if (!attach_) [[unlikely]] {
    anomalies_.add("an access without its instruction", offset_);
    return;
  }
  if (to.accesses - to.first[to.rows - 1] == max_accesses) [[unlikely]] {
    anomalies_.add("an access over the limit of one instruction", offset_);
    return;
  }
  to.address[to.accesses] = at;
  to.bytes[to.accesses] = size;
  to.store[to.accesses++] = is_store;
}

inline void DrmemtraceParser::add_row(Room& to, std::uint64_t pc, std::uint16_t size,
                                      BranchKind branch, std::uint8_t bits, bool fetched) {
  if (outcome_open_) [[unlikely]]
    to.bits[to.rows - 1] |= native_bit::taken_known | (pc != open_next_ ? native_bit::taken : 0);
  PcEntry& e = pcs_.at(pc);
  if (!e.used || code_size_ != 0 || e.length != size ||
      (fetched && e.kind != static_cast<std::uint8_t>(branch))) [[unlikely]]
    learn(e, pc, size, branch);
  e.fetched |= fetched;
  to.encoding[to.rows] = e.enc;
  to.bits[to.rows] = static_cast<std::uint8_t>(bits | (restart_ ? native_bit::restart : 0));
  to.first[to.rows++] = to.accesses;
  restart_ = false;
  open_ = attach_ = true;
  outcome_open_ = branch == BranchKind::conditional && bits == 0;
  open_pc_ = pc;
  open_next_ = pc + size;
}

// A further iteration of a `rep` instruction, which is not fetched.
inline void DrmemtraceParser::iterate(Room& to, std::uint64_t pc, std::uint16_t size) {
  ++counts_.no_fetch;
  if (kernel_) ++counts_.kernel_instructions;
  if (!(open_ && open_pc_ == pc)) {
    add_row(to, pc, size, BranchKind::none, 0, false);
    return;
  }
  if (code_size_ != 0) {
    ++counts_.encodings;
    code_size_ = 0;
  }
  attach_ = true;
}

void DrmemtraceParser::parse(const std::uint8_t* p, const std::uint8_t* end) {
  const std::size_t records = static_cast<std::size_t>(end - p) / record_bytes;
  if (records == 0) return;
  if (!started_) begin_stream(p);
  Room to(batch_, records);
  for (; p != end; p += record_bytes, offset_ += record_bytes) {
    const auto type = load<std::uint16_t>(p);
    const auto size = load<std::uint16_t>(p + 2);
    const auto value = load<std::uint64_t>(p + 4);
    if (type <= rec::write) {
      ++(type == rec::write ? counts_.stores : counts_.loads);
      add_access(to, value, size, static_cast<std::uint8_t>(type));
      continue;
    }
    if (type >= n_types) [[unlikely]]
      throw FormatFault("record type " + std::to_string(type) + " is unknown", offset_,
                        "a newer format than version 7, or a damaged file");
    const TypeInfo& info = types[type];
    bool fetched = info.cls == fetch;
    switch (info.cls) {
      case hint:  // as gem5 does it: a load whose value nobody waits for
        ++counts_.prefetches;
        if (type != rec::hardware_prefetch) add_access(to, value, size, 0);
        continue;
      case maybe:
        fetched = !(open_ && open_pc_ == value);
        [[fallthrough]];
      case iteration:
        if (size != 0 && !fetched) {
          iterate(to, value, size);
          continue;
        }
        [[fallthrough]];
      case fetch:
        if (size == 0) {  // a filtered trace tells the pc of the next access
          attach_ = open_ && open_pc_ == value;
          continue;
        }
        ++counts_.instructions;
        if (kernel_) ++counts_.kernel_instructions;
        add_row(to, value, size, info.branch, info.bits, true);
        continue;
      case other:
        event(type, size, value, p + 4, to.rows, to.bits);
    }
  }
}

// A record that is no instruction and no access.
void DrmemtraceParser::event(std::uint16_t type, std::uint16_t size, std::uint64_t value,
                             const std::uint8_t* payload, std::size_t rows, std::uint8_t* bits) {
  switch (type) {
    case rec::encoding:
      add_code(size, payload);
      break;
    case rec::marker:
      marker(size, value, rows, bits);
      break;
    case rec::thread:
    case rec::thread_exit:
      set_thread(value);
      break;
    case rec::process:
      pid_ = value;
      break;
    case rec::instr_flush:
      counts_.instr_flushes += size != 0;
      break;
    case rec::instr_flush_end:
      ++counts_.instr_flushes;
      break;
    case rec::data_flush:
      counts_.data_flushes += size != 0;
      break;
    case rec::data_flush_end:
      ++counts_.data_flushes;
      break;
    case rec::footer:
      footer_ = true;
      break;
    case rec::header:
      footer_ = false;
      break;  // archives may hold several traces one after another
    case rec::bundle:
      throw FormatFault("an instruction bundle: an online stream, not an offline trace", offset_,
                        "trace with -offline");
    default:
      break;
  }
}

void DrmemtraceParser::finish() {
  if (!started_)
    throw FormatFault("no drmemtrace header: the stream is empty", 0, "is the file cut short?");
  if (tail_size_ != 0) anomalies_.add("the stream ends inside a record", offset_);
  if (!footer_) anomalies_.add("the stream has no footer: it was cut short", offset_);
  tail_size_ = 0;
  open_ = attach_ = outcome_open_ = false;
}

void DrmemtraceParser::take(NativeBatch& rows, std::vector<Timestamp>& times) {
  rows.clear();
  times.clear();
  std::swap(rows, batch_);
  std::swap(times, times_);
  if (!open_ || rows.size() == 0) return;
  split_last(rows, batch_);
  const std::size_t last = rows.size();
  while (!times.empty() && times.back().row > last) {
    times_.insert(times_.begin(), {1, times.back().value});
    times.pop_back();
  }
}

void DrmemtraceParser::fetched(std::vector<std::uint64_t>& pcs,
                               std::vector<std::uint8_t>& kinds) const {
  for (const PcEntry& e : pcs_.slots()) {
    if (!e.used || !e.fetched) continue;
    pcs.push_back(e.pc);
    kinds.push_back(e.kind);
  }
}

}  // namespace tracekit
