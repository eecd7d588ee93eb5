// MessagePrinter: the Trainer's messages ("saved ...", "autoresume: ...") as lines on stderr, and
// nothing else: for a program that shows neither a progress bar nor metrics.
#pragma once

#include <iostream>
#include <string>

#include "cairn/train/logger.h"

namespace examples {

class MessagePrinter final : public cairn::LoggerDestination {
 public:
  std::string name() const override { return "MessagePrinter"; }
  void log_message(const std::string& message) override { std::cerr << message << std::endl; }
};

}  // namespace examples
