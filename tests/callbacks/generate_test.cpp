// Generate and ExportForInferenceCallback.

#include "cairn/callbacks/generate.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

#include "cairn/callbacks/export_for_inference.h"
#include "cairn/error.h"
#include "cairn/train/state_dict.h"
#include "cairn/train/trainer.h"

#include "testing/message_of.h"
#include "testing/temp_folder.h"
#include "testing/tiny_model.h"

namespace cairn {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::LogRecorder;
using testing::message_of;
using testing::TempFolder;
using testing::tiny_options;
using testing::weights_of;

using Texts = std::vector<std::string>;

TrainerOptions generating_run(GenerateOptions generate, std::shared_ptr<LogRecorder> log) {
  TrainerOptions made = tiny_options({.dropout = 0.2});
  made.max_duration = "4ba";
  made.callbacks = Generate(std::move(generate));
  if (log != nullptr) made.loggers = {std::move(log)};
  return made;
}

TEST(GenerateTest, LogsATextForEachPromptAtTheIntervalAndAtTheEnd) {
  const auto log = std::make_shared<LogRecorder>();
  std::vector<Texts> calls;
  Trainer trainer(generating_run({.prompts = {"a", "b", "c"},
                                  .interval = "3ba",
                                  .batch_size = 2,
                                  .generate =
                                      [&calls](const Texts& prompts) {
                                        calls.push_back(prompts);
                                        Texts texts;
                                        for (const std::string& prompt : prompts)
                                          texts.push_back(prompt + "!");
                                        return texts;
                                      }},
                                 log));
  trainer.fit();
  const Texts first = {"a", "b"};
  const Texts second = {"c"};
  EXPECT_THAT(calls, ElementsAre(first, second, first, second));  // After three and four batches.
  EXPECT_EQ(std::ranges::count(log->messages, "Generate: \"c\": \"c!\""), 2);
}

class TableRecorder final : public LoggerDestination {
 public:
  std::string name() const override { return "TableRecorder"; }
  void log_table(const LoggedTable& table, std::int64_t step) override {
    tables.emplace_back(step, table);
  }
  std::vector<std::pair<std::int64_t, LoggedTable>> tables;
};

TEST(GenerateTest, LogsATableOfPromptsAndTexts) {
  const auto log = std::make_shared<TableRecorder>();
  TrainerOptions made = generating_run({.prompts = {"a", "b"},
                                        .interval = "4ba",
                                        .generate = [](const Texts& texts) { return texts; }},
                                       nullptr);
  made.loggers = {log};
  Trainer(std::move(made)).fit();
  ASSERT_EQ(log->tables.size(), 1U);
  const auto& [step, table] = log->tables[0];
  EXPECT_EQ(step, 4);
  EXPECT_EQ(table.name, "generations");
  EXPECT_THAT(table.columns, ElementsAre("prompt", "generation"));
  EXPECT_THAT(table.rows, ElementsAre(List{"a", "a"}, List{"b", "b"}));
}

TEST(GenerateTest, TheTrainingIsTheSame) {
  bool was_training = true;
  const auto trained = [&](bool draws) {
    TrainerOptions made = generating_run({.prompts = {"x"},
                                          .interval = "1ba",
                                          .generate =
                                              [&was_training, draws](const Texts& prompts) {
                                                if (draws) torch::rand({7});
                                                was_training = at::GradMode::is_enabled();
                                                return prompts;
                                              }},
                                         std::make_shared<LogRecorder>());
    Trainer trainer(std::move(made));
    trainer.fit();
    EXPECT_TRUE(trainer.state().model->module().is_training());
    return weights_of(*trainer.state().model).clone();
  };
  const at::Tensor expected = trained(false);
  EXPECT_TRUE(at::equal(trained(true), expected));
  EXPECT_FALSE(was_training);
}

TEST(GenerateTest, RefusesWhatCannotBe) {
  const auto log = std::make_shared<LogRecorder>();
  Trainer trainer(generating_run({.prompts = {"a", "b"},
                                  .interval = "1ba",
                                  .generate = [](const Texts&) { return Texts{"one"}; }},
                                 log));
  EXPECT_THAT(message_of<UsageError>([&] { trainer.fit(); }),
              HasSubstr("returned 1 texts for 2 prompts"));
  EXPECT_THROW(Generate({.prompts = {"a"}}), UsageError);
  EXPECT_THROW(Generate({.generate = [](const Texts& t) { return t; }}), UsageError);
  EXPECT_THROW(
      Generate({.prompts = {"a"}, .batch_size = 0, .generate = [](const Texts& t) { return t; }}),
      UsageError);
}

// --- ExportForInferenceCallback ------------------------------------------------------------------

TEST(ExportForInferenceTest, WritesTheTrainedWeights) {
  const TempFolder folder;
  const auto log = std::make_shared<LogRecorder>();
  TrainerOptions made = tiny_options();
  made.max_duration = "3ba";
  made.run_name = "run";
  made.loggers = {log};
  made.callbacks = {
      ExportForInferenceCallback(
          {.save_format = "torch", .save_path = folder.path() + "/{run_name}.pt"}),
      ExportForInferenceCallback({.save_format = ExportFormat::kSafetensors,
                                  .save_path = folder.path() + "/new/net.safetensors"})};
  Trainer trainer(std::move(made));
  trainer.fit();
  const Value weights = state_dict(trainer.state().model->module());
  EXPECT_EQ(load(folder / "run.pt"), weights);
  const Value tensors = load(folder / "new/net.safetensors");
  EXPECT_EQ(tensors.as_dict().size(), weights.as_dict().size());
  for (const auto& [name, tensor] : weights.as_dict())
    EXPECT_EQ(tensors.at(name.as_str()), tensor);
  EXPECT_TRUE(verify(folder / "new/net.safetensors").ok());
  EXPECT_THAT(log->messages, Contains("exported the weights to " + (folder / "run.pt")));
}

TEST(ExportForInferenceTest, RefusesOtherFormats) {
  EXPECT_THAT(message_of<UsageError>(
                  [] { ExportForInferenceCallback({.save_format = "onnx", .save_path = "x"}); }),
              HasSubstr("not \"onnx\""));
  EXPECT_THROW(ExportForInferenceCallback({.save_format = "torch"}), UsageError);
}

}  // namespace
}  // namespace cairn
