// The machine code that makes the program copy itself, and where it may stand.  It puts the
// program's registers back by itself, so that the program goes on unharmed even if the recorder
// dies at any moment.
#pragma once
#if defined(__linux__) && defined(__x86_64__)

#include <array>
#include <cstdint>
#include <optional>

#include "record/ptrace.hpp"

namespace tracekit::record {

inline constexpr std::size_t stub_size = 120;

// `syscall`, then every register that it or its arguments changed is loaded with its old value,
// then a jump to where the program was.  No stack, no flags.  With `copies`, a result of 0 (we are
// the copy, and nobody took charge of us) ends the process instead.
std::array<std::uint8_t, stub_size> make_stub(const Regs& regs, bool copies);

// Two places of `stub_size` bytes in executable pages that no code uses: zeros after the vdso's
// end, else after another mapping's.  Writing there gives the process its own copy of that one
// page.
struct StubPlace {
  std::uint64_t clone{}, call{};
  bool covers(std::uint64_t pc) const {
    return (pc >= clone && pc < clone + stub_size) || (pc >= call && pc < call + stub_size);
  }
};
std::optional<StubPlace> find_stub_place(pid_t pid);  // throws Gone
// Still zeros, or a stub of ours: not so once the program has called exec.
bool stub_place_is_ours(pid_t pid, const StubPlace& place);

// The registers that run the stub: system call `number` with up to five arguments.
Regs stub_call(const Regs& regs, std::uint64_t at, std::uint64_t number,
               const std::array<std::uint64_t, 5>& arguments);

// The thread was stopped inside a system call that the kernel will restart.
bool in_system_call(const Regs& regs);

}  // namespace tracekit::record
#endif
