// The extension module: one register_*.cpp a subject.
#include "bind/register.hpp"

PYBIND11_MODULE(_core, m) {
  m.doc() = "tracekit's C++ core; use the functions of the package tracekit instead";
  tracekit::register_core(m);
  tracekit::register_isa(m);
  tracekit::register_formats(m);
  tracekit::register_tkt(m);
  tracekit::register_native_rows(m);
  tracekit::register_record(m);
  tracekit::register_qemu(m);
  tracekit::register_features(m);
  tracekit::register_stack_distance(m);
  tracekit::register_gem5_text(m);
  tracekit::register_chunk(m);
  tracekit::register_sim(m);
  tracekit::register_warm(m);
  tracekit::register_plugins(m);
  tracekit::register_hardware(m);
  tracekit::register_hardware_parts(m);
  tracekit::register_perfvec_text(m);
  tracekit::register_stored_rows(m);
}
