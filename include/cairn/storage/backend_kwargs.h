// Composer's backend_kwargs: named arguments of a bucket's store.
//
//   BackendKwargs kwargs = {{"provider", "s3"},
//                           {"container", "my-bucket"},
//                           {"provider_kwargs", {{"key", "..."}, {"secret", "..."}}}};
#pragma once

#include <initializer_list>
#include <map>
#include <string>
#include <utility>
#include <variant>

#include "cairn/export.h"

namespace CAIRN_PUBLIC cairn {

// One argument: a text, or texts by name, as in libcloud's provider_kwargs.
class BackendKwarg {
 public:
  using Nested = std::map<std::string, std::string>;

  BackendKwarg() = default;                                       // an empty text
  BackendKwarg(std::string text) : value_(std::move(text)) {}     // NOLINT: implicit
  BackendKwarg(const char* text) : value_(std::string(text)) {}   // NOLINT: implicit
  BackendKwarg(Nested nested) : value_(std::move(nested)) {}      // NOLINT: implicit
  BackendKwarg(std::initializer_list<Nested::value_type> nested)  // NOLINT: implicit
      : value_(Nested(nested)) {}

  // nullptr if the argument is of the other kind.
  const std::string* text() const { return std::get_if<std::string>(&value_); }
  const Nested* nested() const { return std::get_if<Nested>(&value_); }

 private:
  std::variant<std::string, Nested> value_;
};

using BackendKwargs = std::map<std::string, BackendKwarg>;

}  // namespace cairn
