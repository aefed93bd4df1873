// Which system calls a copy may run: those whose every effect stays inside it.
#pragma once
#if defined(__linux__) && defined(__x86_64__)

#include <cstdint>
#include <optional>

#include "record/ptrace.hpp"

namespace tracekit::record {

enum class Policy : std::uint8_t {
  end,      // the epoch ends before it
  run,      // runs, and touches nothing outside
  remap,    // runs, and changes what is mapped: code and mappings must be looked at again
  pretend,  // not run: the answer is the original's (`pretended`)
};

// Who the program believes to be; the copy's own numbers differ.
struct Identity {
  std::uint64_t pid{}, tid{}, ppid{};
};

// The call that `regs` are about to make.  `shared` tells whether an address lies in memory that
// other processes see: calls that would write there are not run.
template <class Shared>
Policy policy(const Regs& regs, const Shared& shared);

std::optional<std::uint64_t> pretended(std::uint64_t number, const Identity& who);

namespace detail {
struct Rule {
  Policy policy{Policy::end};
  std::uint8_t writes{};  // arguments (bit 0 = the first) that point to memory it fills
};
Rule rule(const Regs& regs);
std::uint64_t argument(const Regs& regs, unsigned i);
}  // namespace detail

template <class Shared>
Policy policy(const Regs& regs, const Shared& shared) {
  const detail::Rule r = detail::rule(regs);
  for (unsigned i = 0; i < 6; ++i)
    if ((r.writes >> i & 1) != 0 && shared(detail::argument(regs, i))) return Policy::end;
  return r.policy;
}

}  // namespace tracekit::record
#endif
