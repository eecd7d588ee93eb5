// One rank's tar (checkpoint/plan/rank_tar.h) as a CheckpointSource: that rank's part of the
// training state. Its tensors say which rows they are.
#include <fmt/format.h>

#include <algorithm>

#include "cairn/error.h"

#include "checkpoint/names/extension.h"
#include "checkpoint/open/formats/candidate.h"
#include "checkpoint/open/formats/torch_checkpoint.h"
#include "checkpoint/plan/rank_tar.h"
#include "format/tar/header.h"
#include "format/tar/reader.h"
#include "io/bytes/source_part.h"

namespace cairn {
namespace {

class RankTarSource final : public CheckpointSource {
 public:
  explicit RankTarSource(Candidate candidate)
      : path_(std::move(candidate.path)),
        stored_bytes_(candidate.stored_bytes),
        containers_(std::move(candidate.containers)),
        on_progress_(std::move(candidate.on_progress)),
        access_(candidate.access),
        source_(candidate.source),
        files_(tar::read_files(*source_)) {
    containers_.emplace_back("tar");
    const tar::File& note = find(std::string(kRankNote));
    constexpr std::uint64_t kMaxNoteBytes = 4096;
    if (note.size > kMaxNoteBytes) throw CorruptError("its " + note.name + " is too large");
    rank_ = parse_rank_note(as_text(read_bytes(*source_, note.offset, note.size).view));
    add(std::string(kTarMember));
    add(model_states_name());
    if (rank_.stage > 0) add(optim_states_name(rank_.rank));
    value_ = join();
  }

  SourceInfo info() const override {
    SourceInfo info{.format = kRankTarFormat.name,
                    .description = fmt::format("the part of rank {} of {} of a checkpoint",
                                               rank_.rank, rank_.world_size),
                    .containers = containers_,
                    .writer = "cairn",
                    .bytes = stored_bytes_,
                    .notes = {{"stage", std::to_string(rank_.stage)},
                              {"ranks", std::to_string(rank_.world_size)},
                              {"rank", std::to_string(rank_.rank)},
                              {"save", rank_.attempt}}};
    if (const auto& manifest = opened_.front().manifest) {
      info.writer = manifest->writer;
      info.checkpoint = manifest->info;
    }
    return info;
  }

  Value read() const override { return value_; }
  std::uint64_t expanded_bytes() const override { return source_->size(); }

  VerifyReport check(PendingReads& reads, Verify how) const override {
    VerifyReport all;
    all.bytes = stored_bytes_;
    all.has_manifest = true;
    for (std::size_t i = 0; i < opened_.size(); ++i) {
      const VerifyReport report = verify_opened(opened_[i], how, reads, on_progress_);
      all.records += report.records;
      all.has_checksums = all.has_checksums && report.has_checksums;
      all.unchecked += report.unchecked;
      all.has_manifest = all.has_manifest && report.has_manifest;
      if (i == 0) all.info = report.info;
      for (Damage damage : report.damage) {
        damage.record = names_[i] + (damage.record.empty() ? "" : ", " + damage.record);
        all.damage.push_back(std::move(damage));
      }
    }
    return all;
  }

 private:
  const tar::File& find(const std::string& name) const {
    const auto found = std::ranges::find(files_, name, &tar::File::name);
    if (found == files_.end()) {
      throw CorruptError("the tar of rank " + std::to_string(rank_.rank) + " has no " + name);
    }
    return *found;
  }

  void add(const std::string& name) {
    const tar::File& file = find(name);
    const std::string called = path_ + ", in it " + name;
    opened_.push_back(
        open_torch_checkpoint(part_of(source_, file.offset, file.size, called), access_));
    names_.push_back(name);
  }

  Value join() const {
    deepspeed::RankFiles files{.composer = opened_[0].file.read(), .model = opened_[1].file.read()};
    const deepspeed::RankOfSave of_model = deepspeed::rank_of(files.model);
    if (opened_.size() > 2) {
      files.optimizer = opened_[2].file.read();
      if (deepspeed::rank_of(files.optimizer).rank != rank_.rank) {
        throw CorruptError("its files are of different ranks");
      }
    }
    if (of_model.attempt != rank_.attempt || of_model.stage != rank_.stage) {
      throw CorruptError("its files are of different saves: " + rank_.attempt + " and " +
                         of_model.attempt);
    }
    return deepspeed::join(files);
  }

  std::string path_;
  std::uint64_t stored_bytes_;
  std::vector<std::string> containers_;
  std::function<void(std::uint64_t)> on_progress_;
  Access access_;
  std::shared_ptr<const ByteSource> source_;
  std::vector<tar::File> files_;
  deepspeed::RankOfSave rank_;
  std::vector<TorchCheckpoint> opened_;  // composer_states.pt, the model's, the optimizer's
  std::vector<std::string> names_;       // the names of these files
  Value value_;
};

// Recognises a rank's tar by the name of its first file.
bool is_rank_tar(const Candidate& candidate) {
  if (!kTarFormat.matches(candidate)) return false;
  const std::string_view name = as_text(candidate.start.view).substr(tar::kName.offset);
  return name.starts_with(kRankNote) && name.size() > kRankNote.size() &&
         name[kRankNote.size()] == '\0';
}

std::unique_ptr<CheckpointSource> open_rank_tar(Candidate candidate) {
  const std::string path = candidate.path;
  try {
    return std::make_unique<RankTarSource>(std::move(candidate));
  } catch (const CorruptError& e) {
    throw CorruptError(path + ": " + without_path(e.what(), path), path, e.offset());
  } catch (Error& e) {
    e.add_context(path);
    throw;
  }
}

}  // namespace

constinit const FormatRow kRankTarFormat = {
    .name = "deepspeed_rank", .matches = is_rank_tar, .open = open_rank_tar};

}  // namespace cairn
