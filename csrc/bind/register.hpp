// What each subject adds to the module; no algorithm lives in this folder.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

namespace tracekit {

void register_core(pybind11::module_& m);
void register_record(pybind11::module_& m);
void register_qemu(pybind11::module_& m);
void register_isa(pybind11::module_& m);
void register_formats(pybind11::module_& m);
void register_tkt(pybind11::module_& m);
void register_native_rows(pybind11::module_& m);
void register_features(pybind11::module_& m);
void register_stack_distance(pybind11::module_& m);
void register_gem5_text(pybind11::module_& m);
void register_chunk(pybind11::module_& m);
void register_plugins(pybind11::module_& m);
void register_hardware(pybind11::module_& m);
void register_hardware_parts(pybind11::module_& m);
void register_sim(pybind11::module_& m);
void register_warm(pybind11::module_& m);
void register_perfvec_text(pybind11::module_& m);
void register_stored_rows(pybind11::module_& m);

}  // namespace tracekit
