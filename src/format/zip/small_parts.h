// Many small parts of a source, which are read together.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cairn/byte_source.h"

namespace cairn::zip {

// Passes each part to its `use`, in the order of the calls of add().
class SmallParts {
 public:
  using Use = std::function<bool(ByteView bytes)>;  // returns false to stop

  explicit SmallParts(const ByteSource& source) : source_(source) {}

  // Adds a part. May read the parts added so far. Returns false if a part's `use` returned false.
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

// Compares a file, from some byte on, with the expected bytes.
class Comparison {
 public:
  Comparison(const ByteSource& source, std::uint64_t begin) : source_(source), at_(begin) {}

  std::uint64_t at() const { return at_; }
  // Skips bytes that may be anything.
  void skip(std::uint64_t size) { at_ += size; }
  // `append` appends the bytes that are expected here to a text. Returns false if these bytes, or
  // earlier ones, differ.
  template <class Append>
  bool expect(const Append& append) {
    const std::size_t before = expected_.size();
    append(expected_);
    return add(expected_.size() - before);
  }
  // Call this last. Returns whether all bytes matched, and the comparison has come to `end`.
  bool finish(std::uint64_t end);
  // After a call returned false: the offset of the first difference.
  std::uint64_t difference() const { return difference_; }

 private:
  struct Part {
    std::uint64_t offset;
    std::uint64_t size;
  };

  bool add(std::uint64_t size);  // expects the last bytes of expected_ here
  bool compare();                // compares what was not compared yet

  const ByteSource& source_;
  std::string expected_;  // the bytes of parts_, one after another
  std::vector<Part> parts_;
  std::vector<std::byte> found_;
  std::vector<ByteSource::Range> ranges_;
  std::uint64_t at_;
  std::uint64_t difference_ = 0;
};

}  // namespace cairn::zip
