// Dims: the shape of a tensor, its strides, or where it begins in a larger one.
#pragma once

#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <type_traits>
#include <utility>
#include <vector>

namespace cairn {

// One number for each dimension: a short std::vector<std::int64_t>, with what is used of one, that
// holds up to four numbers in itself. A checkpoint of 100,000 tensors has 200,000 of these, which
// as vectors would be as many small pieces of the heap. Longer ones take memory as a vector does.
//
// Converts from and to a vector (a copy: what takes a const std::vector& is given a temporary one),
// and to what takes a range (std::span, at::IntArrayRef); compares with all that it converts from.
// Unlike a vector's, its numbers go with it when it is moved: what points at them does not.
class Dims {
 public:
  using value_type = std::int64_t;
  using size_type = std::size_t;
  using difference_type = std::ptrdiff_t;
  using reference = std::int64_t&;
  using const_reference = const std::int64_t&;
  using iterator = std::int64_t*;
  using const_iterator = const std::int64_t*;

  // How many it holds without memory of its own.
  static constexpr std::uint32_t kInside = 4;

  Dims() noexcept = default;
  // `count` times `value`, as a vector's.
  explicit Dims(std::size_t count, std::int64_t value = 0) { assign(count, value); }
  Dims(std::initializer_list<std::int64_t> numbers) { assign(numbers.begin(), numbers.end()); }
  template <std::input_iterator I>
  Dims(I begin, I end) {
    assign(begin, end);
  }
  // Numbers that lie in a row elsewhere: those of a vector, a span, an at::IntArrayRef.
  template <class Row>
  requires(!std::same_as<Row, Dims> && requires(const Row& row) {
    { row.data() } -> std::convertible_to<const std::int64_t*>;
    { row.size() } -> std::convertible_to<std::size_t>;
  }) Dims(const Row& row) {  // NOLINT(google-explicit-constructor)
    copy(row.data(), row.size());
  }
  Dims(const Dims& other) { copy(other.data(), other.size_); }
  Dims(Dims&& other) noexcept { take(other); }
  Dims& operator=(const Dims& other) {
    if (this != &other) copy(other.data(), other.size_);
    return *this;
  }
  Dims& operator=(Dims&& other) noexcept {
    if (this == &other) return *this;
    let_go();
    take(other);
    return *this;
  }
  ~Dims() { let_go(); }

  operator std::vector<std::int64_t>() const {  // NOLINT(google-explicit-constructor)
    return {begin(), end()};
  }

  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  std::int64_t* data() noexcept { return room_ > kInside ? far_ : near_; }
  const std::int64_t* data() const noexcept { return room_ > kInside ? far_ : near_; }
  iterator begin() noexcept { return data(); }
  iterator end() noexcept { return data() + size_; }
  const_iterator begin() const noexcept { return data(); }
  const_iterator end() const noexcept { return data() + size_; }
  const_iterator cbegin() const noexcept { return begin(); }
  const_iterator cend() const noexcept { return end(); }
  auto rbegin() noexcept { return std::reverse_iterator(end()); }
  auto rend() noexcept { return std::reverse_iterator(begin()); }
  auto rbegin() const noexcept { return std::reverse_iterator(end()); }
  auto rend() const noexcept { return std::reverse_iterator(begin()); }
  // As a vector's, of what is there: not checked.
  std::int64_t& operator[](std::size_t i) noexcept { return data()[i]; }
  const std::int64_t& operator[](std::size_t i) const noexcept { return data()[i]; }
  std::int64_t& front() noexcept { return *data(); }
  const std::int64_t& front() const noexcept { return *data(); }
  std::int64_t& back() noexcept { return data()[size_ - 1]; }
  const std::int64_t& back() const noexcept { return data()[size_ - 1]; }

  // The same, checked: std::out_of_range.
  std::int64_t& at(std::size_t i) { return data()[checked(i)]; }
  const std::int64_t& at(std::size_t i) const { return data()[checked(i)]; }

  // What changes it. std::bad_alloc, std::length_error beyond 2^32 - 1 numbers: then it is as it
  // was. Numbers of its own may be assigned.
  template <std::input_iterator I>
  void assign(I begin, I end) {
    if constexpr (std::contiguous_iterator<I> && std::same_as<std::iter_value_t<I>, std::int64_t>) {
      copy(std::to_address(begin), static_cast<std::size_t>(end - begin));
    } else {
      Dims made;
      for (; begin != end; ++begin) {
        made.push_back(static_cast<std::int64_t>(*begin));
      }
      *this = std::move(made);
    }
  }
  void assign(std::size_t count, std::int64_t value) {
    if (count > room_) grow(count);
    size_ = 0;
    resize(count, value);
  }
  void resize(std::size_t count, std::int64_t value = 0) {
    const std::size_t doubled = std::size_t{size_} * 2;
    if (count > room_) grow(count < doubled ? doubled : count);
    for (std::size_t i = size_; i < count; ++i) {
      data()[i] = value;
    }
    size_ = static_cast<std::uint32_t>(count);
  }
  void push_back(std::int64_t number) {
    if (size_ == room_) grow(std::size_t{size_} * 2);
    data()[size_++] = number;
  }
  std::int64_t& emplace_back(std::int64_t number) {
    push_back(number);
    return back();
  }
  void pop_back() noexcept { --size_; }
  void clear() noexcept { size_ = 0; }
  void reserve(std::size_t count) {
    if (count > room_) grow(count);
  }

  friend bool operator==(const Dims& a, const Dims& b) noexcept {
    if (a.size_ != b.size_) return false;
    for (std::size_t i = 0; i < a.size_; ++i) {
      if (a[i] != b[i]) return false;
    }
    return true;
  }
  // With a vector, an at::IntArrayRef: without it libtorch's comparisons are as good.
  template <class Row>
  requires(!std::same_as<Row, Dims> && std::convertible_to<const Row&, Dims>) friend bool
  operator==(const Dims& a, const Row& row) {
    return a == Dims(row);
  }
  // As of vectors: the first number that differs decides.
  friend std::strong_ordering operator<=>(const Dims& a, const Dims& b) noexcept;

 private:
  void copy(const std::int64_t* numbers, std::size_t count) {
    if (count > room_) return copy_far(numbers, count);
    for (std::size_t i = 0; i < count; ++i) {  // its own, too: they stand no further in front
      data()[i] = numbers[i];
    }
    size_ = static_cast<std::uint32_t>(count);
  }
  // What `other` has, when this has nothing.
  void take(Dims& other) noexcept {
    room_ = std::exchange(other.room_, kInside);
    size_ = std::exchange(other.size_, 0);
    if (room_ > kInside) {
      far_ = other.far_;
      return;
    }
    for (std::size_t i = 0; i < size_; ++i) {
      near_[i] = other.near_[i];
    }
  }
  void let_go() noexcept {
    if (room_ > kInside) delete[] far_;
  }
  std::size_t checked(std::size_t i) const;
  void grow(std::size_t count);  // room for so many, and what is there
  void copy_far(const std::int64_t* numbers, std::size_t count);  // more than there is room for

  union {
    std::int64_t near_[kInside] = {};
    std::int64_t* far_;  // while room_ is more than that
  };
  std::uint32_t size_ = 0;
  std::uint32_t room_ = kInside;
};

}  // namespace cairn
