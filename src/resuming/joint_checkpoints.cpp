#include "resuming/joint_checkpoints.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "cairn/dist/dist.h"
#include "cairn/train/logger.h"

#include "checkpoint/names/launch.h"
#include "checkpoint/ranks/name_on_machine.h"
#include "checkpoint/ranks/see_checkpoints.h"
#include "core/text/printable.h"
#include "dist/group.h"
#include "dist/peer_files.h"
#include "dist/rank_tables.h"
#include "dist/team.h"
#include "io/file.h"

namespace cairn {
namespace {

void mark_parts_of_whole_ones(ObjectStore& here, const std::string& folder,
                              const std::vector<SeenCheckpoint>& seen,
                              const std::vector<AgreedCheckpoint>& agreed) {
  for (const SeenCheckpoint& part : seen) {
    if (part.is_published || part.was_published) continue;
    const bool is_whole = std::ranges::any_of(agreed, [&](const AgreedCheckpoint& one) {
      return one.name == part.name && one.identity == part.identity && one.lacks.empty();
    });
    if (is_whole) mark_published(here, join_path(folder, part.name), part.identity);
  }
}

}  // namespace

bool JointCheckpoints::is_needed(const ObjectStore& store) {
  if (dist::group() == nullptr || dist::count_machines() == 1) return false;
  const double other =
      store.names_are_paths() ? 0 : 1;  // A program may give one rank another store.
  return dist::sum({other}, "asking where checkpoints are").front() == 0;
}

JointCheckpoints::JointCheckpoints(const std::shared_ptr<ObjectStore>& here,
                                   const std::string& folder, const Look& look,
                                   const Options& options)
    : peers_(std::make_shared<dist::PeerFiles>(*dist::required_group())) {
  std::vector<SeenCheckpoint> seen;
  std::exception_ptr failed;
  try {  // Looks before the ranks meet, since the disk may take any time.
    const dist::LongWork long_work;
    seen = look();
  } catch (const std::exception&) {
    failed = std::current_exception();
  }
  const auto table = dist::rank_table();
  const bool speaks = table->me.machine_leader == table->me.rank;
  agreed_ = agree_over_ranks(*table, {.look =
                                          [&](const std::function<void()>& /*keep_alive*/) {
                                            if (failed) std::rethrow_exception(failed);
                                            return speaks ? seen : std::vector<SeenCheckpoint>();
                                          },
                                      .may_lack_all = options.may_lack_all});
  why_none_is_whole_ = cairn::why_none_is_whole(agreed_);
  if (options.marks_parts && speaks) mark_parts_of_whole_ones(*here, folder, seen, agreed_);
  auto joint = std::make_shared<JointStore>(
      here, JointStore::View{
                .folder = folder, .agreed = agreed_, .seen = std::move(seen), .others = peers_});
  // `joint` itself cannot answer: it owns peers_, which passes the requests on.
  auto answers = std::make_shared<JointStore>(
      here, JointStore::View{.folder = folder, .agreed = agreed_, .seen = {}, .others = nullptr});
  peers_->serve([answers = std::move(answers)](const FileOfRank& file) {
    return answers->open_here(file.checkpoint, file.file);
  });
  store_ = std::move(joint);
}

JointCheckpoints::~JointCheckpoints() { peers_->end(); }

std::unique_ptr<JointCheckpoints> JointCheckpoints::in_folder(const SearchPlace& place,
                                                              bool is_kept_elsewhere,
                                                              Logger& logger) {
  const SeePlace look_at = {.folder = place.folder,
                            .filenames = place.all_filenames(),
                            .writer = variables_of_writer(place.run_name)};
  std::unique_ptr<JointCheckpoints> joint(new JointCheckpoints(
      place.store, place.folder, [&] { return see_checkpoints(*place.store, look_at); },
      {.may_lack_all = is_kept_elsewhere, .marks_parts = true}));
  for (const AgreedCheckpoint& one : joint->agreed_) {
    if (one.lacks.empty() || dist::rank() != 0) continue;
    logger.log_message("warning: autoresume skipped " +
                       printable_line(join_path(place.folder, one.name)) + ": " +
                       printable_line(one.lacks));
  }
  return joint;
}

std::unique_ptr<JointCheckpoints> JointCheckpoints::of_path(
    const std::string& path, const std::shared_ptr<ObjectStore>& store) {
  const std::string folder = parent_path(path);
  const std::string name = Team::of_job().broadcast_from_first(base_name(path)).as_str();
  std::unique_ptr<JointCheckpoints> joint(
      new JointCheckpoints(store, folder,
                           [&] {
                             std::vector<SeenCheckpoint> seen;
                             if (auto one = see_checkpoint(*store, join_path(folder, name), name)) {
                               seen.push_back(std::move(*one));
                             }
                             return seen;
                           },
                           {}));
  joint->path_ = join_path(folder, name);
  return joint;
}

}  // namespace cairn
