// The port through which the first data cache sends to the second level.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <deque>
#include <iterator>

#include "sim/cycle.hpp"

namespace tracekit {

// One thing at a time: requests, and lines that are written back.  Lines go when there is no
// request, or when so many wait that the cache takes no access until some have left (gem5's
// BaseCache::getNextQueueEntry, Blocked_NoWBBuffers).
class SendPort {
 public:
  // A line waits from `at` on; the second level has room for it from `room` on.
  void write_back(Cycle at, Cycle room) {
    while (lines_.size() >= most) send_line();
    auto place = lines_.end();
    while (place != lines_.begin() && std::prev(place)->at > at) --place;
    lines_.insert(place, {at, room});
  }
  // When the cache takes an access that comes at `at`.
  Cycle taken_at(Cycle at) {
    send_before(at);
    while (waiting(at) >= write_buffers) at = std::max(at, send_line());
    return at;
  }
  // When a request is sent that is ready at `ready`.
  Cycle request(Cycle ready) {
    send_before(ready);
    while (waiting(std::max(ready, free_)) >= write_buffers) send_line();
    return std::max(ready, free_);
  }
  // It was: at `at`, and nothing else meanwhile.
  void sent(Cycle ready, Cycle at) {
    free_ = std::max(free_, at + 1);
    busy(ready, at + 1);
  }
  // The first cycle from `at` on, and before `until`, in which nothing is sent and nothing waits.
  Cycle idle_from(Cycle at, Cycle until) {
    if (at >= until) return at;
    while (at < until) {
      send_before(at);
      const Cycle idle = behind_busy(at);
      if (idle == at) return at;
      at = idle;
    }
    send_before(until - 1);
    return until;
  }

 private:
  static constexpr std::size_t write_buffers = 8;  // gem5's default
  static constexpr Cycle line_takes = 3;           // of the crossbar: its head and 64 bytes
  static constexpr std::size_t most = 64;          // that are kept: earlier ones go in their turn
  struct Line {
    Cycle at, room;
  };
  struct Busy {
    Cycle from{}, to{};
  };
  std::size_t waiting(Cycle at) const {
    std::size_t n = 0;
    while (n < lines_.size() && lines_[n].at <= at) ++n;
    return n;
  }
  // The cycle behind those from `at` on in which something is sent, or a line waits that has not
  // been sent before; `at` itself where it is idle.
  Cycle behind_busy(Cycle at) const {
    if (!lines_.empty() && lines_.front().at <= at) return std::max(free_, at) + 1;
    for (const Busy& b : busy_)
      if (b.from <= at && at < b.to) return b.to;
    return at;
  }
  void busy(Cycle from, Cycle to) { busy_[busies_++ % busy_.size()] = {from, to}; }
  // The first line; until when that takes.
  Cycle send_line() {
    const Line line = lines_.front();
    lines_.pop_front();
    const Cycle from = std::max(free_, line.at);
    free_ = std::max(from, line.room) + line_takes;
    busy(from, free_);
    return free_;
  }
  void send_before(Cycle at) {
    while (!lines_.empty() && std::max(free_, lines_.front().at) < at) send_line();
  }

  std::deque<Line> lines_;  // by when they came
  std::array<Busy, 32> busy_{};
  std::size_t busies_{};
  Cycle free_{};
};

}  // namespace tracekit
