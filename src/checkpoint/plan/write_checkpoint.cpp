// From the Value to the file:
//
//  1. The tree becomes a plan, which has every offset before the first byte is written.
//  2. The store begins an object (in a folder: a file under a temporary name).
//  3. An executor writes the plan into the object. If a snapshot is the file's image, its blocks
//     are written as they are. Otherwise the plan is streamed from the tensors' memory through a
//     ring of blocks. The extension may put a compressor in front of the ring, and a tar writer in
//     front of the compressor. In a tar, the file's size comes before the file. The size is known
//     from the plan.
//  4. The manifest, which needs the CRCs, and the directory come last. Then the object is
//     committed.
#include "checkpoint/plan/write_checkpoint.h"

#include <algorithm>
#include <optional>

#include "cairn/error.h"

#include "checkpoint/names/extension.h"
#include "checkpoint/plan/manifest.h"
#include "checkpoint/plan/write_plan.h"
#include "checkpoint/plan/write_progress.h"
#include "format/stream_plan.h"
#include "format/tar/writer.h"
#include "io/memory/mapped_file.h"
#include "io/threads/cancellation.h"

namespace cairn {
namespace {

bool is_plain(const Extension& extension) {
  return extension.codec == nullptr && !extension.is_tar;
}

void stream_wrapped(const TorchPlan& plan, const Extension& extension, ByteSink& out,
                    const std::function<void(std::uint64_t)>& on_written) {
  const auto compressed = extension.codec != nullptr ? extension.codec->encoder(out) : nullptr;
  ByteSink& sink = compressed != nullptr ? *compressed : out;
  if (extension.is_tar) {
    tar::Writer tar(sink, std::string(kTarMember), plan.size());
    stream_plan(plan, tar, on_written);
    tar.finish();
  } else {
    stream_plan(plan, sink, on_written);
  }
  if (compressed != nullptr) compressed->finish();
}

// Step 3: writes the content of the file, and does not handle its name.
void execute(const TorchPlan& plan, const FileImage* image, const Extension& extension,
             PositionalSink& sink, const std::function<void(std::uint64_t)>& on_written) {
  if (image != nullptr && image->is_image()) return image->write(plan, sink);
  write_blocks(plan, sink,
               [&](ByteSink& blocks) { stream_wrapped(plan, extension, blocks, on_written); });
}

// Whether any storage is read from a file. If all storages are in memory, check_mapped_reads() is
// not needed, and a change of some other file must not fail this save.
bool reads_files(const TorchPlan& plan) {
  return std::ranges::any_of(plan.parts(), [](const CheckpointPlan::Part& part) {
    return part.storage->source() != nullptr || !part.storage->try_view();
  });
}

pickle::Encoded encode(const Value& value, pickle::EncodeMemory* memory) {
  return memory != nullptr ? pickle::encode(value, *memory) : pickle::encode(value);
}

}  // namespace

TorchFileWriteOptions with_manifest(CheckpointInfo info) {
  return {.extra_records = [info = std::move(info)](const std::vector<FileRecord>& records) {
    return ExtraRecords{{std::string(kManifestRecord), manifest_text(info, records)}};
  }};
}

void check_extension(const std::string& path) { find_extension(path); }

std::uint64_t write_checkpoint(Publisher& publisher, const SaveJob& job, FileImage* image,
                               pickle::EncodeMemory* encoded) {
  const Extension& extension = find_extension(job.path);
  const TorchFileWriteOptions options = with_manifest(job.info);
  const TorchPlan plan =
      image != nullptr ? image->plan(options, is_plain(extension))
                       : TorchPlan(encode(job.value, encoded), options, TorchPlan::Room::kToGrow);
  std::optional<GuardedReads> guard;
  if (job.checks_reads && (reads_are_guarded() || reads_files(plan))) guard.emplace();
  WriteProgress progress(job, part_bytes(plan));
  std::uint64_t bytes = 0;
  // Another thread writes the blocks, and it does not know this thread's cancellation.
  const auto check_cancelled = [cancellation = cancellation_here()] {
    if (cancellation != nullptr) cancellation->check();
  };
  const auto fill = [&](ObjectWrite& object) {
    ObjectSink sink(object, check_cancelled);
    execute(plan, image, extension, sink, progress.of_attempt());
    if (guard) check_mapped_reads();
    bytes = sink.bytes();
  };
  publisher.write_object({.name = job.path,
                          .replace = job.replace,
                          .expected_bytes = plan.tail_begin(),
                          .fill = fill});
  return bytes;
}

}  // namespace cairn
