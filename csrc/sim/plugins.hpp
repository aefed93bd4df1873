// Users' own parts of a core (tracekit/include/tracekit_plugin.h), by number: machines name them,
// and a core's parameters are numbers.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tracekit_plugin.h"

namespace tracekit::plugin {

// Numbers of plug-ins begin here; below are the built-in parts.
inline constexpr unsigned first_number = 100, last_number = 999;

enum class Part : std::uint8_t { predictor, prefetcher, replacement };

struct Entry {
  Part part{};
  std::string name;
  std::size_t state_bytes{};
  tracekit_predictor predictor{};
  tracekit_prefetcher prefetcher{};
  tracekit_replacement replacement{};
  // What it did that it may not; 0: nothing.
  std::atomic<const char*> wrong{};
};

// Known for as long as the process lives.  Adding another one of the same name replaces it for
// cores that are made from then on.
unsigned add(std::unique_ptr<Entry> entry);
// Null where there is none of that number and part.
Entry* find(unsigned number, Part part);
// The first complaint about any plug-in since it was asked last, as a sentence; empty where none.
std::string complaint();

// The state of one user of a plug-in, with guards that tell when it was left.
class State {
 public:
  State(Entry& entry, std::size_t each, std::size_t count = 1);
  ~State() { check(); }
  State(const State& other);
  State& operator=(const State&) = delete;
  // The bytes of another one of that plug-in.
  void copy(const State& other);
  std::uint8_t* at(std::size_t i = 0) { return data_ + i * each_; }
  void check();

 private:
  static constexpr std::size_t guard = 64;
  Entry& entry_;
  std::size_t each_, bytes_;
  std::vector<std::uint8_t> memory_;
  std::uint8_t* data_;
};

}  // namespace tracekit::plugin
