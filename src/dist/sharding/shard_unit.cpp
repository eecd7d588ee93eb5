#include "dist/sharding/shard_unit.h"

#include <torch/torch.h>

#include <algorithm>
#include <utility>

#include "dist/page_tensor.h"

namespace cairn::dist {

ShardUnit::ShardUnit(const ShardMesh& mesh, std::string name, NamedParameters parameters,
                     const UnitDtypes& dtypes)
    : mesh_(mesh), name_(std::move(name)), gradients_(mesh, name_) {
  const torch::NoGradGuard no_grad;
  for (auto& [of_parameter, tensor] : parameters) {
    ShardParameter made = {
        .name = std::move(of_parameter), .tensor = tensor, .global_shape = tensor.sizes().vec()};
    const std::int64_t rows = made.global_shape[0];
    made.per_rank = (rows + mesh.shards() - 1) / mesh.shards();
    made.begin = std::min(mesh.shard() * made.per_rank, rows);
    made.count = made.rows_of(mesh.shard());
    const UnitDtypes casts = tensor.is_floating_point() ? dtypes : UnitDtypes();
    made.compute = casts.compute.value_or(tensor.scalar_type());
    made.reduce = casts.reduce.value_or(made.compute);
    made.whole =
        at::empty(made.global_shape, tensor.options().requires_grad(false).dtype(made.compute));
    const at::Tensor part = tensor.detach().narrow(0, made.begin, made.count);
    tensor.set_data(page_tensor(part.sizes(), part.options()).copy_(part));
    parameters_.push_back(std::move(made));
  }
  drop_memory();
}

bool ShardUnit::has_trainable() const {
  return std::ranges::any_of(parameters_, [](const ShardParameter& parameter) {
    return parameter.tensor.requires_grad();
  });
}

std::vector<bool> ShardUnit::have_gradients() const {
  std::vector<bool> have;
  for (const ShardParameter& parameter : parameters_)
    have.push_back(parameter.tensor.grad().defined());
  return have;
}

std::int64_t ShardUnit::whole_bytes() const {
  std::int64_t bytes = 0;
  for (const ShardParameter& parameter : parameters_) {
    bytes += parameter.global_shape[0] * parameter.row_elements() *
             static_cast<std::int64_t>(c10::elementSize(parameter.compute));
  }
  return bytes;
}

// --- Steps 2 and 3 -------------------------------------------------------------------------------

at::Tensor ShardUnit::packed_rows() const {
  const torch::NoGradGuard no_grad;
  std::int64_t size = 0;
  for (const ShardParameter& parameter : parameters_)
    size += part_bytes(parameter.per_rank * parameter.row_elements(), parameter.compute);
  const at::Tensor bytes =
      page_tensor({size}, at::TensorOptions(mesh_.row().device).dtype(at::kByte)).zero_();
  std::int64_t at = 0;
  for (const ShardParameter& parameter : parameters_) {
    const at::Tensor rows = parameter.rows().detach().reshape({-1});
    const std::int64_t elements = parameter.per_rank * parameter.row_elements();
    next_part(bytes, at, elements, parameter.compute).narrow(0, 0, rows.numel()).copy_(rows);
  }
  return bytes;
}

void ShardUnit::begin_gather() {
  if (is_whole_ || is_coming()) return;
  const Channel& row = mesh_.row();
  gathering_.sent = {row.message_of(packed_rows())};
  gathering_.received.resize(1);
  for (std::int64_t i = 0; i < mesh_.shards(); ++i)
    gathering_.received[0].push_back(row.empty_message(gathering_.sent[0].numel()));
  gathering_.start(mesh_, "gathering the parameters of " + name_,
                   [&] { return row.backend->allgather(gathering_.received, gathering_.sent); });
}

void ShardUnit::finish_gather(const std::string& what) {
  if (is_whole_) return;
  gathering_.wait(mesh_, what);
  put_together();
  gathering_ = {};
}

void ShardUnit::put_together() {
  const torch::NoGradGuard no_grad;
  hold_memory();
  std::vector<at::Tensor> of_shards;
  for (const at::Tensor& message : gathering_.received[0])
    of_shards.push_back(mesh_.row().to_device(message));
  std::int64_t at = 0;
  for (ShardParameter& parameter : parameters_) {
    const std::int64_t elements = parameter.per_rank * parameter.row_elements();
    std::int64_t next = at;
    const at::Tensor whole = parameter.whole.view({-1});
    for (std::int64_t shard = 0; shard < mesh_.shards(); ++shard) {
      next = at;
      const std::int64_t count = parameter.rows_of(shard) * parameter.row_elements();
      const at::Tensor rows =
          next_part(of_shards[static_cast<std::size_t>(shard)], next, elements, parameter.compute);
      if (count == 0) continue;
      whole.narrow(0, shard * elements, count).copy_(rows.narrow(0, 0, count));
    }
    at = next;
    parameter.own = parameter.tensor.detach();
    parameter.kept_gradient = parameter.tensor.grad();
    parameter.tensor.mutable_grad().reset();
    parameter.tensor.set_data(parameter.whole);
  }
  is_whole_ = true;
}

void ShardUnit::hold_memory() {
  for (ShardParameter& parameter : parameters_) {
    const at::Tensor fresh = page_tensor(parameter.global_shape, parameter.whole.options());
    c10::StorageImpl* const storage = parameter.whole.storage().unsafeGetStorageImpl();
    c10::StorageImpl* const from = fresh.storage().unsafeGetStorageImpl();
    storage->set_data_ptr_noswap(from->set_data_ptr(at::DataPtr()));
    storage->set_nbytes(from->nbytes());
  }
}

void ShardUnit::drop_memory() {
  for (ShardParameter& parameter : parameters_) {
    c10::StorageImpl* const storage = parameter.whole.storage().unsafeGetStorageImpl();
    storage->set_data_ptr_noswap(at::DataPtr(nullptr, storage->device()));
    storage->set_nbytes(0);
  }
}

void ShardUnit::release() {
  if (is_coming()) {
    gathering_.wait(mesh_, "gathering the parameters of " + name_);
    gathering_ = {};
  }
  if (!is_whole_) return;
  const torch::NoGradGuard no_grad;
  for (ShardParameter& parameter : parameters_) {
    parameter.tensor.mutable_grad().reset();
    parameter.tensor.set_data(parameter.own);
    parameter.tensor.mutable_grad() = std::move(parameter.kept_gradient);
    parameter.kept_gradient = at::Tensor();
    parameter.own = at::Tensor();
  }
  drop_memory();
  is_whole_ = false;
}

void ShardUnit::gather_for_others(const std::string& what) {
  begin_gather();
  gathering_.wait(mesh_, what);
  gathering_ = {};
}

// --- Step 4 --------------------------------------------------------------------------------------

void ShardUnit::begin_reduce(const Reduce& how) {
  const torch::NoGradGuard no_grad;
  std::vector<ShardParameter*> trained;
  std::vector<at::Tensor> gradients;
  for (ShardParameter& parameter : parameters_) {
    if (!parameter.tensor.requires_grad()) continue;
    trained.push_back(&parameter);
    gradients.push_back(is_whole_ && how.contributes ? parameter.take_gradient() : at::Tensor());
  }
  for (const ShardParameter& parameter : parameters_) {
    if (is_whole_) parameter.tensor.mutable_grad().reset();  // Drops gradients that are not sent.
  }
  if (!how.stays_whole) release();
  if (!trained.empty()) gradients_.begin(std::move(trained), gradients);
}

}  // namespace cairn::dist
