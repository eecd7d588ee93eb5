#include <algorithm>
#include <unordered_set>

#include "cairn/error.h"

#include "core/checked.h"
#include "core/hash/seeded_hash.h"
#include "core/little_endian.h"
#include "core/text/json.h"
#include "format/safetensors/checksums.h"
#include "format/safetensors/dtypes.h"
#include "format/safetensors/file_plan.h"
#include "format/safetensors/header.h"
#include "format/stream_plan.h"
#include "value/tensor/tensor_part.h"
#include "value/tensor/tensor_pieces.h"

namespace cairn {
namespace {

using safetensors::DTypeRow;

// Returns the text as JSON, with its quotes.
std::string exact_json(const std::string& text) {
  try {
    return Json(text).dump();
  } catch (const Json::type_error&) {  // dump() throws type_error for nothing else
    throw UsageError("the text \"" + text + "\" is not UTF-8, which a safetensors file needs");
  }
}

const DTypeRow& row_of(const NamedTensor& tensor) {
  const DTypeRow* row = safetensors::find_row(tensor.second.dtype);
  check_is_whole(tensor.second, "a safetensors file");
  if (row != nullptr) return *row;
  throw UnsupportedError("tensor " + tensor.first + " has the dtype " +
                         std::string(name(tensor.second.dtype)) +
                         ", which a safetensors file cannot hold: leave it out, convert it, or "
                         "write a torch.save file");
}

void check_different_names(const std::vector<NamedTensor>& tensors) {
  std::unordered_set<std::string_view, TextHash> names;
  for (const auto& [name, tensor] : tensors) {
    if (name == safetensors::kMetadataName) {
      throw UsageError("a safetensors file cannot hold a tensor named " + name);
    }
    if (!names.insert(name).second) throw UsageError("two tensors are named " + name);
  }
}

// Returns the shape as the file counts, "[2,3]": a pair of 4-bit numbers counts as two.
std::string shape_text(const NamedTensor& tensor, const DTypeRow& row) {
  Dims shape = tensor.second.shape;
  if (row.bits == 4) {
    if (shape.empty()) {
      throw UnsupportedError("tensor " + tensor.first + " is a scalar pair of 4-bit numbers, " +
                             "which a safetensors file cannot hold");
    }
    shape.back() = checked_multiply<std::int64_t>(shape.back(), 2);
  }
  return Json(shape).dump();
}

std::string header_text(const std::vector<NamedTensor>& tensors,
                        const SafetensorsFile::Metadata& metadata) {
  std::string text = "{";
  if (!metadata.empty()) {
    text += exact_json(std::string(safetensors::kMetadataName)) + ":{";
    for (const auto& [key, value] : metadata) {
      if (text.back() != '{') text += ',';
      text += exact_json(key) + ":" + exact_json(value);
    }
    text += '}';
  }
  std::uint64_t offset = 0;
  for (const NamedTensor& tensor : tensors) {
    const DTypeRow& row = row_of(tensor);
    const std::uint64_t end = checked_add(offset, byte_size(tensor.second));
    if (text.size() > 1) text += ',';
    text += exact_json(tensor.first) + R"(:{"dtype":")" + std::string(row.name) + R"(","shape":)" +
            shape_text(tensor, row) + R"(,"data_offsets":[)" + std::to_string(offset) + "," +
            std::to_string(end) + "]}";
    offset = end;
  }
  text += '}';
  text.append((8 - text.size() % 8) % 8, ' ');
  if (text.size() > safetensors::kMaxHeaderBytes) {
    throw UnsupportedError("the names and shapes of " + std::to_string(tensors.size()) +
                           " tensors do not fit into the header of one safetensors file: write "
                           "several shards");
  }
  return text;
}

}  // namespace

namespace safetensors {

FilePlan::FilePlan(std::vector<NamedTensor> tensors, const SafetensorsFile::Metadata& metadata,
                   bool checksums)
    : tensors_(std::move(tensors)), checksums_(checksums) {
  check_different_names(tensors_);
  std::sort(tensors_.begin(), tensors_.end(), [](const NamedTensor& a, const NamedTensor& b) {
    const int order_a = write_order(row_of(a));
    const int order_b = write_order(row_of(b));
    return order_a != order_b ? order_a < order_b : a.first < b.first;
  });
  SafetensorsFile::Metadata all = metadata;
  if (checksums_) {
    std::erase_if(all, [](const auto& entry) { return is_checksum_key(entry.first); });
    for (auto& entry : empty_checksums(count_with_bytes(tensors_))) {
      all.push_back(std::move(entry));
    }
  }
  const std::string text = header_text(tensors_, all);
  append_little_endian<std::uint64_t>(header_, text.size());
  header_ += text;
  size_ = header_.size();
  for (const auto& [name, tensor] : tensors_) {
    check_extent(tensor);
    const std::uint64_t size = byte_size(tensor);
    if (size > 0) {
      parts_.push_back(
          {.storage = tensor.storage, .offset = size_, .size = size, .elements = &tensor});
      names_.push_back(&name);
    }
    size_ = checked_add(size_, size);
  }
}

void FilePlan::append_between(std::size_t index, std::span<const std::uint64_t> checks,
                              std::string& out) const {
  if (index > 0) return;  // the tensors follow one another directly
  std::string header = header_;
  if (checksums_) fill_checksums(header, kHeaderMarker, {checks.begin(), checks.end()});
  out += header;
}

}  // namespace safetensors

struct SafetensorsPlan::Impl {
  safetensors::FilePlan plan;
};

SafetensorsPlan::SafetensorsPlan(std::vector<NamedTensor> tensors,
                                 const SafetensorsFile::Metadata& metadata, bool checksums)
    : impl_(new Impl{safetensors::FilePlan(std::move(tensors), metadata, checksums)}) {}

std::uint64_t SafetensorsPlan::size() const { return impl_->plan.size(); }

void SafetensorsPlan::write(ByteSink& sink) const { stream_plan(impl_->plan, sink); }

}  // namespace cairn
