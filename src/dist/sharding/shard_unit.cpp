#include "dist/sharding/shard_unit.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <utility>

#include "cairn/error.h"

#include "core/round_up.h"
#include "dist/page_tensor.h"

namespace cairn::dist {
namespace {

// Of a part in a message: elements of any dtype may begin there.
constexpr std::int64_t kPartAlignment = 16;

std::int64_t part_bytes(std::int64_t elements, at::ScalarType type) {
  const auto bytes = static_cast<std::uint64_t>(elements) * c10::elementSize(type);
  return static_cast<std::int64_t>(round_up(bytes, std::uint64_t{kPartAlignment}));
}

// The elements from `at` on, which goes behind them.
at::Tensor next_part(const at::Tensor& bytes, std::int64_t& at, std::int64_t elements,
                     at::ScalarType type) {
  const auto size = elements * static_cast<std::int64_t>(c10::elementSize(type));
  const at::Tensor part = bytes.narrow(0, at, size).view(type);
  at += part_bytes(elements, type);
  return part;
}

std::int64_t rows_of(const ShardUnit::Parameter& parameter, std::int64_t shard) {
  const std::int64_t all = parameter.global_shape[0];
  const std::int64_t begin = std::min(shard * parameter.per_rank, all);
  return std::min(begin + parameter.per_rank, all) - begin;
}

}  // namespace

std::int64_t ShardUnit::Parameter::row_elements() const {
  std::int64_t elements = 1;
  for (std::size_t i = 1; i < global_shape.size(); ++i)
    elements *= global_shape[i];
  return elements;
}

ShardUnit::ShardUnit(const ShardMesh& mesh, std::string name, NamedParameters parameters,
                     const UnitDtypes& dtypes)
    : mesh_(mesh), name_(std::move(name)), dtypes_(dtypes) {
  const torch::NoGradGuard no_grad;
  for (auto& [of_parameter, tensor] : parameters) {
    Parameter made = {
        .name = std::move(of_parameter), .tensor = tensor, .global_shape = tensor.sizes().vec()};
    const std::int64_t rows = made.global_shape[0];
    made.per_rank = (rows + mesh.shards() - 1) / mesh.shards();
    made.begin = std::min(mesh.shard() * made.per_rank, rows);
    made.count = rows_of(made, mesh.shard());
    const bool casts = dtypes.compute && tensor.is_floating_point();
    made.compute = casts ? *dtypes.compute : tensor.scalar_type();
    made.whole =
        at::empty(made.global_shape, tensor.options().requires_grad(false).dtype(made.compute));
    const at::Tensor part = tensor.detach().narrow(0, made.begin, made.count);
    tensor.set_data(page_tensor(part.sizes(), part.options()).copy_(part));
    parameters_.push_back(std::move(made));
  }
  drop_memory();
}

bool ShardUnit::has_trainable() const { return !trainable().empty(); }

std::vector<std::size_t> ShardUnit::trainable() const {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (parameters_[i].tensor.requires_grad()) found.push_back(i);
  }
  return found;
}

std::vector<bool> ShardUnit::have_gradients() const {
  std::vector<bool> have;
  for (const Parameter& parameter : parameters_)
    have.push_back(parameter.tensor.grad().defined());
  return have;
}

std::int64_t ShardUnit::whole_bytes() const {
  std::int64_t bytes = 0;
  for (const Parameter& parameter : parameters_) {
    bytes += parameter.global_shape[0] * parameter.row_elements() *
             static_cast<std::int64_t>(c10::elementSize(parameter.compute));
  }
  return bytes;
}

template <class Start>
WorkPtr ShardUnit::start(const char* what, Start start) const {
  try {
    return start();
  } catch (const std::exception& error) {
    mesh_.group().fail(what + name_, error.what());
  }
}

void ShardUnit::wait(const Exchange& exchange, const std::string& what) const {
  mesh_.group().together(what, [&] { mesh_.group().wait(exchange.work, mesh_.row()); });
}

// --- Step 2 and 3 --------------------------------------------------------------------------------

at::Tensor ShardUnit::packed_rows() const {
  const torch::NoGradGuard no_grad;
  std::int64_t size = 0;
  for (const Parameter& parameter : parameters_)
    size += part_bytes(parameter.per_rank * parameter.row_elements(), parameter.compute);
  const at::Tensor bytes =
      page_tensor({size}, at::TensorOptions(mesh_.row().device).dtype(at::kByte)).zero_();
  std::int64_t at = 0;
  for (const Parameter& parameter : parameters_) {
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
  gathering_.work = start("gathering the parameters of ", [&] {
    return row.backend->allgather(gathering_.received, gathering_.sent);
  });
}

void ShardUnit::finish_gather(const std::string& what) {
  if (is_whole_) return;
  wait(gathering_, what);
  put_together();
  gathering_ = {};
}

void ShardUnit::put_together() {
  const torch::NoGradGuard no_grad;
  hold_memory();
  std::vector<at::Tensor> of_shards;
  for (const at::Tensor& message : gathering_.received[0])
    of_shards.push_back(mesh_.row().arrived(message));
  std::int64_t at = 0;
  for (Parameter& parameter : parameters_) {
    const std::int64_t elements = parameter.per_rank * parameter.row_elements();
    std::int64_t next = at;
    const at::Tensor whole = parameter.whole.view({-1});
    for (std::int64_t shard = 0; shard < mesh_.shards(); ++shard) {
      next = at;
      const std::int64_t count = rows_of(parameter, shard) * parameter.row_elements();
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
  for (Parameter& parameter : parameters_) {
    const at::Tensor fresh = page_tensor(parameter.global_shape, parameter.whole.options());
    c10::StorageImpl* const storage = parameter.whole.storage().unsafeGetStorageImpl();
    c10::StorageImpl* const from = fresh.storage().unsafeGetStorageImpl();
    storage->set_data_ptr_noswap(from->set_data_ptr(at::DataPtr()));
    storage->set_nbytes(from->nbytes());
  }
}

void ShardUnit::drop_memory() {
  for (Parameter& parameter : parameters_) {
    c10::StorageImpl* const storage = parameter.whole.storage().unsafeGetStorageImpl();
    storage->set_data_ptr_noswap(at::DataPtr(nullptr, storage->device()));
    storage->set_nbytes(0);
  }
}

void ShardUnit::release() {
  if (is_coming()) {
    wait(gathering_, "gathering the parameters of " + name_);
    gathering_ = {};
  }
  if (!is_whole_) return;
  const torch::NoGradGuard no_grad;
  for (Parameter& parameter : parameters_) {
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
  wait(gathering_, what);
  gathering_ = {};
}

// --- Step 4 --------------------------------------------------------------------------------------

at::ScalarType ShardUnit::reduce_dtype(const Parameter& parameter) const {
  return dtypes_.reduce && parameter.tensor.is_floating_point() ? *dtypes_.reduce
                                                                : parameter.compute;
}

// What is sent to a rank: its rows of each, then a byte of each that says whether they are there.
std::int64_t ShardUnit::message_bytes(std::int64_t shard,
                                      const std::vector<std::size_t>& which) const {
  std::int64_t bytes = part_bytes(static_cast<std::int64_t>(which.size()), at::kByte);
  for (const std::size_t i : which) {
    const Parameter& parameter = parameters_[i];
    bytes +=
        part_bytes(rows_of(parameter, shard) * parameter.row_elements(), reduce_dtype(parameter));
  }
  return bytes;
}

void ShardUnit::pack_gradients(at::Tensor& bytes, const std::vector<at::Tensor>& gradients) const {
  const auto ranks = static_cast<double>(mesh_.group().launch().world_size);
  std::int64_t at = 0;
  for (std::int64_t shard = 0; shard < mesh_.shards(); ++shard) {
    for (std::size_t i = 0; i < reduced_.size(); ++i) {
      const Parameter& parameter = parameters_[reduced_[i]];
      const std::int64_t rows = rows_of(parameter, shard);
      const at::Tensor place =
          next_part(bytes, at, rows * parameter.row_elements(), reduce_dtype(parameter));
      if (!gradients[i].defined() || rows == 0) continue;
      const at::Tensor own = gradients[i].narrow(0, shard * parameter.per_rank, rows);
      place.view(own.sizes()).copy_(own).div_(ranks);
    }
    const auto count = static_cast<std::int64_t>(reduced_.size());
    const at::Tensor flags = at::empty({count}, at::kByte);
    for (std::size_t i = 0; i < reduced_.size(); ++i)
      flags.data_ptr<std::uint8_t>()[i] = gradients[i].defined() ? 1 : 0;
    next_part(bytes, at, count, at::kByte).copy_(flags);
  }
}

void ShardUnit::begin_reduce(const Reduce& how) {
  const torch::NoGradGuard no_grad;
  reduced_ = trainable();
  std::vector<at::Tensor> gradients(reduced_.size());
  for (std::size_t i = 0; i < reduced_.size(); ++i) {
    if (!is_whole_ || !how.contributes) continue;
    gradients[i] = std::exchange(parameters_[reduced_[i]].tensor.mutable_grad(), at::Tensor());
    if (gradients[i].defined() && gradients[i].is_sparse()) {
      throw UnsupportedError("the parameter " + parameters_[reduced_[i]].name +
                             " has sparse gradients, which cannot be sharded: make its Embedding "
                             "with sparse = false");
    }
  }
  for (const Parameter& parameter : parameters_) {
    if (is_whole_) parameter.tensor.mutable_grad().reset();  // of what does not count
  }
  if (!how.stays_whole) release();
  if (reduced_.empty()) return;
  std::vector<std::int64_t> sent_bytes;
  std::int64_t all = 0;
  for (std::int64_t shard = 0; shard < mesh_.shards(); ++shard) {
    sent_bytes.push_back(message_bytes(shard, reduced_));
    all += sent_bytes.back();
  }
  std::vector<std::int64_t> received_bytes(sent_bytes.size(),
                                           message_bytes(mesh_.shard(), reduced_));
  const Channel& row = mesh_.row();
  at::Tensor packed = page_tensor({all}, at::TensorOptions(row.device).dtype(at::kByte)).zero_();
  pack_gradients(packed, gradients);
  reducing_.sent = {row.message_of(packed)};
  reducing_.received = {{row.empty_message(mesh_.shards() * received_bytes[0])}};
  reducing_.work = start("sending the gradients of ", [&] {
    return row.backend->alltoall_base(reducing_.received[0][0], reducing_.sent[0], received_bytes,
                                      sent_bytes);
  });
}

void ShardUnit::finish_reduce(const std::string& what) {
  if (!is_reducing()) return;
  const torch::NoGradGuard no_grad;
  wait(reducing_, what);
  reducing_.work.reset();
  reducing_.sent.clear();
  const at::Tensor bytes = mesh_.row().arrived(reducing_.received[0][0]);
  std::vector<at::Tensor> sums(reduced_.size());
  std::vector<char> has_any(reduced_.size(), 0);
  std::int64_t at = 0;
  for (std::int64_t shard = 0; shard < mesh_.shards(); ++shard) {
    for (std::size_t i = 0; i < reduced_.size(); ++i) {
      const Parameter& parameter = parameters_[reduced_[i]];
      const at::Tensor part =
          next_part(bytes, at, parameter.count * parameter.row_elements(), reduce_dtype(parameter));
      sums[i] = shard == 0 ? part : sums[i].add_(part);
    }
    const at::Tensor flags =
        next_part(bytes, at, static_cast<std::int64_t>(reduced_.size()), at::kByte).to(at::kCPU);
    for (std::size_t i = 0; i < reduced_.size(); ++i)
      has_any[i] = static_cast<char>(has_any[i] | flags.data_ptr<std::uint8_t>()[i]);
  }
  if (mesh_.replicas() > 1) add_over_replicas(sums, has_any, what);
  for (std::size_t i = 0; i < reduced_.size(); ++i) {
    if (has_any[i] != 0) add_gradient(parameters_[reduced_[i]], sums[i]);
  }
  reducing_ = {};
}

// In float64 where a parameter is, in float32 otherwise: not every backend adds bfloat16.
void ShardUnit::add_over_replicas(std::vector<at::Tensor>& sums, std::vector<char>& has_any,
                                  const std::string& what) const {
  const bool is_double = std::ranges::any_of(
      sums, [](const at::Tensor& sum) { return sum.scalar_type() == at::kDouble; });
  const at::ScalarType type = is_double ? at::kDouble : at::kFloat;
  std::vector<at::Tensor> parts;
  for (const at::Tensor& sum : sums)
    parts.push_back(sum.to(type));
  const at::Tensor flags = at::empty({static_cast<std::int64_t>(sums.size())}, at::kDouble);
  std::ranges::copy(has_any, flags.data_ptr<double>());
  const Channel& column = mesh_.column();
  parts.push_back(flags.to(column.device, type));
  std::vector<at::Tensor> messages = {column.message_of(at::cat(parts))};
  mesh_.group().together(what,
                         [&] { mesh_.group().wait(column.backend->allreduce(messages), column); });
  const at::Tensor flat = column.arrived(messages[0]);
  std::int64_t at = 0;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    sums[i] = flat.narrow(0, at, sums[i].numel());
    at += sums[i].numel();
  }
  const at::Tensor all =
      flat.narrow(0, at, static_cast<std::int64_t>(sums.size())).to(at::kCPU, at::kDouble);
  for (std::size_t i = 0; i < has_any.size(); ++i)
    has_any[i] = static_cast<char>(all.data_ptr<double>()[i] > 0);
}

void ShardUnit::add_gradient(Parameter& parameter, const at::Tensor& sum) {
  at::Tensor& gradient = is_whole_ ? parameter.kept_gradient : parameter.tensor.mutable_grad();
  Dims shape = parameter.global_shape;
  shape[0] = parameter.count;
  const at::Tensor own = sum.view(shape).to(parameter.rows().scalar_type());
  if (gradient.defined()) {
    gradient.add_(own);
  } else {  // no view of the message
    gradient = page_tensor(own.sizes(), own.options()).copy_(own);
  }
}

}  // namespace cairn::dist
