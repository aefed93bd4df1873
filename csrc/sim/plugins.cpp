#include "sim/plugins.hpp"

#include <algorithm>
#include <mutex>

namespace tracekit::plugin {
namespace {

constexpr std::uint8_t guard_byte = 0xa5;

struct Registry {
  std::mutex lock;
  std::vector<std::unique_ptr<Entry>> entries;
};

Registry& registry() {
  static Registry r;
  return r;
}

constexpr std::size_t rounded(std::size_t n) { return (n + 63) / 64 * 64; }

}  // namespace

unsigned add(std::unique_ptr<Entry> entry) {
  Registry& r = registry();
  const std::lock_guard hold(r.lock);
  if (r.entries.size() > last_number - first_number) return 0;
  r.entries.push_back(std::move(entry));
  return first_number + static_cast<unsigned>(r.entries.size()) - 1;
}

Entry* find(unsigned number, Part part) {
  Registry& r = registry();
  const std::lock_guard hold(r.lock);
  if (number < first_number || number - first_number >= r.entries.size()) return nullptr;
  Entry* e = r.entries[number - first_number].get();
  return e->part == part ? e : nullptr;
}

std::string complaint() {
  Registry& r = registry();
  const std::lock_guard hold(r.lock);
  std::string out;
  for (const auto& e : r.entries)
    if (const char* what = e->wrong.exchange(nullptr); what && out.empty())
      out = "plug-in " + e->name + ": " + what;
  return out;
}

State::State(Entry& entry, std::size_t each, std::size_t count)
    : entry_(entry),
      each_(rounded(each)),
      bytes_(each_ * (count - 1) + each),
      memory_(rounded(bytes_) + 2 * guard + 64) {
  const auto base = reinterpret_cast<std::uintptr_t>(memory_.data());
  data_ = memory_.data() + (rounded(base) - base) + guard;
  std::fill_n(data_ - guard, guard, guard_byte);
  std::fill_n(data_ + bytes_, guard, guard_byte);
}

State::State(const State& other) : State(other.entry_, other.bytes_) {
  each_ = other.each_;
  copy(other);
}

void State::copy(const State& other) { std::copy_n(other.data_, bytes_, data_); }

void State::check() {
  const auto whole = [](const std::uint8_t* from) {
    return std::all_of(from, from + guard, [](std::uint8_t b) { return b == guard_byte; });
  };
  if (whole(data_ - guard) && whole(data_ + bytes_)) return;
  entry_.wrong = "wrote outside of its state";
  std::fill_n(data_ - guard, guard, guard_byte);  // it is told once
  std::fill_n(data_ + bytes_, guard, guard_byte);
}

}  // namespace tracekit::plugin
