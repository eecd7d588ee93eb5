// The packets of SFTP version 3 (draft-ietf-secsh-filexfer-02), which OpenSSH and nearly all other
// servers speak. All numbers are big-endian. A text is its length and its bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cairn::sftp {

enum class Packet : std::uint8_t {
  kInit = 1,
  kVersion = 2,
  kOpen = 3,
  kClose = 4,
  kRead = 5,
  kWrite = 6,
  kLstat = 7,
  kFstat = 8,
  kOpendir = 11,
  kReaddir = 12,
  kRemove = 13,
  kMkdir = 14,
  kRmdir = 15,
  kStat = 17,
  kRename = 18,
  kReadlink = 19,
  kStatus = 101,
  kHandle = 102,
  kData = 103,
  kName = 104,
  kAttrs = 105,
  kExtended = 200,
  kExtendedReply = 201,
};

// The codes of a kStatus.
enum class Status : std::uint32_t {
  kOk = 0,
  kEof = 1,
  kNoSuchFile = 2,
  kPermissionDenied = 3,
  kFailure = 4,
  kUnsupported = 8,
};

// The flags of kOpen.
constexpr std::uint32_t kOpenRead = 1;
constexpr std::uint32_t kOpenWrite = 2;
constexpr std::uint32_t kOpenCreate = 8;
constexpr std::uint32_t kOpenExclusive = 32;

// The number in 4 or 8 bytes of a packet.
std::uint64_t number_in(std::string_view bytes);

// A packet that is being written: everything except its length and id.
class Request {
 public:
  explicit Request(Packet type) : type_(type) {}
  Request& u32(std::uint32_t number);
  Request& u64(std::uint64_t number);
  Request& text(std::string_view bytes);

  // The bytes to send; kInit has no id.
  std::string packet(std::optional<std::uint32_t> id) const;

 private:
  Packet type_;
  std::string body_;
};

struct Attributes {
  std::optional<std::uint64_t> size = std::nullopt;
  std::optional<std::uint32_t> permissions = std::nullopt;  // st_mode
  std::optional<std::uint32_t> modified = std::nullopt;     // seconds since 1970

  bool is_folder() const { return type() == 0040000; }
  bool is_link() const { return type() == 0120000; }
  // True also if the server does not report the type.
  bool is_file() const { return !permissions || type() == 0100000; }

 private:
  std::uint32_t type() const { return permissions.value_or(0) & 0170000; }
};

// The content of a received packet. Reading throws ConnectionLost if the packet is too short.
class Answer {
 public:
  // `packet` begins with its type and, except for kVersion, its id.
  explicit Answer(std::string packet);

  Packet type() const { return type_; }
  std::uint32_t id() const { return id_; }

  std::uint32_t u32();
  std::uint64_t u64();
  std::string_view text();  // valid as long as this object
  Attributes attributes();
  bool at_end() const { return at_ == packet_.size(); }

 private:
  std::string_view take(std::size_t count);

  std::string packet_;
  std::size_t at_ = 0;
  Packet type_;
  std::uint32_t id_ = 0;
};

}  // namespace cairn::sftp
