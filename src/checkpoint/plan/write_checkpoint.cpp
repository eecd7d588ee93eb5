// From the Value to the file:
//
//  1. The store begins an object (in a folder: a file under a temporary name).
//  2. What the extension asks for is put in front of it: a compressor, and in front of that a tar.
//     A tar says the size of a file before the file, so that the plan is asked for it first.
//  3. The plan streams the .pt through them; the manifest, which needs the CRCs, comes last.
//  4. They are finished from the inside out, and the file is committed.
#include "checkpoint/plan/write_checkpoint.h"

#include "cairn/error.h"
#include "cairn/format/torch_file.h"

#include "checkpoint/names/extension.h"
#include "checkpoint/open/candidate.h"
#include "checkpoint/plan/manifest.h"
#include "format/tar/writer.h"
#include "io/file.h"
#include "storage/listing.h"
#include "storage/place.h"

namespace cairn {
namespace {

// Room for the manifest and the directory's entry of it, on top of the plan's own bound.
constexpr std::uint64_t kManifestBytes = 4096;

class CountingSink final : public ByteSink {
 public:
  explicit CountingSink(ByteSink& to) : to_(to) {}
  void write(ByteView bytes) override {
    to_.write(bytes);
    count_ += bytes.size();
  }
  std::uint64_t count() const { return count_; }

 private:
  ByteSink& to_;
  std::uint64_t count_ = 0;
};

// Steps 2 to 4, without the commit.
void write_wrapped(const TorchFilePlan& plan, const TorchFileWriteOptions& options,
                   const Extension& extension, ByteSink& out) {
  const auto compressed = extension.codec != nullptr ? extension.codec->encoder(out) : nullptr;
  ByteSink& sink = compressed != nullptr ? *compressed : out;
  if (extension.is_tar) {
    tar::Writer tar(sink, std::string(kTarMember), plan.size(options));
    plan.write(tar, options);
    tar.finish();
  } else {
    plan.write(sink, options);
  }
  if (compressed != nullptr) compressed->finish();
}

}  // namespace

void check_extension(const std::string& path) { find_extension(path); }

std::uint64_t write_checkpoint(ObjectStore& store, const Value& value, const std::string& path,
                               const WriteCheckpointOptions& options) {
  try {
    const Extension& extension = find_extension(path);
    const TorchFilePlan plan(value);
    const auto file = store.begin(path, {.condition = condition_of(options.overwrite),
                                         .expected_bytes = plan.size_bound() + kManifestBytes});
    CountingSink sink(*file);
    const TorchFileWriteOptions with_manifest{
        .extra_records = [&](const std::vector<FileRecord>& records) {
          return std::vector<std::pair<std::string, std::string>>{
              {std::string(kManifestRecord), write_manifest(options.info, records)}};
        }};
    write_wrapped(plan, with_manifest, extension, sink);
    file->commit();
    return sink.count();
  } catch (Error& e) {
    e.add_context("saving " + path);
    throw;
  }
}

void save(const Value& value, const std::string& path, const SaveOptions& options) {
  const auto store = store_of(path, options.store);
  remove_leftovers_of(*store, path);
  write_checkpoint(*store, value, path, {.overwrite = options.overwrite, .info = options.info});
}

}  // namespace cairn
