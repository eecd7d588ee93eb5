// SummaryWriter: event files of TensorBoard, for loops without a Trainer
// (torch.utils.tensorboard.SummaryWriter). cairn writes the files itself:
//
//   cairn::SummaryWriter writer({.log_dir = "tensorboard_logs/run"});
//   writer.add_scalar("loss", 0.5, 1);
//   writer.close();
//
// Then `tensorboard --logdir tensorboard_logs` shows them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "cairn/export.h"
#include "cairn/value.h"

namespace CAIRN_PUBLIC cairn {

struct SummaryWriterOptions {
  std::string log_dir = "runs";  // created with the first event
  // TensorBoard hides what older files of the folder have from this step on, as after a crash.
  std::optional<std::int64_t> purge_step = std::nullopt;
  std::string filename_suffix = {};  // at the end of each file's name
  // A clock in seconds since 1970, for tests; the system's clock when empty.
  std::function<double()> now = nullptr;
};

// Events are collected in memory and written by flush(), close(), the destructor, and whenever
// there is 1 MiB of them. Written events survive the process, but not necessarily a power cut. The
// first event opens a new file, later than all others in the folder, and so does the first event
// after close(). All functions that write throw StorageError. Not thread-safe.
class SummaryWriter {
 public:
  explicit SummaryWriter(SummaryWriterOptions options = {});
  ~SummaryWriter();  // errors are swallowed: call close() to see them
  SummaryWriter(SummaryWriter&&) noexcept;
  SummaryWriter& operator=(SummaryWriter&&) noexcept;

  void add_scalar(const std::string& tag, double value, std::int64_t step);
  // Markdown.
  void add_text(const std::string& tag, const std::string& text, std::int64_t step);
  // [C,H,W] or [H,W], or with `channels_last` [H,W,C], with one to four channels. uint8 elements
  // are pixels, others are in [0, 1]. Throws UsageError for other tensors.
  void add_image(const std::string& tag, const at::Tensor& image, std::int64_t step,
                 bool channels_last = false);
  // [N,C,H,W] or [N,H,W,C]: one picture with eight images in a row.
  void add_images(const std::string& tag, const at::Tensor& images, std::int64_t step,
                  bool channels_last = false);
  // The distribution of all elements, in PyTorch's buckets ("tensorflow"). Elements that are not
  // finite are left out; without any other element nothing is written.
  void add_histogram(const std::string& tag, const at::Tensor& values, std::int64_t step);
  // Fills the HPARAMS page: values by name, and the tags of the metrics to compare.
  void add_hparams(const Dict& hparams, const List& metric_tags);

  // The next event says that older events from this step on are superseded, as purge_step does.
  void purge_from(std::int64_t step);
  void flush();
  void close();
  // The path of the open file, or else of the last one. Empty before the first event.
  std::string path() const;

  // The position in the files, for a checkpoint: flushes, and returns {"file", "bytes"}.
  Value state_dict();
  // Goes back to a position: cuts the file there, and removes the files of the same suffix that
  // this folder has after it. Only files of this writer stay, if the position is in an older
  // writer's file. A file that is not in this folder changes nothing. Throws MismatchError for a
  // state that is none.
  void load_state_dict(const Value& state);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cairn
