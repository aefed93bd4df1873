#include "features/last_access_table.hpp"

#include <bit>
#include <cmath>

namespace tracekit {
namespace {

constexpr std::size_t first_regions = 16;
// Below so many lines a region the flat layout is smaller; well above it the paged one is.
constexpr std::size_t sparse_lines = 64, dense_lines = 128, few_regions = 64;
constexpr std::size_t largest_chunk = 512;  // regions; 2 MB, a huge page

unsigned shift_of(std::size_t n) { return 64 - static_cast<unsigned>(std::countr_zero(n)); }

}  // namespace

LastAccessTable::LastAccessTable() { reserve_regions(first_regions); }

LastAccessTable::LastAccessTable(const LastAccessTable& o)
    : regions_(o.regions_),
      regions_used_(o.regions_used_),
      used_in_last_(0),
      slots_(o.slots_),
      slots_used_(o.slots_used_) {
  view_ = o.view_;
  if (view_.paged)
    for (std::size_t i = 0; i < regions_.size(); ++i)
      if (regions_[i].key != no_region) {
        regions_[i].stamps = new_stamps();
        std::memcpy(regions_[i].stamps, o.regions_[i].stamps, region_lines * sizeof(std::uint32_t));
      }
  set_view();
}

LastAccessTable& LastAccessTable::operator=(LastAccessTable o) noexcept {
  std::swap(view_, o.view_);
  std::swap(regions_, o.regions_);
  std::swap(regions_used_, o.regions_used_);
  std::swap(chunks_, o.chunks_);
  std::swap(used_in_last_, o.used_in_last_);
  std::swap(slots_, o.slots_);
  std::swap(slots_used_, o.slots_used_);
  return *this;
}

void LastAccessTable::set_view() {
  const std::size_t n = view_.paged ? regions_.size() : slots_.size();
  view_.regions = regions_.data();
  view_.slots = slots_.data();
  view_.mask = n - 1;
  view_.shift = shift_of(n);
}

std::size_t LastAccessTable::places() const {
  return view_.paged ? regions_used_ * region_lines : slots_.size();
}

std::size_t LastAccessTable::bytes() const {
  std::size_t n = regions_.bytes() + slots_.bytes();
  for (const auto& c : chunks_) n += c.bytes();
  return n;
}

std::uint32_t* LastAccessTable::new_stamps() {
  if (chunks_.empty() || used_in_last_ == chunks_.back().size()) {
    // Chunks double, so that a handful of lines costs 4 KB and millions sit in huge pages.
    const std::size_t n = chunks_.empty() ? 1 : chunks_.back().size() / region_lines;
    chunks_.emplace_back(region_lines * std::min(chunks_.size() < 2 ? 1 : 2 * n, largest_chunk));
    chunks_.back().fill(0);
    used_in_last_ = 0;
  }
  std::uint32_t* stamps = chunks_.back().data() + used_in_last_;
  used_in_last_ += region_lines;
  return stamps;
}

void LastAccessTable::reserve_regions(std::size_t n) {
  AlignedArray<Region> old(n);
  old.fill(Region{no_region, nullptr});
  std::swap(old, regions_);
  view_.paged = true;
  set_view();
  for (std::size_t i = 0; i < old.size(); ++i)
    if (old[i].key != no_region) {
      std::uint64_t h = home(old[i].key, view_.shift);
      while (regions_[h].key != no_region) h = (h + 1) & view_.mask;
      regions_[h] = old[i];
    }
}

std::uint32_t* LastAccessTable::insert_region(std::uint64_t key) {
  // A quarter full at most: second probes are mispredicted branches, and a region is 4 KB anyway.
  if (4 * (regions_used_ + 1) > regions_.size()) reserve_regions(2 * regions_.size());
  std::uint64_t h = home(key, view_.shift);
  while (regions_[h].key != no_region && regions_[h].key != key) h = (h + 1) & view_.mask;
  if (regions_[h].key != key) {
    std::uint32_t* stamps = new_stamps();
    regions_[h] = Region{key, stamps};
    ++regions_used_;
  }
  return regions_[h].stamps;
}

// The caller has made sure of room, and stores a stamp at once.
std::uint32_t* LastAccessTable::insert_slot(std::uint64_t line) {
  std::uint64_t h = home(line, view_.shift);
  while (slots_[h].stamp) h = (h + 1) & view_.mask;
  slots_[h].line = line;
  ++slots_used_;
  return &slots_[h].stamp;
}

LastAccessTable::LastAccessTable(std::size_t slots) : slots_(slots) {
  slots_.fill(Slot{0, 0, 0});
  view_.paged = false;
  set_view();
}

std::size_t LastAccessTable::seen() const {
  std::size_t n = 0;
  for (const auto& c : chunks_)
    for (std::size_t i = 0; i < c.size(); ++i) n += c[i] != 0;
  return n;
}

// Each change of layout builds a whole table aside: where memory runs out, the old one still
// stands.
void LastAccessTable::to_slots() {
  LastAccessTable next(std::bit_ceil(std::max<std::size_t>(1024, 2 * seen())));
  for (std::size_t i = 0; i < regions_.size(); ++i)
    if (regions_[i].key != no_region)
      for (std::size_t j = 0; j < region_lines; ++j)
        if (const std::uint32_t stamp = regions_[i].stamps[j])
          *next.insert_slot((regions_[i].key << region_bits) + j) = stamp;
  *this = std::move(next);
}

void LastAccessTable::to_regions() {
  LastAccessTable next;
  for (std::size_t i = 0; i < slots_.size(); ++i)
    if (slots_[i].stamp)
      next.insert_region(slots_[i].line >> region_bits)[slots_[i].line & (region_lines - 1)] =
          slots_[i].stamp;
  *this = std::move(next);
}

void LastAccessTable::grow_slots() {
  // How many regions do the lines lie in?  Linear counting (Whang et al. 1990) in one pass.
  const std::size_t bits = std::bit_ceil(slots_used_);
  std::vector<bool> hit(bits);
  for (std::size_t i = 0; i < slots_.size(); ++i)
    if (slots_[i].stamp) hit[home(slots_[i].line >> region_bits, shift_of(bits))] = true;
  std::size_t zeros = 0;
  for (const bool b : hit) zeros += !b;
  const double m = static_cast<double>(bits);
  const double regions =
      zeros ? m * std::log(m / static_cast<double>(zeros)) : static_cast<double>(slots_used_);
  if (static_cast<double>(slots_used_) > regions * static_cast<double>(dense_lines))
    return to_regions();
  LastAccessTable next(2 * slots_.size());
  for (std::size_t i = 0; i < slots_.size(); ++i)
    if (slots_[i].stamp) *next.insert_slot(slots_[i].line) = slots_[i].stamp;
  *this = std::move(next);
}

std::uint32_t LastAccessTable::stamp_of(std::uint64_t line) const {
  const std::uint32_t* stamp = find(line);
  return stamp ? *stamp : 0;
}

std::uint32_t* LastAccessTable::find_or_insert(std::uint64_t line) {
  if (std::uint32_t* stamp = find(line)) return stamp;
  // Density is looked at whenever the number of regions has doubled.
  if (view_.paged && regions_used_ >= few_regions && std::has_single_bit(regions_used_) &&
      seen() < sparse_lines * regions_used_)
    to_slots();
  if (!view_.paged && 5 * (slots_used_ + 1) > 4 * slots_.size()) grow_slots();
  if (!view_.paged) return insert_slot(line);
  return insert_region(line >> region_bits) + (line & (region_lines - 1));
}

}  // namespace tracekit
