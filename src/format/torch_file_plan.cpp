#include "cairn/format/torch_file.h"

#include "format/pickle/write/encode.h"
#include "format/stream_plan.h"
#include "format/torch_plan.h"

namespace cairn {

struct TorchFilePlan::Impl {
  pickle::Encoded encoded;
};

TorchFilePlan::TorchFilePlan(const Value& value)
    : impl_(std::make_unique<Impl>(Impl{pickle::encode(value)})) {}
TorchFilePlan::~TorchFilePlan() = default;
TorchFilePlan::TorchFilePlan(TorchFilePlan&&) noexcept = default;
TorchFilePlan& TorchFilePlan::operator=(TorchFilePlan&&) noexcept = default;

std::uint64_t TorchFilePlan::size(const TorchFileWriteOptions& options) const {
  return TorchPlan(impl_->encoded, options).size();
}

void TorchFilePlan::write(ByteSink& sink, const TorchFileWriteOptions& options) const {
  stream_plan(TorchPlan(impl_->encoded, options), sink);
}

}  // namespace cairn
