// Checks and returns the arguments of constructors.
#include "cairn/error.h"

#include "format/pickle/globals/globals.h"

namespace cairn::pickle {
namespace {

[[noreturn]] void wrong_argument(const Call& call, std::size_t i, const char* wanted) {
  call.fail("argument " + std::to_string(i + 1) + " should be " + wanted + ", but is " +
            call.graph.describe(call.arg(i)));
}

}  // namespace

void Call::fail(const std::string& what) const {
  throw CorruptError(std::string(global.module) + "." + std::string(global.name) + ": " + what);
}

void Call::expect_args(std::size_t min, std::size_t max) const {
  if (args.size() < min || args.size() > max) {
    fail(std::to_string(args.size()) + " arguments given, " + std::to_string(min) +
         (min == max ? "" : " to " + std::to_string(max)) + " expected");
  }
}

const Ref& Call::arg(std::size_t i) const {
  if (i >= args.size()) fail("argument " + std::to_string(i + 1) + " is missing");
  return args[i];
}

std::int64_t Call::integer(std::size_t i) const {
  if (const auto v = graph.integer(arg(i))) return *v;
  wrong_argument(*this, i, "an int");
}

double Call::number(std::size_t i) const {
  if (const auto v = graph.real(arg(i))) return *v;
  if (const auto v = graph.integer(arg(i))) return static_cast<double>(*v);
  wrong_argument(*this, i, "a number");
}

bool Call::boolean(std::size_t i) const {
  if (const auto v = arg(i).boolean()) return *v;
  wrong_argument(*this, i, "a bool");
}

std::string_view Call::text(std::size_t i) const {
  if (const auto* v = graph.find<Text>(arg(i))) return v->text;
  wrong_argument(*this, i, "a str");
}

std::span<const Ref> Call::items(std::size_t i) const {
  const auto* v = graph.find<Container>(arg(i));
  if (v != nullptr && (v->kind == Container::Kind::kList || v->kind == Container::Kind::kTuple)) {
    return v->items;
  }
  wrong_argument(*this, i, "a list or tuple");
}

Dims Call::integers(std::size_t i) const {
  const std::span<const Ref> from = items(i);
  Dims out(from.size());
  for (std::size_t at = 0; at < out.size(); ++at) {
    const Ref& item = from[at];
    const auto v = graph.integer(item);
    if (!v) {
      fail("argument " + std::to_string(i + 1) + " should hold ints only, but holds " +
           graph.describe(item));
    }
    out[at] = *v;
  }
  return out;
}

std::string Call::bytes(std::size_t i) const {
  if (const auto* v = graph.find<Value>(arg(i)); v != nullptr && v->kind() == Kind::kBytes) {
    return v->as_bytes().data;
  }
  if (const auto* v = graph.find<Text>(arg(i)); v != nullptr && v->is_python2) {
    return std::string(v->text);
  }
  wrong_argument(*this, i, "bytes");
}

}  // namespace cairn::pickle
