// A user's prefetcher.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>

#include "sim/plugins.hpp"

namespace tracekit {

class PluginPrefetcher {
 public:
  explicit PluginPrefetcher(plugin::Entry& entry)
      : entry_(entry), of_(entry.prefetcher), state_(entry, entry.state_bytes) {}
  // Calls go(line) for each line that is wanted after an access.
  template <class Go>
  void see(std::uint64_t line, std::uint64_t pc, bool hit, const Go& go) {
    std::array<std::uint64_t, TRACEKIT_MOST_PREFETCHES> wanted;
    const std::int64_t n = of_.access(state_.at(), line, pc, hit, wanted.data());
    if (n < 0) entry_.wrong = "wanted fewer than no lines";
    if (n > TRACEKIT_MOST_PREFETCHES) entry_.wrong = "wanted more than 32 lines at once";
    for (std::int64_t i = 0; i < std::clamp<std::int64_t>(n, 0, TRACEKIT_MOST_PREFETCHES); ++i)
      go(wanted[static_cast<std::size_t>(i)]);
    state_.check();
  }

 private:
  plugin::Entry& entry_;
  const tracekit_prefetcher of_;
  plugin::State state_;
};

// Null where the number is no plug-in's.
inline std::unique_ptr<PluginPrefetcher> make_plugin_prefetcher(int kind) {
  auto* entry = plugin::find(static_cast<unsigned>(kind), plugin::Part::prefetcher);
  return entry ? std::make_unique<PluginPrefetcher>(*entry) : nullptr;
}

}  // namespace tracekit
