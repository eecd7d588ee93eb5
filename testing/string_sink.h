// A sink that keeps everything in a string.
#pragma once

#include <memory>
#include <string>

#include "cairn/format/torch_file.h"

namespace cairn::testing {

class StringSink final : public ByteSink {
 public:
  void write(ByteView bytes) override { text.append(as_text(bytes)); }
  std::string text;
};

// The bytes of the file that cairn writes for `value`.
inline std::string encoded(const Value& value, const TorchFileWriteOptions& options = {}) {
  StringSink sink;
  TorchFilePlan(value).write(sink, options);
  return std::move(sink.text);
}

// Bytes together with their owner.
inline SharedBytes shared(std::string bytes) {
  auto owner = std::make_shared<const std::string>(std::move(bytes));
  return {as_bytes(*owner), owner};
}

// A source with these bytes.
inline std::shared_ptr<const ByteSource> source_with(std::string bytes,
                                                     std::string name = "a file") {
  return source_of(shared(std::move(bytes)), std::move(name));
}

}  // namespace cairn::testing
