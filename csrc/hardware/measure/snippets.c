// The pieces of code by name, with a table of where each begins and ends.
#include "assemble.h"
#include "measure.h"

#if defined(__x86_64__)
#define LIST "snippets_x86_64.inc"
#else
#define LIST "snippets_aarch64.inc"
#endif

#define SNIPPET(name, text) ASSEMBLED(name, text)
#include LIST
#undef SNIPPET

#define SNIPPET(name, text) {#name, BEGIN(name), END(name)},
static const struct tk_snippet table[] = {
#include LIST
};

const struct tk_snippet *tk_snippets(size_t *count) {
  *count = sizeof table / sizeof *table;
  return table;
}
