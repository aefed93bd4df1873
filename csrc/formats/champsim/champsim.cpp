#include "formats/champsim/champsim.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "formats/common/describe.hpp"

namespace tracekit {

namespace {

constexpr std::uint8_t sp = 6, cc = 25, ip = 26;
constexpr std::uint8_t nameless = 255;  // what an indirect branch through memory reads

// Where the parts of a record's static half stand in Encoding::bytes.
constexpr std::size_t at_dst = 0, at_src = 4, at_branch = 8;

// Pin's numbers of rax rcx rdx rbx rsp rbp rsi rdi r8-r15.
constexpr std::array<std::uint8_t, 16> pin_integer = {10, 9,  8,  7,  6,  5,  4,  3,
                                                      11, 12, 13, 14, 15, 16, 17, 18};

std::uint64_t load64(const std::uint8_t* p) {
  std::uint64_t v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

bool has(const std::uint8_t* regs, std::uint8_t r) {
  return std::find(regs, regs + 4, r) != regs + 4;
}

// ChampSim's own rules, in its order.
BranchKind classify(const std::uint8_t* dst, const std::uint8_t* src, bool marked) {
  const bool writes_sp = has(dst, sp), writes_ip = has(dst, ip);
  const bool reads_sp = has(src, sp), reads_cc = has(src, cc), reads_ip = has(src, ip);
  const bool reads_other = std::any_of(
      src, src + 4, [](std::uint8_t r) { return r != 0 && r != sp && r != cc && r != ip; });
  if (!writes_ip) return marked ? BranchKind::conditional : BranchKind::none;
  if (!reads_sp && !reads_cc && !reads_other) return BranchKind::jump;
  if (!reads_sp && !reads_ip && !reads_cc && reads_other) return BranchKind::indirect;
  if (reads_sp && writes_sp && reads_ip && !reads_cc)
    return reads_other ? BranchKind::indirect_call : BranchKind::call;
  if (reads_sp && writes_sp && !reads_ip) return BranchKind::ret;
  // ChampSim's "conditional" and "other": only the record tells whether it is taken.
  return BranchKind::conditional;
}

bool always_taken(BranchKind kind) {
  return kind != BranchKind::none && kind != BranchKind::conditional &&
         kind != BranchKind::indirect_conditional;
}

}  // namespace

void ChampsimParser::feed(const std::uint8_t* data, std::size_t n) {
  const std::size_t whole = record_bytes();
  if (tail_size_ != 0) {
    const std::size_t more = std::min(n, whole - tail_size_);
    std::memcpy(tail_ + tail_size_, data, more);
    tail_size_ += more;
    data += more;
    n -= more;
    if (tail_size_ < whole) return;
    tail_size_ = 0;
    record(tail_);
  }
  for (; n >= whole; data += whole, n -= whole) record(data);
  std::memcpy(tail_, data, n);
  tail_size_ = n;
}

void ChampsimParser::record(const std::uint8_t* p) {
  Encoding e;
  e.pc = load64(p);
  const std::size_t n_dst = wide_ ? 4 : 2;
  std::memcpy(e.bytes.data() + at_dst, p + 10, n_dst);
  std::memcpy(e.bytes.data() + at_src, p + 10 + n_dst, 4);
  e.bytes[at_branch] = p[8] != 0;
  const std::uint8_t* dst = e.bytes.data() + at_dst;
  const BranchKind kind = classify(dst, e.bytes.data() + at_src, p[8] != 0);
  if (p[8] != 0 && !has(dst, ip))
    anomalies_.add("marked as a branch, but does not write the instruction pointer", offset_);
  std::uint8_t bits = restart_ ? native_bit::restart : 0;
  restart_ = false;
  if (kind != BranchKind::none) {
    bits |= native_bit::taken_known;
    if (p[9] != 0 || always_taken(kind)) bits |= native_bit::taken;
  }
  batch_.add_instruction(table_->intern(e), bits);
  const std::uint8_t* dst_mem = p + (wide_ ? 24 : 16);
  const std::uint8_t* src_mem = dst_mem + 8 * n_dst;
  for (std::size_t i = 0; i < 4; ++i)
    if (const std::uint64_t a = load64(src_mem + 8 * i)) batch_.add_access(a, 0, false);
  for (std::size_t i = 0; i < n_dst; ++i)
    if (const std::uint64_t a = load64(dst_mem + 8 * i)) batch_.add_access(a, 0, true);
  offset_ += record_bytes();
}

void ChampsimParser::finish() {
  if (tail_size_ != 0) anomalies_.add("the stream ends inside a record", offset_);
  tail_size_ = 0;
}

void ChampsimParser::take(NativeBatch& rows) {
  rows.clear();
  std::swap(rows, batch_);
}

StaticInst describe_champsim(const Encoding& e) {
  StaticInst s;
  s.inferred = true;
  const auto reg = [](std::uint8_t r) -> Reg {
    const auto at = std::find(pin_integer.begin(), pin_integer.end(), r);
    if (at != pin_integer.end())
      return {RegClass::integer, static_cast<std::uint16_t>(at - pin_integer.begin())};
    if (r == cc) return {RegClass::condition, 0};
    return {RegClass::misc, r};
  };
  const std::uint8_t *dst = e.bytes.data() + at_dst, *src = e.bytes.data() + at_src;
  for (std::size_t i = 0; i < 4; ++i) {
    if (dst[i] != 0 && dst[i] != ip) s.dst.push_unique(reg(dst[i]));
    if (src[i] != 0 && src[i] != ip) s.src.push_unique(reg(src[i]));
  }
  s.branch = classify(dst, src, e.bytes[at_branch] != 0);
  s.flags = branch_flags(s.branch);
  // The format has no operation; its accesses make it a memory one (native_rows.cpp).
  s.op = OpClass::IntAlu;
  return s;
}

// 0 = no register that ChampSim can name.
std::uint8_t ChampsimWriter::number(const Reg& r) const {
  const auto in = [&](unsigned base, unsigned n) {
    return static_cast<std::uint8_t>(base + r.index % n);
  };
  switch (r.cls) {
    case RegClass::integer:
      if (arch_ == Arch::x86 || arch_ == Arch::unknown)
        return r.index < 16 ? pin_integer[r.index] : 0;  // temporaries join nothing across
      if (r.index == (arch_ == Arch::arm ? 31 : 2)) return sp;
      return r.index < 32 ? in(64, 32) : 0;
    case RegClass::floating:
      return in(96, 32);
    case RegClass::vector:
    case RegClass::vector_element:
      return in(128, 64);
    case RegClass::vector_predicate:
      return in(192, 32);
    case RegClass::condition:
      return cc;
    case RegClass::misc:
      if (arch_ == Arch::unknown) return static_cast<std::uint8_t>(r.index);
      return in(224, 16);
  }
  return 0;
}

void ChampsimWriter::add(const StaticInst& s, std::uint64_t addr, std::uint8_t bits) {
  if (!open_) {
    open_ = true;
    pc_ = s.pc;
    branch_ = BranchKind::none;
    taken_ = false;
    src_.clear();
    dst_.clear();
    loads_.clear();
    stores_.clear();
  }
  for (const Reg& r : s.src) {
    const std::uint8_t n = number(r);
    if (n != 0 && n != ip && !dst_.contains(n)) src_.push_unique(n);
  }
  for (const Reg& r : s.dst) {
    const std::uint8_t n = number(r);
    if (n != 0 && n != ip) dst_.push_unique(n);
  }
  if (s.branch != BranchKind::none) branch_ = s.branch;
  taken_ |= (bits & row_bit::taken) != 0;
  if ((bits & row_bit::has_addr) && addr != 0) {
    const bool store = s.has(flag::IsStore) || writes_memory(s.op);
    if (s.has(flag::IsLoad) || reads_memory(s.op) || !store) loads_.push_back(addr);
    if (store) stores_.push_back(addr);
  }
}

void ChampsimWriter::emit(std::vector<std::uint8_t>& out) {
  SmallVector<std::uint8_t, 4> src;
  SmallVector<std::uint8_t, 2> dst;
  const auto sources = [&](auto keep) {
    for (const std::uint8_t r : src_)
      if (keep(r)) src.push_back(r);
  };
  const auto plain = [](std::uint8_t r) { return r != sp && r != cc; };
  switch (branch_) {
    case BranchKind::none:
      sources([](std::uint8_t) { return true; });
      for (const std::uint8_t r : dst_) dst.push_back(r);
      break;
    case BranchKind::jump:
      dst.push_back(ip);
      src.push_back(ip);
      break;
    case BranchKind::conditional:
    case BranchKind::indirect_conditional:
      dst.push_back(ip);
      src.push_back(ip);
      sources([](std::uint8_t r) { return r != sp; });
      if (src.size() == 1) src.push_back(cc);
      break;
    case BranchKind::indirect:
      dst.push_back(ip);
      sources(plain);
      if (src.empty()) src.push_back(nameless);
      break;
    case BranchKind::call:
    case BranchKind::indirect_call:
      dst.push_back(ip);
      dst.push_back(sp);
      src.push_back(ip);
      src.push_back(sp);
      if (branch_ == BranchKind::call) break;
      sources(plain);
      if (src.size() == 2) src.push_back(nameless);
      break;
    case BranchKind::ret:
      dst.push_back(ip);
      dst.push_back(sp);
      src.push_back(sp);
      sources(plain);
      break;
  }
  const std::uint64_t at = records_;
  if (src.dropped()) dropped_.add("source registers beyond four", at, src.dropped());
  if (branch_ == BranchKind::none && dst.dropped())
    dropped_.add("destination registers beyond two", at, dst.dropped());
  if (loads_.dropped()) dropped_.add("loads beyond four", at, loads_.dropped());
  if (stores_.dropped()) dropped_.add("stores beyond two", at, stores_.dropped());

  std::uint8_t record[64]{};
  std::memcpy(record, &pc_, 8);
  record[8] = branch_ != BranchKind::none;
  record[9] = record[8] && (taken_ || always_taken(branch_));
  std::copy(dst.begin(), dst.end(), record + 10);
  std::copy(src.begin(), src.end(), record + 12);
  for (std::size_t i = 0; i < stores_.size(); ++i) std::memcpy(record + 16 + 8 * i, &stores_[i], 8);
  for (std::size_t i = 0; i < loads_.size(); ++i) std::memcpy(record + 32 + 8 * i, &loads_[i], 8);
  out.insert(out.end(), record, record + 64);
  ++records_;
  open_ = false;
}

void ChampsimWriter::encode(const StaticTable& statics, const std::uint32_t* sid,
                            const std::uint64_t* addr, const std::uint8_t* bits, std::size_t rows,
                            std::vector<std::uint8_t>& out) {
  for (std::size_t i = 0; i < rows; ++i) {
    const StaticInst& s = statics[sid[i]];
    if (open_ && s.pc != pc_) emit(out);  // a macro whose last micro-op the trace lacks
    // A fault before the end: the instruction is executed again from its start.
    const bool last = !s.has(flag::IsMicroop) || s.has(flag::IsLastMicroop);
    if ((bits[i] & row_bit::fault) && !last) {
      open_ = false;
      continue;
    }
    add(s, addr[i], bits[i]);
    if (last) emit(out);
  }
}

}  // namespace tracekit
