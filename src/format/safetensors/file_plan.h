// A safetensors file as a CheckpointPlan, laid out as the reference writes it:
//
//  1. Tensors are sorted by dtype, the largest elements first, then by name: since the data starts
//     at a multiple of 8, all of them are aligned.
//  2. The header: the metadata, then the tensors in the order of their bytes, each with its dtype,
//     shape and data_offsets. The only spaces are at its end, so that its size is a multiple of 8.
//  3. The tensors, directly one after another.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cairn/format/safetensors.h"

#include "format/checkpoint_plan.h"

namespace cairn::safetensors {

class FilePlan final : public CheckpointPlan {
 public:
  // Arguments and errors as for SafetensorsPlan.
  FilePlan(std::vector<NamedTensor> tensors, const SafetensorsFile::Metadata& metadata,
           bool checksums);
  FilePlan(const FilePlan&) = delete;
  FilePlan& operator=(const FilePlan&) = delete;

  Check check() const override { return checksums_ ? Check::kXxh3First : Check::kNone; }
  std::uint64_t size() const override { return size_; }
  void append_between(std::size_t index, std::span<const std::uint64_t> checks,
                      std::string& out) const override;
  std::string name_of(std::size_t index) const override { return *names_[index]; }

 private:
  std::vector<NamedTensor> tensors_;
  std::vector<const std::string*> names_;  // of the parts: tensors with bytes
  std::string header_;                     // with its size
  bool checksums_ = false;
  std::uint64_t size_ = 0;
};

}  // namespace cairn::safetensors
