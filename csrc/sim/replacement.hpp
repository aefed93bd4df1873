// Which line of a set goes, where that is not simply the one used longest ago (which cache.cpp
// keeps by the order of the ways).
#pragma once

#include <cstddef>
#include <memory>

#include "sim/core_parameters.hpp"

namespace tracekit {

class Replacement {
 public:
  virtual ~Replacement() = default;
  // A way was hit, or, `filled`, got a new line.
  virtual void touch(std::size_t set, std::size_t way, bool filled) = 0;
  // The way that goes; all ways hold lines.
  virtual std::size_t victim(std::size_t set) = 0;
  virtual std::unique_ptr<Replacement> clone() const = 0;
};

// Null: least recently used.  Of a plug-in's number, the plug-in (sim/plugins.hpp).
std::unique_ptr<Replacement> make_replacement(int kind, std::size_t sets, std::size_t ways);

}  // namespace tracekit
