#include "formats/text_streams/text_streams.hpp"

#include <charconv>

#include "formats/common/format_fault.hpp"
#include "formats/common/native_append.hpp"

namespace tracekit {

namespace {

constexpr std::size_t max_line = 1 << 16;

void skip_blanks(std::string_view& s) {
  while (!s.empty() && (s.front() == ' ' || s.front() == '\t')) s.remove_prefix(1);
}

bool eat(std::string_view& s, std::string_view word) {
  skip_blanks(s);
  if (!s.starts_with(word)) return false;
  s.remove_prefix(word.size());
  return true;
}

bool number(std::string_view& s, int base, std::uint64_t& out) {
  skip_blanks(s);
  if (base == 16 && s.starts_with("0x")) s.remove_prefix(2);
  const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), out, base);
  if (error != std::errc()) return false;
  s.remove_prefix(static_cast<std::size_t>(end - s.data()));
  return true;
}

}  // namespace

void TextStreamParser::feed(std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view piece = text.substr(0, end);
    if (tail_.size() + piece.size() > max_line)
      throw FormatFault("a line of over 64 KiB", offset_, "is this the right format?");
    if (end == std::string_view::npos) {
      tail_ += piece;
      return;
    }
    text.remove_prefix(end + 1);
    if (tail_.empty()) {
      line(piece);
      offset_ += piece.size() + 1;
    } else {
      tail_ += piece;
      line(tail_);
      offset_ += tail_.size() + 1;
      tail_.clear();
    }
  }
}

void TextStreamParser::line(std::string_view text) {
  ++lines_;
  if (text.ends_with('\r')) text.remove_suffix(1);
  if (text.empty() || text.starts_with("==") || text.starts_with("--")) return;  // Valgrind's own
  if (!(format_ == TextStream::execlog ? execlog(text) : lackey(text)))
    anomalies_.add("a line that is not understood", offset_);
}

bool TextStreamParser::execlog(std::string_view s) {
  std::uint64_t cpu, pc, code, at;
  if (!number(s, 10, cpu) || !eat(s, ",") || !number(s, 16, pc) || !eat(s, ",") ||
      !number(s, 16, code) || !eat(s, ",") || !eat(s, "\"") || code > 0xffffffffULL)
    return false;
  const std::size_t quote = s.find('"');
  if (quote == std::string_view::npos) return false;
  s.remove_prefix(quote + 1);
  Encoding e;
  e.pc = pc;
  e.known = true;
  for (unsigned i = 0; i < 4; ++i) e.bytes[i] = static_cast<std::uint8_t>(code >> (8 * i));
  e.length = 4;
  if (arch_ == Arch::riscv && (code & 3) != 3) {
    e.length = 2;
    e.bytes[2] = e.bytes[3] = 0;
  } else if (arch_ == Arch::x86) {
    e.length = Encoding::max_bytes;  // the decoder tells the real one
  }
  const bool switched = cpu_ && *cpu_ != cpu;
  if (switched)
    anomalies_.add("a line of another vCPU, whose rows are one stream with the others'", offset_);
  cpu_ = cpu;
  batch_.add_instruction(table_->intern(e), restart_ || switched ? native_bit::restart : 0);
  restart_ = false;
  while (eat(s, ",")) {
    const bool load = eat(s, "load");
    if (!load && !eat(s, "store")) {  // a device's name, a register that changed
      const std::size_t next = s.find(',');
      s.remove_prefix(next == std::string_view::npos ? s.size() : next);
      continue;
    }
    if (!eat(s, ",") || !number(s, 16, at)) return false;
    batch_.add_access(at, 0, !load);
  }
  return true;
}

bool TextStreamParser::lackey(std::string_view s) {
  const char kind = s.front() == 'I' ? 'I' : s.size() > 1 && s.front() == ' ' ? s[1] : '?';
  if (kind != 'I' && kind != 'L' && kind != 'S' && kind != 'M') return false;
  s.remove_prefix(kind == 'I' ? 1 : 2);
  std::uint64_t at, size;
  if (!number(s, 16, at) || !eat(s, ",") || !number(s, 10, size)) return false;
  if (kind == 'I') {
    if (size > 255) return false;
    Encoding e;
    e.pc = at;
    e.length = static_cast<std::uint8_t>(size);
    batch_.add_instruction(table_->intern(e), restart_ ? native_bit::restart : 0);
    restart_ = false;
    open_ = true;
    return true;
  }
  if (!open_ || size > 0xffffffffULL) return false;  // an access before the first instruction
  if (batch_.accesses() - batch_.first_access[batch_.size() - 1] >= max_accesses) {
    anomalies_.add("an access over the limit of one instruction", offset_);
    return true;
  }
  const auto bytes = static_cast<std::uint32_t>(size);
  if (kind != 'S') batch_.add_access(at, bytes, false);
  if (kind != 'L') batch_.add_access(at, bytes, true);
  return true;
}

void TextStreamParser::finish() {
  if (!tail_.empty()) anomalies_.add("a last line without its end", offset_);
  tail_.clear();
  finished_ = true;
}

void TextStreamParser::take(NativeBatch& rows) {
  rows.clear();
  std::swap(rows, batch_);
  // Lackey prints the accesses on lines of their own: the last instruction may not be complete.
  if (format_ == TextStream::lackey && !finished_) split_last(rows, batch_);
}

}  // namespace tracekit
