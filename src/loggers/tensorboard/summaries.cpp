#include "loggers/tensorboard/summaries.h"

#include <torch/torch.h>

#include <algorithm>
#include <vector>

#include "cairn/train/logger.h"

namespace cairn {
namespace {

constexpr int kStringTensor = 7;  // DT_STRING
constexpr int kStringType = 1;    // DATA_TYPE_STRING

// Tells a plugin of TensorBoard which data are its own.
ProtoMessage plugin_metadata(const std::string& name, const ProtoMessage& content) {
  const ProtoMessage data = ProtoMessage().text(1, name).message(2, content);
  return ProtoMessage().message(1, data);
}

ProtoMessage hparams_summary(const std::string& tag, const ProtoMessage& content) {
  return ProtoMessage().text(1, tag).message(9, plugin_metadata("hparams", content));
}

std::string text_of_hparam(const Value& value) {
  return value.is_str() ? value.as_str() : format_log_value(value);
}

// PyTorch's limits of buckets: powers of 1.1, negative ones, and 0.
const std::vector<double>& bucket_limits() {
  static const std::vector<double> limits = [] {
    constexpr double kSmallest = 1e-12;
    constexpr double kLargest = 1e20;
    constexpr double kGrowth = 1.1;
    std::vector<double> positive;
    for (double limit = kSmallest; limit < kLargest; limit *= kGrowth)
      positive.push_back(limit);
    std::vector<double> all;
    for (auto limit = positive.rbegin(); limit != positive.rend(); ++limit)
      all.push_back(-*limit);
    all.push_back(0);
    all.insert(all.end(), positive.begin(), positive.end());
    return all;
  }();
  return limits;
}

// Counts by bucket: bucket i has the values from limit i to below limit i + 1. The last one has its
// upper limit, too.
std::vector<double> bucket_counts(std::span<const double> values) {
  const std::vector<double>& limits = bucket_limits();
  std::vector<double> counts(limits.size() - 1);
  for (const double value : values) {
    if (value < limits.front() || value > limits.back()) continue;
    const auto above = std::upper_bound(limits.begin(), limits.end(), value);
    const auto bucket = static_cast<std::size_t>(above - limits.begin() - 1);
    ++counts[std::min(bucket, counts.size() - 1)];
  }
  return counts;
}

// Leaves out the empty buckets at both ends, except for one before the first that is not empty:
// TensorBoard takes the upper limit of the bucket before as a bucket's lower limit.
void add_buckets(ProtoMessage& histogram, const std::vector<double>& counts) {
  const auto is_full = [](double count) { return count > 0; };
  const auto first = std::find_if(counts.begin(), counts.end(), is_full);
  if (first == counts.end()) return;
  const auto last = std::find_if(counts.rbegin(), counts.rend(), is_full).base();
  const auto begin = static_cast<std::size_t>(first - counts.begin());
  const auto end = static_cast<std::size_t>(last - counts.begin());
  const std::vector<double>& limits = bucket_limits();
  std::vector<double> kept(counts.begin() + static_cast<std::ptrdiff_t>(begin), last);
  kept.insert(kept.begin(), 0);
  histogram.numbers(6, std::span(limits).subspan(begin, end - begin + 1)).numbers(7, kept);
}

}  // namespace

ProtoMessage scalar_summary(const std::string& tag, double value) {
  return ProtoMessage().text(1, tag).number(2, static_cast<float>(value));
}

ProtoMessage text_summary(const std::string& tag, const std::string& text) {
  const ProtoMessage shape = ProtoMessage().message(2, ProtoMessage().integer(1, 1));
  const ProtoMessage tensor =
      ProtoMessage().integer(1, kStringTensor).message(2, shape).text(8, text);
  return ProtoMessage()
      .text(1, tag + "/text_summary")
      .message(9, plugin_metadata("text", ProtoMessage()))
      .message(8, tensor);
}

ProtoMessage image_summary(const std::string& tag, const PixelImage& image) {
  const ProtoMessage picture = ProtoMessage()
                                   .integer(1, static_cast<std::int64_t>(image.height))
                                   .integer(2, static_cast<std::int64_t>(image.width))
                                   .integer(3, static_cast<std::int64_t>(image.channels))
                                   .text(4, png_of(image));
  return ProtoMessage().text(1, tag).message(4, picture);
}

std::optional<ProtoMessage> histogram_summary(const std::string& tag, const at::Tensor& values) {
  const at::Tensor all = values.detach().cpu().to(at::kDouble).flatten();
  const at::Tensor finite = all.masked_select(all.isfinite()).contiguous();
  if (finite.numel() == 0) return std::nullopt;
  const std::span<const double> elements(finite.data_ptr<double>(),
                                         static_cast<std::size_t>(finite.numel()));
  ProtoMessage histogram;
  histogram.number(1, finite.min().item<double>())
      .number(2, finite.max().item<double>())
      .number(3, static_cast<double>(elements.size()))
      .number(4, finite.sum().item<double>())
      .number(5, finite.dot(finite).item<double>());
  add_buckets(histogram, bucket_counts(elements));
  return ProtoMessage().text(1, tag).message(5, histogram);
}

ProtoMessage experiment_summary(const Dict& hparams, const List& metric_tags) {
  ProtoMessage experiment;
  for (const auto& [name, value] : hparams) {
    experiment.message(4, ProtoMessage().text(1, text_of_hparam(name)).integer(4, kStringType));
  }
  for (const Value& tag : metric_tags) {
    const ProtoMessage metric = ProtoMessage().text(2, tag.as_str());
    experiment.message(5, ProtoMessage().message(1, metric));
  }
  return hparams_summary("_hparams_/experiment", ProtoMessage().message(2, experiment));
}

ProtoMessage session_summary(const Dict& hparams, double seconds) {
  ProtoMessage session;
  for (const auto& [name, value] : hparams) {
    const ProtoMessage text = ProtoMessage().text(3, text_of_hparam(value));
    session.message(1, ProtoMessage().text(1, text_of_hparam(name)).message(2, text));
  }
  session.number(5, seconds);
  return hparams_summary("_hparams_/session_start_info", ProtoMessage().message(3, session));
}

}  // namespace cairn
