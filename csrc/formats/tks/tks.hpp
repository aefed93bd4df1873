// The blocks of a recording (.tks, docs/tks-format.md), without the file around them: bytes in,
// columns out, and back.  What is decoded is untrusted.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "formats/common/format_fault.hpp"
#include "formats/common/native_batch.hpp"

namespace tracekit::tks {

enum class BlockKind : std::uint8_t { meta = 1, code = 2, epoch = 3, end = 4, maps = 5 };

// Why an epoch ended.  The numbers are the file's: append only.
#define TRACEKIT_END_REASONS(X)                                                       \
  X(length)          /* it has as many instructions as were asked for */              \
  X(system_call)     /* the copy came to one that may not run; detail = its number */ \
  X(signal)          /* a fault without a handler; detail = the signal */             \
  X(shared_memory)   /* the copy was about to write memory that others see */         \
  X(program_ended)   /* the program ended while its copy was being stepped */         \
  X(exited)          /* the stepped thread itself ended; detail = its wait status */  \
  X(time)            /* it took longer than a copy may live */                        \
  X(accesses)        /* it has as many accesses as an epoch may hold */               \
  X(unreadable_code) /* no code could be read or decoded at the pc */                 \
  X(interrupt)       /* an int, sysenter or the like */                               \
  X(user)            /* the recording was ended */                                    \
  X(exec)            /* the program became another one */

}  // namespace tracekit::tks

namespace tracekit {

enum class EndReason : std::uint8_t {
#define X(name) name,
  TRACEKIT_END_REASONS(X)
#undef X
};
inline constexpr std::array end_reason_names = {
#define X(name) std::string_view(#name),
    TRACEKIT_END_REASONS(X)
#undef X
};

namespace tks {

// One epoch's numbers.  In the file they are varints in this order; a later version may add more.
#define TRACEKIT_EPOCH_FIELDS(X)                                                \
  X(number) /* from 0 */                                                        \
  X(pid)                                                                        \
  X(tid)                                                                        \
  X(in_place)   /* 1: the program itself was stepped, not a copy */             \
  X(start_ns)   /* since the recording began */                                 \
  X(pause_ns)   /* the program stood still for this long */                     \
  X(step_ns)    /* the copy lived for this long */                              \
  X(cpu_ns)     /* processor time of copy and recorder */                       \
  X(faults)     /* pages that the program had to copy, as far as can be told */ \
  X(requested)  /* instructions asked for */                                    \
  X(steps)      /* single steps made */                                         \
  X(unrecorded) /* accesses left out */                                         \
  X(reason)     /* EndReason */                                                 \
  X(detail)

struct EpochInfo {
#define X(name) std::uint64_t name{};
  TRACEKIT_EPOCH_FIELDS(X)
#undef X
};
inline constexpr std::array epoch_field_names = {
#define X(name) std::string_view(#name),
    TRACEKIT_EPOCH_FIELDS(X)
#undef X
};

inline constexpr std::size_t max_block = std::size_t{1} << 30;          // bytes of a payload
inline constexpr std::uint64_t max_encodings = std::uint64_t{1} << 28;  // over the whole file

// Payloads, their kind byte first.
std::string encode_text(BlockKind kind, std::string_view json);
std::string encode_code(const EncodingTable& table, std::size_t from, std::size_t to);
std::string encode_epoch(const EpochInfo& info, const NativeBatch& batch);

// Decodes block after block; FormatFault (offset in the payload) says what is wrong, and then it is
// of no further use.
class Decoder {
 public:
  // `table` is empty, and is filled by nobody else while this reads a file.
  explicit Decoder(EncodingTable& table) : encodings_(&table) {}
  // The kind of what was decoded: a text is then in text(), an epoch in info() and batch().
  BlockKind block(std::string_view payload);
  const EpochInfo& info() const { return info_; }
  NativeBatch& batch() { return batch_; }
  std::string_view text() const { return text_; }

 private:
  EncodingTable* encodings_;
  EpochInfo info_;
  NativeBatch batch_;
  std::string text_;
};

}  // namespace tks
}  // namespace tracekit
