#include "checkpoint/plan/write_dcp.h"

#include "checkpoint/plan/folder_manifest.h"
#include "core/xxh3.h"
#include "format/dcp/folder_plan.h"
#include "format/stream_plan.h"

namespace cairn {
namespace {

class HashedSink final : public ByteSink {
 public:
  HashedSink(ByteSink& to, Xxh3& hash) : to_(to), hash_(hash) {}
  void write(ByteView bytes) override {
    to_.write(bytes);
    hash_.write(bytes);
  }

 private:
  ByteSink& to_;
  Xxh3& hash_;
};

void add_text(FolderWrite& building, const char* name, const std::string& text) {
  building.add(name, text.size(), [&](ByteSink& sink) { sink.write(as_bytes(text)); });
}

}  // namespace

std::uint64_t write_dcp(ObjectStore& store, const Value& value, const std::string& folder,
                        bool overwrite, const std::string& scratch_folder) {
  const dcp::FolderPlan plan(value, scratch_folder);
  const std::uint64_t data_size = plan.data().size();
  const auto building = store.begin_folder(folder, overwrite);
  Xxh3 data;
  building->add(dcp::kDataFile, data_size, [&](ByteSink& sink) {
    HashedSink hashed(sink, data);
    stream_plan(plan.data(), hashed);
  });
  const std::string metadata = plan.metadata();
  add_text(*building, dcp::kMetadataFile, metadata);
  Xxh3 of_metadata;
  of_metadata.write(as_bytes(metadata));
  const std::string manifest = write_folder_manifest(
      {{.name = dcp::kDataFile, .bytes = data_size, .xxh3_128 = data.digest128()},
       {.name = dcp::kMetadataFile,
        .bytes = metadata.size(),
        .xxh3_128 = of_metadata.digest128()}});
  add_text(*building, kFolderManifest, manifest);
  building->commit();
  return data_size + metadata.size() + manifest.size();
}

}  // namespace cairn
