// What active_isa throws.
#pragma once

#include <stdexcept>

namespace tracekit {

struct NoSuchIsa : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace tracekit
