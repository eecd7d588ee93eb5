// One process of a job whose saves are traced. trace_test.cpp starts several of them:
//   trace_program trace=store|files|collectives layout=file|sharded|tars folder=FOLDER [async=1]
//   trace_program trace=messages model=plain|constant|norm [changes=1] [losses=1]
// Writes "trace LINE" for each line of its trace.
#include <torch/torch.h>

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "cairn/dist/dist.h"
#include "cairn/storage/object_store.h"
#include "cairn/train/trainer.h"

#include "arguments.h"
#include "collective_counts.h"
#include "storage/local/local_store.h"
#include "testing/traced_runs.h"
#include "testing/tracing_files.h"
#include "testing/tracing_store.h"

namespace {

using cairn::testing::Trace;
using cairn::testing::TracedLayout;
using cairn::testing::TracedRuns;
using cairn::testing::TracingFiles;
using cairn::testing::TracingStore;

TracedLayout layout_of(const Arguments& arguments) {
  const std::map<std::string, TracedLayout> layouts = {{"file", TracedLayout::kOneFile},
                                                       {"sharded", TracedLayout::kShardedFolder},
                                                       {"tars", TracedLayout::kTars}};
  return layouts.at(arguments.text("layout"));
}

// Writes, for each event of a run, the collectives from the beginning of the event to the beginning
// of the next event. Leaves out events without collectives. This callback runs before the savers,
// so the collectives of a saver count for the event that the saver handles.
class EventCosts final : public cairn::Callback {
 public:
  explicit EventCosts(std::shared_ptr<Trace> trace) : trace_(std::move(trace)) {}
  std::string name() const override { return "EventCosts"; }
  bool may_change_batch() const override { return false; }
  void run_event(cairn::Event event, cairn::State& state, cairn::Logger& /*logger*/) override {
    begin(std::string(cairn::name(event)));
    if (event != cairn::Event::kBatchStart) return;
    trace_->add("-- batch " + std::to_string(state.timestamp.batch + 1));
  }
  void close(cairn::State& /*state*/, cairn::Logger& /*logger*/) override { begin("close"); }
  void begin(const std::string& event) {
    const std::string costs = Collectives::take();
    if (!costs.empty()) trace_->add(event_ + ": " + costs);
    event_ = event;
  }

 private:
  const std::shared_ptr<Trace> trace_;
  std::string event_;
};

void count_start(const TracedRuns& runs, const std::string& title, cairn::TrainerOptions made) {
  runs.trace->begin(title);
  const auto costs = std::make_shared<EventCosts>(runs.trace);
  made.callbacks.push_back(costs);
  costs->begin("the constructor");
  cairn::Trainer trainer(std::move(made));
  costs->begin("fit");
  trainer.fit();
  costs->begin("between fit and close");
  trainer.close();
  costs->begin("");
}

void count_collectives(const TracedRuns& runs) {
  Collectives::count();
  count_start(runs, "a first start", runs.options("4ba"));
  count_start(runs, "a second start, with autoresume", runs.resuming_options("7ba"));
  count_start(runs, "a third start, which is finished", runs.resuming_options("7ba"));
}

// A model without buffers, with a constant buffer, or with BatchNorm's.
struct BufferedNet : torch::nn::Module {
  explicit BufferedNet(const std::string& kind) {
    layer = register_module("layer", torch::nn::Linear(4, 3));
    if (kind == "constant") scale = register_buffer("scale", torch::ones({3}));
    if (kind == "norm") norm = register_module("norm", torch::nn::BatchNorm1d(3));
  }
  at::Tensor forward(const at::Tensor& input) {
    at::Tensor output = layer(input.to(at::kFloat));
    if (scale.defined()) output = output * scale;
    return norm ? norm(output) : output;
  }
  torch::nn::Linear layer{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
  at::Tensor scale;
};

// Prints the collectives of each batch after the first one. At first, ranks compare what they have.
class BatchCosts final : public cairn::Callback {
 public:
  BatchCosts(bool may_change, bool needs_losses)
      : may_change_(may_change), needs_losses_(needs_losses) {}
  std::string name() const override { return "BatchCosts"; }
  bool may_change_batch() const override { return may_change_; }
  bool needs_losses(const cairn::State& /*state*/) const override { return needs_losses_; }
  void before_dataloader(cairn::State& state, cairn::Logger& /*logger*/) override {
    const std::string costs = Collectives::take();
    if (state.timestamp.batch > 1) print_line("trace " + costs);
  }

 private:
  const bool may_change_;
  const bool needs_losses_;
};

void count_messages(const Arguments& arguments) {
  initialize(arguments);
  Collectives::count();
  cairn::TrainerOptions options = cairn::testing::tiny_options();
  options.model = cairn::classifier(std::make_shared<BufferedNet>(arguments.text("model")),
                                    {.num_classes = 3,
                                     .train_metrics = cairn::HandleList<cairn::Metric>(),
                                     .val_metrics = cairn::HandleList<cairn::Metric>()});
  options.train_dataloader = cairn::testing::tiny_loader(
      40, {.batch_size = 2, .sampler = cairn::DistributedSamplerOptions{.shuffle = false}});
  options.max_duration = "6ba";
  options.callbacks.push_back(
      std::make_shared<BatchCosts>(arguments.has("changes"), arguments.has("losses")));
  cairn::Trainer trainer(std::move(options));
  trainer.fit();
  trainer.close();
}

void trace(const Arguments& arguments) {
  if (arguments.text("trace") == "messages") return count_messages(arguments);
  initialize(arguments);
  const std::string folder = arguments.text("folder");
  const auto lines = std::make_shared<Trace>(folder);
  TracedRuns runs{.trace = lines,
                  .folder = folder + "/run",
                  .layout = layout_of(arguments),
                  .is_async = arguments.has("async")};
  TracingFiles files(cairn::posix_file_system(), lines);
  if (arguments.text("trace") == "files") runs.store = cairn::local_store(files);
  if (arguments.text("trace") == "store") {  // A store whose objects appear one by one.
    const cairn::StoreFeatures features = {.fenced_writes = true};
    runs.store = std::make_shared<TracingStore>(cairn::local_store(), lines, features);
  }
  if (arguments.text("trace") == "collectives") {
    count_collectives(runs);
  } else {
    runs.all();
  }
  for (const std::string& line : lines->lines())
    print_line("trace " + line);
}

}  // namespace

int main(int argc, char** argv) {
  torch::set_num_threads(1);
  try {
    trace(Arguments({argv + 1, argv + argc}));
    return 0;
  } catch (const std::exception& error) {
    print_line(std::string("error: ") + error.what());
    return 2;
  }
}
