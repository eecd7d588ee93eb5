#include "storage/publish/trace.h"

#include <cstdio>
#include <exception>

#include "core/environment.h"
#include "core/text/printable.h"

namespace cairn {
namespace {

using TraceClock = std::chrono::steady_clock;

bool traces_saves() {
  static const bool is_on = environment("CAIRN_TRACE") == "saves";
  return is_on;
}

}  // namespace

TracedStep::TracedStep(const char* what, const std::string& name)
    : what_(what),
      name_(traces_saves() ? &name : nullptr),
      exceptions_(std::uncaught_exceptions()),
      begin_(TraceClock::now()) {}

TracedStep::~TracedStep() {
  if (name_ == nullptr) return;
  const std::chrono::duration<double> time = TraceClock::now() - begin_;
  const bool has_failed = std::uncaught_exceptions() > exceptions_;
  try {
    std::fprintf(stderr, "cairn saves: %s %s  %.3f s%s\n", what_, printable_line(*name_).c_str(),
                 time.count(), has_failed ? "  failed" : "");
  } catch (const std::bad_alloc&) {
    // The trace lacks a line.
  }
}

}  // namespace cairn
