// Writes .tkt streams: no gem5 include, so that it is tested without gem5, and C++17, so that gem5
// takes it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "parse/tkt_format.hpp"

namespace tracekit::tkt {

class Writer {
 public:
  using Sink = std::function<void(const char*, std::size_t)>;

  // Throws std::length_error when a name or a table is too large for the format.
  Writer(const Header& header, Sink sink)
      : sink_(std::move(sink)),
        stages_(header.stages),
        unit_(static_cast<std::uint32_t>(header.tick_unit)),
        per_tick_(1.0 / static_cast<double>(unit_)) {
    buffer_.reserve(buffer_size + max_record);
    if (header.tick_unit == 0 || header.tick_unit > 0xffffffffu)
      throw std::length_error("tkt: the tick unit must be 1 to 2^32-1");
    std::string body;
    number(body, header.tick_frequency);
    number(body, header.tick_unit);
    number(body, header.stages);
    number(body, header.cpu);
    number(body, header.threads);
    for (const auto* s : {&header.isa, &header.cpu_name, &header.model, &header.producer})
      text(body, *s);
    if (header.flags.size() > 64) throw std::length_error("tkt: more than 64 flags");
    for (const auto* table : {&header.op_classes, &header.flags, &header.reg_classes}) {
      if (table->size() > max_names) throw std::length_error("tkt: name table too large");
      number(body, static_cast<std::uint16_t>(table->size()));
      for (const auto& name : *table) text(body, name);
    }
    if (body.size() > max_header) throw std::length_error("tkt: header too large");
    buffer_.append(magic);
    number(buffer_, version);
    number(buffer_, header.knows);
    number(buffer_, static_cast<std::uint32_t>(body.size()));
    buffer_ += body;
  }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  // Returns the number that rows name it by.
  std::uint32_t add(const Static& inst) {
    std::string p;
    number(p, inst.pc);
    number(p, inst.flags);
    number(p, inst.upc);
    number(p, inst.op);
    number(p, inst.length);
    const std::size_t bytes = std::min<std::size_t>(inst.bytes.size(), 32);
    number(p, static_cast<std::uint8_t>(bytes));
    p.append(inst.bytes, 0, bytes);
    for (const auto* regs : {&inst.src, &inst.dst}) {
      const std::size_t n = std::min<std::size_t>(regs->size(), 255);
      number(p, static_cast<std::uint8_t>(n));
      for (std::size_t i = 0; i < n; ++i) {
        number(p, (*regs)[i].cls);
        number(p, (*regs)[i].index);
      }
    }
    text(p, inst.disassembly.substr(0, 4096));
    record(kind::statics, p);
    return statics_++;
  }

  void add(const Row& row) {
    if (buffer_.size() >= buffer_size) flush();
    char out[max_row];
    std::uint8_t flags = row.flags & ~(row_flag::wide | row_flag::has_store);
    std::size_t n = row_head;
    put(out, static_cast<std::uint8_t>(kind::row | (row.thread << 4)));
    put(out + 2, row.access_size);
    put(out + 4, row.sid);
    if (flags & row_flag::has_addr) {
      put(out + n, row.addr);
      n += 8;
    }
    if (stages_ && !(flags & row_flag::untimed)) {
      if ((stages_ & (1u << stage::store)) && row.ticks[stage::store]) flags |= row_flag::has_store;
      const std::size_t narrow = put_narrow(out + n, row, flags);
      if (narrow) {
        n += narrow;
      } else {
        flags |= row_flag::wide;
        for (unsigned s = 0; s < stage::store; ++s)
          if (stages_ & (1u << s)) n += put_tick(out + n, row.ticks[s]);
        if (flags & row_flag::has_store) n += put_tick(out + n, row.ticks[stage::store]);
      }
      last_fetch_ = row.ticks[stage::fetch];
    }
    put(out + 1, flags);
    buffer_.append(out, n);
    ++rows_;
  }

  // A region of interest begins (or ends) at `tick`, after `instructions` committed ones.
  void mark(bool begins, std::uint64_t tick, std::uint64_t instructions) {
    std::string p;
    number(p, static_cast<std::uint32_t>(begins));
    number(p, tick);
    number(p, instructions);
    record(kind::mark, p);
  }

  // The end marker; nothing may be added after it.
  void finish(std::uint64_t tick) {
    std::string p;
    number(p, rows_);
    number(p, std::uint64_t{statics_});
    number(p, tick);
    record(kind::end, p);
    flush();
  }

  // Hands everything so far to the sink.
  void flush() {
    if (!buffer_.empty()) sink_(buffer_.data(), buffer_.size());
    buffer_.clear();
  }
  std::uint64_t rows() const { return rows_; }

 private:
  static constexpr std::size_t buffer_size = std::size_t{1} << 18;

  template <class T>
  static void number(std::string& out, T v) {
    char raw[sizeof(T)];
    put(raw, v);
    out.append(raw, sizeof(T));
  }
  static void text(std::string& out, const std::string& s) {
    if (s.size() > 0xffff) throw std::length_error("tkt: name too long");
    number(out, static_cast<std::uint16_t>(s.size()));
    out += s;
  }
  static std::size_t put_tick(char* out, std::uint64_t tick) {
    put(out, tick);
    return 8;
  }
  void record(std::uint8_t k, const std::string& payload) {
    if (buffer_.size() >= buffer_size) flush();
    number(buffer_, k);
    number(buffer_, std::uint8_t{0});
    number(buffer_, static_cast<std::uint16_t>(payload.size()));
    buffer_ += payload;
  }

  // The ticks as multiples of the unit from this row's fetch, and the fetch from the last row's.
  // Returns 0, leaving the row to the wide form, where one of them does not fit.
  std::size_t put_narrow(char* out, const Row& row, std::uint8_t flags) const {
    const std::uint64_t fetch = row.ticks[stage::fetch];
    if (!(stages_ & (1u << stage::fetch)) || fetch == 0) return 0;
    const auto moved = static_cast<std::int64_t>(fetch - last_fetch_);
    if (moved > INT32_MAX || moved < -INT32_MAX) return 0;
    const auto step = static_cast<std::int32_t>(moved / static_cast<std::int64_t>(unit_));
    if (step * static_cast<std::int64_t>(unit_) != moved) return 0;
    put(out, static_cast<std::uint32_t>(step));
    std::size_t n = 4;
    for (unsigned s = stage::decode; s < stage::store; ++s) {
      if (!(stages_ & (1u << s))) continue;
      std::uint16_t d = not_reached;
      if (row.ticks[s]) {
        const std::uint64_t delta = row.ticks[s] - fetch;  // wraps where a tick lies before fetch
        if (delta > 0xffffffffu) return 0;
        const auto low = static_cast<std::uint32_t>(delta);
        // Divided by the reciprocal, which is faster, and checked: only a whole number of units
        // passes.
        const auto units = static_cast<std::uint32_t>(low * per_tick_ + 0.5);
        if (units >= not_reached || units * unit_ != low) return 0;
        d = static_cast<std::uint16_t>(units);
      }
      put(out + n, d);
      n += 2;
    }
    if (flags & row_flag::has_store) {
      const std::uint64_t delta = row.ticks[stage::store] - fetch;
      if (delta > 0xffffffffu) return 0;
      put(out + n, static_cast<std::uint32_t>(delta));
      n += 4;
    }
    return n;
  }

  Sink sink_;
  std::string buffer_;
  std::uint64_t rows_{}, last_fetch_{};
  std::uint32_t statics_{};
  std::uint16_t stages_{};
  std::uint32_t unit_{1};
  double per_tick_{1};
};

}  // namespace tracekit::tkt
