// Any text in any pieces: the same rows and counters as in one piece, and through features and
// codec unharmed.
#include <memory>

#include "formats/gem5_text/gem5_text.hpp"
#include "fuzz/round_trip.hpp"

namespace {

using namespace tracekit;
using fuzz::require;

// A copy of just this size, so that a reader that looks too far is seen.
void feed(Gem5Text& text, const std::uint8_t* data, std::size_t size) {
  const std::unique_ptr<char[]> copy(new char[size]);
  if (size) std::memcpy(copy.get(), data, size);
  text.feed(copy.get(), size);
}

void check_same(CpuStream& a, const CpuStream& b, const RowBatch& taken) {
  const RowBatch rows = a.take();
  require(a.name == b.name && a.statics.size() == b.statics.size() && rows.size() == taken.size());
  for (std::uint32_t i = 0; i < a.statics.size(); ++i)
    require(a.statics[i].pc == b.statics[i].pc &&
            a.statics[i].disassembly == b.statics[i].disassembly);
  for (std::size_t i = 0; i < taken.size(); ++i) {
    require(rows.sid[i] == taken.sid[i] && rows.addr[i] == taken.addr[i] &&
            rows.bits[i] == taken.bits[i]);
    for (unsigned s = 0; s < stage::count; ++s) require(rows.ticks[s][i] == taken.ticks[s][i]);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Choices choices(data, size);
  Gem5Text whole, pieces;
  feed(whole, data, size);
  whole.finish();

  std::vector<std::unique_ptr<fuzz::RoundTrip>> trips;
  std::vector<RowBatch> taken;
  const auto take = [&] {
    while (trips.size() < pieces.cpus().size()) {
      trips.push_back(std::make_unique<fuzz::RoundTrip>());
      taken.emplace_back();
    }
    for (std::size_t i = 0; i < trips.size(); ++i) {
      CpuStream& c = *pieces.cpus()[i];
      const RowBatch rows = c.take();
      taken[i].append(rows, 0, rows.size());
      trips[i]->add(rows, pieces.arch(), c.statics, choices);
    }
  };
  const std::size_t longest = 1 + choices.below(choices.below(2) ? 64 : 16384);
  for (std::size_t at = 0; at < size;) {
    const std::size_t n = std::min(size - at, choices.below(longest + 1));
    feed(pieces, data + at, n);
    at += n;
    if (choices.below(4) == 0) take();
  }
  pieces.finish();
  take();

  require(whole.cpus().size() == pieces.cpus().size() && whole.arch() == pieces.arch());
  for (std::size_t i = 0; i < trips.size(); ++i) {
    check_same(*whole.cpus()[i], *pieces.cpus()[i], taken[i]);
    trips[i]->finish(pieces.cpus()[i]->statics, choices);
  }
  const Counters a = whole.counters(), b = pieces.counters();
  require(a.kinds().size() == b.kinds().size());
  for (const auto& [kind, one] : a.kinds()) {
    const auto it = b.kinds().find(kind);
    require(it != b.kinds().end() && it->second.count == one.count);
  }
  require(whole.bytes() == size && pieces.bytes() == size);
  return 0;
}
