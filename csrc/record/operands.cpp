#if defined(__linux__) && defined(__x86_64__)
#include "record/operands.hpp"

#include <cpuid.h>
#include <elf.h>
#include <errno.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

#include <cstring>

namespace tracekit::record {

namespace {
// XSAVE state components (Intel SDM vol. 1, 13.1).
constexpr unsigned avx = 2, opmask = 5, zmm_high256 = 6, zmm_high16 = 7;
constexpr std::size_t legacy_xmm = 160;
}  // namespace

VectorState::VectorState() {
  unsigned a = 0, size = 0, c = 0, d = 0;
  if (!__get_cpuid_count(0xd, 0, &a, &size, &c, &d)) size = 0;
  area_.resize(std::max<std::size_t>({size, c, 576}) + 4096);
  for (const unsigned i : {avx, opmask, zmm_high256, zmm_high16}) {
    unsigned bytes = 0, offset = 0;
    if (__get_cpuid_count(0xd, i, &bytes, &offset, &c, &d) && bytes != 0) offset_[i] = offset;
  }
}

void VectorState::fetch(pid_t tid) {
  iovec to{area_.data(), area_.size()};
  std::fill(area_.begin(), area_.end(), std::uint8_t{0});
  if (ptrace(PTRACE_GETREGSET, tid, reinterpret_cast<void*>(std::uintptr_t{NT_X86_XSTATE}), &to) !=
      0) {
    if (errno == ESRCH) throw Gone{};
    throw_errno("cannot read vector registers");
  }
}

std::int64_t VectorState::element(unsigned reg, unsigned i, unsigned bytes) const {
  const std::size_t at = std::size_t{i} * bytes;  // in the register
  std::size_t from = 0;
  if (reg >= 16)
    from = offset_[zmm_high16] + (reg - 16) * 64 + at;
  else if (at < 16)
    from = legacy_xmm + reg * 16 + at;
  else if (at < 32)
    from = offset_[avx] + reg * 16 + at - 16;
  else
    from = offset_[zmm_high256] + reg * 32 + at - 32;
  if (from + 8 > area_.size()) return 0;
  if (bytes == 4) {
    std::int32_t v;
    std::memcpy(&v, area_.data() + from, sizeof v);
    return v;
  }
  std::int64_t v;
  std::memcpy(&v, area_.data() + from, sizeof v);
  return v;
}

std::uint64_t VectorState::mask(unsigned reg) const {
  std::uint64_t v;
  std::memcpy(&v, area_.data() + offset_[opmask] + std::size_t{reg & 7} * 8, sizeof v);
  return v;
}

std::uint64_t general_register(const Regs& r, std::uint8_t number) {
  switch (number) {
    case 0:
      return r.rax;
    case 1:
      return r.rcx;
    case 2:
      return r.rdx;
    case 3:
      return r.rbx;
    case 4:
      return r.rsp;
    case 5:
      return r.rbp;
    case 6:
      return r.rsi;
    case 7:
      return r.rdi;
    case 8:
      return r.r8;
    case 9:
      return r.r9;
    case 10:
      return r.r10;
    case 11:
      return r.r11;
    case 12:
      return r.r12;
    case 13:
      return r.r13;
    case 14:
      return r.r14;
    case 15:
      return r.r15;
    default:
      return 0;
  }
}

void evaluate(const Recipe& recipe, const Regs& regs, pid_t tid, VectorState& vectors,
              std::vector<Access>& out) {
  for (const Operand& o : recipe.operands) {
    const std::uint64_t width = o.short_address ? 0xffffffffULL : ~0ULL;
    const std::uint64_t segment = o.segment == Operand::Segment::fs   ? regs.fs_base
                                  : o.segment == Operand::Segment::gs ? regs.gs_base
                                                                      : 0;
    const auto add = [&](std::uint64_t effective) {
      const std::uint64_t at = segment + (effective & width);
      if (o.load) out.push_back({at, o.size, false});
      if (o.store) out.push_back({at, o.size, true});
    };
    std::uint64_t sum = static_cast<std::uint64_t>(o.disp);
    if (o.base == reg_rip)
      sum += regs.rip + recipe.length;
    else if (o.base != no_reg)
      sum += general_register(regs, o.base);
    switch (o.kind) {
      case Operand::Kind::plain:
        if (o.index != no_reg) sum += general_register(regs, o.index) * o.scale;
        add(sum);
        break;
      case Operand::Kind::low_byte:
        add(sum + (general_register(regs, o.index) & 0xff));
        break;
      case Operand::Kind::bit_string: {
        // The register is a signed bit number; the access is to the operand-sized unit that holds
        // it.
        const std::uint64_t raw = general_register(regs, o.index);
        const std::int64_t bit = o.size == 8   ? static_cast<std::int64_t>(raw)
                                 : o.size == 4 ? static_cast<std::int32_t>(raw)
                                               : static_cast<std::int16_t>(raw);
        const std::int64_t unit_bits = std::int64_t{o.size} * 8;
        const std::int64_t unit = (bit >= 0 ? bit : bit - unit_bits + 1) / unit_bits;
        add(sum + static_cast<std::uint64_t>(unit * std::int64_t{o.size}));
        break;
      }
      case Operand::Kind::gather: {
        vectors.fetch(tid);
        const std::uint64_t k = o.mask_is_vector || o.mask == no_reg ? ~0ULL : vectors.mask(o.mask);
        for (unsigned i = 0; i < o.elements; ++i) {
          const bool on =
              o.mask_is_vector ? vectors.element(o.mask, i, o.size) < 0 : (k >> i & 1) != 0;
          if (on)
            add(sum +
                static_cast<std::uint64_t>(vectors.element(o.index, i, o.index_bytes)) * o.scale);
        }
        break;
      }
    }
  }
}

}  // namespace tracekit::record
#endif
