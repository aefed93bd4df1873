// The branches between fetch and commit, oldest first; grows when it has to.
#pragma once

#include <cassert>
#include <cstddef>
#include <vector>

namespace tracekit::bp {

template <class Record>
class InFlight {
 public:
  bool empty() const { return from_ == to_; }
  std::size_t size() const { return to_ - from_; }
  Record& push() {  // the youngest; as the record that was there before left it
    if (to_ - from_ == ring_.size()) grow();
    return at(to_++);
  }
  const Record& oldest() const { return ring_[from_ & (ring_.size() - 1)]; }
  const Record& pop() {  // stays readable until the next push()
    assert(!empty());
    return at(from_++);
  }

 private:
  Record& at(std::size_t k) { return ring_[k & (ring_.size() - 1)]; }
  void grow() {
    std::vector<Record> wider(2 * ring_.size());
    for (std::size_t k = from_; k != to_; ++k) wider[k & (wider.size() - 1)] = std::move(at(k));
    ring_ = std::move(wider);
  }

  std::vector<Record> ring_ = std::vector<Record>(64);
  std::size_t from_{}, to_{};
};

}  // namespace tracekit::bp
