// Parsers: JSON, numbers in columns, arithmetic expressions.
#include "kernels.h"

static char* text;
static size_t length;
static void put(const char* s) {
  const size_t n = strlen(s);
  memcpy(text + length, s, n);
  length += n;
}

static void value(int depth) {
  char word[64];
  switch (random64() % (depth > 0 ? 6 : 3)) {
    case 0:
      snprintf(word, sizeof word, "%lld", (long long)(int32_t)random64());
      put(word);
      return;
    case 1:
      snprintf(word, sizeof word, "\"%llx\"", (unsigned long long)random64());
      put(word);
      return;
    case 2:
      put(random64() & 1 ? "true" : "null");
      return;
    case 3:
      put("[");
      for (int i = 0; i < 6; ++i) {
        if (i) put(", ");
        value(depth - 1);
      }
      put("]");
      return;
    default:
      put("{");
      for (int i = 0; i < 5; ++i) {
        snprintf(word, sizeof word, "%s\"key%d\": ", i ? ", " : "", (int)(random64() % 100));
        put(word);
        value(depth - 1);
      }
      put("}");
  }
}

static uint64_t total;
static const char* skip_space(const char* p) {
  while (*p == ' ' || *p == '\n') ++p;
  return p;
}
static const char* parse(const char* p) {
  p = skip_space(p);
  switch (*p) {
    case '{':
      for (p = skip_space(p + 1); *p != '}';) {
        const char* end = strchr(p + 1, '"');
        total += (uint64_t)(end - p);
        p = skip_space(parse(skip_space(end + 1) + 1));
        if (*p == ',') p = skip_space(p + 1);
      }
      return p + 1;
    case '[':
      for (p = skip_space(p + 1); *p != ']';) {
        p = skip_space(parse(p));
        if (*p == ',') ++p;
      }
      return p + 1;
    case '"':
      for (++p; *p != '"'; ++p) total = total * 33 + (unsigned char)*p;
      return p + 1;
    case 't':
    case 'n':
      ++total;
      return p + 4;
    default: {
      int64_t n = 0;
      const int minus = *p == '-';
      for (p += minus; *p >= '0' && *p <= '9'; ++p) n = 10 * n + (*p - '0');
      total += (uint64_t)(minus ? -n : n);
      return p;
    }
  }
}

static uint64_t json(long rounds, long n) {
  text = room((size_t)n * 512 + 65536);
  put("[");
  for (long i = 0; i < n; ++i) {
    if (i) put(",\n");
    const size_t before = length;
    value(3);
    if (length - before > 400) length = before, put("0");
  }
  put("]");
  for (long r = 0; r < rounds; ++r) parse(text);
  return total;
}

static uint64_t columns(long rounds, long n) {
  text = room((size_t)n * 32 + 64);
  for (long i = 0; i < n; ++i) {
    char line[64];
    snprintf(line, sizeof line, "%.3f,%llu,%d\n", (double)(int32_t)random64() / 1024,
             (unsigned long long)(random64() & 0xffff), (int)(random64() % 10));
    put(line);
  }
  double sum = 0;
  for (long r = 0; r < rounds; ++r)
    for (char* p = text; *p;) {
      sum += strtod(p, &p);
      sum += (double)strtoul(p + 1, &p, 10);
      sum += (double)strtol(p + 1, &p, 10);
      ++p;
    }
  return (uint64_t)sum;
}

static const char* at;
static int64_t sum_of(void);
static int64_t atom(void) {
  if (*at == '(') {
    ++at;
    const int64_t v = sum_of();
    ++at;
    return v;
  }
  int64_t v = 0;
  while (*at >= '0' && *at <= '9') v = v * 10 + (*at++ - '0');
  return v;
}
static int64_t product(void) {
  int64_t v = atom();
  for (;;) {
    if (*at == '*')
      ++at, v *= atom();
    else if (*at == '/') {
      ++at;
      const int64_t d = atom();
      v = d ? v / d : 0;
    } else
      return v;
  }
}
static int64_t sum_of(void) {
  int64_t v = product();
  for (;;) {
    if (*at == '+')
      ++at, v += product();
    else if (*at == '-')
      ++at, v -= product();
    else
      return v;
  }
}
static void expression(int depth) {
  char word[32];
  if (depth == 0 || random64() % 4 == 0) {
    snprintf(word, sizeof word, "%d", (int)(random64() % 1000));
    put(word);
    return;
  }
  static const char* const signs[] = {"+", "-", "*", "/"};
  put("(");
  expression(depth - 1);
  put(signs[random64() % 4]);
  expression(depth - 1);
  put(")");
}
static uint64_t expressions(long rounds, long n) {
  text = room((size_t)n * 1400);
  for (long i = 0; i < n; ++i) expression(7), put("\n");
  uint64_t sum = 0;
  for (long r = 0; r < rounds; ++r)
    for (at = text; *at; ++at) sum += (uint64_t)sum_of();
  return sum;
}
static const struct kernel kernels[] = {
    {"json", json}, {"columns", columns}, {"expressions", expressions}};
MAIN(kernels)
