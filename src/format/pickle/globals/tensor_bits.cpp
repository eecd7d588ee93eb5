#include "format/pickle/globals/tensor_bits.h"

#include <utility>

namespace cairn::pickle {
namespace {

bool is_complex(DType dtype) { return name(dtype).starts_with("complex"); }

bool has_sign_bit(DType dtype) {
  return is_complex(dtype) || dtype == DType::kFloat16 || dtype == DType::kBFloat16 ||
         dtype == DType::kFloat32 || dtype == DType::kFloat64;
}

class ResolvedStorage final : public Storage {
 public:
  ResolvedStorage(std::shared_ptr<const Storage> storage, DType dtype, PendingBits pending)
      : Storage(storage->size(), storage->location()),
        storage_(std::move(storage)),
        item_(item_size(dtype)),
        part_(is_complex(dtype) ? item_ / 2 : item_),
        pending_(pending) {}

 protected:
  // The sign is in the last byte of each little-endian number.
  void read(std::uint64_t offset, std::span<std::byte> into) const override {
    storage_->read_into(offset, into);
    const std::uint64_t whole = size() - size() % part_;
    for (std::uint64_t at = offset - offset % part_ + part_ - 1;
         at < whole && at - offset < into.size(); at += part_) {
      const bool is_imaginary = at % item_ >= part_;
      if (pending_.is_neg != (pending_.is_conj && is_imaginary)) {
        into[static_cast<std::size_t>(at - offset)] ^= std::byte{0x80};
      }
    }
  }

 private:
  std::shared_ptr<const Storage> storage_;
  std::uint64_t item_;
  std::uint64_t part_;  // the size of a real number
  PendingBits pending_;
};

}  // namespace

bool can_have(PendingBits pending, DType dtype) {
  return has_sign_bit(dtype) && (is_complex(dtype) || !pending.is_conj);
}

std::shared_ptr<const Storage> with_bits_resolved(std::shared_ptr<const Storage> storage,
                                                  DType dtype, PendingBits pending) {
  return std::make_shared<const ResolvedStorage>(std::move(storage), dtype, pending);
}

}  // namespace cairn::pickle
