#if defined(__linux__) && defined(__x86_64__)
#include "record/code_cache.hpp"

#include <errno.h>
#include <sys/ptrace.h>

#include <algorithm>
#include <cstring>

namespace tracekit::record {

void CodeCache::forget() {
  pages_.clear();
  filter_.fill(false);
  if (++generation_ == 0) {
    slots_.assign(slots_.size(), Entry{});
    generation_ = 1;
  }
}

const CodeCache::Page* CodeCache::page(pid_t pid, std::uint64_t number) {
  const auto it = pages_.find(number);
  if (it != pages_.end()) return it->second.get();
  auto fresh = std::make_unique<Page>();
  if (read_memory(pid, number << 12, fresh->data(), fresh->size()) != fresh->size()) {
    // Executable but not readable: ptrace may still read it, a word at a time.
    for (std::size_t i = 0; i < fresh->size(); i += 8) {
      errno = 0;
      const long v =
          ptrace(PTRACE_PEEKTEXT, pid, reinterpret_cast<void*>((number << 12) + i), nullptr);
      if (errno != 0) return nullptr;
      std::memcpy(fresh->data() + i, &v, 8);
    }
  }
  filter_[number & (filter_.size() - 1)] = true;
  return pages_.emplace(number, std::move(fresh)).first->second.get();
}

const CodeCache::Entry* CodeCache::load(pid_t pid, std::uint64_t pc) {
  std::array<char, Encoding::max_bytes> bytes;
  const std::size_t in_page = std::min<std::size_t>(bytes.size(), 4096 - (pc & 4095));
  const Page* first = page(pid, pc >> 12);
  if (first == nullptr) return nullptr;
  std::memcpy(bytes.data(), first->data() + (pc & 4095), in_page);
  std::size_t n = in_page;
  if (n < bytes.size())
    if (const Page* next = page(pid, (pc >> 12) + 1)) {
      std::memcpy(bytes.data() + n, next->data(), bytes.size() - n);
      n = bytes.size();
    }

  std::uint32_t id = EncodingTable::none;
  const auto [from, to] = by_pc_.equal_range(pc);
  for (auto it = from; it != to && id == EncodingTable::none; ++it) {
    const std::string_view code = encodings_[it->second].code();
    if (code.size() <= n && std::memcmp(code.data(), bytes.data(), code.size()) == 0)
      id = it->second;
  }
  if (id == EncodingTable::none) {
    Recipe recipe = decode_(pc, std::string_view(bytes.data(), n));
    if (recipe.length == 0 || recipe.length > n) return nullptr;
    id = encodings_.intern(pc, std::string_view(bytes.data(), recipe.length));
    if (id == recipes_.size()) {
      recipes_.push_back(std::move(recipe));
      by_pc_.emplace(pc, id);
    }
  }
  Entry& e = slots_[slot(pc)];
  e = {pc, generation_, id, &recipes_[id]};
  return &e;
}

}  // namespace tracekit::record
#endif
