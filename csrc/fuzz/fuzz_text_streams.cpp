// Any text as QEMU's execlog or Valgrind's lackey, in any pieces: the same instructions as in one
// piece, and their rows come back from the codec as they were.  Byte 0: which of the two, and the
// ISA.
#include <cstring>

#include "formats/common/format_fault.hpp"
#include "formats/common/native_append.hpp"
#include "formats/text_streams/text_streams.hpp"
#include "fuzz/native_trip.hpp"

namespace {

using namespace tracekit;

template <class T>
bool same(const Column<T>& a, const Column<T>& b) {
  return a.size() == b.size() &&
         (a.size() == 0 || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  fuzz::Choices choices(data, size);
  const TextStream format = data[0] & 1 ? TextStream::execlog : TextStream::lackey;
  const auto arch = static_cast<Arch>(data[0] / 2 % 4);
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  EncodingTable table, whole_table;
  TextStreamParser parser(table, format, arch), whole(whole_table, format, arch);
  fuzz::NativeTrip trip(table, Described::branch_kind, data[0] & 8, choices);
  NativeBatch all, batch, at_once;
  const auto drain = [&] {
    parser.take(batch);
    append_rows(all, batch, 0, batch.size());
    trip.add(batch);
  };
  const std::size_t longest = 1 + choices.below(choices.below(2) ? 64 : 16384);
  try {
    whole.feed(text);
    whole.finish();
  } catch (const FormatFault&) {
    return 0;
  }
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view piece = text.substr(at, choices.below(longest + 1));
    parser.feed(piece);
    at += piece.size();
    if (choices.below(4) == 0) drain();
  }
  parser.finish();
  drain();
  trip.finish();
  whole.take(at_once);
  fuzz::require(parser.lines() == whole.lines() && table.size() == whole_table.size());
  fuzz::require(same(all.encoding, at_once.encoding) && same(all.bits, at_once.bits));
  fuzz::require(same(all.first_access, at_once.first_access) && same(all.address, at_once.address));
  fuzz::require(same(all.is_store, at_once.is_store));
  return 0;
}
