// Kernels of instruction forms, from the include that the build makes of a list of forms
// (tracekit/hardware/measure/form_kernels.py).
#include "assemble.h"
#include "measure.h"

#define SETUP(name, text) ASSEMBLED(name, text)
#define FORM(name, form, chain, count, others, setup, body) ASSEMBLED(name, body)
#include "forms.inc"
#undef SETUP
#undef FORM

#define SETUP(name, text)
#define FORM(name, form, chain, count, others, setup, body)                                 \
  {form,           chain,           count,            others, BEGIN(setup), END(setup), \
   BEGIN(name), END(name)},
static const struct tk_form table[] = {
#include "forms.inc"
    {0}};

const struct tk_form *tk_forms(size_t *count) {
  *count = sizeof table / sizeof *table - 1;
  return table;
}
