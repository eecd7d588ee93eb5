// DeepSpeed's ZeRO folders as a CheckpointSource.
//
//  1. The folder has `*_model_states.pt` and `*_optim_states.pt`, or its `latest` names a subfolder
//     that has them.
//  2. Ranks are ordered by the number in the file names.
//  3. read() returns the fp32 weights. verify() checks each file by its own format.
#include <algorithm>
#include <charconv>
#include <functional>
#include <map>
#include <optional>

#include "cairn/error.h"
#include "cairn/format/torch_file.h"

#include "checkpoint/open/formats/candidate.h"
#include "checkpoint/open/formats/torch_checkpoint.h"
#include "format/deepspeed/consolidate.h"
#include "io/bytes/source_part.h"
#include "io/file.h"
#include "storage/listing.h"

namespace cairn {
namespace {

constexpr std::string_view kModelStates = "model_states.pt";
constexpr std::string_view kOptimStates = "optim_states.pt";

enum class FileKind : std::uint8_t { kOther, kModel, kOptimizer, kNotRead };

struct RankFile {
  FileKind kind = FileKind::kOther;
  std::uint32_t rank = 0;
  std::uint32_t model_parallel_rank = 0;
};

// Reads the number at the start of a text such as "12_mp_rank_00_", and removes it from the text.
bool take_number(std::string_view& text, std::uint32_t& number) {
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(stop - text.data()));
  return true;
}

bool take_text(std::string_view& text, std::string_view start) {
  if (!text.starts_with(start)) return false;
  text.remove_prefix(start.size());
  return true;
}

// Names: [bf16_]zero_pp_rank_<D>_mp_rank_<MM>_optim_states.pt,
// zero_pp_rank_<D>_mp_rank_<MM>_model_states.pt, mp_rank_<MM>_model_states.pt. Very old files lack
// the underscore after MM.
RankFile parse_name(std::string_view name) {
  RankFile file;
  const bool is_model = name.ends_with(kModelStates);
  if (!is_model && !name.ends_with(kOptimStates)) return file;
  std::string_view rest = name.substr(0, name.size() - kModelStates.size());
  if (!is_model) rest = name.substr(0, name.size() - kOptimStates.size());
  file.kind = FileKind::kNotRead;  // pipeline layers, experts
  take_text(rest, "bf16_");
  if (take_text(rest, "zero_pp_rank_")) {
    if (!take_number(rest, file.rank) || !take_text(rest, "_")) return file;
  }
  if (!take_text(rest, "mp_rank_") || !take_number(rest, file.model_parallel_rank)) return file;
  take_text(rest, "_");
  if (rest.empty()) file.kind = is_model ? FileKind::kModel : FileKind::kOptimizer;
  return file;
}

bool has_rank_files(ObjectStore& store, const std::string& folder) {
  const auto info = store.stat(folder);
  if (!info || info->type != ObjectInfo::Type::kFolder) return false;
  const auto names = list_names(store, folder);
  return std::any_of(names.begin(), names.end(), [](const std::string& name) {
    const FileKind kind = parse_name(name).kind;
    return kind == FileKind::kModel || kind == FileKind::kOptimizer;
  });
}

// Returns the tag in a file such as `latest`. Empty unless the tag is a plain name.
std::string read_tag(ObjectStore& store, const std::string& path) {
  if (!store.stat(path)) return {};
  constexpr std::uint64_t kMaxBytes = 4096;
  const SharedBytes bytes = read_start(*store.open(path), kMaxBytes);
  std::string tag(as_text(bytes.view));
  while (!tag.empty() && (tag.back() == '\n' || tag.back() == '\r' || tag.back() == ' ')) {
    tag.pop_back();
  }
  const bool is_plain = tag != "." && tag != ".." && tag.find('/') == std::string::npos &&
                        tag.find('\0') == std::string::npos;
  return is_plain ? tag : std::string();
}

bool is_universal(ObjectStore& store, const std::string& folder) {
  if (store.stat(join_path(folder, "latest_universal"))) return true;
  const auto info = store.stat(join_path(folder, "zero/optimizer_state.pt"));
  return info && info->type == ObjectInfo::Type::kObject;
}

// Returns the folder with the ranks' files: `folder`, or the subfolder that the file `latest`
// names. Empty if there is no such folder.
std::string find_ranks(ObjectStore& store, const std::string& folder) {
  if (has_rank_files(store, folder)) return folder;
  const std::string tag = read_tag(store, join_path(folder, "latest"));
  if (tag.empty()) return {};
  std::string below = join_path(folder, tag);
  return has_rank_files(store, below) ? below : std::string();
}

class DeepSpeedSource final : public CheckpointSource {
 public:
  explicit DeepSpeedSource(Candidate candidate)
      : path_(std::move(candidate.path)),
        scratch_folder_(std::move(candidate.scratch_folder)),
        on_progress_(std::move(candidate.on_progress)),
        access_(candidate.access),
        store_(candidate.store) {
    if (is_universal(*store_, path_)) {
      throw UnsupportedError(path_ +
                             ": this is a universal checkpoint of DeepSpeed; each of its "
                             "zero/NAME/fp32.pt is a torch.save file that cairn reads");
    }
    folder_ = find_ranks(*store_, path_);
    for (const std::string& name : list_names(*store_, folder_)) {
      add_file(name);
    }
    consolidated_ = named(folder_, [&] { return consolidate(); });
  }

  SourceInfo info() const override {
    return {.format = kDeepSpeedFormat.name,
            .description = "a DeepSpeed ZeRO checkpoint",
            .writer = "DeepSpeed",
            .bytes = bytes_,
            .notes = {{"stage", std::to_string(consolidated_.stage)},
                      {"ranks", std::to_string(consolidated_.ranks)},
                      {"tag", base_name(folder_)}}};
  }

  Value read() const override { return consolidated_.weights; }

  VerifyReport check(PendingReads& reads, Verify how) const override {
    VerifyReport all;
    all.bytes = bytes_;
    for (const auto* kind : {&model_, &optimizer_}) {
      for (const auto& [rank, name] : *kind) {
        const VerifyReport report = verify_opened(opened_.at(name), how, reads, on_progress_);
        all.records += report.records;
        all.has_checksums = all.has_checksums && report.has_checksums;
        all.unchecked += report.unchecked;
        for (Damage damage : report.damage) {
          damage.record = name + (damage.record.empty() ? "" : ", " + damage.record);
          all.damage.push_back(std::move(damage));
        }
      }
    }
    return all;
  }

 private:
  void add_file(const std::string& name) {
    const RankFile file = parse_name(name);
    if (file.kind == FileKind::kOther) return;
    if (file.kind == FileKind::kNotRead || file.model_parallel_rank != 0) {
      throw UnsupportedError(join_path(folder_, name) +
                             ": this checkpoint is of a model that is split by layers, experts or "
                             "tensors; only its program can put that together");
    }
    auto& kind = file.kind == FileKind::kModel ? model_ : optimizer_;
    if (!kind.emplace(file.rank, name).second) {
      throw CorruptError(join_path(folder_, name) + ": there is another file of this rank", name,
                         0);
    }
  }

  // Runs `work`, and adds `path` to its errors.
  template <class Work>
  static auto named(const std::string& path, Work work) -> decltype(work()) {
    try {
      return work();
    } catch (const CorruptError& e) {
      throw CorruptError(path + ": " + e.what(), path, e.offset());
    } catch (UnsupportedError& e) {
      e.add_context(path);
      throw;
    }
  }

  std::vector<Value> read_all(const std::map<std::uint32_t, std::string>& names, const char* what) {
    std::vector<Value> values;
    for (const auto& [rank, name] : names) {
      if (rank != values.size()) {
        throw CorruptError("the checkpoint is not whole: the " + std::string(what) + " of rank " +
                           std::to_string(values.size()) + " are missing");
      }
      const auto file = store_->open(join_path(folder_, name));
      bytes_ += file->size();
      const auto known = opened_.emplace(
          name, open_torch_checkpoint(part_of(file, 0, file->size(), name), access_));
      values.push_back(known.first->second.file.read(deepspeed::data_classes()));
    }
    return values;
  }

  deepspeed::Consolidated consolidate() {
    deepspeed::Ranks ranks;
    ranks.model = read_all(model_, "model states");
    ranks.optimizer = read_all(optimizer_, "optimizer states");
    if (ranks.optimizer.empty() && !deepspeed::is_without_zero(ranks)) {
      throw UnsupportedError(
          "there are no optimizer states in it, so it was saved without ZeRO; its " +
          (model_.empty() ? std::string() : model_.begin()->second) + " holds the whole model");
    }
    return deepspeed::consolidate(ranks, scratch_folder_);
  }

  std::string path_;
  std::string scratch_folder_;
  std::function<void(std::uint64_t)> on_progress_;
  Access access_;
  std::shared_ptr<ObjectStore> store_;
  std::string folder_;  // the folder with the ranks' files
  std::map<std::uint32_t, std::string> model_;
  std::map<std::uint32_t, std::string> optimizer_;
  std::map<std::string, TorchCheckpoint> opened_;  // the files of both kinds, by name
  std::uint64_t bytes_ = 0;
  deepspeed::Consolidated consolidated_;
};

bool is_deepspeed(const Candidate& candidate) {
  return candidate.is_folder && (is_universal(*candidate.store, candidate.path) ||
                                 !find_ranks(*candidate.store, candidate.path).empty());
}

std::unique_ptr<CheckpointSource> open_deepspeed(Candidate candidate) {
  return std::make_unique<DeepSpeedSource>(std::move(candidate));
}

}  // namespace

constinit const FormatRow kDeepSpeedFormat = {
    .name = "deepspeed", .matches = is_deepspeed, .open = open_deepspeed};

}  // namespace cairn
