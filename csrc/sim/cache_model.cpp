#include "sim/cache_model.hpp"

#include <algorithm>
#include <utility>

namespace tracekit {
namespace {

// Cycles that the parts between the levels take (gem5's crossbars with their default latencies).
constexpr Cycle to_second = 1, from_second = 1, to_third = 2, to_memory = 11, zeroed = 8;
constexpr Cycle fetch_response = 1;  // of the instruction cache
// Of a cache's response latency (gem5's Cache::serviceMSHRTargets) these have one cycle.
constexpr Cycle in_constants = 1;
// Of a line: when its first byte that was asked for is there, the rest of it comes, and until it
// has the line is not there for others.
constexpr Cycle rest_of_line = 2;
// The same of a line that only the right to write it came for.
constexpr Cycle rest_of_upgrade = 1;
// After an MSHR is free again: until a store, or a cache's request, is sent again.
constexpr Cycle retry = 1;
// Cycles that a line takes of a crossbar, and a request: 32 bytes a cycle between caches, 16 before
// the memory, and one for the head.
constexpr double line_between = 3, line_to_memory = 5, head = 1;

// Lines that a prefetcher may want at a time (gem5's queue_size), and for how many cycles behind an
// access they are sent without a look at the next one.
constexpr std::size_t most_wanted = 32;
constexpr Cycle prefetch_turns = 8;

}  // namespace

CacheHierarchy::CacheHierarchy(const CoreParameters& p)
    : p_(p),
      l1i_(p.l1i_kb(), p.l1i_assoc()),
      l1d_(p.l1d_kb(), p.l1d_assoc(), p.l1d_replacement()),
      l2_(p.l2_kb(), p.l2_assoc(), p.l2_replacement()),
      l3_(std::max(1, p.l3_kb()), p.l3_assoc(), p.l3_replacement()),
      l1d_mshrs_(p.l1d_mshrs()),
      l2_mshrs_(p.l2_mshrs()),
      retry_load_(p.in_order() ? retry : p.issue_to_exec() + p.agu_lat()),
      memory_(p),
      l1d_prefetcher_(p.l1d_prefetch()),
      l2_prefetcher_(p),
      unloaded_(to_memory + Memory::unloaded(p)) {}

void CacheHierarchy::restore(warm::ContentsByShape& contents, const PrefetchedCaches* own) {
  l1i_.restore(contents.first(l1i_.shape(), true), 0);
  to_l1d_.clear();
  const auto behind = [&](const Cache& cache) {
    return contents.behind(cache.shape(), l1i_.shape(), l1d_.shape());
  };
  if (own) {
    l1d_.restore(own->l1d());
    l2_.restore(own->l2());
  } else {
    l1d_.restore(contents.first(l1d_.shape(), false), 0);
    l2_.restore(behind(l2_), l1d_.size_bit());
  }
  if (p_.l3_kb()) l3_.restore(behind(l3_), l2_.size_bit());
}

void CacheHierarchy::write_back(Cycle at, std::uint64_t line) {
  written_ =
      std::max(written_, memory_.write(memory_request_crossbar_.place(at, line_to_memory), line));
}

void CacheHierarchy::fill_l3(std::uint64_t line, Cycle ready, bool dirty) {
  const std::uint64_t gone = l3_.put(line, ready, dirty, 0, false, served_);
  if (gone != no_line) write_back(now_, gone);
}

void CacheHierarchy::fill_l2(std::uint64_t line, Cycle ready, bool dirty, bool prefetched) {
  const std::uint64_t gone = l2_.put(line, ready, dirty, 0, prefetched, served_);
  if (gone == no_line) return;
  if (!p_.l3_kb()) {
    write_back(now_, gone);
    return;
  }
  l3_request_crossbar_.place(now_, line_between);
  if (Cache::Way* w = l3_.find(gone))
    w->dirty = true;
  else
    fill_l3(gone, ready, true);
}

Cache::Way CacheHierarchy::asked_for(std::uint64_t line, Cycle asked, Cycle ready, bool dirty,
                                     bool prefetched) const {
  return {.line = line,
          .ready = ready,
          .taken = static_cast<std::int32_t>(ready - asked),
          .dirty = dirty,
          .prefetched = prefetched,
          .shared = from_dirty_ && (prefetched || !storing_),
          .targets = 1,
          .source = served_};
}

Cache::Way& CacheHierarchy::fill_l1d(std::uint64_t line, Cycle asked, Cycle ready, bool dirty,
                                     bool prefetched) {
  return to_l1d_.add(ready - p_.l1d_response(), asked_for(line, asked, ready, dirty, prefetched));
}

std::optional<Cycle> CacheHierarchy::put_l1d(const Cache::Way& way, Cycle at) {
  const std::uint64_t gone = l1d_.put(way);
  if (gone == no_line) return {};
  l2_request_crossbar_.place(at, line_between);
  if (Cache::Way* w = l2_.find(gone)) {
    w->dirty = true;
    return at;
  }
  const Cycle before = std::exchange(now_, at);
  written_ = 0;
  fill_l2(gone, way.ready, true);
  now_ = before;
  return written_ - static_cast<Cycle>(Memory::queued_writes * p_.memory_write_);
}

Cache::Way* CacheHierarchy::find_l1d(std::uint64_t line, Cycle at) {
  to_l1d_.land(at, [this](Cycle there, const Cache::Way& way) {
    if (const auto room = put_l1d(way, there)) l1d_port_.write_back(there, *room);
  });
  Cache::Way* const w = l1d_.find(line);
  return w ? w : to_l1d_.find(line);
}

Cycle CacheHierarchy::from_memory(Cycle at, std::uint64_t line) {
  const Cycle read = memory_.read(memory_request_crossbar_.place(at + to_memory, head), line);
  const Cycle there = memory_response_crossbar_.place(read, line_to_memory);
  served_ = there - at > 2 * unloaded_ ? CacheLevel::memory_queue : CacheLevel::memory;
  return there;
}

// A line that the second level does not have, asked for at `at`.
Cycle CacheHierarchy::read_below_l2(std::uint64_t line, Cycle at) {
  from_dirty_ = false;
  if (!p_.l3_kb()) return from_memory(at, line);
  at = l3_request_crossbar_.place(at, head) + to_third;
  if (Cache::Way* w = l3_.find(line)) {
    served_ = w->ready > at + p_.l3_lat() ? w->source : CacheLevel::l3;
    from_dirty_ = w->dirty;
    w->dirty = false;
    return l3_response_crossbar_.place(std::max(at + p_.l3_lat(), w->ready), line_between) + 1;
  }
  const Cycle ready = from_memory(at + p_.l3_lat(), line);
  fill_l3(line, ready, false);
  return ready + p_.l3_response() - in_constants;
}

// What a prefetcher wants after a miss is sent before the miss itself, which the cache holds back
// until it has looked its tags up (gem5's BaseCache::getNextQueueEntry).
Cycle CacheHierarchy::access_l2(std::uint64_t address, Cycle at, std::uint64_t pc,
                                Strides& strides) {
  const std::uint64_t line = address >> line_bits;
  if (p_.ideal_l2()) {
    served_ = CacheLevel::l2;
    return at + p_.l2_lat();
  }
  const Cycle asked = at;
  at = l2_mshrs_.taken_at(at, retry);
  held_ = at - asked;
  Cache::Way* w = l2_.find(line);
  Cycle ready = at + p_.l2_lat();
  bool notifies = !w;
  CacheLevel source = CacheLevel::l2;
  if (w) {
    notifies = w->ready > ready || w->prefetched;
    if (w->ready > ready) source = w->source;
    ready = std::max(ready, w->ready);
    w->prefetched = false;
  }
  if (notifies && p_.l2_prefetch()) prefetch_l2(address, at, pc, w != nullptr, strides);
  if (w) {
    served_ = source;
    from_dirty_ = false;
  } else {
    ready = read_below_l2(line, ready);
    l2_mshrs_.take(at, ready);
    ready += p_.l2_response() - in_constants;
    fill_l2(line, ready, from_dirty_);
  }
  return ready;
}

// The second level's answer to the first data cache, which asks at `at`.
Cycle CacheHierarchy::request_l2(std::uint64_t address, Cycle at, std::uint64_t pc,
                                 Strides& strides) {
  at = l2_request_crossbar_.place(at, head) + to_second;
  const Cycle there = access_l2(address, at, pc, strides);
  return l2_response_crossbar_.place(there, line_between) + from_second + p_.l1d_response();
}

// What has asked for a line is known to the byte (gem5's Cache::createMissPacket passes the request
// on).
void CacheHierarchy::prefetch_l2(std::uint64_t address, Cycle at, std::uint64_t pc, bool hit,
                                 Strides& strides) {
  const std::uint64_t line = address >> line_bits;
  const auto go = [&](std::uint64_t wanted) {
    ++at;
    if (!same_page(wanted, line) || l2_.has(wanted)) return;
    if (!l2_mshrs_.spare(at)) return;
    const Cycle ready = read_below_l2(wanted, at);
    l2_mshrs_.take(at, ready);
    fill_l2(wanted, ready, from_dirty_, true);
  };
  l2_prefetcher_.see(address, pc, hit, at, strides, go);
}

// What the first prefetcher wants, now that `address` was asked for at `at`, waits until the cache
// sends it (gem5's prefetch::Queued::notify).
void CacheHierarchy::want_l1d(std::uint64_t address, Cycle at, std::uint64_t pc, bool hit) {
  const std::uint64_t line = address >> line_bits;
  std::erase_if(wanted_, [&](const Wanted& w) { return w.line == line; });
  const auto want = [&](std::uint64_t wanted) {
    const auto same = [&](const Wanted& w) { return w.line == wanted; };
    if (!same_page(wanted, line) || std::ranges::any_of(wanted_, same)) return;
    if (wanted_.size() == most_wanted) wanted_.erase(wanted_.begin());
    wanted_.push_back({wanted, pc, at + 1});
  };
  l1d_prefetcher_.see(address, pc, hit, strides1_, want);
}

// Sends what the prefetcher wants, one a cycle from `at` on, as long as that is before `until`;
// `missed`: the register of a miss is not counted yet.
void CacheHierarchy::prefetch_l1d(Cycle at, Cycle until, bool missed) {
  std::size_t sent = 0;
  for (; sent < wanted_.size(); ++sent) {
    const Wanted w = wanted_[sent];
    if (std::max(at, w.ready) >= until) break;  // as most of them, whatever registers there are
    Cycle goes = l1d_mshrs_.spare_from(std::max(at, w.ready), missed);
    if (zeroing_) goes = l1d_port_.idle_from(goes, until);
    if (goes >= until) break;
    if (l1d_.has(w.line) || to_l1d_.find(w.line)) continue;
    if (zeroing_) {
      // The second level takes nothing now.  Until it does the line is zeroed, too, and asked for
      // without its data (gem5's Cache::createMissPacket, MSHR::isWholeLineWrite).
      if (l2_mshrs_.free_from(goes) > goes) break;
      l1d_port_.sent(goes, goes);
    }
    const Cycle ready = request_l2(w.line << line_bits, goes, w.pc, strides2_prefetched_);
    l1d_mshrs_.take(goes, ready);
    fill_l1d(w.line, goes, ready, false, true);
    at = goes + 1;
  }
  wanted_.erase(wanted_.begin(), wanted_.begin() + static_cast<std::ptrdiff_t>(sent));
}

// An access at `at` that goes to the second level at `sends`; `put` puts the line where it belongs,
// given when it is there.
template <typename Put>
Cycle CacheHierarchy::miss(std::uint64_t address, Cycle at, Cycle sends, std::uint64_t pc,
                           Put&& put) {
  l2_.expect(address >> line_bits);
  // What the prefetcher wants is sent until the tags are looked up and the miss itself goes, which
  // is before what is ready when it is (gem5's BaseCache::getNextQueueEntry).
  if (p_.l1d_prefetch()) {
    want_l1d(address, at, pc, false);
    prefetch_l1d(at, sends, true);
  }
  const Cycle ready = request_l2(address, sends, pc, strides2_);
  const CacheLevel server = served_;
  l1d_mshrs_.take(at, ready);
  put(ready).first = static_cast<std::uint8_t>(address & (line_bytes - 1));
  if (p_.l1d_prefetch()) prefetch_l1d(sends, sends + prefetch_turns);
  served_ = server;
  return ready;
}

Cycle CacheHierarchy::data(std::uint64_t address, Cycle at, std::uint64_t pc, bool store) {
  const std::uint64_t line = address >> line_bits;
  const Cycle again = store ? retry : retry_load_, asked = at;
  served_ = CacheLevel::l1;
  if (p_.ideal_l1d()) return (taken_ = at) + p_.l1d_lat();
  at = l1d_mshrs_.taken_at(at, again);
  if (at > blocked_ && at < blocked_until_) at = blocked_until_ + again;
  taken_ = at;
  now_ = at;
  storing_ = store;
  if (!wanted_.empty()) prefetch_l1d(0, at);
  if (Cache::Way* w = find_l1d(line, at)) {
    // Rows come in the program's order, their accesses do not: an access before the one that asked
    // for the line would have asked for it itself.
    if (at < w->ready - w->taken) {
      if (w->upgraded) return at + p_.l1d_lat();
      w->ready = at + w->taken;
    }
    if (store && w->shared) return upgrade(address, at, w->ready, pc);
    w->dirty |= store;
    // It waits with the one that asked, and for the rest of the line where it wants another part;
    // behind that it finds the line, which is there only once it is whole (gem5's
    // Cache::serviceMSHRTargets, BaseCache::calculateAccessLatency).
    const Cycle filled = w->ready - p_.l1d_response();
    const bool pending = at < filled;
    Cycle ready = at + p_.l1d_lat();
    if (pending) {
      const Cycle rest = w->upgraded ? rest_of_upgrade : rest_of_line;
      ready = w->ready + (w->first == (address & (line_bytes - 1)) ? 0 : rest);
    } else if (!store && at < filled + rest_of_line) {
      ready = filled + rest_of_line + 2 * p_.l1d_lat();
    }
    const CacheLevel source = pending ? w->source : CacheLevel::l1;
    // gem5's BaseCache::handleTimingReqMiss, setBlocked(Blocked_NoTargets).
    if (pending && ++w->targets == p_.l1d_targets()) {
      blocked_ = at;
      blocked_until_ = w->ready;
    }
    if (p_.l1d_prefetch() && (pending || w->prefetched)) {
      w->prefetched = false;
      want_l1d(address, at, pc, true);
      prefetch_l1d(at, at + prefetch_turns);
    }
    served_ = at - asked > ready - at ? CacheLevel::mshrs : source;
    return ready;
  }
  const Cycle ready = miss(address, at, at + p_.l1d_lat(), pc, [&](Cycle there) -> Cache::Way& {
    return fill_l1d(line, at, there, store);
  });
  if (const Cycle held = at - asked + held_; held > ready - asked - held)
    served_ = CacheLevel::mshrs;
  return ready;
}

// A line that the third level had dirty comes to the first one without the right to write it, since
// the second one answers behind a miss of its own; the first store asks for that, and until then no
// access finds the line (gem5's Cache::satisfyRequest, deferred_response).  To the prefetcher it is
// a miss.  `there`: when the line is.
Cycle CacheHierarchy::upgrade(std::uint64_t address, Cycle at, Cycle there, std::uint64_t pc) {
  const std::uint64_t line = address >> line_bits;
  const Cycle sends = std::max(at, there) + p_.l1d_lat();
  return miss(address, at, sends, pc, [&](Cycle ready) -> Cache::Way& {
    Cache::Way& way = *find_l1d(line, at);  // what is prefetched has moved those on their way
    way = asked_for(line, sends, ready, true, false);
    way.upgraded = true;
    return way;
  });
}

bool CacheHierarchy::in_l1d(std::uint64_t address) {
  const std::uint64_t line = address >> line_bits;
  return p_.ideal_l1d() || l1d_.has(line) || to_l1d_.find(line);
}

CacheLevel CacheHierarchy::level_of(std::uint64_t address) {
  const std::uint64_t line = address >> line_bits;
  if (in_l1d(address)) return CacheLevel::l1;
  if (p_.ideal_l2() || l2_.has(line)) return CacheLevel::l2;
  return p_.l3_kb() && l3_.has(line) ? CacheLevel::l3 : CacheLevel::memory;
}

Cycle CacheHierarchy::load(std::uint64_t address, Cycle at, std::uint64_t pc) {
  return data(address, at, pc, false);
}

Cycle CacheHierarchy::store(std::uint64_t address, Cycle at, std::uint64_t pc) {
  return data(address, at, pc, true);
}

// Requests and lines that are written back go before what the prefetcher wants; what is not sent by
// `until` is zeroed first, and not wanted any more (gem5's BaseCache::getNextQueueEntry,
// prefetch::Queued::notify).
void CacheHierarchy::prefetch_zeroed(Cycle at, Cycle until, bool missed) {
  if (!p_.l1d_prefetch()) return;
  zeroing_ = true;
  prefetch_l1d(at, until, missed);
  zeroing_ = false;
}

Cycle CacheHierarchy::zero_line(std::uint64_t address, Cycle at, std::uint64_t pc) {
  const std::uint64_t line = address >> line_bits;
  taken_ = at;
  served_ = CacheLevel::l1;
  if (p_.ideal_l1d()) return at + p_.l1d_lat();
  storing_ = true;
  if (Cache::Way* w = find_l1d(line, at)) {
    const bool pending = w->ready > at + p_.l1d_lat();
    if (pending) served_ = w->source;
    w->dirty = true;
    const Cycle ready = std::max(at + p_.l1d_lat(), w->ready);
    if (pending && p_.l1d_prefetch()) {
      want_l1d(address, at, pc, true);
      prefetch_zeroed(at, at + prefetch_turns);
      wanted_.clear();
    }
    return ready;
  }
  now_ = at;
  served_ = CacheLevel::memory_queue;  // where its write goes in the end
  at = l1d_mshrs_.taken_at(at, retry);
  if (const Cycle free = l1d_port_.taken_at(at); free > at)
    at = l1d_mshrs_.taken_at(free + retry, retry);
  taken_ = at;
  const Cycle looked_up = at + p_.l1d_lat();
  if (p_.l1d_prefetch()) {
    want_l1d(address, at, pc, false);
    prefetch_zeroed(at, looked_up, true);
  }
  // What is sent is an invalidation.  The second level only hands it on, but its register is taken
  // until the answer is there (gem5's Cache::createMissPacket, MSHR::isForward).
  const Cycle goes = l2_mshrs_.taken_at(l1d_port_.request(looked_up) + to_second, retry);
  l1d_port_.sent(looked_up, goes - to_second);
  const Cycle sent = l2_request_crossbar_.place(goes - to_second, head) + to_second;
  Cycle ready = sent + zeroed + p_.l2_lat() + p_.l2_response() + from_second + p_.l1d_response();
  if (p_.l3_kb()) ready += to_third + p_.l3_lat() + p_.l3_response();
  memory_request_crossbar_.place(at, head);
  if (const auto room = put_l1d(asked_for(line, at, ready, true, false), now_))
    l1d_port_.write_back(ready, *room);
  l1d_mshrs_.take(at, ready);
  l2_mshrs_.take(goes, ready - from_second - p_.l1d_response());
  prefetch_zeroed(looked_up, looked_up + prefetch_turns);
  wanted_.clear();
  return ready;
}

Cycle CacheHierarchy::fetch(std::uint64_t address, Cycle at) {
  const std::uint64_t line = address >> line_bits;
  served_ = CacheLevel::l1;
  if (p_.ideal_l1i()) return at + p_.l1i_lat();
  if (const Cache::Way* w = l1i_.find(line)) {
    const Cycle filled = w->ready - fetch_response;
    if (at >= filled && at < filled + rest_of_line) return filled + rest_of_line + 2 * p_.l1i_lat();
    if (w->ready > at + p_.l1i_lat()) served_ = w->source;
    return std::max(at + p_.l1i_lat(), w->ready);
  }
  now_ = at;
  storing_ = false;
  const Cycle ready = access_l2(address, at + p_.l1i_lat() + to_second, 0, strides2_) +
                      from_second + fetch_response;
  l1i_.put(line, ready, false, 0, false, served_);
  return ready;
}

}  // namespace tracekit
