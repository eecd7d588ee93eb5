#include "storage/sftp/packets.h"

#include "storage/sftp/session.h"

namespace cairn::sftp {
namespace {

constexpr std::uint32_t kHasSize = 1;
constexpr std::uint32_t kHasOwner = 2;
constexpr std::uint32_t kHasPermissions = 4;
constexpr std::uint32_t kHasTimes = 8;
constexpr std::uint32_t kHasMore = 0x80000000;

void append_number(std::string& to, std::uint64_t number, int bytes) {
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) {
    to += static_cast<char>(number >> shift & 0xFF);
  }
}

}  // namespace

std::uint64_t number_in(std::string_view bytes) {
  std::uint64_t number = 0;
  for (const char c : bytes) {
    number = number << 8 | static_cast<unsigned char>(c);
  }
  return number;
}

Request& Request::u32(std::uint32_t number) {
  append_number(body_, number, 4);
  return *this;
}

Request& Request::u64(std::uint64_t number) {
  append_number(body_, number, 8);
  return *this;
}

Request& Request::text(std::string_view bytes) {
  append_number(body_, bytes.size(), 4);
  body_.append(bytes);
  return *this;
}

std::string Request::packet(std::optional<std::uint32_t> id) const {
  std::string bytes;
  bytes.reserve(body_.size() + 9);
  append_number(bytes, 1 + (id ? 4U : 0U) + body_.size(), 4);
  bytes += static_cast<char>(type_);
  if (id) append_number(bytes, *id, 4);
  return bytes + body_;
}

Answer::Answer(std::string packet) : packet_(std::move(packet)) {
  type_ = static_cast<Packet>(static_cast<unsigned char>(take(1)[0]));
  if (type_ != Packet::kVersion) id_ = u32();
}

std::string_view Answer::take(std::size_t count) {
  if (count > packet_.size() - at_) throw ConnectionLost("an answer is shorter than it says");
  at_ += count;
  return std::string_view(packet_).substr(at_ - count, count);
}

std::uint32_t Answer::u32() { return static_cast<std::uint32_t>(number_in(take(4))); }

std::uint64_t Answer::u64() { return number_in(take(8)); }

std::string_view Answer::text() { return take(u32()); }

Attributes Answer::attributes() {
  Attributes found;
  const std::uint32_t flags = u32();
  if ((flags & kHasSize) != 0) found.size = u64();
  if ((flags & kHasOwner) != 0) take(8);
  if ((flags & kHasPermissions) != 0) found.permissions = u32();
  if ((flags & kHasTimes) != 0) {
    u32();
    found.modified = u32();
  }
  if ((flags & kHasMore) != 0) {
    for (std::uint32_t left = u32(); left > 0; --left) {  // each takes at least 8 bytes
      text();
      text();
    }
  }
  return found;
}

}  // namespace cairn::sftp
