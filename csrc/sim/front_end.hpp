// The way from the fetch queue to rename.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>

#include "sim/cause.hpp"
#include "sim/core_parameters.hpp"
#include "sim/cycle.hpp"
#include "sim/ring.hpp"

namespace tracekit {

// A stage that cannot go on keeps the rows in flight to it, and the stage before learns of it a
// cycle later; it learns that it may go on, again a cycle later, when all of that is gone: at once
// where nothing has come meanwhile (gem5's skid buffers: block and unblock of Decode and Rename).
template <bool Why>
class FrontEnd {
 public:
  using At = Stamp<Why>;
  // A stage's last cycle with rows, and how many.
  struct Stage {
    At at{};
    int rows{};
    At next(At from, int width) const {
      if (from.after(at)) return from;
      return rows >= width ? (at + 1).because(Cause::front_end_width) : at;
    }
    // At `from`, which is the next one or later.
    void go(At from) {
      rows = from.after(at) ? 1 : rows + 1;
      at = from;
    }
    // Both at once.
    At take(At from, int width) {
      if (from.after(at)) {
        at = from;
        rows = 1;
      } else if (rows >= width) {
        at = (at + 1).because(Cause::front_end_width);
        rows = 1;
      } else {
        ++rows;
      }
      return at;
    }
    // Its last row comes at `to`, which is not before.
    void put_off(At to) {
      if (to.after(at)) rows = 1;
      at = to;
    }
  };

  explicit FrontEnd(const CoreParameters& p)
      : width_(p.width()),
        to_decode_(p.front_delay()),
        to_rename_(p.decode_to_rename()),
        queue_(static_cast<unsigned>(p.fetch_queue())),
        sent_(queue_, At{long_ago, Cause::base}),
        // A row on its way begins two at most.
        stalls_(static_cast<std::size_t>(2 * (to_decode_ + to_rename_ + 4) * width_)) {}

  // When the fetch queue has a place for a row.
  At room(std::uint64_t row) const { return sent_[row - queue_] + 1; }
  // Decode had its last row then.
  At decoded() const { return decodes_.at; }

  // When rename gets the row, which is fetched at `fetched`.  It had the last one at `renamed`.
  [[gnu::always_inline]] At arrive(std::uint64_t row, At fetched, At renamed) {
    if (stalls()) return arrive_behind_stalls(row, fetched, renamed);
    const At at = sends_.take(fetched, width_);
    sent_[row] = at;
    return decodes_.take(at + to_decode_, width_) + to_rename_;
  }
  // Rename cannot go on at `from`, with rows that have come then, until it has taken them all.
  void block(Cycle from) {
    if (!open()) add({.from = from});
  }
  // It cannot from `from` until `until`, whether a row has come by then or not, unless the next one
  // comes before.
  void block(Cycle from, At until) {
    announced_ = {.from = from, .renamed = until};
    is_announced_ = true;
    if (!open()) announce();
  }
  // What is on its way is squashed.
  void squash() {
    first_to_send_ = first_to_decode_ = end_;
    is_announced_ = was_announced_ = false;
  }
  // The same, and rename takes nothing from `from` until `until`.
  void squash(Cycle from, At until) {
    squash();
    add({.from = from, .renamed = until});
  }

  // What rows of a wrong path go on from, and what those behind them do: they are `row + 1` to
  // `end`.
  std::pair<Stage, Stage> stages() const { return {sends_, decodes_}; }
  void back_to(const std::pair<Stage, Stage>& stages, std::uint64_t row, std::uint64_t end) {
    std::tie(sends_, decodes_) = stages;
    while (row != end) sent_[++row] = {long_ago, Cause::base};
  }

 private:
  // Decode has its last row at `from`, fetch sends its last one a cycle later.  They hear that they
  // may go on behind `renamed`, and `decoded`: not before that while it is not known.
  struct Stall {
    Cycle from{};
    At renamed{}, decoded{};
    bool rename_goes_on{}, decode_goes_on{};
  };
  bool stalls() const { return first_to_send_ != end_; }
  At arrive_behind_stalls(std::uint64_t row, At fetched, At renamed) {
    At at = sends_.next(fetched, width_);
    if (at.at() > stalls_[first_to_send_].from + 1) [[unlikely]]
      at = send(at, renamed);
    sends_.go(at);
    sent_[row] = at;
    at = at + to_decode_;
    if (!stalls()) return decodes_.take(at, width_) + to_rename_;
    const At decoded = decode(at, decodes_.next(at, width_), renamed);
    decodes_.go(decoded);
    return decoded + to_rename_;
  }
  // Whether rename has not gone on since the last stall began.
  bool open() const { return first_to_decode_ != end_ && !stalls_[end_ - 1].rename_goes_on; }
  void add(Stall stall) { stalls_[end_++] = stall; }
  void announce() {
    if (!is_announced_) return;
    add(announced_);
    is_announced_ = false;
    was_announced_ = true;
  }
  void rename_goes_on(Stall& stall, At renamed) {
    if (stall.rename_goes_on) return;
    stall.renamed = later(stall.renamed, renamed);
    stall.rename_goes_on = true;
    announce();
  }
  void decode_goes_on(Stall& stall) {
    stall.decoded = later(stall.renamed + 1, decodes_.at);
    stall.decode_goes_on = true;
  }
  At send(At at, At renamed) {
    for (; first_to_send_ != end_ && at.at() > stalls_[first_to_send_].from + 1; ++first_to_send_) {
      Stall& stall = stalls_[first_to_send_];
      rename_goes_on(stall, renamed);
      if (!stall.decode_goes_on) decode_goes_on(stall);
      at = later(at, stall.decoded + 1);
    }
    first_to_decode_ = std::max(first_to_decode_, first_to_send_);
    return at;
  }
  At decode(At come, At at, At renamed) {
    for (; first_to_decode_ != end_ && at.at() > stalls_[first_to_decode_].from;
         ++first_to_decode_) {
      Stall& stall = stalls_[first_to_decode_];
      rename_goes_on(stall, renamed);
      at = later(at, stall.renamed + 1);
    }
    // The row is the first that comes to decode, or to rename, when nothing waits there any more.
    if (come.after(decodes_.at))
      for (std::uint64_t k = first_to_send_; k != end_; ++k) {
        Stall& stall = stalls_[k];
        if (stall.rename_goes_on && !stall.decode_goes_on && come.after(stall.renamed))
          decode_goes_on(stall);
      }
    const Cycle there = at.at() + to_rename_;
    if (there > renamed.at())
      for (std::uint64_t k = first_to_decode_; k != end_; ++k)
        if (there >= stalls_[k].renamed.at()) rename_goes_on(stalls_[k], renamed);
    if (was_announced_ && there < announced_.from) --end_;
    is_announced_ = was_announced_ = false;  // the row waits with those before it
    return at;
  }

  int width_;
  Cycle to_decode_, to_rename_;
  unsigned queue_;
  Stage sends_, decodes_;  // sends: from the fetch queue
  Ring<At> sent_;
  Ring<Stall> stalls_;
  std::uint64_t first_to_send_{}, first_to_decode_{}, end_{};
  Stall announced_{};
  bool is_announced_{}, was_announced_{};
};

}  // namespace tracekit
