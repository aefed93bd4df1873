#include "macro/macro_join.hpp"

#include <algorithm>

#include "isa/text_decode.hpp"

namespace tracekit {

void MacroJoin::open(const FeatureBatch& in, std::size_t i) {
  const std::size_t r = rows_.size();
  rows_.resize(r + 1);
  rows_.each([r](auto& column) { column[r] = 0; });
  rows_.fetch_distance[r] = in.fetch_distance[i];
  for (unsigned s = stage::fetch; s <= stage::issue; ++s) rows_.ticks[s][r] = in.ticks[s][i];
  any_timed_ = false;
}

void MacroJoin::add(const FeatureBatch& in, std::size_t n, const std::vector<HotStatic>& statics) {
  rows_.timed |= in.timed;
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint32_t sid = in.sid[i];
    const HotStatic& h = statics[sid];
    const std::uint8_t bits = in.bits[i];
    if (ends_.cuts_off(h)) close(statics);
    ends_known_ |= h.upc != 0 && h.is(HotStatic::last);
    if (members_open_.empty()) open(in, i);
    const std::size_t r = rows_.size() - 1;
    if (std::find(members_open_.begin(), members_open_.end(), sid) == members_open_.end())
      members_open_.push_back(sid);
    rows_.bits[r] |= bits & (row_bit::fault | row_bit::predicated_off | row_bit::mispredicted);
    if ((bits & row_bit::has_addr) && !(rows_.bits[r] & row_bit::has_addr)) {
      rows_.bits[r] |= row_bit::has_addr;
      rows_.addr[r] = in.addr[i];
      rows_.load_distance[r] = in.load_distance[i];
      rows_.store_distance[r] = in.store_distance[i];
      rows_.load_distance_ref[r] = in.load_distance_ref[i];
      rows_.store_distance_ref[r] = in.store_distance_ref[i];
      rows_.data_distance[r] = in.data_distance[i];
      rows_.data_reuse[r] = in.data_reuse[i];
    }
    if (h.is(HotStatic::control) && !h.inner) {
      rows_.bits[r] =
          static_cast<std::uint8_t>((rows_.bits[r] & ~row_bit::taken) | (bits & row_bit::taken));
      rows_.window_before[r] = in.window_before[i];
      rows_.window_now[r] = in.window_now[i];
      rows_.p_local[r] = in.p_local[i];
      rows_.p_global[r] = in.p_global[i];
    }
    any_timed_ |= !(bits & row_bit::untimed);
    if (!first_retire_) first_retire_ = in.ticks[stage::retire][i];
    for (unsigned s : {stage::complete, stage::retire, stage::store})
      rows_.ticks[s][r] = std::max(rows_.ticks[s][r], in.ticks[s][i]);
    if (ends_.ends(h, bits)) close(statics);
  }
}

void MacroJoin::finish(const std::vector<HotStatic>& statics) {
  if (members_open_.empty()) return;
  if (!ends_known_) {
    close(statics);
    return;
  }
  // The trace ended inside it: it has not committed as an instruction, and gem5 does not count it.
  rows_.resize(rows_.size() - 1);
  members_open_.clear();
  ++unfinished_;
}

void MacroJoin::close(const std::vector<HotStatic>& statics) {
  const std::size_t r = rows_.size() - 1;
  if (!any_timed_) rows_.bits[r] |= row_bit::untimed;
  rows_.sid[r] = intern(statics);
  members_open_.clear();
}

std::uint32_t MacroJoin::intern(const std::vector<HotStatic>& statics) {
  const std::uint32_t first = members_open_.front();
  if (first_.size() <= first) first_.resize(statics.size(), none);
  for (std::uint32_t m = first_[first]; m != none; m = next_[m])
    if (members_[m] == members_open_) return m;
  const auto id = static_cast<std::uint32_t>(members_.size());
  members_.push_back(members_open_);
  next_.push_back(first_[first]);
  first_[first] = id;

  HotStatic hot;
  hot.pc = statics[first].pc;
  hot.bits = HotStatic::last;
  bool memory_seen = false;
  for (const std::uint32_t sid : members_open_) {
    const HotStatic& m = statics[sid];
    hot.bits |= m.bits & HotStatic::syscall;
    if (!m.inner) hot.bits |= m.bits & HotStatic::control;
    if (m.is(HotStatic::conditional) && !m.inner) {
      hot.bits |= m.bits & (HotStatic::conditional | HotStatic::any_fall);
      std::copy(std::begin(m.fall), std::end(m.fall), std::begin(hot.fall));
    }
    if (m.is(HotStatic::memory) && !memory_seen) {
      memory_seen = true;
      hot.bits |= m.bits & (HotStatic::memory | HotStatic::load | HotStatic::load_ref);
    }
  }
  hot_.push_back(hot);
  return id;
}

StaticTable join_statics(const StaticTable& micro,
                         const std::vector<std::vector<std::uint32_t>>& members) {
  constexpr Flags kept = flag::IsLoad | flag::IsStore | flag::IsAtomic | flag::IsStoreConditional |
                         flag::IsControl | flag::IsDirectControl | flag::IsIndirectControl |
                         flag::IsCondControl | flag::IsUncondControl | flag::IsCall |
                         flag::IsReturn | flag::IsSerializing | flag::IsSerializeBefore |
                         flag::IsSerializeAfter | flag::IsWriteBarrier | flag::IsReadBarrier |
                         flag::IsNonSpeculative | flag::IsQuiesce | flag::IsSyscall |
                         flag::IsSquashAfter | flag::IsInteger | flag::IsFloating | flag::IsVector |
                         flag::IsInstPrefetch | flag::IsDataPrefetch;
  constexpr Flags branching = flag::IsControl | flag::IsDirectControl | flag::IsCondControl;
  constexpr std::uint16_t first_temporary_arm = 32, first_temporary_x86 = 16;
  StaticTable out;
  for (const auto& ids : members) {
    const StaticInst& first = micro[ids.front()];
    if (ids.size() == 1 && !first.has(flag::IsMicroop)) {
      StaticInst whole = first;
      whole.upc = 0;  // a native instruction's number there tells its accesses apart
      out.add(std::move(whole));
      continue;
    }
    StaticInst m;
    m.pc = first.pc;
    m.op = OpClass::IntAlu;
    m.bytes = first.bytes;
    const bool x86 = first.disassembly.find(" : ") != std::string::npos;
    const auto temporary = [&](const Reg& r) {
      // The micro-ops' vector registers (%ufp1) stand behind the architecture's, too.
      return (r.cls == RegClass::integer || r.cls == RegClass::vector) &&
             r.index >= (x86 ? first_temporary_x86 : first_temporary_arm);
    };
    bool memory = false, real = false, all_nop = true;
    SmallVector<Reg, 64> written;
    for (const std::uint32_t id : ids) {
      const StaticInst& u = micro[id];
      const bool inner = is_inner_branch(u);
      m.flags |= u.flags & (inner ? kept & ~branching : kept);
      m.inferred |= u.inferred;
      all_nop &= u.has(flag::IsNop);
      const bool accesses = reads_memory(u.op) || writes_memory(u.op);
      if (accesses && !memory) {
        memory = true;
        m.op = u.op;
        m.access_size = u.access_size;
      } else if (!memory && !real && u.op != OpClass::IntAlu && u.op != OpClass::No_OpClass) {
        real = true;
        m.op = u.op;
      }
      if (u.branch != BranchKind::none && !inner) m.branch = u.branch;
      for (const Reg& r : u.src)
        if (!written.contains(r) && !temporary(r)) m.src.push_unique(r);
      for (const Reg& r : u.dst) {
        written.push_unique(r);
        if (!temporary(r)) m.dst.push_unique(r);
      }
    }
    if (all_nop) m.flags |= flag::IsNop;
    if (x86) {
      m.disassembly = first.disassembly.substr(0, first.disassembly.find(" : "));
    } else {
      for (const std::uint32_t id : ids)
        if (!micro[id].disassembly.empty())  // the parts of a native instruction bear its text once
          m.disassembly += (m.disassembly.empty() ? "" : "; ") + micro[id].disassembly;
    }
    out.add(std::move(m));
  }
  return out;
}

}  // namespace tracekit
