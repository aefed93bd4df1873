#include "formats/tks/tks.hpp"

#include <algorithm>
#include <limits>
#include <vector>

namespace tracekit::tks {

namespace {

void put(std::string& out, std::uint64_t v) {
  while (v >= 0x80) {
    out.push_back(static_cast<char>(v | 0x80));
    v >>= 7;
  }
  out.push_back(static_cast<char>(v));
}

std::uint64_t zigzag(std::uint64_t difference) {
  return (difference << 1) ^ (difference >> 63 ? ~std::uint64_t{0} : 0);
}
std::uint64_t unzigzag(std::uint64_t v) { return (v >> 1) ^ (~(v & 1) + 1); }

void put_column(std::string& out, const std::string& column) {
  put(out, column.size());
  out += column;
}

// What addresses are differences from: the first access of an instruction from that of the same
// instruction last time, each further one from the access before it.
class AddressModel {
 public:
  explicit AddressModel(std::size_t encodings) : last_(encodings) {}
  std::uint64_t base(std::uint32_t encoding, bool first) const {
    return first ? last_[encoding] : previous_;
  }
  void saw(std::uint32_t encoding, bool first, std::uint64_t address) {
    if (first) last_[encoding] = address;
    previous_ = address;
  }

 private:
  std::vector<std::uint64_t> last_;
  std::uint64_t previous_{};
};

class Reader {
 public:
  Reader(std::string_view data, std::size_t offset) : data_(data), base_(offset) {}
  std::uint64_t varint() {
    std::uint64_t v = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (at_ == data_.size()) fail("it ends inside a number");
      const auto b = static_cast<std::uint8_t>(data_[at_++]);
      if (shift == 63 && b > 1) fail("a number of over 64 bits");
      v |= std::uint64_t{b & 0x7fU} << shift;
      if (b < 0x80) return v;
    }
    fail("a number of over 64 bits");
  }
  std::uint64_t at_most(std::uint64_t limit, const char* what) {
    const std::uint64_t v = varint();
    if (v > limit) fail(std::string(what) + " is larger than it can be");
    return v;
  }
  std::string_view take(std::uint64_t n) {
    if (n > data_.size() - at_) fail("it ends too early");
    const std::string_view v = data_.substr(at_, static_cast<std::size_t>(n));
    at_ += static_cast<std::size_t>(n);
    return v;
  }
  Reader column() {
    const std::uint64_t n = varint();
    const std::size_t from = base_ + at_;
    return Reader(take(n), from);
  }
  std::size_t left() const { return data_.size() - at_; }
  void finish() const {
    if (left() != 0) fail("bytes follow its end");
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw FormatFault("damaged block: " + what, base_ + at_);
  }

 private:
  std::string_view data_;
  std::size_t base_, at_{};
};

}  // namespace

std::string encode_text(BlockKind kind, std::string_view json) {
  std::string out(1, static_cast<char>(kind));
  out += json;
  return out;
}

std::string encode_code(const EncodingTable& table, std::size_t from, std::size_t to) {
  std::string out(1, static_cast<char>(BlockKind::code));
  put(out, from);
  put(out, to - from);
  std::string pcs, lengths, bytes;
  std::uint64_t last = 0;
  for (std::size_t i = from; i < to; ++i) {
    const Encoding& e = table[static_cast<std::uint32_t>(i)];
    put(pcs, zigzag(e.pc - last));
    last = e.pc;
    lengths.push_back(static_cast<char>(e.length));
    bytes += e.code();
  }
  put_column(out, pcs);
  put_column(out, lengths);
  put_column(out, bytes);
  return out;
}

std::string encode_epoch(const EpochInfo& info, const NativeBatch& batch) {
  std::string out(1, static_cast<char>(BlockKind::epoch));
  put(out, epoch_field_names.size());
#define X(name) put(out, info.name);
  TRACEKIT_EPOCH_FIELDS(X)
#undef X
  put(out, batch.size());
  put(out, batch.accesses());
  std::uint32_t top = 0;
  for (std::size_t i = 0; i < batch.size(); ++i) top = std::max(top, batch.encoding[i]);
  AddressModel model(batch.size() ? std::size_t{top} + 1 : 0);
  std::string ids, bits, counts, addresses, sizes;
  std::uint64_t last = 0;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const std::uint32_t id = batch.encoding[i];
    put(ids, zigzag(id - last));
    last = id;
    bits.push_back(static_cast<char>(batch.bits[i]));
    const std::size_t begin = batch.first_access[i], end = batch.end_access(i);
    put(counts, end - begin);
    for (std::size_t a = begin; a < end; ++a) {
      put(addresses, zigzag(batch.address[a] - model.base(id, a == begin)));
      model.saw(id, a == begin, batch.address[a]);
      put(sizes, std::uint64_t{batch.access_size[a]} << 1 | batch.is_store[a]);
    }
  }
  for (const std::string* c : {&ids, &bits, &counts, &addresses, &sizes}) put_column(out, *c);
  return out;
}

namespace {

// Machine code for the table, behind what is in it.
void read_code(Reader in, EncodingTable& encodings) {
  if (in.varint() != encodings.size()) in.fail("machine code is missing before it");
  const std::uint64_t n =
      in.at_most(max_encodings - encodings.size(), "its number of instructions");
  Reader pcs = in.column(), lengths = in.column(), bytes = in.column();
  in.finish();
  if (lengths.left() != n) lengths.fail("lengths and instructions differ in number");
  std::vector<Encoding> fresh;
  fresh.reserve(static_cast<std::size_t>(n));
  std::uint64_t pc = 0;
  for (std::uint64_t i = 0; i < n; ++i) {
    Encoding e;
    e.pc = pc += unzigzag(pcs.varint());
    e.length = static_cast<std::uint8_t>(lengths.take(1)[0]);
    if (e.length == 0 || e.length > Encoding::max_bytes) lengths.fail("an impossible length");
    e.known = true;
    const std::string_view code = bytes.take(e.length);
    std::memcpy(e.bytes.data(), code.data(), code.size());
    fresh.push_back(e);
  }
  pcs.finish();
  bytes.finish();
  for (const Encoding& e : fresh) {
    const std::size_t before = encodings.size();
    if (encodings.intern(e) != before) bytes.fail("the same instruction twice");
  }
}

// An epoch's rows; its fields go to `info`.
NativeBatch read_epoch(Reader in, const EncodingTable& encodings, EpochInfo& info) {
  const std::uint64_t fields = in.at_most(1024, "its number of fields");
  std::uint64_t seen = 0;
#define X(name) \
  if (seen < fields) info.name = in.varint(), ++seen;
  TRACEKIT_EPOCH_FIELDS(X)
#undef X
  for (; seen < fields; ++seen) in.varint();  // a later version's
  if (info.reason >= end_reason_names.size()) in.fail("an unknown reason of the end");
  const std::uint64_t n = in.varint(), n_accesses = in.varint();
  Reader ids = in.column(), bits = in.column(), counts = in.column(), addresses = in.column(),
         sizes = in.column();
  in.finish();
  // Every element takes a byte at least, so these also bound what is allocated.
  if (bits.left() != n || ids.left() < n || counts.left() < n)
    bits.fail("columns and instructions differ in number");
  if (addresses.left() < n_accesses || sizes.left() < n_accesses)
    addresses.fail("columns and accesses differ in number");
  NativeBatch batch;
  batch.encoding.reserve(static_cast<std::size_t>(n));
  batch.bits.reserve(static_cast<std::size_t>(n));
  batch.first_access.reserve(static_cast<std::size_t>(n));
  batch.address.reserve(static_cast<std::size_t>(n_accesses));
  batch.access_size.reserve(static_cast<std::size_t>(n_accesses));
  batch.is_store.reserve(static_cast<std::size_t>(n_accesses));
  AddressModel model(encodings.size());
  std::uint64_t id = 0;
  for (std::uint64_t i = 0; i < n; ++i) {
    id += unzigzag(ids.varint());
    if (id >= encodings.size()) ids.fail("an instruction without machine code");
    const auto encoding = static_cast<std::uint32_t>(id);
    batch.add_instruction(encoding, static_cast<std::uint8_t>(bits.take(1)[0]));
    const std::uint64_t k = counts.varint();
    if (k > n_accesses - batch.accesses()) counts.fail("more accesses than it says");
    for (std::uint64_t a = 0; a < k; ++a) {
      const std::uint64_t address = model.base(encoding, a == 0) + unzigzag(addresses.varint());
      model.saw(encoding, a == 0, address);
      const std::uint64_t size = sizes.at_most(
          std::uint64_t{std::numeric_limits<std::uint32_t>::max()} << 1 | 1, "a size");
      batch.add_access(address, static_cast<std::uint32_t>(size >> 1), (size & 1) != 0);
    }
  }
  if (batch.accesses() != n_accesses) counts.fail("fewer accesses than it says");
  ids.finish();
  counts.finish();
  addresses.finish();
  sizes.finish();
  return batch;
}

}  // namespace

BlockKind Decoder::block(std::string_view payload) {
  if (payload.empty()) throw FormatFault("an empty block", 0);
  if (payload.size() > max_block) throw FormatFault("a block of over 1 GiB", 0);
  const auto kind = static_cast<BlockKind>(payload[0]);
  Reader in(payload.substr(1), 1);
  switch (kind) {
    case BlockKind::meta:
    case BlockKind::end:
    case BlockKind::maps:
      text_ = payload.substr(1);
      return kind;
    case BlockKind::code:
      read_code(in, *encodings_);
      return kind;
    case BlockKind::epoch: {
      EpochInfo info;
      batch_ = read_epoch(in, *encodings_, info);
      info_ = info;
      return kind;
    }
  }
  throw FormatFault("a block of unknown kind " + std::to_string(static_cast<int>(kind)), 0);
}

}  // namespace tracekit::tks
