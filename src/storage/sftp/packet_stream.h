// Sends packets to the server, and receives packets from it, over the pipes of a program.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/process/program_dialog.h"

namespace cairn::sftp {

// Not thread-safe.
class PacketStream {
 public:
  // The arguments are those of ProgramDialog().
  PacketStream(const std::vector<std::string>& command, const Wakeup* wakeup)
      : dialog_(command, wakeup) {}

  // The next pump() sends the packet.
  void put(const std::string& packet) { output_ += packet; }
  // Whether pump() should run before more is put().
  bool is_full() const { return output_.size() - output_at_ > kMaxUnsentBytes; }

  // The next packet, as far as it was received.
  struct Next {
    std::size_t size;                 // as the packet states it
    std::optional<std::uint32_t> id;  // missing in kVersion
    bool is_whole;
  };
  // nullopt while the size has not arrived.
  std::optional<Next> next() const;
  // Takes the next packet, which must be whole.
  std::string take();

  // Like ProgramDialog::pump().
  ProgramDialog::PumpResult pump(std::chrono::milliseconds most);
  // Like ProgramDialog::messages().
  std::string messages() { return dialog_.messages(); }

 private:
  static constexpr std::size_t kMaxUnsentBytes = std::size_t{1} << 20;

  ProgramDialog dialog_;
  std::string output_;  // to be sent, from output_at_ on
  std::size_t output_at_ = 0;
  std::string input_;  // received and not yet taken, from input_at_ on
  std::size_t input_at_ = 0;
};

}  // namespace cairn::sftp
