#include "io/spill.h"

#include <memory>
#include <vector>

#include "io/scratch_file.h"

namespace cairn {
namespace {

class MemorySink final : public ByteSink {
 public:
  explicit MemorySink(std::uint64_t size) { bytes_->reserve(size); }
  void write(ByteView bytes) override { bytes_->insert(bytes_->end(), bytes.begin(), bytes.end()); }
  SharedBytes take() { return {ByteView(*bytes_), bytes_}; }

 private:
  std::shared_ptr<std::vector<std::byte>> bytes_ = std::make_shared<std::vector<std::byte>>();
};

}  // namespace

SharedBytes spill(std::uint64_t size, const std::string& scratch_folder,
                  const std::function<void(ByteSink& sink)>& write) {
  if (size <= kMostBytesInMemory) {
    MemorySink sink(size);
    write(sink);
    return sink.take();
  }
  ScratchFile file(scratch_folder);
  write(file);
  return file.map();
}

}  // namespace cairn
