// nlohmann's JSON, made safe where memory is short. Without this a failed allocation ends the
// process in two cases. The library's destructors first flatten the tree into a std::vector. The
// library's code that turns a null value into an array or an object leaves the value with a null
// pointer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include <nlohmann/json.hpp>

#include "core/text/json_fwd.h"

namespace cairn {

// How much of the reserve a caller may take. Destructors may take all of it: they must not fail.
enum class Reserve : std::uint8_t { kHalf, kAll };

// Allocates memory. If there is none left, takes memory from a reserve in the program. Throws
// std::bad_alloc if the reserve is used up, too. Thread-safe.
void* take_reserved(std::size_t bytes, Reserve most);
void give_back_reserved(void* memory) noexcept;

template <class T>
struct JsonAllocator {
  using value_type = T;

  JsonAllocator() = default;
  template <class U>
  JsonAllocator(const JsonAllocator<U>& /*other*/) noexcept {}  // NOLINT: as std::allocator's

  T* allocate(std::size_t count) {
    return static_cast<T*>(take_reserved(count * sizeof(T), Reserve::kHalf));
  }
  void deallocate(T* place, std::size_t /*count*/) noexcept { give_back_reserved(place); }
  template <class U>
  bool operator==(const JsonAllocator<U>& /*other*/) const noexcept {
    return true;
  }
};

// The allocator of the vectors that destructors use.
template <class T>
struct DestructorAllocator {
  using value_type = T;

  T* allocate(std::size_t count) {
    return static_cast<T*>(take_reserved(count * sizeof(T), Reserve::kAll));
  }
  void deallocate(T* place, std::size_t /*count*/) noexcept { give_back_reserved(place); }
  bool operator==(const DestructorAllocator& /*other*/) const noexcept { return true; }
};

}  // namespace cairn

template <>
class std::allocator<cairn::Json> : public cairn::DestructorAllocator<cairn::Json> {};
template <>
class std::allocator<cairn::OrderedJson> : public cairn::DestructorAllocator<cairn::OrderedJson> {};
