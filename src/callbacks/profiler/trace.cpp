#include "callbacks/profiler/trace.h"

#include <torch/csrc/autograd/profiler_kineto.h>
#include <torch/torch.h>

#include <set>
#include <utility>

#include "cairn/error.h"

#include "core/text/json_text.h"

namespace cairn {
namespace {

namespace kineto = torch::autograd::profiler;
namespace impl = torch::profiler::impl;

constexpr double kMicros = 1e6;
constexpr double kNanosOfMicro = 1e3;
constexpr const char* kAllocation = "[memory]";  // libtorch's name of these events.
constexpr std::int64_t kTrainingThread = 0;

// libtorch counts nanoseconds since 2.3, and microseconds before.
template <class Event>
double start_of(const Event& event) {
  if constexpr (requires { event.startNs(); }) {
    return static_cast<double>(event.startNs()) / kNanosOfMicro;
  } else {
    return static_cast<double>(event.startUs());
  }
}
template <class Event>
double duration_of(const Event& event) {
  if constexpr (requires { event.durationNs(); }) {
    return static_cast<double>(event.durationNs()) / kNanosOfMicro;
  } else {
    return static_cast<double>(event.durationUs());
  }
}

OrderedJson json_of(const kineto::KinetoEvent& event, std::int64_t rank) {
  const std::string name = event.name();
  const bool is_of_host = event.deviceType() == c10::DeviceType::CPU;
  OrderedJson json = {{"name", name},
                      {"cat", is_of_host ? "operator" : "kernel"},
                      {"ph", name == kAllocation ? "i" : "X"},
                      {"ts", start_of(event)},
                      {"pid", rank}};
  if (name == kAllocation) {
    json["s"] = "t";  // An instant of its thread.
  } else {
    json["dur"] = duration_of(event);
  }
  // Threads of the host count from 1. The streams of a GPU have much larger numbers.
  constexpr std::int64_t kFirstStream = 1'000'000;
  json["tid"] = is_of_host ? static_cast<std::int64_t>(event.startThreadId())
                           : kFirstStream + static_cast<std::int64_t>(event.deviceResourceId());
  OrderedJson args = OrderedJson::object();
  if (name == kAllocation) args["bytes"] = event.nBytes();
  if (event.hasShapes()) {
    OrderedJson shapes = OrderedJson::array();
    for (const auto& shape : event.shapes())
      shapes.push_back(shape);
    args["shapes"] = std::move(shapes);
  }
  if (event.flops() > 0) args["flops"] = event.flops();
  if (!args.empty()) json["args"] = std::move(args);
  return json;
}

}  // namespace

ProfilerTrace::ProfilerTrace(std::int64_t rank) : rank_(rank) {
  const auto describe = [&](const char* what, const char* key, const OrderedJson& value) {
    add_event({{"name", what},
               {"ph", "M"},
               {"pid", rank_},
               {"tid", kTrainingThread},
               {"args", {{key, value}}}});
  };
  describe("process_name", "name", "rank " + std::to_string(rank_));
  describe("process_sort_index", "sort_index", rank_);
  describe("thread_name", "name", "training loop");
  describe("thread_sort_index", "sort_index", 0);
}

ProfilerTrace::~ProfilerTrace() {
  try {
    if (has_operators_) kineto::disableProfiler();
  } catch (const std::exception&) {  // The trace is dropped, too.
  }
}

double ProfilerTrace::microseconds(Clock::time_point time) const {
  const auto since_epoch =
      system_begin_.time_since_epoch() +
      std::chrono::duration_cast<std::chrono::system_clock::duration>(time - steady_begin_);
  return std::chrono::duration<double>(since_epoch).count() * kMicros;
}

void ProfilerTrace::add_event(OrderedJson event) { events_.push_back(std::move(event)); }

void ProfilerTrace::add(const std::string& name, Clock::time_point begin, Clock::time_point end) {
  add_event({{"name", name},
             {"cat", "trainer"},
             {"ph", "X"},
             {"ts", microseconds(begin)},
             {"dur", std::chrono::duration<double>(end - begin).count() * kMicros},
             {"pid", rank_},
             {"tid", kTrainingThread}});
}

void ProfilerTrace::begin_operators(const OperatorOptions& options) {
  if (has_operators_) return;
  const impl::ProfilerConfig config(impl::ProfilerState::KINETO, options.record_shapes,
                                    options.profile_memory, /*with_stack=*/false,
                                    options.with_flops);
  std::set<impl::ActivityType> activities = {impl::ActivityType::CPU};
  if (options.on_gpu) activities.insert(impl::ActivityType::CUDA);
  try {
    kineto::prepareProfiler(config, activities);
    kineto::enableProfiler(config, activities, {at::RecordScope::FUNCTION});
  } catch (const c10::Error& error) {
    throw UsageError(std::string("the profiler cannot record libtorch's operators: ") +
                     error.what_without_backtrace());
  }
  has_operators_ = true;
}

void ProfilerTrace::end_operators() {
  if (!std::exchange(has_operators_, false)) return;
  const auto result = kineto::disableProfiler();
  for (const kineto::KinetoEvent& event : result->events())
    add_event(json_of(event, rank_));
}

std::string ProfilerTrace::text() const {
  const OrderedJson trace = {{"traceEvents", events_}};
  return json_text(trace, -1) + "\n";
}

}  // namespace cairn
