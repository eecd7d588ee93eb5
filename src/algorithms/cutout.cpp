#include "cairn/algorithms/cutout.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>

#include "cairn/error.h"
#include "cairn/train/state.h"

#include "algorithms/boxes.h"
#include "algorithms/targets.h"
#include "core/text/float_text.h"

namespace cairn {
namespace {

void check_holes(std::int64_t num_holes, double length) {
  if (!(length > 0 && length < 1)) {
    throw UsageError(
        fmt::format("CutOut: length must be more than 0 and less than 1, found {}", length));
  }
  if (num_holes < 0) {
    throw UsageError(fmt::format("CutOut: num_holes must be 0 or more, found {}", num_holes));
  }
}

}  // namespace

at::Tensor cutout_batch(const at::Tensor& input, const CutOutBatchOptions& options,
                        const std::shared_ptr<Draws>& draws) {
  check_holes(options.num_holes, options.length);
  if (input.dim() < 2) {
    throw UsageError(fmt::format(
        "CutOut: images must end with the dimensions (H, W), found {} dimension(s)", input.dim()));
  }
  const std::int64_t height = input.size(-2);
  const std::int64_t width = input.size(-1);
  const auto side =
      static_cast<std::int64_t>(static_cast<double>(std::min(height, width)) * options.length);
  const at::Tensor mask = at::ones({height, width}, input.options());
  for (std::int64_t i = 0; i < options.num_holes; ++i) {
    const Span rows = draw_span(height, side, options.uniform_sampling, *draws);
    const Span columns = draw_span(width, side, options.uniform_sampling, *draws);
    mask.slice(0, rows.begin, rows.end).slice(1, columns.begin, columns.end).zero_();
  }
  return input * mask;
}

CutOut::CutOut(CutOutOptions options, std::shared_ptr<Draws> draws)
    : options_(std::move(options)), draws_(std::move(draws)) {
  check_holes(options_.num_holes, options_.length);
  check_batch_key("CutOut: input_key", options_.input_key);
}

std::string CutOut::repr() const {
  return fmt::format("CutOut(num_holes={},length={},uniform_sampling={},input_key={})",
                     options_.num_holes, python_float_repr(options_.length),
                     python_bool(options_.uniform_sampling), python_repr(options_.input_key));
}

bool CutOut::match(Event event, const State& /*state*/) const {
  return event == Event::kAfterDataloader;
}

void CutOut::apply(Event /*event*/, State& state, Logger& /*logger*/) {
  at::Tensor& input = batch_item(state.batch, options_.input_key);
  input = cutout_batch(input,
                       {.num_holes = options_.num_holes,
                        .length = options_.length,
                        .uniform_sampling = options_.uniform_sampling},
                       draws_);
}

}  // namespace cairn
