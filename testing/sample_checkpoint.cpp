#include "testing/sample_checkpoint.h"

#include "cairn/error.h"

namespace cairn::testing {
namespace {

TensorView floats(std::size_t count, std::int64_t seed) {
  auto owner = std::make_shared<std::vector<float>>(count);
  auto x = static_cast<std::uint32_t>(seed * 2654435761U + 1);
  for (float& f : *owner) {
    x = x * 1664525U + 1013904223U;
    f = static_cast<float>(x >> 8) / 1000.0F;
  }
  return make_tensor(DType::kFloat32, {static_cast<std::int64_t>(count)},
                     {std::as_bytes(std::span(*owner)), owner});
}

Timestamp timestamp_at(std::int64_t batch) {
  Timestamp timestamp;
  timestamp.epoch = batch / 10;
  timestamp.batch = batch;
  timestamp.batch_in_epoch = batch % 10;
  timestamp.sample = batch * 32;
  timestamp.total_wct = TimeDelta::of(std::chrono::microseconds(batch * 1500));
  return timestamp;
}

}  // namespace

Value sample_checkpoint(std::int64_t batch, std::size_t bytes) {
  const Value weight = floats(bytes / sizeof(float), batch);
  return Dict{
      {"state",
       Dict{
           {"model",
            Dict::ordered(
                {{"0.weight", weight}, {"0.bias", floats(3, batch + 1)}, {"2.weight", weight}})},
           {"optimizers", Dict{{"Adam", Dict{{"exp_avg", floats(5, batch + 2)}, {"step", batch}}}}},
           {"timestamp", Dict{{"Timestamp", timestamp_at(batch).state_dict()}}},
       }},
      {"rng", List{Dict{{"torch", floats(4, batch + 3)}}}},
  };
}

CheckpointInfo sample_info(std::int64_t batch) {
  return {.kind = "full", .run_name = "sample", .timestamp = timestamp_at(batch)};
}

std::int64_t batch_of_sample(const Value& value, std::size_t bytes) {
  const Value* batch = find_path(value, "state/timestamp/Timestamp/batch");
  if (batch == nullptr || !batch->is_int()) return -1;
  return value == sample_checkpoint(batch->as_int(), bytes) ? batch->as_int() : -1;
}

}  // namespace cairn::testing
