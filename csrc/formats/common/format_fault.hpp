// A stream that cannot be read on: what is wrong, where, and what to do.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace tracekit {

struct FormatFault : std::runtime_error {
  FormatFault(const std::string& what, std::uint64_t at, std::string help = "")
      : std::runtime_error(what), offset(at), hint(std::move(help)) {}
  std::uint64_t offset;  // byte in the decompressed stream
  std::string hint;
};

}  // namespace tracekit
