// nlohmann's JSON, whose destructors are safe where memory is short. They flatten the tree into a
// std::vector first, and a destructor that finds no memory for it would end the process.
#pragma once

#include <cstddef>
#include <memory>
#include <new>

#include <nlohmann/json.hpp>

#include "core/json_fwd.h"

namespace cairn {

// Takes memory that a destructor needs: from a reserve in the program where there is no other.
// std::bad_alloc when the reserve is used up, too. Thread-safe.
void* take_reserved(std::size_t bytes);
void give_back_reserved(void* memory) noexcept;

// std::allocator under another name, so that Json is a type of cairn's own.
template <class T>
struct JsonAllocator {
  using value_type = T;

  JsonAllocator() = default;
  template <class U>
  JsonAllocator(const JsonAllocator<U>& /*other*/) noexcept {}  // NOLINT: as std::allocator's

  T* allocate(std::size_t count) { return std::allocator<T>().allocate(count); }
  void deallocate(T* place, std::size_t count) noexcept {
    std::allocator<T>().deallocate(place, count);
  }
  template <class U>
  bool operator==(const JsonAllocator<U>& /*other*/) const noexcept {
    return true;
  }
};

// What the destructors' vectors use.
template <class T>
struct ReservedAllocator {
  using value_type = T;

  ReservedAllocator() = default;
  T* allocate(std::size_t count) { return static_cast<T*>(take_reserved(count * sizeof(T))); }
  void deallocate(T* place, std::size_t /*count*/) noexcept { give_back_reserved(place); }
  bool operator==(const ReservedAllocator& /*other*/) const noexcept { return true; }
};

}  // namespace cairn

template <>
class std::allocator<cairn::Json> : public cairn::ReservedAllocator<cairn::Json> {};
template <>
class std::allocator<cairn::OrderedJson> : public cairn::ReservedAllocator<cairn::OrderedJson> {};
