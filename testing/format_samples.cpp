#include "testing/format_samples.h"

#include <array>
#include <filesystem>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/checkpoint/convert.h"
#include "cairn/error.h"

#include "checkpoint/open/verify/check_whole.h"
#include "checkpoint/plan/write_dcp.h"
#include "format/tar/writer.h"
#include "io/file.h"
#include "storage/local/local_store.h"
#include "testing/string_sink.h"
#include "testing/temp_folder.h"
#include "testing/test_data.h"

namespace cairn::testing {
namespace {

constexpr std::array kFormatSamples = {
    FormatSample{"dcp", "cairn/dcp", ".metadata"},
    FormatSample{"dcp_safetensors", "torch-2.14/dcp.safetensors",
                 "shard-00001-model-00001-of-00001.safetensors"},
    FormatSample{"deepspeed", "deepspeed/stage1",
                 "global_step3/zero_pp_rank_0_mp_rank_00_optim_states.pt"},
    FormatSample{"deepspeed_rank", "cairn/rank.tar"},
    FormatSample{"pickle", "pickle/protocol2.pkl"},
    FormatSample{"safetensors", "torch-2.14/dtypes.safetensors"},
    FormatSample{"safetensors_index", "torch-2.14/hf-two-files.safetensors",
                 "model.safetensors.index.json"},
    FormatSample{"torch_legacy", "torch-2.6/legacy.pt"},
    FormatSample{"torch_zip", "cairn/tiny.pt", "", /*is_checked=*/true},
    FormatSample{"torchscript", "torch-2.14/torchscript.pt"},
};

void write_converted(const Value& value, const std::string& path, ConvertOptions options) {
  const TempFolder folder;
  save(value, folder / "a.pt");
  options.overwrite = true;
  convert(folder / "a.pt", path, options);
}

// Writes the value as two shards.
void write_shards(const Value& value, const std::string& path) {
  std::uint64_t bytes = 0;
  for (const auto& [name, tensor] : tensors_of(value)) {
    bytes += byte_size(*tensor);
  }
  write_converted(value, path, {.shard_bytes = bytes / 2});
}

void write_tar(const Value& value, const std::string& path) {
  const std::string content = encoded(value);
  StringSink sink;
  tar::Writer tar(sink, "composer_states.pt", content.size());
  tar.write(as_bytes(content));
  tar.finish();
  write_file(path, sink.text);
}

void write_dcp_folder(const Value& value, const std::string& path) {
  write_dcp(*local_store(), value, path);
}

constexpr std::array kWrittenSamples = {
    WrittenSample{"torch", [](const Value& value, const std::string& path) { save(value, path); }},
    WrittenSample{
        "torch_of_pytorch",
        [](const Value& value, const std::string& path) { write_file(path, encoded(value)); }},
    WrittenSample{"tar", write_tar},
    WrittenSample{"safetensors",
                  [](const Value& value, const std::string& path) {
                    write_converted(value, path, {.to = "safetensors"});
                  }},
    WrittenSample{"safetensors_index", write_shards},
    WrittenSample{"dcp", write_dcp_folder, /*files_per_tensor=*/1},
    WrittenSample{"dcp_of_pytorch",
                  [](const Value& value, const std::string& path) {
                    write_dcp_folder(value, path);
                    std::filesystem::remove(path + "/.cairn_manifest.json");
                  },
                  /*files_per_tensor=*/1},
};

}  // namespace

void PrintTo(const FormatSample& sample, std::ostream* out) { *out << sample.format; }

std::span<const FormatSample> format_samples() { return kFormatSamples; }

std::map<std::string, std::string> files_of(const FormatSample& sample) {
  const std::string golden = kData + "/" + sample.golden;
  if (!std::filesystem::is_directory(golden)) return {{"", read_file(golden)}};
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(golden)) {
    if (!entry.is_regular_file()) continue;
    files.emplace(entry.path().lexically_relative(golden), read_file(entry.path()));
  }
  return files;
}

StoredSample::StoredSample(const FormatSample& sample)
    : format_(sample.format), part_(sample.part) {
  for (const auto& [name, content] : files_of(sample)) {
    put(name, as_bytes(content));
  }
}

void StoredSample::put(const std::string& name, ByteView bytes) {
  const auto object = store_->begin(join_path("sample", name), {});
  object->write(bytes);
  object->commit();
}

Value StoredSample::use(Access access) const {
  constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 20;
  const auto source = open_source("sample", {.store = store_, .access = access});
  if (source->info().format != format_) throw UnsupportedError("sample: of another format by now");
  if (access == Access::kVerified) check_whole(source->verify(Verify::kFull), "sample");
  Value value = source->read();
  for (const Value& tree : {value, source->state_dict().value_or(Value())}) {
    for (const auto& [path, tensor] : tensors_of(tree)) {
      if (byte_size(*tensor) <= kMaxBytes) tensor->contiguous_bytes();
    }
  }
  return value;
}

void PrintTo(const WrittenSample& sample, std::ostream* out) { *out << sample.name; }

std::span<const WrittenSample> written_samples() { return kWrittenSamples; }

}  // namespace cairn::testing
