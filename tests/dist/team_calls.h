// The mode "team" of dist_program: calls of Team, with errors of each class on one rank.
#pragma once

#include <exception>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>

#include "cairn/dist/dist.h"
#include "cairn/error.h"

#include "arguments.h"
#include "dist/team.h"

// Functions that throw an error, by the name of the error's class.
inline const std::map<std::string, std::function<void()>>& errors_by_class() {
  static const std::map<std::string, std::function<void()>> errors = {
      {"UsageError", [] { throw cairn::UsageError("why"); }},
      {"NotFoundError", [] { throw cairn::NotFoundError("why"); }},
      {"AlreadyExistsError", [] { throw cairn::AlreadyExistsError("why"); }},
      {"CorruptError", [] { throw cairn::CorruptError("why"); }},
      {"UnsupportedError", [] { throw cairn::UnsupportedError("why"); }},
      {"MismatchError", [] { throw cairn::MismatchError("why"); }},
      {"OutOfMemoryError", [] { throw cairn::OutOfMemoryError("why"); }},
      {"BusyError", [] { throw cairn::BusyError("why"); }},
      {"CancelledError", [] { throw cairn::CancelledError("why"); }},
      {"TrainingError", [] { throw cairn::TrainingError("why"); }},
      {"StorageError", [] { throw cairn::StorageError("why", 28, /*retryable=*/true); }},
      {"another", [] { throw std::runtime_error("why"); }},
  };
  return errors;
}

// "BusyError: rank 1, trying: why".
inline std::string error_of(const std::function<void()>& act) {
  const auto text = [](const char* name, const std::exception& e) {
    return std::string(name) + ": " + e.what();
  };
  try {
    act();
  } catch (const cairn::UsageError& e) {
    return text("UsageError", e);
  } catch (const cairn::NotFoundError& e) {
    return text("NotFoundError", e);
  } catch (const cairn::AlreadyExistsError& e) {
    return text("AlreadyExistsError", e);
  } catch (const cairn::CorruptError& e) {
    return text("CorruptError", e);
  } catch (const cairn::UnsupportedError& e) {
    return text("UnsupportedError", e);
  } catch (const cairn::MismatchError& e) {
    return text("MismatchError", e);
  } catch (const cairn::OutOfMemoryError& e) {
    return text("OutOfMemoryError", e);
  } catch (const cairn::BusyError& e) {
    return text("BusyError", e);
  } catch (const cairn::CancelledError& e) {
    return text("CancelledError", e);
  } catch (const cairn::TrainingError& e) {
    return text("TrainingError", e);
  } catch (const cairn::StorageError& e) {
    return text(e.status() == 28 && e.retryable() ? "StorageError" : "another", e);
  } catch (const std::exception& e) {
    return text("another", e);
  }
  return "none";
}

inline void demand_text(const std::string& what, const std::string& expected,
                        const std::string& found) {
  if (found == expected) return;
  throw std::runtime_error(what + ": expected " + expected + ", found " + found);
}

// Makes each call of Team once without an error. Then makes it with an error of each class, on rank
// 0 and on rank 1.
inline void call_as_team(const Arguments& arguments) {
  initialize(arguments);
  const cairn::Team team = cairn::Team::of_job();
  const auto own = [&] { return cairn::Value(team.rank() * 10); };
  demand_text("do_on_first", "0", std::to_string(team.do_on_first("trying", own).as_int()));
  const auto all = team.gather_results("trying", own);
  demand_text("gather_results", "20", std::to_string(all.at(2).as_int()));
  for (const auto& [name, fail] : errors_by_class()) {
    const auto expected = [&, name = name](std::int64_t thrower) {
      if (team.rank() == thrower) return name + ": why";
      return name + ": rank " + std::to_string(thrower) + ", trying: why";
    };
    demand_text("do_on_first " + name, expected(0), error_of([&, fail = fail] {
                  team.do_on_first("trying", [&] {
                    fail();
                    return cairn::Value();
                  });
                }));
    demand_text("run_on_all " + name, expected(1), error_of([&, fail = fail] {
                  team.run_on_all("trying", [&] {
                    if (team.rank() == 1) fail();
                  });
                }));
  }
  // Two ranks fail: each throws its own error, and the third throws rank 0's.
  const std::string own_error = team.rank() == 2 ? "BusyError: rank 0, trying: of 0"
                                                 : "BusyError: of " + std::to_string(team.rank());
  demand_text("two fail", own_error, error_of([&] {
                team.run_on_all("trying", [&] {
                  if (team.rank() < 2) throw cairn::BusyError("of " + std::to_string(team.rank()));
                });
              }));
  print_line("all of it holds");
}
