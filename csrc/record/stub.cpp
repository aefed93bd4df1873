#if defined(__linux__) && defined(__x86_64__)
#include "record/stub.hpp"

#include <sys/syscall.h>

#include <algorithm>

namespace tracekit::record {

namespace {

// The kernel's own error numbers for "restart this call" (include/linux/errno.h), never seen by
// programs.
constexpr long restart_sys = -512, restart_no_intr = -513, restart_no_hand = -514,
               restart_block = -516;

constexpr std::array<std::uint8_t, 4> head = {0x0f, 0x05, 0x48, 0x91};  // syscall; xchg rax, rcx
constexpr std::size_t slot = 128;

class Assembler {
 public:
  void bytes(std::initializer_list<std::uint8_t> b) {
    for (const std::uint8_t v : b) code_.at(size_++) = v;
  }
  void word(std::uint64_t v) {
    for (int i = 0; i < 8; ++i) code_.at(size_++) = static_cast<std::uint8_t>(v >> (8 * i));
  }
  std::size_t size() const { return size_; }
  std::array<std::uint8_t, stub_size>& code() { return code_; }

 private:
  std::array<std::uint8_t, stub_size> code_{};
  std::size_t size_{};
};

}  // namespace

bool in_system_call(const Regs& regs) {
  const auto r = static_cast<long>(regs.rax);
  return static_cast<long>(regs.orig_rax) >= 0 &&
         (r == restart_sys || r == restart_no_intr || r == restart_no_hand || r == restart_block);
}

std::array<std::uint8_t, stub_size> make_stub(const Regs& regs, bool copies) {
  std::uint64_t rax = regs.rax, rip = regs.rip;
  if (in_system_call(regs)) {  // what the kernel does when it restarts a call
    rax = static_cast<long>(regs.rax) == restart_block ? std::uint64_t{SYS_restart_syscall}
                                                       : regs.orig_rax;
    rip -= 2;
  }
  Assembler a;
  a.bytes({0x0f, 0x05});  // syscall
  a.bytes({0x48, 0x91});  // xchg rax, rcx: the result can now be tested without touching the flags
  const std::size_t branch = a.size() + 1;
  if (copies) a.bytes({0xe3, 0});  // jrcxz to the end: in the copy
  a.bytes({0x48, 0xb8}), a.word(rax);
  a.bytes({0x48, 0xb9}), a.word(regs.rcx);
  a.bytes({0x48, 0xba}), a.word(regs.rdx);
  a.bytes({0x48, 0xbe}), a.word(regs.rsi);
  a.bytes({0x48, 0xbf}), a.word(regs.rdi);
  a.bytes({0x49, 0xb8}), a.word(regs.r8);
  a.bytes({0x49, 0xba}), a.word(regs.r10);
  a.bytes({0x49, 0xbb}), a.word(regs.r11);
  a.bytes({0xff, 0x25, 0, 0, 0, 0}), a.word(rip);  // jmp [rip]
  if (copies) {
    a.code()[branch] = static_cast<std::uint8_t>(a.size() - branch - 1);
    a.bytes({0xb8, SYS_exit_group, 0, 0, 0});  // mov eax, exit_group
    a.bytes({0x31, 0xff, 0x0f, 0x05});         // xor edi, edi; syscall
  }
  return a.code();
}

Regs stub_call(const Regs& regs, std::uint64_t at, std::uint64_t number,
               const std::array<std::uint64_t, 5>& arguments) {
  Regs r = regs;
  r.rip = at;
  r.rax = number;
  r.orig_rax = ~0ULL;  // not in a system call: the kernel must not restart one
  r.rdi = arguments[0];
  r.rsi = arguments[1];
  r.rdx = arguments[2];
  r.r10 = arguments[3];
  r.r8 = arguments[4];
  return r;
}

std::optional<StubPlace> find_stub_place(pid_t pid) {
  const auto usable = [&](const Mapping& m) -> std::optional<StubPlace> {
    std::array<std::uint8_t, 2 * slot> tail;
    const std::uint64_t at = m.end - tail.size();
    if (m.end - m.begin < 4096 || read_memory(pid, at, tail.data(), tail.size()) != tail.size())
      return std::nullopt;
    const StubPlace place{at, at + slot};
    if (std::all_of(tail.begin(), tail.end(), [](std::uint8_t b) { return b == 0; }) ||
        stub_place_is_ours(pid, place))
      return place;
    return std::nullopt;
  };
  const std::vector<Mapping> maps = read_maps(pid);
  for (const bool vdso : {true, false})
    for (const Mapping& m : maps)
      if (m.executable && m.readable && !m.writable && !m.shared && (m.name == "[vdso]") == vdso &&
          m.name != "[vsyscall]" && !m.name.empty())
        if (const auto place = usable(m)) return place;
  return std::nullopt;
}

bool stub_place_is_ours(pid_t pid, const StubPlace& place) {
  std::array<std::uint8_t, 2 * slot> b;
  if (read_memory(pid, place.clone, b.data(), b.size()) != b.size()) return false;
  const auto one = [&](std::size_t at) {
    return std::equal(head.begin(), head.end(), b.begin() + static_cast<long>(at)) ||
           std::all_of(b.begin() + static_cast<long>(at), b.begin() + static_cast<long>(at + slot),
                       [](std::uint8_t v) { return v == 0; });
  };
  return one(0) && one(slot);
}

}  // namespace tracekit::record
#endif
