// The differences between gem5 v22.0 and v25 that this plug-in meets, in one place.
#ifndef TRACEKIT_COMPAT_HH
#define TRACEKIT_COMPAT_HH

#include <utility>

#include "sim/insttracer.hh"
#include "sim/probe/probe.hh"
#if __has_include("sim/probe/probe_listener_object.hh")
#include "sim/probe/probe_listener_object.hh"
#define TRACEKIT_CONNECTS_LISTENERS 1
#endif

namespace gem5 {
namespace tracekit_plugin {

// v22.0 still has the namespace Trace; v22.1 brought this header and the namespace trace.
#if __has_include("mem/thread_bridge.hh")
using trace::InstRecord;
using trace::InstTracer;
#else
using Trace::InstRecord;
using Trace::InstTracer;
#endif

// A listener that its ProbeListenerObject owns: added by a method in newer versions, to a vector in
// older.
class ProbeOwner : public ProbeListenerObject {
 public:
  using ProbeListenerObject::ProbeListenerObject;

 protected:
  template <class Listener, class... Args>
  void listen(Args&&... args) {
#ifdef TRACEKIT_CONNECTS_LISTENERS
    this->template connectListener<Listener>(std::forward<Args>(args)...);
#else
    this->listeners.push_back(new Listener(std::forward<Args>(args)...));
#endif
  }
};

}  // namespace tracekit_plugin
}  // namespace gem5

#endif
