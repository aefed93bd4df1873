// What QEMU's plug-in sends (csrc/record/qemu/wire.h) to native batches: one object for each
// connection, that is for each process between two executions of a program.
//
// A block's instructions become rows as the events show that they ran: up to the last one of a
// block that came to it, and of one that a fault left before, up to the instruction that faulted.
// Parts of an access are joined to the width that the instruction has, the rounds of a repeated
// string instruction to one row.
//
// Before a sample come the lines that were touched since the one before: they become a stretch of
// their own, of loads and stores at pcs where no program lies (core/touched_lines.hpp).
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/counters.hpp"
#include "core/static_inst.hpp"
#include "formats/common/native_batch.hpp"

namespace tracekit::record {

// What must be known of an instruction to make rows of events.
struct QemuTraits {
  BranchKind branch{};
  bool loads{}, stores{};  // in every run that is completed
  bool may_fault{};
  bool rep{};
  bool silent{};  // its accesses are no events in QEMU before registers could be read (9.0)
  bool area{};    // one access, of `load_size` or `store_size` bytes (0 = unknown)
  bool ends{};    // a system call: the last one of a thread does not return
  static constexpr std::uint32_t no_loads = ~std::uint32_t{0};  // what QEMU loads is its own affair
  std::uint32_t load_size{}, store_size{};  // of one access: parts are joined up to this
  bool direct{};
  std::uint64_t target{};  // of a direct branch
};

// The machine code of all processes, and its traits.
class QemuCode {
 public:
  using Describe = std::function<std::vector<QemuTraits>(const std::vector<Encoding>&)>;
  // `load` and `store`: machine code that stands for a touched line (samples).
  QemuCode(EncodingTable& table, Describe describe, std::string load, std::string store)
      : table_(&table),
        describe_(std::move(describe)),
        load_(std::move(load)),
        store_(std::move(store)) {}
  std::string_view touch(bool store) const { return store ? store_ : load_; }
  std::uint32_t intern(std::uint64_t pc, std::string_view code) { return table_->intern(pc, code); }
  void describe_new();
  const Encoding& encoding(std::uint32_t id) const { return (*table_)[id]; }
  const QemuTraits& traits(std::uint32_t id) const { return traits_[id]; }

 private:
  EncodingTable* table_;
  Describe describe_;
  std::string load_, store_;
  std::vector<QemuTraits> traits_;
};

class QemuStream {
 public:
  // Instructions of one thread that follow each other; `ns` is when the first one ran, about.
  struct Piece {
    std::uint64_t tid{}, ns{}, silent{};
    NativeBatch rows;
  };
  struct Text {
    std::uint32_t kind{};
    std::string content;
  };

  QemuStream(QemuCode& code, std::size_t piece) : code_(&code), piece_(piece) {}
  // Takes bytes of the connection, cut anywhere.  FormatFault for what no plug-in sends.  After a
  // hello that inherits blocks what follows waits for `inherit`.
  void feed(std::string_view bytes);
  bool waits() const { return waits_; }
  // The blocks that a process had when it forked this one.
  void inherit(const QemuStream& parent, std::uint64_t blocks);
  std::size_t blocks() const { return blocks_.size(); }
  // The buffer that a process left, with events that it could not send.
  void leftover(std::string_view file);
  void finish();

  std::vector<Piece> take();
  std::vector<Text> take_texts();
  const Counters& anomalies() const { return anomalies_; }
  // Runs of instructions whose accesses are no events, by encoding.
  const std::map<std::uint32_t, std::uint64_t>& silent() const { return silent_; }
  // How often each encoding ran in the whole run, where the plug-in counted it (samples).
  std::map<std::uint32_t, std::uint64_t> executed() const;

 private:
  struct Block {
    std::uint64_t first{};  // in code_of_
    std::uint32_t n{};
  };
  struct Thread {
    NativeBatch rows;
    std::uint64_t ns{}, high{}, silent{};
    const Block* block{};
    std::uint32_t next{};  // the first instruction of the block that is no row yet
    std::uint32_t from{}, unto{};
    bool reached{};
    bool joins{};             // the next block's first instruction may be another round
    bool continues{};         // rows were made before
    std::uint32_t last{};     // encoding of the last row
    std::size_t kept_from{};  // the last row's first access
    bool loaded{}, stored{};  // the last row has such accesses
    bool dropped{};           // a row that was made of a fault was taken back
    std::uint64_t dropped_pc{};
  };
  void frame(std::uint32_t kind, std::uint32_t tid, std::uint32_t sequence, std::uint64_t ns,
             std::string_view payload);
  void define(std::string_view payload);
  void events(std::uint64_t tid, std::uint64_t ns, std::string_view words);
  void lines(std::uint64_t tid, std::uint64_t ns, std::string_view words);
  void count(std::string_view words);
  void hand_out(std::uint64_t tid, Thread& t);
  void event(Thread& t, std::uint64_t word);
  void begin_block(Thread& t, std::uint64_t word);
  void end_block(Thread& t, const Block* following);
  void interrupted(Thread& t, const Block* following);
  void access(Thread& t, std::uint64_t word, bool store);
  void row(Thread& t, std::uint32_t index);
  void drop_last(Thread& t);
  std::uint8_t decide(Thread& t, std::uint64_t next_pc);
  void cut(std::uint64_t tid, Thread& t);
  void settle(Thread& t);
  void count_silent(Thread& t);
  static bool incomplete(const Thread& t, const QemuTraits& traits) {
    return (traits.loads && !t.loaded) || (traits.stores && !t.stored);
  }
  std::uint32_t at(const Block& b, std::uint32_t index) const { return code_of_[b.first + index]; }

  QemuCode* code_;
  std::size_t piece_;
  std::string rest_;
  bool waits_{}, greeted_{};
  std::deque<Block> blocks_;
  std::vector<std::uint32_t> code_of_;
  std::map<std::uint64_t, Thread> threads_;
  std::map<std::uint64_t, std::uint64_t> sent_;  // thread -> sequence of its last frame
  std::uint64_t running_{};                      // the thread whose events came last
  std::vector<Piece> pieces_;
  std::vector<Text> texts_;
  Counters anomalies_;
  std::map<std::uint32_t, std::uint64_t> silent_;
  std::map<std::uint64_t, std::pair<std::uint64_t, std::uint64_t>> runs_;  // block -> runs, joined
};

}  // namespace tracekit::record
