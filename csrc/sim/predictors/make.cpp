#include "sim/predictors/make.hpp"

#include <stdexcept>

#include "sim/core_parameters.hpp"
#include "sim/predictors/counters.hpp"
#include "sim/predictors/multiperspective_perceptron.hpp"
#include "sim/predictors/plugin_predictor.hpp"
#include "sim/predictors/tage.hpp"

namespace tracekit {

std::unique_ptr<DirectionPredictor> make_predictor(unsigned kind) {
  switch (kind) {
    case predictor::local:
      return std::make_unique<bp::Local>();
    case predictor::tournament:
      return std::make_unique<bp::Tournament>();
    case predictor::bimode:
      return std::make_unique<bp::BiMode>();
    case predictor::tage:
      return bp::make_tage();
    case predictor::tage_sc_l_8kb:
      return bp::make_tage_sc_l_8kb();
    case predictor::tage_sc_l_64kb:
      return bp::make_tage_sc_l_64kb();
    case predictor::perceptron_8kb:
      return bp::multiperspective_perceptron_8kb();
    case predictor::perceptron_64kb:
      return bp::multiperspective_perceptron_64kb();
    case predictor::ltage:
      return bp::make_ltage();
    default:
      break;
  }
  if (auto* entry = plugin::find(kind, plugin::Part::predictor))
    return std::make_unique<bp::PluginPredictor>(*entry);
  throw std::invalid_argument("no such branch predictor");
}

}  // namespace tracekit
