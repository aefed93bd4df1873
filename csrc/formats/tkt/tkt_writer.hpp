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

#include "core/exact_divisor.hpp"
#include "formats/tkt/tkt_format.hpp"

namespace tracekit::tkt {

class Writer {
 public:
  using Sink = std::function<void(const char*, std::size_t)>;

  // Throws std::length_error when a name or a table is too large for the format.
  Writer(const Header& header, Sink sink) : sink_(std::move(sink)), stages_(header.stages) {
    buffer_.reserve(buffer_size + max_record);
    if (header.tick_unit == 0 || header.tick_unit > 0xffffffffu)
      throw std::length_error("tkt: the tick unit must be 1 to 2^32-1");
    units_ = ExactDivisor(header.tick_unit);
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
    if (!header.configuration.empty()) {
      if (header.configuration.size() > max_configuration)
        throw std::length_error("tkt: configuration too large");
      number(body, static_cast<std::uint32_t>(header.configuration.size()));
      body += header.configuration;
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
    last_access_.emplace_back();
    return statics_++;
  }

  // The row's static instruction must have been added.
  void add(const Row& row) {
    if (buffer_.size() >= buffer_size) flush();
    char out[max_row];
    unsigned head = row_head::row | (row.flags & row_head::facts);
    char* p = out + row_head_size;
    if (stages_ && !(row.flags & row_flag::untimed)) {
      const std::uint64_t store = stages_ & (1u << stage::store) ? row.ticks[stage::store] : 0;
      if (store) head |= row_head::has_store;
      unsigned form = tick_form::bytes;
      char* end = put_bytes(p, row, store);
      if (!end) form = tick_form::shorts, end = put_shorts(p, row, store);
      if (!end) form = tick_form::wide, end = put_wide(p, row, store);
      head |= form << row_head::form_shift;
      p = end;
      if (row.ticks[stage::retire]) last_retire_ = row.ticks[stage::retire];
      last_fetch_ = row.ticks[stage::fetch];
    }
    // Code mostly goes on with the number behind the last one's.
    const auto jump = static_cast<std::int32_t>(row.sid - last_sid_ - 1);
    const unsigned sid = jump == 0                                 ? 0
                         : jump == static_cast<std::int8_t>(jump)  ? 1
                         : jump == static_cast<std::int16_t>(jump) ? 2
                                                                   : 3;
    head |= sid << row_head::sid_shift;
    put(p, static_cast<std::uint32_t>(jump));
    p += sid_bytes[sid];
    last_sid_ = row.sid;
    if (row.flags & row_flag::has_addr) {
      Access& last = last_access_.at(row.sid);
      const auto moved = static_cast<std::int64_t>(row.addr - last.addr);
      const unsigned addr = moved == 0                                  ? 1
                            : moved == static_cast<std::int8_t>(moved)  ? 2
                            : moved == static_cast<std::int16_t>(moved) ? 3
                            : moved == static_cast<std::int32_t>(moved) ? 4
                                                                        : 5;
      head |= addr << row_head::addr_shift;
      put(p, static_cast<std::uint64_t>(moved));
      p += addr_bytes[addr];
      last.addr = row.addr;
      if (row.access_size != last.size) {
        head |= row_head::has_size;
        put(p, last.size = row.access_size);
        p += 2;
      }
    }
    if (row.thread) {
      head |= row_head::has_thread;
      *p++ = static_cast<char>(row.thread);
    }
    put(out, static_cast<std::uint16_t>(head));
    buffer_.append(out, static_cast<std::size_t>(p - out));
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
  void record(std::uint8_t k, const std::string& payload) {
    if (buffer_.size() >= buffer_size) flush();
    number(buffer_, k);
    number(buffer_, std::uint8_t{0});
    number(buffer_, static_cast<std::uint16_t>(payload.size()));
    buffer_ += payload;
  }

  // The three forms of a row's ticks; the end of what was written, or null where one does not fit.
  char* put_bytes(char* p, const Row& row, std::uint64_t store) const {
    const std::uint64_t fetch = row.ticks[stage::fetch];
    if (!(stages_ & (1u << stage::fetch)) || fetch == 0) return nullptr;
    const std::uint64_t step = units_(fetch - last_fetch_);
    std::uint64_t last = fetch, largest = 0;
    *p++ = static_cast<char>(step);
    for (unsigned s = stage::decode; s < stage::retire; ++s) {
      if (!(stages_ & (1u << s))) continue;
      const std::uint64_t tick = row.ticks[s];
      const std::uint64_t d = tick ? units_(tick - last) : 0;
      largest = std::max(largest, d);
      *p++ = static_cast<char>(tick ? d : not_reached_byte);
      if (tick) last = tick;
    }
    if (stages_ & (1u << stage::retire)) {
      const std::uint64_t tick = row.ticks[stage::retire];
      const std::uint64_t d = tick ? units_(tick - last_retire_) : 0;
      largest = std::max(largest, d);
      *p++ = static_cast<char>(tick ? d : not_reached_byte);
    }
    if (step > 0xff || largest >= not_reached_byte) return nullptr;
    return store ? put_store(p, store, fetch) : p;
  }

  char* put_shorts(char* p, const Row& row, std::uint64_t store) const {
    const std::uint64_t fetch = row.ticks[stage::fetch];
    if (!(stages_ & (1u << stage::fetch)) || fetch == 0) return nullptr;
    const bool back = fetch < last_fetch_;
    const std::uint64_t step = units_(back ? last_fetch_ - fetch : fetch - last_fetch_);
    if (step > INT32_MAX) return nullptr;
    const auto number = static_cast<std::uint32_t>(step);
    put(p, back ? 0 - number : number);
    p += 4;
    for (unsigned s = stage::decode; s < stage::store; ++s) {
      if (!(stages_ & (1u << s))) continue;
      const std::uint64_t d = row.ticks[s] ? units_(row.ticks[s] - fetch) : not_reached_short;
      if (row.ticks[s] && d >= not_reached_short) return nullptr;
      put(p, static_cast<std::uint16_t>(d));
      p += 2;
    }
    return store ? put_store(p, store, fetch) : p;
  }

  char* put_wide(char* p, const Row& row, std::uint64_t store) const {
    for (unsigned s = stage::fetch; s < stage::store; ++s)
      if (stages_ & (1u << s)) put(p, row.ticks[s]), p += 8;
    if (store) put(p, store), p += 8;
    return p;
  }

  // In ticks: the cache answers in its own time.
  static char* put_store(char* p, std::uint64_t store, std::uint64_t fetch) {
    if (store - fetch > 0xffffffffu) return nullptr;
    put(p, static_cast<std::uint32_t>(store - fetch));
    return p + 4;
  }

  struct Access {
    std::uint64_t addr{};
    std::uint16_t size{};
  };

  Sink sink_;
  std::string buffer_;
  std::uint64_t rows_{}, last_fetch_{}, last_retire_{};
  std::uint32_t statics_{}, last_sid_{0xffffffffu};
  std::uint16_t stages_{};
  // Of at most 2^32 - 1 ticks: what is over 2^32 - 1 is no whole number, or that many.
  ExactDivisor units_{1};
  std::vector<Access> last_access_;  // of each static instruction
};

}  // namespace tracekit::tkt
