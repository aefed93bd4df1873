// Where a trace goes: a plain file or a pipe, or compressed by the name's ending (.gz; .zst with
// libzstd).
#ifndef TRACEKIT_SINK_HH
#define TRACEKIT_SINK_HH

#include <cstddef>
#include <memory>
#include <string>

namespace gem5 {
namespace tracekit_plugin {

class Sink {
 public:
  virtual ~Sink() = default;
  // Both end the simulation with gem5's fatal() and the system's reason when the bytes can't be
  // kept.
  virtual void write(const char* data, std::size_t n) = 0;
  virtual void close() = 0;
};

// A path that names a FIFO is opened for writing, and waits for its reader.
std::unique_ptr<Sink> open_sink(const std::string& path);

}  // namespace tracekit_plugin
}  // namespace gem5

#endif
