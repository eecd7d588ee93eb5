#include "dist/team.h"

#include <fmt/format.h>

#include <array>
#include <exception>
#include <optional>

#include "cairn/dist/dist.h"
#include "cairn/error.h"

namespace cairn {
namespace {

// An error is sent as List{its row in kClasses, text, status, retryable}. None: no error.
struct ErrorClass {
  bool (*is_one)(const std::exception&);
  void (*throw_one)(const std::string& text, int status, bool retryable);
};

template <class E>
constexpr ErrorClass row() {
  return {[](const std::exception& e) { return dynamic_cast<const E*>(&e) != nullptr; },
          [](const std::string& text, int /*status*/, bool /*retryable*/) { throw E(text); }};
}
template <class E>
constexpr ErrorClass row_with_status() {
  return {[](const std::exception& e) { return dynamic_cast<const E*>(&e) != nullptr; },
          [](const std::string& text, int status, bool retryable) {
            throw E(text, status, retryable);
          }};
}

// The first row that fits counts. If none fits, the other ranks throw a StorageError.
constexpr std::array kClasses = {
    row<UsageError>(),
    row<NotFoundError>(),
    row<AlreadyExistsError>(),
    row<CorruptError>(),
    row<UnsupportedError>(),
    row<MismatchError>(),
    row<OutOfMemoryError>(),
    row<BusyError>(),
    row<CancelledError>(),
    row<TrainingError>(),
    row_with_status<StorageError>(),
};
constexpr std::size_t kOther = kClasses.size() - 1;

Value value_of(const std::exception& error) {
  std::size_t kind = 0;
  while (kind < kOther && !kClasses[kind].is_one(error))
    ++kind;
  const auto* const storage = dynamic_cast<const StorageError*>(&error);
  return List{static_cast<std::int64_t>(kind), error.what(),
              storage != nullptr ? storage->status() : 0,
              storage != nullptr && storage->retryable()};
}

void throw_if_failed(const Value& error, std::size_t rank, const std::string& doing) {
  if (error.is_none()) return;
  const List& of_rank = error.as_items();
  kClasses.at(static_cast<std::size_t>(of_rank.at(0).as_int()))
      .throw_one(fmt::format("rank {}, {}: {}", rank, doing, of_rank.at(1).as_str()),
                 static_cast<int>(of_rank.at(2).as_int()), of_rank.at(3).as_bool());
}

// The result of `act` on this rank, or its error.
struct Outcome {
  explicit Outcome(const std::function<Value()>& act) {
    try {
      const dist::LongWork long_work;
      result = act();
    } catch (const dist::DistError&) {
      throw;
    } catch (const std::exception& e) {
      failed = std::current_exception();
      error = value_of(e);
    }
  }
  Value said() const { return List{error, result}; }

  std::exception_ptr failed;
  Value error;
  Value result;
};

}  // namespace

Team Team::of_job() {
  if (!dist::is_initialized()) return {0, 1};
  return {dist::rank(), dist::world_size()};
}

Value Team::do_on_first(const std::string& doing, const std::function<Value()>& act) const {
  if (is_alone()) return act();
  std::optional<Outcome> own;
  if (is_first()) own.emplace(act);
  const Value said = dist::broadcast_value(own ? own->said() : Value());
  if (own && own->failed) std::rethrow_exception(own->failed);
  throw_if_failed(said.as_items().at(0), 0, doing);
  return said.as_items().at(1);
}

std::vector<Value> Team::gather_results(const std::string& doing,
                                        const std::function<Value()>& act) const {
  if (is_alone()) return {act()};
  const Outcome own(act);
  const std::vector<Value> all = dist::all_gather_values(own.said());
  if (own.failed) std::rethrow_exception(own.failed);
  std::vector<Value> results;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    throw_if_failed(all[rank].as_items().at(0), rank, doing);
    results.push_back(all[rank].as_items().at(1));
  }
  return results;
}

void Team::run_on_all(const std::string& doing, const std::function<void()>& act) const {
  gather_results(doing, [&] {
    act();
    return Value();
  });
}

Value Team::broadcast_from_first(const Value& own) const {
  return is_alone() ? own : dist::broadcast_value(own);
}

std::vector<Value> Team::gather_all(const Value& own) const {
  return is_alone() ? std::vector<Value>{own} : dist::all_gather_values(own);
}

}  // namespace cairn
