// Reads any bytes as the `.metadata` of a torch.distributed.checkpoint folder whose data files all
// hold one tensor of four float32. The result is a tree or a typed error.
#include <cstdint>

#include "cairn/error.h"
#include "cairn/format/torch_file.h"

#include "format/dcp/folder.h"
#include "testing/counting_source.h"

namespace {

using cairn::SharedBytes;
using cairn::testing::CountingSource;

class Text final : public cairn::ByteSink {
 public:
  void write(cairn::ByteView bytes) override { text.append(cairn::as_text(bytes)); }
  std::string text;
};

SharedBytes data_file() {
  const auto floats = std::make_shared<const std::string>(16, '\1');
  const cairn::TensorView tensor =
      cairn::make_tensor(cairn::DType::kFloat32, {4}, {cairn::as_bytes(*floats), floats});
  Text sink;
  cairn::TorchFilePlan(tensor).write(sink);
  const auto file = std::make_shared<const std::string>(std::move(sink.text));
  return {cairn::as_bytes(*file), file};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const SharedBytes file = data_file();
  const cairn::ByteView bytes(reinterpret_cast<const std::byte*>(data), size);
  try {
    const auto folder = cairn::dcp::Folder::open(
        cairn::dcp::parse_metadata({bytes, nullptr}), [](const std::string& name) {
          if (name.size() > 20) throw cairn::NotFoundError(name);
          return std::make_shared<const CountingSource>(cairn::source_of(file, name));
        });
    const cairn::Value value = folder->read();
    for (const auto& [path, tensor] : tensors_of(value)) {
      tensor->contiguous_bytes();
    }
  } catch (const cairn::CorruptError&) {  // only these two errors
  } catch (const cairn::UnsupportedError&) {
  }
  return 0;
}
