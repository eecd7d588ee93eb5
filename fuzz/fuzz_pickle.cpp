// Runs any bytes as a pickle: a Value or a typed error. A Value that can be written reads back
// equal.
#include <cstdint>
#include <cstdlib>

#include "cairn/error.h"

#include "format/pickle/read/unpickle.h"
#include "format/pickle/write/encode.h"

namespace {

using cairn::Storage;

// Storages of zeros, of one size per key: as many bytes as are requested, up to a limit.
class Zeros final : public cairn::pickle::StorageLoader {
 public:
  std::shared_ptr<const Storage> load(const cairn::pickle::StorageReference& reference) override {
    constexpr std::uint64_t kMaxBytes = 1 << 16;
    const std::uint64_t item = reference.dtype ? cairn::item_size(*reference.dtype) : 1;
    if (reference.numel > kMaxBytes / item) throw cairn::CorruptError("no such storage");
    const auto bytes = std::make_shared<std::string>(reference.numel * item, '\0');
    return cairn::storage_of(cairn::SharedBytes{cairn::as_bytes(*bytes), bytes},
                             std::string(reference.location));
  }
};

cairn::Value unpickled(cairn::ByteView bytes) {
  Zeros zeros;
  return cairn::pickle::unpickle(bytes, zeros);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string pickle;
  try {
    const cairn::Value value = unpickled({reinterpret_cast<const std::byte*>(data), size});
    pickle = cairn::pickle::encode(value).data_pkl;
  } catch (const cairn::CorruptError&) {
    return 0;
  } catch (const cairn::UnsupportedError&) {
    return 0;
  }
  const cairn::Value again = unpickled(cairn::as_bytes(pickle));
  if (cairn::pickle::encode(again).data_pkl != pickle) std::abort();
  return 0;
}
