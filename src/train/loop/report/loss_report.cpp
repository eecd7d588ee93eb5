#include "train/loop/report/loss_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/torch.h>

#include <algorithm>
#include <utility>

#include "cairn/bytes.h"

#include "core/hash/xxh3.h"
#include "dist/group.h"
#include "dist/team.h"

namespace cairn {
namespace {

std::vector<std::string> names_of(const NamedDoubles& losses) {
  std::vector<std::string> names;
  for (const auto& [name, value] : losses)
    names.push_back(name);
  return names;
}

// A rank may lack a loss that other ranks have, just as a microbatch may lack one. The missing loss
// counts as 0.
NamedDoubles average_by_name(const NamedDoubles& own) {
  const auto ranks = static_cast<double>(dist::world_size());
  NamedDoubles averages;
  Dict mine;
  for (const auto& [name, value] : own)
    mine.set(name, value);
  for (const Value& of_rank : Team::of_job().gather_all(std::move(mine))) {
    for (const auto& [key, value] : of_rank.as_dict()) {
      const std::string& name = key.as_str();
      auto found = std::ranges::find(averages, name, &NamedDoubles::value_type::first);
      if (found == averages.end()) found = averages.emplace(found, name, 0.0);
      found->second += value.as_float() / ranks;
    }
  }
  return averages;
}

}  // namespace

void LossReport::add(const NamedValues& losses, const Metrics& metrics) {
  const std::int64_t batch = context_.state.timestamp.batch;
  NamedValues values = compute_values(context_, metrics);
  const auto is_number = [](const auto& named) { return named.second.numel() == 1; };
  if (std::ranges::all_of(values, is_number)) {
    for (auto& [name, value] : values) {
      value = value.reshape({});
      if (!value.is_floating_point()) value = value.to(at::kDouble);  // Beside losses of float32.
    }
    pending_.add(batch, losses, values);
  } else {
    pending_.add(batch, losses, {});
    publish(/*all=*/true);
    publish_metrics(context_, context_.state.dataloader_label, values, batch);
  }
}

void LossReport::publish(bool all) {
  for (const BatchLosses& each : all ? pending_.take_all() : pending_.take_arrived()) {
    const bool is_alone = context_.group == nullptr;
    publish_now(each.batch, is_alone ? each.losses : averages_of_ranks(each.losses));
    NamedValues metrics;
    for (const auto& [name, value] : each.metrics)
      metrics.emplace_back(name, at::scalar_tensor(value, at::kDouble));
    publish_metrics(context_, context_.state.dataloader_label, metrics, each.batch);
  }
}

void LossReport::publish_after_failure() noexcept {
  if (context_.group != nullptr) return;  // The other ranks do not publish with this one.
  try {
    publish(/*all=*/true);
  } catch (...) {  // The failure itself is reported.
  }
}

std::vector<double> LossReport::message() {
  sent_ = pending_.take_oldest(/*not_newest=*/!context_.device.is_cpu());  // As on all ranks.
  return sent_ ? message_of(sent_->losses) : std::vector<double>(1 + known_losses_.size());
}

void LossReport::publish_message(const std::vector<double>& sums) {
  const auto sent = std::exchange(sent_, std::nullopt);
  if (!sent) return;
  const auto averages = averages_in(sums, sent->losses);
  publish_now(sent->batch, averages ? *averages : settle_names(sent->losses));
}

std::vector<double> LossReport::message_of(const NamedDoubles& own) const {
  std::vector<double> message = {names_of(own) == known_losses_ ? 0.0 : 1.0};
  for (const auto& [name, value] : own)
    message.push_back(value);
  message.resize(1 + known_losses_.size());
  return message;
}

std::optional<NamedDoubles> LossReport::averages_in(const std::vector<double>& sums,
                                                    const NamedDoubles& own) const {
  if (sums[0] != 0) return std::nullopt;
  NamedDoubles averages = own;
  for (std::size_t i = 0; i < averages.size(); ++i)
    averages[i].second = sums[i + 1] / static_cast<double>(dist::world_size());
  return averages;
}

NamedDoubles LossReport::averages_of_ranks(const NamedDoubles& own) {
  const auto averages = averages_in(dist::sum(message_of(own), "averaging the losses"), own);
  return averages ? *averages : settle_names(own);
}

// If all ranks have the same names, these are the names from now on.
NamedDoubles LossReport::settle_names(const NamedDoubles& own) {
  const std::vector<std::string> names = names_of(own);
  const auto hash =
      static_cast<std::int64_t>(xxh3_64(as_bytes(fmt::format("{}", fmt::join(names, "\n")))));
  at::Tensor range = at::tensor({hash, ~hash}, at::kLong);
  dist::all_reduce(range, dist::ReduceOp::kMax);
  if (range[0].item<std::int64_t>() != ~range[1].item<std::int64_t>()) return average_by_name(own);
  known_losses_ = names;
  return *averages_in(dist::sum(message_of(own), "averaging the losses"), own);
}

void LossReport::publish_now(std::int64_t batch, const NamedDoubles& losses) {
  State& state = context_.state;
  for (const auto& [name, value] : losses)
    state.total_loss_dict.set("loss/train/" + name, value);
  if (context_.logging()) context_.logger.log_metrics(state.total_loss_dict, batch);
}

}  // namespace cairn
