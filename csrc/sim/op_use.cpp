#include "sim/op_use.hpp"

namespace tracekit {
namespace {

constexpr bool has(std::string_view text, std::string_view part) {
  return text.find(part) != text.npos;
}

}  // namespace

int op_latency(std::string_view n, const CoreParameters& p) {
  const bool real = has(n, "Float");
  if (n == "IntMult") return p.int_mul_lat();
  if (n == "IntDiv" || n == "SimdDiv" || n == "SimdSqrt") return p.int_div_lat();
  if (n.ends_with("FloatDiv") || n == "SimdFloatSqrt") return p.fp_div_lat();
  if (n == "FloatSqrt") return 2 * p.fp_div_lat();
  if (n == "FloatMultAcc") return p.fp_mul_lat() + 1;
  if (n == "FloatMisc") return p.fp_misc_lat();
  if (n == "IprAccess" || n == "System") return 3;
  const OpUse use = named_use(n);
  if (use.unit == Unit::load || use.unit == Unit::store) return p.agu_lat();
  if (real && has(n, "Mult")) return p.fp_mul_lat();
  if (n.starts_with("Float")) return p.fp_add_lat();
  if (real && (has(n, "Add") || has(n, "Alu") || has(n, "Cmp") || has(n, "Cvt")))
    return p.fp_add_lat();
  if (n.starts_with("Simd") && has(n, "Mult")) return p.int_mul_lat();
  return 1;
}

Cause op_cause(OpClass op) {
  const OpUse use = op_use(op);
  const std::string_view n = op_class_names[static_cast<std::size_t>(op)];
  if (n.ends_with("Div") || n.ends_with("Sqrt")) return Cause::divide;
  if (n.starts_with("Float") || has(n, "SimdFloat")) return Cause::floating_point;
  return use.unit == Unit::int_mul || has(n, "Mult") ? Cause::multiply : Cause::integer;
}

}  // namespace tracekit
