// What bench_parse.py measures the parser against; not used otherwise.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <istream>
#include <streambuf>
#include <string>
#include <unordered_set>
#include <utility>

namespace tracekit::bench {

// The floor: every newline, nothing else.
inline std::uint64_t newlines(const char* p, std::size_t size) {
  std::uint64_t n = 0;
  for (const char* end = p + size;
       (p = static_cast<const char*>(std::memchr(p, '\n', static_cast<std::size_t>(end - p)))); ++p)
    ++n;
  return n;
}

// A reader as one writes it in C++: a line at a time, numbers by strtoull.  (rows, last retire
// tick)
inline std::pair<std::uint64_t, std::uint64_t> getline_reader(const char* data, std::size_t size) {
  struct Buffer : std::streambuf {
    Buffer(char* b, std::size_t n) { setg(b, b, b + n); }
  } buffer(const_cast<char*>(data), size);
  std::istream in(&buffer);
  std::string line;
  std::unordered_set<std::uint64_t> waiting;
  std::uint64_t rows = 0, last = 0, seq = 0, ticks[8] = {};
  while (std::getline(in, line)) {
    if (line.starts_with("O3PipeView:")) {
      const char* name = line.c_str() + 11;
      const char* number = std::strchr(name, ':');
      if (!number) continue;
      ticks[*name & 7] = std::strtoull(number + 1, nullptr, 10);
      if (std::strncmp(name, "fetch", 5) == 0) {
        const char* pc = std::strchr(number + 1, ':');
        const char* upc = pc ? std::strchr(pc + 1, ':') : nullptr;
        const char* s = upc ? std::strchr(upc + 1, ':') : nullptr;
        seq = s ? std::strtoull(s + 1, nullptr, 10) : 0;
      } else if (std::strncmp(name, "retire", 6) == 0 && waiting.erase(seq)) {
        last = std::max(last, ticks[*name & 7]);
      }
    } else if (const std::size_t at = line.find("FetchSeq="); at != std::string::npos) {
      ++rows;
      waiting.insert(std::strtoull(line.c_str() + at + 9, nullptr, 10));
    }
  }
  return {rows, last};
}

}  // namespace tracekit::bench
