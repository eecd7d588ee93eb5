// Handle: lets options take an object by value or by pointer, as in Python:
//   .callbacks = {SpeedMonitor({.window_size = 10}), my_monitor}
//
// An object that is passed by value is moved or copied into the Trainer. To inspect it during
// training, pass a std::shared_ptr and keep a copy:
//   auto monitor = std::make_shared<MyMonitor>();
//   Trainer trainer(TrainerOptions{..., .callbacks = monitor});
#pragma once

#include <concepts>
#include <initializer_list>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "cairn/export.h"

namespace CAIRN_PUBLIC cairn {

// A shared pointer to a T, which also converts from any object derived from T. Empty by default;
// each option says whether it may be empty. Copies share the object.
template <class T>
class Handle {
 public:
  // NOLINTBEGIN(google-explicit-constructor): options read like Python
  Handle() = default;
  Handle(std::nullptr_t) {}
  template <class U>
  requires std::convertible_to<U*, T*> Handle(std::shared_ptr<U> object)
      : object_(std::move(object)) {}
  template <class U>
  requires std::convertible_to<U*, T*> Handle(std::unique_ptr<U> object)
      : object_(std::move(object)) {}
  template <class U>
  requires std::derived_from<std::remove_cvref_t<U>, T> Handle(U&& object)
      : object_(std::make_shared<std::remove_cvref_t<U>>(std::forward<U>(object))) {}
  // NOLINTEND(google-explicit-constructor)

  // Must not be empty.
  T& operator*() const { return *object_; }
  T* operator->() const { return object_.get(); }
  T* get() const { return object_.get(); }
  const std::shared_ptr<T>& shared() const { return object_; }
  // False if it is empty.
  explicit operator bool() const { return object_ != nullptr; }

 private:
  std::shared_ptr<T> object_;
};

// None, one or several: `= {}`, `= SpeedMonitor()`, `= {SpeedMonitor(), LRMonitor()}`. The Trainer
// throws UsageError for an empty handle among them.
template <class T>
class HandleList {
 public:
  // NOLINTBEGIN(google-explicit-constructor)
  HandleList() = default;
  HandleList(std::initializer_list<Handle<T>> items) : items_(items) {}
  HandleList(std::vector<Handle<T>> items) : items_(std::move(items)) {}
  template <class U>
  requires std::constructible_from<Handle<T>, U &&> HandleList(U&& item) {
    items_.emplace_back(std::forward<U>(item));
  }
  // The compiler shows the line of the deleted constructor.
  // clang-format off
  template <class U>
  requires(!std::constructible_from<Handle<T>, U&&> &&
           !std::derived_from<std::remove_cvref_t<U>, HandleList>)
  HandleList(U&&) = delete;  // cairn's classes, not torch's, by value or std::make_shared<...>()
  // clang-format on
  // NOLINTEND(google-explicit-constructor)

  // In the order in which they were given.
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }
  std::size_t size() const { return items_.size(); }
  bool empty() const { return items_.empty(); }
  const Handle<T>& operator[](std::size_t i) const { return items_[i]; }
  void push_back(Handle<T> item) { items_.push_back(std::move(item)); }

 private:
  std::vector<Handle<T>> items_;
};

}  // namespace cairn
