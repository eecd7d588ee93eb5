// ImageVisualizer: which batches' images reach a destination.

#include "cairn/callbacks/image_visualizer.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

#include "cairn/error.h"
#include "cairn/train/trainer.h"

#include "testing/tiny_model.h"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using testing::tiny_options;

struct Seen {
  std::string name;
  std::int64_t step;
  std::vector<std::int64_t> sizes;
  bool operator==(const Seen&) const = default;
};

class ImageRecorder final : public LoggerDestination {
 public:
  std::string name() const override { return "ImageRecorder"; }
  void log_images(const LoggedImages& images, std::int64_t step) override {
    seen.push_back({images.name, step, images.images.sizes().vec()});
  }
  std::vector<Seen> seen;
};

// Looks at the sum of each image.
struct SumNet : torch::nn::Module {
  SumNet() { register_module("head", head); }
  at::Tensor forward(const at::Tensor& images) {
    return head(images.flatten(1).sum(1, /*keepdim=*/true));
  }
  torch::nn::Linear head{1, 2};
};

std::vector<Seen> seen_with(const ImageVisualizerOptions& visualizer, at::IntArrayRef image) {
  std::vector<std::int64_t> sizes = {12};
  sizes.insert(sizes.end(), image.begin(), image.end());
  const auto dataset = tensor_dataset({torch::rand(sizes), torch::zeros({12}, torch::kLong)});
  const auto recorder = std::make_shared<ImageRecorder>();
  TrainerOptions options = tiny_options();
  options.model = classifier(std::make_shared<SumNet>());
  options.train_dataloader = DataLoader(dataset, {.batch_size = 4});
  options.eval_dataloader = DataLoader(dataset, {.batch_size = 6});
  options.max_duration = "2ep";
  options.callbacks = {ImageVisualizer(visualizer)};
  options.loggers = {recorder};
  Trainer(std::move(options)).fit();
  return recorder->seen;
}

TEST(ImageVisualizerTest, LogsTheFirstImagesOfEveryNthBatchAndOfEachEvaluation) {
  EXPECT_THAT(
      seen_with({.interval = "2ba", .num_images = 3}, {3, 5, 5}),
      ElementsAre(Seen{"Images/Train", 0, {3, 3, 5, 5}}, Seen{"Images/Train", 2, {3, 3, 5, 5}},
                  Seen{"Images/Eval", 3, {3, 3, 5, 5}}, Seen{"Images/Train", 4, {3, 3, 5, 5}},
                  Seen{"Images/Eval", 6, {3, 3, 5, 5}}));
}

TEST(ImageVisualizerTest, TakesImagesWithoutChannelsAndBatchesWithFewImages) {
  EXPECT_THAT(
      seen_with({.interval = "1ep", .num_images = 8}, {5, 5}),
      ElementsAre(Seen{"Images/Train", 0, {4, 1, 5, 5}}, Seen{"Images/Eval", 3, {6, 1, 5, 5}},
                  Seen{"Images/Train", 3, {4, 1, 5, 5}}, Seen{"Images/Eval", 6, {6, 1, 5, 5}}));
}

TEST(ImageVisualizerTest, LeavesOutWhatIsNoImage) {
  EXPECT_THAT(seen_with({.interval = "1ba"}, {7}), ElementsAre());
}

TEST(ImageVisualizerTest, RefusesOtherIntervalsAndNoImages) {
  EXPECT_THROW(ImageVisualizer({.interval = "10sp"}), UsageError);
  EXPECT_THROW(ImageVisualizer({.num_images = 0}), UsageError);
  EXPECT_THROW(ImageVisualizer({.input_key = std::int64_t{-1}}), UsageError);
}

}  // namespace
}  // namespace cairn
