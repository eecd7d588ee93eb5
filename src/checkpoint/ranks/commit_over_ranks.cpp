// How several ranks write one checkpoint.
//
// clang-format off
//  1. call     Rank 0 draws the attempt's id, makes the attempt's folder (AttemptFolder) and tells
//              all ranks. The id is in the folder's name, so files of two attempts never mix. A
//              rank that does not see that folder is on a machine without a shared file system. The
//              first rank of that machine makes a folder with the same id for all ranks of that
//              machine.
//  2. write    Each rank writes its files into the folder. The rank syncs each file, and then the
//              names of the files.
//  3. report   Each rank reports its files with lengths and hashes. Only durable files are
//              reported.
//  4. verify   Rank 0 has the reports of all ranks for this attempt. No file name may appear twice,
//              and every file that rank 0 can see must have the reported length. A machine whose
//              files rank 0 cannot see checks these files itself.
//  5. decide   Rank 0 decides for the checkpoint. Before that, a rank that failed or that misses
//              another rank may decide against the checkpoint. The first decision stands for all
//              (roll_call.h). Before the decision nothing is published; after a decision for the
//              checkpoint, only rank 0 can end the attempt.
//  6. publish  First, each rank that made a folder on another machine publishes this folder, with a
//              manifest of its files and the attempt. Anything that has the checkpoint's name on
//              that machine is put aside, not removed, if it may be a part of a whole checkpoint
//              (name_on_machine.h). Then rank 0 publishes its folder. Rank 0 writes `.metadata`,
//              which makes the folder a checkpoint, and the manifest of all files, which verifies
//              them. `.metadata` and the manifest are durable before the folder gets its name by
//              one rename. Then the parent folder is synced. In a store of objects `.metadata` is
//              the commit, and comes last. Then the pointer is moved.
//  7. tell     Only now are the other ranks told, and only now may superfluous files be removed. A
//              rank that made a folder marks this folder as published.
//  8. abort    If the decision is against the checkpoint, each rank abandons its files, and rank 0
//              abandons the folder. If the decision is for the checkpoint but rank 0 cannot
//              publish, each rank that has published the folder of another machine removes that
//              folder. A dead rank leaves files under a temporary name (remove_leftovers()), or a
//              part that no rank publishes. A rank that does not know the decision touches nothing.
//
// If a rank dies after its report, the checkpoint does not need it and may still be published. If a
// rank dies before its report, all other ranks fail within Patience::silence plus Patience::look.
// If a rank fails, all other ranks fail at once. If rank 0 dies between 5 and 7, it is not known
// whether the folder was published: the checkpoint is whole, or does not exist. The next start
// finds out.
// clang-format on
#include "checkpoint/ranks/commit_over_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <string_view>
#include <utility>

#include "cairn/error.h"

#include "checkpoint/plan/manifest_sink.h"
#include "checkpoint/ranks/commit/machine_folder.h"
#include "checkpoint/ranks/commit/part_report.h"
#include "checkpoint/ranks/living_store.h"
#include "checkpoint/ranks/name_on_machine.h"
#include "core/text/json.h"
#include "core/text/json_text.h"
#include "format/dcp/metadata/write_metadata.h"
#include "io/durable/atomic_file.h"
#include "io/file.h"
#include "io/threads/cancellation.h"
#include "storage/listing.h"

namespace cairn {
namespace {

// Suffixes of rank 0's final verdict. kPublished: the checkpoint is published. kUndone: it is not
// published, and never will be.
constexpr std::string_view kPublished = "\npublished";
constexpr std::string_view kUndone = "\nundone";

// Returns `.metadata` as a file to write. Writing this file sets `written` to the file's entry in
// the manifest.
FileOfAttempt metadata_file(const RankMetadata& metadata, ManifestFile& written) {
  return {.name = dcp::kMetadataFile,
          .expected_bytes = metadata.expected_bytes,
          .fill = [&](ObjectWrite& out) {
            ManifestSink sink(out);
            metadata.fill(sink);
            written = sink.file(dcp::kMetadataFile);
          }};
}

// Returns the manifest as a file to write. Calls `manifest` only after all earlier files are
// written.
FileOfAttempt manifest_file(std::function<FolderManifest()> manifest) {
  return {.name = kFolderManifest, .fill = [manifest = std::move(manifest)](ObjectWrite& out) {
            out.write(as_bytes(write_folder_manifest(manifest())));
          }};
}

class Attempt {
 public:
  Attempt(RankTable& table, ObjectStore& store, const RankCommitJob& job)
      : living_(store),
        store_(living_.store()),
        job_(job),
        call_(table, fmt::format("saving {} on {} ranks", job.path, table.me.world_size)),
        folder_(store_, call_, folder_options(table)) {
    living_.join(call_);
  }

  RankCommitReport run() {
    try {
      begin();
      write();
      report();
      if (call_.is_leader()) {
        verify();
        decide();
        publish();
        tell({});
      } else {
        call_.wait_for_decision();
        publish_own_machine();
        learn();
      }
      return {.id = folder_.id(), .bytes = bytes_};
    } catch (const RollCall::Settled& settled) {
      end_with(settled.verdict);
    } catch (const RollCall::Unknown& unknown) {
      end_unknown(unknown.rank, "was not heard from any more");
    } catch (const MeetingError& e) {
      end_unknown(0, e.what());
    } catch (const std::exception&) {
      refuse(fault_of_current());
    }
  }

 private:
  AttemptFolderOptions folder_options(const RankTable& table) {
    AttemptFolderOptions options{
        .path = job_.path, .id = {}, .overwrite = job_.overwrite, .retry = job_.retry};
    if (call_.is_leader()) options.id = table.draw_id ? table.draw_id() : random_digits();
    // A pause between two attempts at a far store must not look like a hang.
    options.retry.pause = [this](std::chrono::milliseconds time) { pause(time); };
    return options;
  }

  void pause(std::chrono::milliseconds time) {
    if (call_.is_giving_signs()) return pause_here(time);
    if (!is_decided_) return call_.pause(time);
    for (const auto step = std::chrono::milliseconds(500); time.count() > 0; time -= step) {
      call_.sign_of_life();
      pause_here(std::min(time, step));
    }
  }

  // --- Step 1 ------------------------------------------------------------------------------------

  void begin() {
    doing_ = "beginning to save";
    call_.begin();
    if (call_.is_leader()) {
      folder_.create();
      const Json called = {{"id", folder_.id()},
                           {"name", base_name(job_.path)},
                           {"machine", call_.me().machine},
                           {"puts_aside", job_.puts_aside}};
      call_.set("call", json_text(called, -1));
      return;
    }
    const Json called = parse_message(call_.wait_for("call"));
    const std::string id = called.value("id", "");
    const std::string name = called.value("name", "");
    if (name != base_name(job_.path)) {
      throw UsageError(
          fmt::format("rank 0 saves {} at the same time. All ranks must save the same "
                      "checkpoints, in the same order",
                      name));
    }
    publisher_ = called.value("machine", "");
    if (call_.me().machine_leader == call_.me().rank) {
      folder_.join_or_create(id, called.value("puts_aside", false));
    } else {
      folder_.join(id);
    }
  }

  // --- Steps 2 and 3 -----------------------------------------------------------------------------

  void write() {
    doing_ = "writing its part";
    PartPlace place(folder_.folder(), call_);
    part_ = job_.write_part(place);
    call_.keep_alive();
    folder_.folder().sync();
    doing_ = "looking at its part";
    for (const ManifestFile& file : part_.files) {
      call_.keep_alive();
      folder_.check_size(call_.me().rank, file);
    }
  }

  void report() {
    if (call_.is_leader()) return;
    call_.keep_alive();
    is_reported_ = true;
    call_.set("report/" + std::to_string(call_.me().rank), text_of(own_report()));
    for (const ManifestFile& file : part_.files) {
      bytes_ += file.bytes;
    }
  }

  // --- Steps 4 and 5, of rank 0 ------------------------------------------------------------------

  PartReport own_report() const {
    return {.id = folder_.id(),
            .home = folder_.home(),
            .machine = call_.me().machine,
            .part = part_,
            .name = folder_.name()};
  }

  PartReport report_of(std::int64_t rank) {
    if (rank == call_.me().rank) return own_report();
    PartReport found = parse_part_report(call_.wait_for("report/" + std::to_string(rank)));
    if (found.id != folder_.id()) {
      throw StorageError(fmt::format("rank {} wrote for the attempt {}, but this is the attempt {}",
                                     rank, found.id, folder_.id()),
                         0, /*retryable=*/true);
    }
    return found;
  }

  void verify() {
    doing_ = "verifying the parts of all ranks";
    for (std::int64_t rank = 0; rank < call_.me().world_size; ++rank) {
      PartReport of_rank = report_of(rank);
      for (const ManifestFile& file : of_rank.part.files) {
        call_.keep_alive();
        if (of_rank.home == 0) folder_.check_size(rank, file);
        bytes_ += file.bytes;
      }
      if (of_rank.home != rank || rank == 0) call_.unwatch(rank);  // it has nothing left to do
      reports_.add(rank, std::move(of_rank));
    }
    if (!reports_.homes().empty()) meet_other_machines();
    call_.forget_earlier_calls();
    doing_ = "making .metadata";
    metadata_ = job_.metadata(reports_.parts());
    call_.keep_alive();
  }

  // Looks at what already has the checkpoint's name on each machine, before anything is published.
  void meet_other_machines() {
    folder_.refuse_rivals();
    NameOnMachine here;
    call_.with_signs_of_life([&] { here = look_at_name(store_, job_.path); });
    if (here.is_there) refuse_to_replace();
    const std::vector<std::int64_t> kept = reports_.homes_that_keep(here);
    if (!kept.empty() && !job_.puts_aside) refuse_to_put_aside(kept.front());
    call_.set("kept", json_text(Json(kept), -1));
  }

  // Throws, because folders on several machines cannot be replaced in one step.
  [[noreturn]] void refuse_to_replace() const {
    throw UsageError(
        fmt::format("{} is there already, and its parts would be on several machines: save under "
                    "another name, or remove it on all machines first",
                    store_.describe(job_.path)));
  }

  [[noreturn]] void refuse_to_put_aside(std::int64_t home) const {
    throw AlreadyExistsError(
        fmt::format("{} is there already on the machine of rank {}: remove it, choose another "
                    "save_folder, or set save_overwrite",
                    job_.path, home));
  }

  void decide() {
    const Verdict stands = call_.settle({.kind = Verdict::Kind::kNone, .rank = 0, .why = {}});
    if (!stands.is_good()) throw RollCall::Settled{stands};
    is_decided_ = true;
  }

  // --- Step 6 ------------------------------------------------------------------------------------

  void publish() {
    for (const std::int64_t home : reports_.homes()) {
      const Verdict moved = parse_verdict(call_.wait_for("moved/" + std::to_string(home)));
      if (!moved.is_good()) throw RollCall::Settled{moved};
    }
    call_.sign_of_life();
    call_.with_signs_of_life([this] {
      doing_ = "publishing " + job_.path;
      ManifestFile written;
      folder_.folder().commit({metadata_file(metadata_, written), manifest_file([&] {
                                 FolderManifest all{.attempt = folder_.id(),
                                                    .files = reports_.files()};
                                 all.files.push_back(written);
                                 return all;
                               })});
      is_published_ = true;
      bytes_ += written.bytes;
      doing_ = job_.path + " is saved, but not pointed at";
      if (job_.point) job_.point();
    });
    call_.sign_of_life();
  }

  // For the first rank of a machine that has its own folder.
  void publish_own_machine() {
    is_decided_ = true;
    if (!folder_.is_own()) return;
    doing_ = "publishing the folder of its machine";
    Verdict verdict;
    try {
      FolderManifest manifest{.attempt = folder_.id(), .files = {}, .publisher = publisher_};
      for (std::int64_t rank = 1; rank < call_.me().world_size; ++rank) {
        const PartReport of_rank = report_of(rank);
        if (of_rank.home != folder_.home()) continue;
        call_.with_signs_of_life([&] {
          for (const ManifestFile& file : of_rank.part.files) {
            folder_.check_size(rank, file);
            manifest.files.push_back(file);
          }
        });
      }
      const Json kept = parse_message(call_.wait_for("kept"));
      call_.with_signs_of_life([&] {
        if (std::ranges::find(kept, Json(folder_.home())) != kept.end()) {
          put_aside(store_, job_.path, kAsideDamaged);
        }
        folder_.folder().commit({manifest_file([&] { return manifest; })});
      });
    } catch (const MeetingError&) {
      throw;
    } catch (const std::exception&) {
      verdict = verdict_of_current(call_.me().rank, doing_);
    }
    call_.set("moved/" + std::to_string(call_.me().rank), text_of(verdict));
  }

  // --- Steps 7 and 8 -----------------------------------------------------------------------------

  // For rank 0.
  void tell(const Verdict& verdict) {
    try {
      const std::string_view end = is_published_ ? kPublished : is_undone() ? kUndone : "";
      call_.set("done", text_of(verdict) + std::string(end));
    } catch (const MeetingError&) {
      // Nothing can be done; the other ranks report that they do not know the outcome.
    }
    call_.end();
  }

  // Whether the decision was for the checkpoint, but the checkpoint was not published. In that case
  // no rank will publish it any more.
  bool is_undone() const {
    if (!is_decided_ || reports_.homes().empty()) return false;
    try {
      return !store_.stat(job_.path);
    } catch (const Error&) {
      return false;
    }
  }

  void learn() {
    std::string said = call_.wait_for("done");
    const auto take = [&](std::string_view end) {
      if (!said.ends_with(end)) return false;
      said.resize(said.size() - end.size());
      return folder_.is_own();
    };
    // Marks the folder even if the pointer was not moved. Rank 0 waits a moment for this mark.
    if (take(kPublished)) mark_published(store_, job_.path, folder_.id());
    if (take(kUndone)) remove_unpublished(store_, job_.path, folder_.id());
    const Verdict done = parse_verdict(said);
    if (!done.is_good()) throw RollCall::Settled{done};
    call_.end();
  }

  // Keeps the files after a decision for the checkpoint: only rank 0 knows how far the attempt
  // came.
  void release_folder() {
    if (!is_published_) folder_.release(/*keeps=*/is_decided_ && !call_.is_leader());
  }

  // The verdict for the current exception. If another rank has removed the folder while this rank
  // used it, this rank is not at fault.
  Verdict fault_of_current() const {
    Verdict verdict = verdict_of_current(call_.me().rank, doing_);
    if (!folder_.was_removed_by_other()) return verdict;
    verdict.why =
        fmt::format("gave up without a message when rank {} was {}", verdict.rank, doing_);
    verdict.rank = folder_.home();
    verdict.kind = Verdict::Kind::kFailed;
    return verdict;
  }

  // Ends this rank's call after it has failed. On rank 0 the failure counts even after its own
  // decision.
  [[noreturn]] void refuse(const Verdict& own) {
    if (is_decided_) end_with(own);
    Verdict stands = own;
    try {
      stands = call_.settle(own);
      if (stands.is_good()) is_decided_ = true;  // the files belong to rank 0's checkpoint now
    } catch (const MeetingError& e) {
      // Without this rank's report, rank 0 cannot decide for the checkpoint. After the report, this
      // rank cannot know what rank 0 decides.
      is_decided_ = is_reported_;
      stands.why += fmt::format(" (and the others could not be told: {})", e.what());
    }
    end_with(stands.is_good() ? own : stands);
  }

  [[noreturn]] void end_with(const Verdict& verdict) {
    if (call_.is_leader()) {
      tell(verdict);
    } else {
      call_.end();
    }
    release_folder();
    throw_verdict(verdict, call_.what());
  }

  [[noreturn]] void end_unknown(std::int64_t rank, const std::string& why) {
    throw RankFailure(fmt::format("{}: rank {}: {}. Whether it was saved is not known: it is there "
                                  "as a whole, or not at all, and the next start finds out",
                                  call_.what(), rank, why),
                      rank, 0, /*retryable=*/true);
  }

  LivingStore living_;
  ObjectStore& store_;  // living_.store()
  const RankCommitJob& job_;
  RollCall call_;
  MachineFolder folder_;
  std::string doing_;      // for messages
  std::string publisher_;  // rank 0's machine
  WrittenPart part_;
  std::uint64_t bytes_ = 0;
  bool is_reported_ = false;  // or this rank may have reported
  bool is_decided_ = false;   // for the checkpoint, or this rank does not know the decision
  // On rank 0:
  bool is_published_ = false;
  PartReports reports_;
  RankMetadata metadata_;
};

}  // namespace

void PartPlace::write(const FileOfAttempt& file) {
  if (file.name.find('/') != std::string::npos || file.name.starts_with('.')) {
    throw UsageError("\"" + file.name + "\" is not a valid name for a file of a part");
  }
  call_.keep_alive();
  FileOfAttempt living = file;
  living.fill = [&](ObjectWrite& out) {
    LivingWrite write(out, call_);
    file.fill(write);
    call_.keep_alive();
  };
  folder_.write(living);
  call_.keep_alive();
}

RankCommitReport commit_over_ranks(RankTable& table, ObjectStore& store, const RankCommitJob& job) {
  return Attempt(table, store, job).run();
}

}  // namespace cairn
