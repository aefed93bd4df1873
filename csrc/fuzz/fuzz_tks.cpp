// Any bytes as the blocks of a recording (u32 size, payload, ...): what decodes is encoded and
// decoded again to the same, and its rows come back from the codec as they were.
#include <cstdlib>
#include <cstring>

#include "formats/tks/tks.hpp"
#include "fuzz/native_trip.hpp"

namespace {

using namespace tracekit;

void expect(bool holds) {
  if (!holds) std::abort();
}

template <class T>
bool same(const Column<T>& a, const Column<T>& b) {
  return a.size() == b.size() &&
         (a.size() == 0 || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  EncodingTable table, again_table;
  tks::Decoder decoder(table), again(again_table);
  std::size_t known = 0;
  fuzz::NativeTrip trip(table, Described::branch_kind, size & 1, fuzz::Choices(data, size));
  while (size >= 4) {
    std::uint32_t n;
    std::memcpy(&n, data, 4);
    data += 4;
    size -= 4;
    n = static_cast<std::uint32_t>(std::min<std::size_t>(n, size));
    const std::string_view payload(reinterpret_cast<const char*>(data), n);
    data += n;
    size -= n;
    try {
      switch (decoder.block(payload)) {
        case tks::BlockKind::code:
          again.block(tks::encode_code(table, known, table.size()));
          known = table.size();
          expect(again_table.size() == known);
          for (std::uint32_t i = 0; i < known; ++i) expect(again_table[i] == table[i]);
          break;
        case tks::BlockKind::epoch: {
          const NativeBatch& a = decoder.batch();
          again.block(tks::encode_epoch(decoder.info(), a));
          const NativeBatch& b = again.batch();
          expect(same(a.encoding, b.encoding) && same(a.bits, b.bits));
          expect(same(a.first_access, b.first_access) && same(a.address, b.address));
          expect(same(a.access_size, b.access_size) && same(a.is_store, b.is_store));
          trip.add(a);
          break;
        }
        default:
          break;
      }
    } catch (const FormatFault&) {
      break;
    }
  }
  trip.finish();
  return 0;
}
