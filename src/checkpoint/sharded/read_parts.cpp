#include <algorithm>
#include <memory>
#include <unordered_map>

#include "cairn/checkpoint/sharded.h"
#include "cairn/error.h"

#include "checkpoint/open/checkpoint.h"
#include "checkpoint/open/guarded_source.h"
#include "checkpoint/open/read_storages.h"
#include "core/hash/seeded_hash.h"
#include "format/dcp/cut_tensors.h"
#include "format/dcp/flatten.h"
#include "format/dcp/metadata/layout.h"
#include "value/tensor/strided.h"

namespace cairn {
namespace {

using TensorsByName = std::unordered_map<std::string, const TensorView*, TextHash>;

TensorsByName tensors_of_tree(const Value& tree) {
  TensorsByName tensors;
  for (const dcp::FlatItem& item : dcp::flatten(tree)) {
    if (item.value->is_tensor()) tensors.emplace(item.fqn, &item.value->as_tensor());
  }
  return tensors;
}

std::string text_of(DType dtype, const Dims& shape) {
  return std::string(name(dtype)) + " " + dcp::describe(shape);
}

// Returns the wanted tensors. Throws MismatchError if some tensors do not fit, and names the first
// of these tensors.
std::vector<const TensorView*> find_tensors(const TensorsByName& tensors,
                                            const std::vector<PartRead>& parts) {
  constexpr std::size_t kMaxNamed = 10;
  std::vector<const TensorView*> found;
  std::string problems;
  std::size_t count = 0;
  const auto add = [&](const std::string& problem) {
    if (++count <= kMaxNamed) problems += "\n  " + problem;
  };
  for (const PartRead& part : parts) {
    const auto tensor = tensors.find(part.name);
    if (tensor == tensors.end()) {
      add(dcp::in_quotes(part.name) + " is not in the checkpoint");
      continue;
    }
    found.push_back(tensor->second);
    if (found.back()->dtype == part.dtype && found.back()->shape == part.global_shape) continue;
    add(dcp::in_quotes(part.name) + " is " + text_of(found.back()->dtype, found.back()->shape) +
        " in the checkpoint, but " + text_of(part.dtype, part.global_shape) + " here");
  }
  if (count == 0) return found;
  if (count > kMaxNamed) problems += "\n  and " + std::to_string(count - kMaxNamed) + " more";
  throw MismatchError("the checkpoint does not fit:" + problems);
}

// The number of bytes that the place of a part must have.
std::uint64_t room_for(const PartRead& part) {
  std::uint64_t elements = 1;
  for (std::size_t d = 0; d < part.shape.size(); ++d) {
    const auto size = static_cast<std::uint64_t>(part.shape[d]);
    if (size == 0) return 0;
    if (part.strides.empty()) {
      elements *= size;
    } else {
      elements += (size - 1) * static_cast<std::uint64_t>(part.strides[d]);
    }
  }
  return elements * item_size(part.dtype);
}

void check_place(const PartRead& part) {
  const bool is_strided = !part.strides.empty();
  const bool is_good = !is_strided || (part.strides.size() == part.shape.size() &&
                                       std::all_of(part.strides.begin(), part.strides.end(),
                                                   [](std::int64_t stride) { return stride > 0; }));
  if (is_good && part.into.size() == room_for(part)) return;
  throw UsageError(dcp::in_quotes(part.name) + ": a place of " + std::to_string(part.into.size()) +
                   " bytes for " + text_of(part.dtype, part.shape) +
                   (is_strided ? " with strides " + dcp::describe(part.strides) : ""));
}

// The elements of a part whose place is strided. They are first read side by side into `bytes`.
struct Scattered {
  const PartRead* part;
  std::vector<std::byte> bytes;

  void put() const {
    copy_strided(part->shape, item_size(part->dtype), {part->into.data(), part->strides},
                 {bytes.data(), contiguous_strides(part->shape)});
  }
};

}  // namespace

VerifyReport read_parts(const Checkpoint& checkpoint, const std::vector<PartRead>& parts,
                        Verify how) {
  const CheckpointSource& source = Checkpoint::Impl::source_of(checkpoint);
  return guarded(checkpoint.path(), [&] {
    const Value tree = source.read();
    const std::vector<const TensorView*> tensors = find_tensors(tensors_of_tree(tree), parts);
    std::vector<dcp::TensorCut> cuts;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      cuts.push_back({tensors[i], {.offsets = parts[i].offsets, .sizes = parts[i].shape}});
    }
    const std::vector<TensorView> cut = dcp::cut_tensors(cuts);
    std::vector<StorageRead> reads;
    std::vector<std::unique_ptr<Scattered>> scattered;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      check_place(parts[i]);
      if (parts[i].into.empty()) continue;
      std::span<std::byte> into = parts[i].into;
      if (!parts[i].strides.empty() && parts[i].strides != contiguous_strides(parts[i].shape)) {
        scattered.push_back(std::make_unique<Scattered>(Scattered{&parts[i], {}}));
        scattered.back()->bytes.resize(cut[i].storage->size());
        into = scattered.back()->bytes;
      }
      reads.push_back({cut[i].storage, into});
    }
    VerifyReport report;
    if (how == Verify::kQuick) {
      // opening and reading the tree have checked the structure
      PendingReads(reads).finish(Access::kRaw);
    } else {
      report = source.read_into(reads, how);
    }
    for (const auto& each : scattered) {
      if (report.ok()) each->put();
    }
    return report;
  });
}

std::vector<TensorView> tensors_of_parts(const std::vector<PartOfTensor>& parts) {
  std::vector<dcp::TensorCut> cuts;
  cuts.reserve(parts.size());
  for (const PartOfTensor& part : parts) {
    cuts.push_back({&part.whole, {.offsets = part.offsets, .sizes = part.shape}});
  }
  return dcp::cut_tensors(cuts);
}

}  // namespace cairn
