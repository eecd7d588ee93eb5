#include "checkpoint/write_checkpoint.h"

#include "cairn/error.h"
#include "cairn/format/torch_file.h"

#include "base/atomic_file.h"
#include "checkpoint/manifest.h"

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

}  // namespace

void check_extension(const std::string& path) {
  const std::string name = base_name(path);
  const std::size_t dot = name.find('.', 1);  // ".hidden" has none
  if (dot == std::string::npos || name.substr(name.rfind('.')) == ".pt") return;
  throw UnsupportedError("a checkpoint named " + name + ": the extension \"" + name.substr(dot) +
                         "\" is not supported by this version; use \".pt\" or none");
}

std::uint64_t write_checkpoint(FileSystem& files, const Value& value, const std::string& path,
                               const WriteCheckpointOptions& options) {
  try {
    check_extension(path);
    const TorchFilePlan plan(value);
    files.make_folders(parent_path(path));
    AtomicFile file(
        files, path,
        {.overwrite = options.overwrite, .expected_bytes = plan.size_bound() + kManifestBytes});
    CountingSink sink(file);
    plan.write(sink, {.extra_records = [&](const std::vector<FileRecord>& records) {
                 return std::vector<std::pair<std::string, std::string>>{
                     {std::string(kManifestRecord), write_manifest(options.info, records)}};
               }});
    file.commit();
    return sink.count();
  } catch (Error& e) {
    e.add_context("saving " + path);
    throw;
  }
}

void save(const Value& value, const std::string& path, const SaveOptions& options) {
  FileSystem& files = options.files != nullptr ? *options.files : posix_file_system();
  write_checkpoint(files, value, path, {.overwrite = options.overwrite, .info = options.info});
}

}  // namespace cairn
