// nlohmann's JSON, made safe where memory is short. Without this a failed allocation ends the
// process in two places of it: its destructors flatten the tree into a std::vector first, and what
// makes an array or an object of a null value leaves it with a null pointer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include <nlohmann/json.hpp>

#include "core/json_fwd.h"

namespace cairn {

// Who may take how much of the reserve: destructors, which must not fail, all of it.
enum class Reserve : std::uint8_t { kHalf, kAll };

// Memory from a reserve in the program where there is no other. std::bad_alloc when that is used
// up, too. Thread-safe.
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

// What the destructors' vectors use.
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
class std::allocator<cairn::OrderedJson> : public cairn::DestructorAllocator<cairn::OrderedJson> {
};
