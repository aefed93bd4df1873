// Damage that was survived, and other things worth telling: counted by kind, stored in the file.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace tracekit {

struct Anomaly {
  std::uint64_t count{};
  // Byte in the (decompressed) stream where the first one stood, where that is known.
  std::optional<std::uint64_t> first_offset;
};

class Counters {
 public:
  void add(const std::string& kind, std::optional<std::uint64_t> offset, std::uint64_t n = 1) {
    auto [it, fresh] = kinds_.try_emplace(kind);
    if (fresh) it->second.first_offset = offset;
    it->second.count += n;
  }
  const std::map<std::string, Anomaly>& kinds() const { return kinds_; }

 private:
  std::map<std::string, Anomaly> kinds_;
};

}  // namespace tracekit
