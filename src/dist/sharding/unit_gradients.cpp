#include "dist/sharding/unit_gradients.h"

#include <torch/torch.h>

#include <algorithm>

#include "dist/page_tensor.h"

namespace cairn::dist {

// The size of the message to a rank: that rank's rows of each gradient, and for each gradient a
// byte that says whether the sender has it.
std::int64_t UnitGradients::message_bytes(std::int64_t shard) const {
  std::int64_t bytes = part_bytes(static_cast<std::int64_t>(parameters_.size()), at::kByte);
  for (const ShardParameter* const parameter : parameters_)
    bytes += part_bytes(parameter->rows_of(shard) * parameter->row_elements(), parameter->reduce);
  return bytes;
}

void UnitGradients::pack(at::Tensor& bytes, const std::vector<at::Tensor>& gradients) const {
  const auto ranks = static_cast<double>(mesh_.group().launch().world_size);
  std::int64_t at = 0;
  for (std::int64_t shard = 0; shard < mesh_.shards(); ++shard) {
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const ShardParameter& parameter = *parameters_[i];
      const std::int64_t rows = parameter.rows_of(shard);
      const at::Tensor place =
          next_part(bytes, at, rows * parameter.row_elements(), parameter.reduce);
      if (!gradients[i].defined() || rows == 0) continue;
      const at::Tensor own = gradients[i].narrow(0, shard * parameter.per_rank, rows);
      place.view(own.sizes()).copy_(own).div_(ranks);
    }
    const auto count = static_cast<std::int64_t>(parameters_.size());
    const at::Tensor flags = at::empty({count}, at::kByte);
    for (std::size_t i = 0; i < parameters_.size(); ++i)
      flags.data_ptr<std::uint8_t>()[i] = gradients[i].defined() ? 1 : 0;
    next_part(bytes, at, count, at::kByte).copy_(flags);
  }
}

void UnitGradients::begin(std::vector<ShardParameter*> parameters,
                          const std::vector<at::Tensor>& gradients) {
  parameters_ = std::move(parameters);
  std::vector<std::int64_t> sent_bytes;
  std::int64_t all = 0;
  for (std::int64_t shard = 0; shard < mesh_.shards(); ++shard) {
    sent_bytes.push_back(message_bytes(shard));
    all += sent_bytes.back();
  }
  std::vector<std::int64_t> received_bytes(sent_bytes.size(), message_bytes(mesh_.shard()));
  const Channel& row = mesh_.row();
  at::Tensor packed = page_tensor({all}, at::TensorOptions(row.device).dtype(at::kByte)).zero_();
  pack(packed, gradients);
  exchange_.sent = {row.message_of(packed)};
  exchange_.received = {{row.empty_message(mesh_.shards() * received_bytes[0])}};
  exchange_.start(mesh_, "sending the gradients of " + unit_, [&] {
    return row.backend->alltoall_base(exchange_.received[0][0], exchange_.sent[0], received_bytes,
                                      sent_bytes);
  });
}

UnitGradients::Sums UnitGradients::sums_of(const at::Tensor& bytes) const {
  Sums sums{.values = std::vector<at::Tensor>(parameters_.size()),
            .has_any = std::vector<char>(parameters_.size(), 0)};
  std::int64_t at = 0;
  for (std::int64_t shard = 0; shard < mesh_.shards(); ++shard) {
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const ShardParameter& parameter = *parameters_[i];
      const at::Tensor part =
          next_part(bytes, at, parameter.count * parameter.row_elements(), parameter.reduce);
      sums.values[i] = shard == 0 ? part : sums.values[i].add_(part);
    }
    const auto count = static_cast<std::int64_t>(parameters_.size());
    const at::Tensor flags = next_part(bytes, at, count, at::kByte).to(at::kCPU);
    for (std::size_t i = 0; i < parameters_.size(); ++i)
      sums.has_any[i] = static_cast<char>(sums.has_any[i] | flags.data_ptr<std::uint8_t>()[i]);
  }
  return sums;
}

void UnitGradients::finish(const std::string& what) {
  if (!exchange_.is_under_way()) return;
  const torch::NoGradGuard no_grad;
  exchange_.wait(mesh_, what);
  exchange_.work.reset();
  exchange_.sent.clear();
  Sums sums = sums_of(mesh_.row().to_device(exchange_.received[0][0]));
  if (mesh_.replicas() > 1) add_over_replicas(sums, what);
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (sums.has_any[i] != 0) parameters_[i]->add_gradient(sums.values[i]);
  }
  exchange_ = {};
}

// Adds in float64 if a parameter's gradients are sent in float64, otherwise in float32, since not
// every backend adds bfloat16.
void UnitGradients::add_over_replicas(Sums& sums, const std::string& what) const {
  const bool is_double = std::ranges::any_of(
      sums.values, [](const at::Tensor& sum) { return sum.scalar_type() == at::kDouble; });
  const at::ScalarType type = is_double ? at::kDouble : at::kFloat;
  std::vector<at::Tensor> parts;
  for (const at::Tensor& sum : sums.values)
    parts.push_back(sum.to(type));
  const auto count = static_cast<std::int64_t>(sums.values.size());
  const at::Tensor flags = at::empty({count}, at::kDouble);
  std::ranges::copy(sums.has_any, flags.data_ptr<double>());
  const Channel& column = mesh_.column();
  parts.push_back(flags.to(column.device, type));
  std::vector<at::Tensor> messages = {column.message_of(at::cat(parts))};
  mesh_.group().run_collective(
      what, [&] { mesh_.group().wait(column.backend->allreduce(messages), column); });
  const at::Tensor flat = column.to_device(messages[0]);
  std::int64_t at = 0;
  for (at::Tensor& sum : sums.values) {
    sum = flat.narrow(0, at, sum.numel());
    at += sum.numel();
  }
  const at::Tensor all = flat.narrow(0, at, count).to(at::kCPU, at::kDouble);
  for (std::size_t i = 0; i < sums.has_any.size(); ++i)
    sums.has_any[i] = static_cast<char>(all.data_ptr<double>()[i] > 0);
}

}  // namespace cairn::dist
