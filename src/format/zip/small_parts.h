// Many small parts of a source, read some MiB at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cairn/byte_source.h"

namespace cairn::zip {

// Gives each part to its `use`, in the order in which they were added.
class SmallParts {
 public:
  using Use = std::function<bool(ByteView bytes)>;  // false: no more

  explicit SmallParts(const ByteSource& source) : source_(source) {}

  // May read what was added so far. False when one was refused by its `use`.
  bool add(std::uint64_t offset, std::uint64_t size, Use use);
  bool flush();

 private:
  struct Part {
    std::uint64_t offset;
    std::uint64_t size;
    Use use;
  };

  const ByteSource& source_;
  std::vector<Part> parts_;
  std::uint64_t bytes_ = 0;
};

// Compares a file, from some byte on, with what should stand there.
class Comparison {
 public:
  Comparison(const ByteSource& source, std::uint64_t begin) : source_(source), at_(begin) {}

  std::uint64_t at() const { return at_; }
  // Passes over bytes that may be anything.
  void skip(std::uint64_t size) { at_ += size; }
  // `append` appends to a text what should stand here. False when this, or something before it,
  // differs.
  template <class Append>
  bool expect(const Append& append) {
    const std::size_t before = expected_.size();
    append(expected_);
    return add(expected_.size() - before);
  }
  // After all: whether nothing differs, and `end` is here.
  bool finish(std::uint64_t end);
  // After one of them was false: where the first difference is.
  std::uint64_t difference() const { return difference_; }

 private:
  struct Part {
    std::uint64_t offset;
    std::uint64_t size;
  };

  bool add(std::uint64_t size);  // the last bytes of expected_ should stand here
  bool compare();                // what was not yet

  const ByteSource& source_;
  std::string expected_;  // in parts_, one behind the other
  std::vector<Part> parts_;
  std::vector<std::byte> found_;
  std::vector<ByteSource::Range> ranges_;
  std::uint64_t at_;
  std::uint64_t difference_ = 0;
};

}  // namespace cairn::zip
