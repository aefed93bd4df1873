// Runs a fuzz target without libFuzzer: each sample as it is, then mutations of samples, from a
// fixed seed and for a bounded time.  What a target dies of is kept in crash-<time> in the present
// folder.
//   driver [-seconds=S] [-runs=N] [-seed=K] SAMPLE...
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
extern "C" __attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)());

namespace {

using Bytes = std::string;

constexpr std::size_t max_size = std::size_t{1} << 16;
constexpr unsigned patience = 20;  // seconds for one input: more is a hang
Bytes current;

void keep() {
  const std::string name = "crash-" + std::to_string(::getpid());
  std::ofstream(name, std::ios::binary)
      .write(current.data(), static_cast<std::streamsize>(current.size()));
  std::fprintf(stderr, "the input is in %s (%zu bytes)\n", name.c_str(), current.size());
}

void died(int number) {
  std::fprintf(stderr, number == SIGALRM ? "hang\n" : "signal %d\n", number);
  keep();
  ::_exit(1);
}

void run_one(const Bytes& input) {
  current = input;
  ::alarm(patience);
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(current.data()), current.size());
}

class Mutator {
 public:
  Mutator(std::uint64_t seed, const std::vector<Bytes>& samples)
      : random_(seed), samples_(samples) {}

  Bytes operator()() {
    Bytes b = samples_[below(samples_.size())];
    if (b.size() > 4096 && below(2)) {  // a part of it: small inputs are fast ones
      const std::size_t at = below(b.size());
      b = b.substr(at, 1 + below(4096));
    }
    for (std::size_t n = 1 + below(1 + below(8)); n > 0; --n) change(b);
    if (b.size() > max_size) b.resize(max_size);
    return b;
  }

 private:
  std::size_t below(std::size_t n) {
    return n ? std::uniform_int_distribution<std::size_t>(0, n - 1)(random_) : 0;
  }
  // A place, mostly where a line or a number begins.
  std::size_t place(const Bytes& b) {
    std::size_t at = below(b.size() + 1);
    if (below(3)) return at;
    const std::size_t found = b.find_first_of("\n: ,0", at);
    return found == Bytes::npos ? at : std::min(found + 1, b.size());
  }
  std::size_t line_end(const Bytes& b, std::size_t at) {
    const std::size_t nl = b.find('\n', at);
    return nl == Bytes::npos ? b.size() : nl + 1;
  }

  void change(Bytes& b) {
    constexpr std::string_view words[] = {"0",
                                          "-1",
                                          "18446744073709551615",
                                          "18446744073709551616",
                                          "9223372036854775808",
                                          "4611686018427387904",
                                          "0xffffffffffffffff",
                                          "0x",
                                          "\n",
                                          "\r\n",
                                          ":",
                                          " : ",
                                          "O3PipeView:fetch:",
                                          "O3PipeView:retire:0:store:0\n",
                                          "  FetchSeq=",
                                          "  flags=(",
                                          ")",
                                          " A=0x",
                                          "65536",
                                          "\0",
                                          "\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
                                          "[",
                                          "]"};
    const std::size_t at = place(b), n = below(1 + b.size() - at);
    switch (below(10)) {
      case 0:
        if (!b.empty()) b[below(b.size())] ^= static_cast<char>(1U << below(8));
        break;
      case 1:
        if (!b.empty()) b[below(b.size())] = static_cast<char>(below(256));
        break;
      case 2:
        b.erase(at, std::min(n, 1 + below(64)));
        break;
      case 3:
        b.insert(at, words[below(std::size(words))]);
        break;
      case 4: {  // a word in the place of a number
        std::size_t end = at;
        while (end < b.size() && b[end] >= '0' && b[end] <= '9') ++end;
        b.replace(at, end - at, words[below(std::size(words))]);
        break;
      }
      case 5:  // some of another sample
      case 6: {
        const Bytes& other = samples_[below(samples_.size())];
        const std::size_t from = place(other);
        b.insert(at, other, from, below(1 + std::min<std::size_t>(other.size() - from, 512)));
        break;
      }
      case 7: {  // a line once more, or elsewhere
        const Bytes line = b.substr(at, line_end(b, at) - at);
        if (below(2)) b.erase(at, line.size());
        b.insert(place(b), line);
        break;
      }
      case 8:
        b.resize(at);
        break;
      default: {
        const Bytes part = b.substr(at, std::min(n, 1 + below(32)));
        for (std::size_t k = below(8); k > 0; --k) b.insert(at, part);
      }
    }
  }

  std::mt19937_64 random_;
  const std::vector<Bytes>& samples_;
};

}  // namespace

int main(int argc, char** argv) {
  double seconds = 5;
  std::uint64_t runs = ~std::uint64_t{0}, seed = 1, done = 0;
  std::vector<Bytes> samples;
  for (int i = 1; i < argc; ++i) {
    const std::string_view a = argv[i];
    if (a.starts_with("-seconds=")) {
      seconds = std::atof(argv[i] + 9);
    } else if (a.starts_with("-runs=")) {
      runs = std::strtoull(argv[i] + 6, nullptr, 10);
    } else if (a.starts_with("-seed=")) {
      seed = std::strtoull(argv[i] + 6, nullptr, 10);
    } else {
      std::ifstream file(argv[i], std::ios::binary);
      if (!file) {
        std::fprintf(stderr, "%s: cannot be read\n", argv[i]);
        return 2;
      }
      samples.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    }
  }
  if (samples.empty()) samples.emplace_back();
  for (const int number : {SIGILL, SIGTRAP, SIGABRT, SIGALRM}) ::signal(number, died);
  if (__sanitizer_set_death_callback) __sanitizer_set_death_callback(keep);
  for (const Bytes& s : samples) run_one(s);
  Mutator mutate(seed, samples);
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  for (; done < runs && std::chrono::steady_clock::now() < end; ++done) run_one(mutate());
  std::printf("%zu samples, %llu mutations\n", samples.size(),
              static_cast<unsigned long long>(done));
  return 0;
}
