// Saving and loading for the C interface.
#include "cairn/checkpoint/checkpoint.h"

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "cairn/error.h"

#include "c/error.h"
#include "c/search.h"
#include "c/tree.h"
#include "checkpoint/open/verify/check_whole.h"
#include "core/round_up.h"
#include "io/files/file_source.h"
#include "storage/place.h"

namespace cairn {
namespace {

constexpr std::uint64_t kStorageAlignment = 64;  // as in files of PyTorch

// Gives each storage without a place one in memory of the tree.
void allocate(cairn_tree& tree) {
  std::uint64_t bytes = 0;
  for (const cairn_bytes& storage : tree.storages) {
    if (storage.data == nullptr) bytes += round_up(storage.size, kStorageAlignment);
  }
  tree.memory = PageMemory(bytes);
  std::byte* at = tree.memory.data();
  for (cairn_bytes& storage : tree.storages) {
    if (storage.data != nullptr) continue;
    storage.data = at;
    at += round_up(storage.size, kStorageAlignment);
  }
}

void check_loaded(const cairn_tree* tree) {
  require(tree, "tree");
  if (!tree->checkpoint) throw UsageError("the tree was not loaded from a checkpoint");
}

// Fills the places of the storages. `is_filled` tells which need no bytes.
template <class IsFilled>
void read_tree(cairn_tree& tree, Verify how, const IsFilled& is_filled) {
  std::vector<StorageRead> reads;
  reads.reserve(tree.storages.size());
  for (std::size_t i = 0; i < tree.storages.size(); ++i) {
    const cairn_bytes& place = tree.storages[i];
    if (place.size == 0 || is_filled(place)) continue;
    ask_for_huge_pages(place.data, place.size);
    reads.push_back({tree.encoded->storages[i],
                     {static_cast<std::byte*>(place.data), static_cast<std::size_t>(place.size)}});
  }
  check_whole(tree.checkpoint->read(reads, how), tree.checkpoint->path());
}

// Maps the file in which the storages are ranges. Gives places to these, if all of their elements
// are aligned.
void map_file(cairn_tree& tree) {
  constexpr std::uint64_t kMostAligned = 16;  // an element of complex128
  const ByteSource* mapped = nullptr;
  for (std::size_t i = 0; i < tree.storages.size(); ++i) {
    const Storage& storage = *tree.encoded->storages[i];
    const ByteSource* const source =
        storage.source() == nullptr ? nullptr : &storage.source()->unverified();
    if (source == nullptr || source->local_file() == nullptr || storage.size() == 0) continue;
    if (storage.source_offset() % kMostAligned != 0) continue;
    if (mapped == nullptr) {
      tree.mapping = source->local_file()->map_privately();
      mapped = source;
    }
    if (source != mapped) continue;
    const ByteView bytes = tree.mapping->view.subspan(storage.source_offset(), storage.size());
    tree.storages[i].data = const_cast<std::byte*>(bytes.data());
  }
}

bool is_mapped(const cairn_tree& tree, const cairn_bytes& place) {
  if (!tree.mapping) return false;
  const std::byte* const begin = tree.mapping->view.data();
  const auto* const at = static_cast<const std::byte*>(place.data);
  return std::less_equal<>()(begin, at) && std::less<>()(at, begin + tree.mapping->view.size());
}

}  // namespace
}  // namespace cairn

cairn_status cairn_save(const cairn_tree* tree, const char* place, unsigned flags,
                        cairn_error** error) {
  return cairn::guard_call(error, [&] {
    cairn::require(tree, "tree");
    cairn::require(place, "place");
    cairn::save(
        tree->value, place,
        {.overwrite = (flags & CAIRN_NO_OVERWRITE) == 0, .info = cairn::info_of(tree->value)});
  });
}

cairn_status cairn_load(const char* place, unsigned flags, cairn_tree** tree, cairn_error** error) {
  return cairn::guard_call(error, [&] {
    cairn::require(place, "place");
    cairn::require(tree, "tree");
    *tree = nullptr;
    const auto verify =
        (flags & CAIRN_UNVERIFIED) != 0 ? cairn::Verify::kQuick : cairn::Verify::kFull;
    *tree = cairn::tree_of(cairn::open_checkpoint(place), verify).release();
  });
}

cairn_status cairn_tree_read(cairn_tree* tree, void* const* into, cairn_error** error) {
  return cairn::guard_call(error, [&] {
    cairn::check_loaded(tree);
    cairn::encode_tree(*tree);
    tree->tensors.clear();
    for (std::size_t i = 0; i < tree->storages.size(); ++i) {
      tree->storages[i].data = into == nullptr ? nullptr : into[i];
      if (into != nullptr && tree->storages[i].size > 0) cairn::require(into[i], "a place");
    }
    if (into == nullptr) cairn::allocate(*tree);
    cairn::read_tree(*tree, tree->verify, [](const cairn_bytes&) { return false; });
  });
}

cairn_status cairn_tree_map(cairn_tree* tree, cairn_error** error) {
  return cairn::guard_call(error, [&] {
    cairn::check_loaded(tree);
    cairn::encode_tree(*tree);
    tree->tensors.clear();
    const cairn::Checkpoint& checkpoint = *tree->checkpoint;
    if (tree->verify == cairn::Verify::kFull) {
      cairn::check_whole(checkpoint.verify(cairn::Verify::kFull), checkpoint.path());
    }
    for (cairn_bytes& storage : tree->storages) {
      storage.data = nullptr;
    }
    cairn::map_file(*tree);
    cairn::allocate(*tree);
    // The other storages are checked once more as they are read.
    cairn::read_tree(*tree, cairn::Verify::kQuick,
                     [&](const cairn_bytes& place) { return cairn::is_mapped(*tree, place); });
  });
}

cairn_status cairn_remove(const char* place, int* removed, cairn_error** error) {
  return cairn::guard_call(error, [&] {
    cairn::require(place, "place");
    cairn::require(removed, "removed");
    *removed = cairn::store_of(place, nullptr)->remove(cairn::shown_place(place)) ? 1 : 0;
  });
}

cairn_status cairn_find_latest(const char* folder, const char* filename, char** path,
                               char** skipped, cairn_error** error) {
  return cairn::guard_call(error, [&] {
    cairn::require(folder, "folder");
    cairn::require(path, "path");
    *path = nullptr;
    cairn::SkippedLines lines(skipped);
    const auto found = cairn::find_newest(
        folder, {.filename = cairn::NameFormat(filename == nullptr ? "" : filename),
                 .latest_filename = {},
                 .on_skip = lines.collect()});
    if (found) *path = cairn::text_copy(found->path);
    lines.hand_over();
  });
}
