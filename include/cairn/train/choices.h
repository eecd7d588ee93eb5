// The words of TrainerOptions as enumerators: see cairn/word.h.
#pragma once

#include <array>
#include <cstdint>

#include "cairn/export.h"
#include "cairn/word.h"

namespace CAIRN_PUBLIC cairn {

enum class DeviceKind : std::uint8_t { kCpu, kGpu };
template <>
struct WordsOf<DeviceKind> {
  static constexpr std::array kAll = {"cpu", "gpu"};
};

// The precision of forward and loss. The amp_* precisions compute in 16 bits where that is safe
// (autocast).
enum class Precision : std::uint8_t { kFp32, kAmpFp16, kAmpBf16 };
template <>
struct WordsOf<Precision> {
  static constexpr std::array kAll = {"fp32", "amp_fp16", "amp_bf16"};
};

// When gradients are averaged over the ranks.
enum class DdpSyncStrategy : std::uint8_t {
  kSingleAutoSync,  // in the last microbatch's backward()
  kMultiAutoSync,   // in every microbatch's backward()
  kForcedSync,      // after the last backward()
};
template <>
struct WordsOf<DdpSyncStrategy> {
  static constexpr std::array kAll = {"single_auto_sync", "multi_auto_sync", "forced_sync"};
};

enum class ConsoleStream : std::uint8_t { kStderr, kStdout };
template <>
struct WordsOf<ConsoleStream> {
  static constexpr std::array kAll = {"stderr", "stdout"};
};

// The least important lines of text that a Trainer logs.
enum class LogLevel : std::uint8_t { kInfo, kWarning, kError };
template <>
struct WordsOf<LogLevel> {
  static constexpr std::array kAll = {"info", "warning", "error"};
};

}  // namespace cairn
