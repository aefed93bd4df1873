// The two files of PerfVec's authors, a form feed between them, in any pieces; rows through the
// codec.
#include <algorithm>
#include <memory>

#include "formats/perfvec_text/perfvec_text.hpp"
#include "fuzz/round_trip.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tracekit;
  fuzz::Choices choices(data, size);
  const std::uint8_t* const end = data + size;
  const std::uint8_t* const middle = std::find(data, end, std::uint8_t{'\f'});
  const std::uint8_t* stores = std::min(middle + 1, end);
  const std::size_t longest = 1 + choices.below(choices.below(2) ? 64 : 16384);
  const auto piece = [&](const std::uint8_t*& at, const std::uint8_t* upto, auto&& give) {
    const std::size_t n = std::min(static_cast<std::size_t>(upto - at), choices.below(longest) + 1);
    const std::unique_ptr<char[]> copy(new char[n]);
    if (n) std::memcpy(copy.get(), at, n);
    at += n;
    give(copy.get(), n);
  };
  PerfvecText text;
  fuzz::RoundTrip trip;
  const auto take = [&] {
    trip.add(text.rows(), Arch::unknown, text.statics(), choices);
    text.rows().clear();
  };
  for (const std::uint8_t* at = data; at < middle;) {
    piece(at, middle, [&](const char* p, std::size_t n) { text.feed(p, n); });
    while (text.wants_stores()) {
      if (stores == end)
        text.stores_end();
      else
        piece(stores, end, [&](const char* p, std::size_t n) { text.feed_stores(p, n); });
    }
    take();
  }
  text.finish();
  take();
  trip.finish(text.statics(), choices);
  return 0;
}
