#include "features/stack_distance.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "features/stack_distance_kernel.hpp"

namespace tracekit {

const stack_distance::Kernels& stack_distance::kernels_for(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::avx512) return avx512_kernels;
  if (isa == Isa::avx2) return avx2_kernels;
#endif
  (void)isa;
  return portable_kernels;
}

StackDistance::StackDistance(const Options& options)
    : tree_(std::max<std::uint64_t>(options.first_stamps, 1)),
      end_(static_cast<std::uint32_t>(tree_.positions())),
      line_shift_(options.line_shift),
      stamps_per_line_(std::max(options.stamps_per_line, 2U)),
      most_stamps_(options.most_stamps),
      kernels_(&stack_distance::kernels_for(options.isa)) {}

std::uint32_t StackDistance::access_new(std::uint64_t line) {
  if (now_ == end_) compact();
  *table_.find_or_insert(line) = now_++;
  ++live_;
  return cold;
}

void StackDistance::compact() {
  // Looking through the table must stay cheap against the accesses between two compactions.
  const std::uint64_t want =
      std::max((std::uint64_t{live_} + 1) * stamps_per_line_, std::uint64_t{table_.places()} / 4);
  RankTree next;  // made before anything changes: memory may run out
  const bool grow = want > tree_.positions() && tree_.positions() < most_stamps_;
  if (grow) next.resize(std::min(std::max(want, tree_.positions() * 5 / 4), most_stamps_));
  if (!grow && live_ + first_stamp >= tree_.positions())
    throw std::length_error("stack distance: more than 1e9 distinct lines");
  table_.each_array([this](std::uint32_t* stamps, std::size_t n, std::size_t stride) {
    kernels_->renumber(tree_.view(), stamps, n, stride);
  });
  if (grow)
    tree_ = std::move(next);
  else
    tree_.set_all();
  now_ = live_ + first_stamp;
  end_ = static_cast<std::uint32_t>(tree_.positions());
}

template <class Kernel>
void StackDistance::in_batches(std::size_t n, Kernel&& kernel) {
  for (std::size_t done = 0; done < n;) {
    if (now_ == end_) compact();
    stack_distance::Frame f{&table_, tree_.view(), now_,        end_,
                            live_,   first_stamp,  line_shift_, filter_};
    done += kernel(f, done);
    now_ = f.now;
    live_ = f.live;
    filter_ = f.filter;
  }
}

void StackDistance::access_batch(const std::uint64_t* addresses, std::size_t n,
                                 std::uint32_t* out) {
  in_batches(n, [&](stack_distance::Frame& f, std::size_t done) {
    return kernels_->access(f, addresses + done, n - done, out + done);
  });
}

void StackDistance::access_batch(const std::uint64_t* addresses, const std::uint8_t* updates,
                                 std::size_t n, std::uint32_t* out) {
  in_batches(n, [&](stack_distance::Frame& f, std::size_t done) {
    return kernels_->access_some(f, addresses + done, updates + done, n - done, out + done);
  });
}

}  // namespace tracekit
