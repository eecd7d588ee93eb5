// Packets to the server and from it, over the pipes of a program.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/process/program_dialog.h"

namespace cairn::sftp {

// One thread at a time.
class PacketStream {
 public:
  // As ProgramDialog().
  PacketStream(const std::vector<std::string>& command, const Wakeup* wakeup)
      : dialog_(command, wakeup) {}

  // Sends it with the next pump().
  void put(const std::string& packet) { output_ += packet; }
  // Whether pump() should run before more is put().
  bool is_full() const { return output_.size() - output_at_ > kMostUnsent; }

  // The packet that comes next, as far as it came.
  struct Next {
    std::size_t size;                 // that it says
    std::optional<std::uint32_t> id;  // of any but kVersion
    bool is_whole;
  };
  // nullopt while nothing says its size.
  std::optional<Next> next() const;
  // The next packet, which is whole.
  std::string take();

  // As ProgramDialog::pump().
  ProgramDialog::Moved pump(std::chrono::milliseconds most);
  // ProgramDialog::messages().
  std::string messages() { return dialog_.messages(); }

 private:
  static constexpr std::size_t kMostUnsent = std::size_t{1} << 20;

  ProgramDialog dialog_;
  std::string output_;  // to be sent, from output_at_ on
  std::size_t output_at_ = 0;
  std::string input_;  // came, and was not taken yet, from input_at_ on
  std::size_t input_at_ = 0;
};

}  // namespace cairn::sftp
