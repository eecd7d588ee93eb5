// Passes on what is written to a file of a folder, and computes the file's entry in the manifest.
#pragma once

#include <cstdint>
#include <string>

#include "checkpoint/plan/folder_manifest.h"
#include "core/hash/xxh3.h"

namespace cairn {

class ManifestSink final : public ByteSink {
 public:
  explicit ManifestSink(ByteSink& to) : to_(to) {}
  void write(ByteView bytes) override {
    hash_.write(bytes);
    bytes_ += bytes.size();
    to_.write(bytes);
  }
  // The entry for all bytes written so far.
  ManifestFile file(const std::string& name) const {
    return {.name = name, .bytes = bytes_, .xxh3_128 = hash_.digest128()};
  }

 private:
  ByteSink& to_;
  Xxh3 hash_;
  std::uint64_t bytes_ = 0;
};

}  // namespace cairn
