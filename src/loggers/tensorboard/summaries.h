// The values of TensorBoard's summaries (Summary.Value of summary.proto).
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>

#include "cairn/value.h"

#include "core/protobuf.h"
#include "loggers/images/png.h"

namespace cairn {

ProtoMessage scalar_summary(const std::string& tag, double value);
ProtoMessage text_summary(const std::string& tag, const std::string& text);
ProtoMessage image_summary(const std::string& tag, const PixelImage& image);
// nullopt if no element is finite.
std::optional<ProtoMessage> histogram_summary(const std::string& tag, const at::Tensor& values);
// The experiment, and the begin of its one session: two events.
ProtoMessage experiment_summary(const Dict& hparams, const List& metric_tags);
ProtoMessage session_summary(const Dict& hparams, double seconds);

}  // namespace cairn
