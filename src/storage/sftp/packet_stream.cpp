#include "storage/sftp/packet_stream.h"

#include <string_view>

#include "storage/sftp/packets.h"

namespace cairn::sftp {
namespace {

constexpr std::size_t kSizeBytes = 4;
constexpr std::size_t kHeadBytes = 9;  // size, type, id

}  // namespace

std::optional<PacketStream::Next> PacketStream::next() const {
  const auto came = std::string_view(input_).substr(input_at_);
  if (came.size() < kSizeBytes) return std::nullopt;
  const std::size_t size = number_in(came.substr(0, kSizeBytes));
  Next next{.size = size, .id = std::nullopt, .is_whole = came.size() - kSizeBytes >= size};
  if (came.size() >= kHeadBytes) next.id = static_cast<std::uint32_t>(number_in(came.substr(5, 4)));
  return next;
}

std::string PacketStream::take() {
  const std::size_t size = next()->size;
  std::string packet = input_.substr(input_at_ + kSizeBytes, size);
  input_at_ += kSizeBytes + size;
  return packet;
}

ProgramDialog::PumpResult PacketStream::pump(std::chrono::milliseconds most) {
  input_.erase(0, input_at_);
  input_at_ = 0;
  ByteView unsent = as_bytes(output_).subspan(output_at_);
  const std::size_t before = unsent.size();
  const auto moved = dialog_.pump(unsent, input_, most);
  output_at_ += before - unsent.size();
  if (unsent.empty() || output_at_ >= kMaxUnsentBytes) {  // no more than that stays in memory
    output_.erase(0, output_at_);
    output_at_ = 0;
  }
  return moved;
}

}  // namespace cairn::sftp
