#include "formats/native_rows/native_rows.hpp"

#include <stdexcept>
#include <string>

#include "formats/champsim/champsim.hpp"
#include "formats/common/describe.hpp"

namespace tracekit {

namespace {

constexpr Flags memory_flags = flag::IsLoad | flag::IsStore;
constexpr Flags control_flags = flag::IsControl | flag::IsDirectControl | flag::IsIndirectControl |
                                flag::IsCondControl | flag::IsUncondControl | flag::IsCall |
                                flag::IsReturn;

// The class of one access of an instruction of this class.
OpClass access_class(OpClass op, bool store) {
  if (store ? writes_memory(op) : reads_memory(op)) return op;
  const bool real = op == OpClass::FloatMemRead || op == OpClass::FloatMemWrite;
  if (store) return real ? OpClass::FloatMemWrite : OpClass::MemWrite;
  return real ? OpClass::FloatMemRead : OpClass::MemRead;
}

// In bytes; of a vector register: what is longer is a whole state (xsave) or of unknown size.
constexpr std::uint32_t half = 8, longest_vector = 64;

bool has_halves(std::uint32_t size) {
  return size > half && size <= longest_vector && size % half == 0;
}

}  // namespace

void NativeRows::meet(const NativeBatch& batch, std::vector<std::uint32_t>& to_decode) {
  known_.resize(encodings_->size());
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const std::uint32_t id = batch.encoding[i];
    if (id >= known_.size()) throw std::out_of_range("an encoding that the table does not hold");
    if (known_[id].met) continue;
    known_[id].met = true;
    const Encoding& e = (*encodings_)[id];
    if (e.known) {
      to_decode.push_back(id);
      continue;
    }
    switch (described_) {
      case Described::branch_kind:
        define(id, describe_branch_kind(e), 0);
        break;
      case Described::regdeps:
        define(id, describe_regdeps(e), 0);
        break;
      case Described::champsim:
        define(id, describe_champsim(e), 0);
        break;
    }
  }
}

void NativeRows::define(std::uint32_t id, StaticInst inst, std::uint8_t length) {
  Known& k = known_.at(id);
  const Encoding& e = (*encodings_)[id];
  inst.pc = e.pc;
  inst.upc = 0;
  k.length = length != 0 ? length : e.length;
  inst.bytes = e.code().substr(0, k.length);
  k.branch = inst.branch;
  k.syscall = inst.has(flag::IsSyscall);
  k.sid.fill(StaticTable::none);
  k.sid[sole_none] = statics_->add(std::move(inst));
  k.defined = true;
}

const NativeRows::Known& NativeRows::known(std::uint32_t id) const {
  if (id >= known_.size() || !known_[id].defined)
    throw std::out_of_range("encoding " + std::to_string(id) + " was not decoded");
  return known_[id];
}

std::uint32_t NativeRows::part(std::uint32_t id, Part p, std::uint32_t access_size) {
  std::uint32_t& sid = known_[id].sid[p];
  if (sid != StaticTable::none) return sid;
  const std::uint32_t whole = known_[id].sid[sole_none];
  StaticInst s = (*statics_)[whole];
  const bool store = p == sole_store || p == first_store || p == mid_store || p == last_store;
  const Flags kind = store ? flag::IsStore : flag::IsLoad;
  if (p == sole_load || p == sole_store) {
    const OpClass op = access_class(s.op, store);
    if (s.op == op && (s.flags & memory_flags) == kind) {  // what the decoder said
      if (s.access_size == 0 && access_size <= 0xffff)
        statics_->at(whole).access_size = static_cast<std::uint16_t>(access_size);
      return sid = whole;
    }
  }
  s.op = access_class(s.op, store);
  s.flags = (s.flags & ~memory_flags) | kind;
  s.access_size = access_size <= 0xffff ? static_cast<std::uint16_t>(access_size) : 0;
  s.upc = static_cast<std::uint16_t>(p == first_load || p == first_store ? 0u : p);
  const bool first = p == first_load || p == first_store, last = p == last_load || p == last_store;
  if (p > sole_store) {
    s.flags |= flag::IsMicroop;
    if (first) s.flags |= flag::IsFirstMicroop;
    if (last) s.flags |= flag::IsLastMicroop;
    if (!first) {  // text, registers and other flags stand once
      s.disassembly.clear();
      s.src = {};
      s.dst = {};
      s.flags &= control_flags | memory_flags | flag::IsMicroop | flag::IsLastMicroop |
                 flag::IsInteger | flag::IsFloating | flag::IsVector;
    }
    if (!last) {
      s.branch = BranchKind::none;
      s.flags &= ~control_flags;
    }
  }
  return sid = statics_->add(std::move(s));
}

std::uint8_t NativeRows::decide(std::uint32_t id, std::uint8_t bits, std::uint32_t next,
                                std::uint8_t next_bits) {
  if (bits & native_bit::taken_known) return bits & native_bit::taken ? row_bit::taken : 0;
  const std::uint8_t length = known_[id].length;
  if (next == EncodingTable::none || (next_bits & native_bit::restart) || length == 0) {
    anomalies_.add("a conditional branch whose outcome nothing tells", std::nullopt);
    return 0;
  }
  return (*encodings_)[next].pc == (*encodings_)[id].pc + length ? 0 : row_bit::taken;
}

void NativeRows::add(const NativeBatch& in, std::size_t i, std::uint32_t id, std::uint8_t taken,
                     RowBatch& out) {
  const Known& k = known_[id];
  accesses_.clear();
  for (std::size_t a = in.first_access[i], end = in.end_access(i); a < end; ++a) {
    const Access whole{in.address[a], in.access_size[a], in.is_store[a] != 0};
    if (!halves_ || !has_halves(whole.size)) {
      accesses_.push_back(whole);
      continue;
    }
    for (std::uint32_t at = 0; at < whole.size; at += half)
      accesses_.push_back({whole.address + at, half, whole.store});
  }
  const std::size_t n = accesses_.size();
  std::uint8_t bits = row_bit::fault_known;
  if (k.syscall || (in.bits[i] & native_bit::no_end)) bits |= row_bit::fault;
  if (k.branch != BranchKind::none) bits |= row_bit::taken_known | taken;
  ++instructions_;
  if (n == 0) {
    out.sid.push_back(k.sid[sole_none]);
    out.addr.push_back(0);
    out.bits.push_back(bits);
    return;
  }
  for (std::size_t a = 0; a < n; ++a) {
    const Access& access = accesses_[a];
    const unsigned place = n == 1       ? sole_load
                           : a == 0     ? first_load
                           : a + 1 == n ? last_load
                                        : mid_load;
    const Part p = static_cast<Part>(place + (access.store ? 1 : 0));
    out.sid.push_back(part(id, p, access.size));
    out.addr.push_back(access.address);
    const std::uint8_t own = a + 1 == n ? bits : std::uint8_t{row_bit::fault_known};
    out.bits.push_back(own | row_bit::has_addr);
  }
}

void NativeRows::convert(const NativeBatch& in, RowBatch& out) {
  const std::size_t n = in.size();
  if (n == 0) return;
  const auto outcome = [&](const NativeBatch& b, std::size_t i, std::uint32_t next,
                           std::uint8_t next_bits) -> std::uint8_t {
    const BranchKind kind = known(b.encoding[i]).branch;
    if (kind == BranchKind::none) return 0;
    if (kind != BranchKind::conditional && kind != BranchKind::indirect_conditional)
      return row_bit::taken;
    return decide(b.encoding[i], b.bits[i], next, next_bits);
  };
  if (pending_.size() != 0) {
    const std::uint8_t taken = outcome(pending_, 0, in.encoding[0], in.bits[0]);
    add(pending_, 0, pending_.encoding[0], taken, out);
    pending_.clear();
  }
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint32_t id = in.encoding[i];
    const BranchKind kind = known(id).branch;
    if (i + 1 == n && !(in.bits[i] & native_bit::taken_known) &&
        (kind == BranchKind::conditional || kind == BranchKind::indirect_conditional)) {
      pending_.add_instruction(id, in.bits[i]);
      for (std::size_t a = in.first_access[i]; a < in.end_access(i); ++a)
        pending_.add_access(in.address[a], in.access_size[a], in.is_store[a] != 0);
      break;
    }
    const bool more = i + 1 < n;
    const std::uint8_t taken = outcome(in, i, more ? in.encoding[i + 1] : EncodingTable::none,
                                       more ? in.bits[i + 1] : std::uint8_t{0});
    add(in, i, id, taken, out);
  }
}

void NativeRows::finish(RowBatch& out) {
  if (pending_.size() == 0) return;
  const std::uint32_t id = pending_.encoding[0];
  const std::uint8_t taken = decide(id, pending_.bits[0], EncodingTable::none, 0);
  add(pending_, 0, id, taken, out);
  pending_.clear();
}

}  // namespace tracekit
