// lzop, by the program of that name. Its library, liblzo2, is under the GPL, which would bind
// programs that link cairn.
#include <cerrno>
#include <memory>
#include <string>

#include "cairn/error.h"

#include "format/compression/codec.h"
#include "io/process/program.h"
#include "io/read_fault.h"

namespace cairn {
namespace {

class LzopFilter final : public Filter {
 public:
  using Fail = void (*)(const std::string& what);

  // `fail` throws.
  LzopFilter(const char* flag, Fail fail, ByteSink& out)
      : lzop_({"lzop", flag}, out), fail_(fail) {}

  void write(ByteView bytes) override { lzop_.write(bytes); }
  void finish() override {
    // The program's exit code 2 is a warning: other bytes follow the data.
    const std::string wrong = lzop_.finish();
    if (!wrong.empty()) fail_(wrong);
  }

 private:
  PipeThrough lzop_;
  const Fail fail_;
};

bool is_lzop(ByteView bytes) {
  return as_text(bytes).starts_with(std::string_view("\x89LZO\0\r\n\x1a\n", 9));
}

std::unique_ptr<Filter> lzop_decoder(ByteSink& out) {
  try {
    return std::make_unique<LzopFilter>(
        "-dc", [](const std::string& what) { throw CorruptError("decompressing failed: " + what); },
        out);
  } catch (const NotFoundError& e) {
    throw ReaderMissingError("this is compressed by lzop: " + std::string(e.what()) +
                             "; install it");
  }
}

std::unique_ptr<Filter> lzop_encoder(ByteSink& out) {
  return std::make_unique<LzopFilter>(
      "-c",
      [](const std::string& what) { throw StorageError("compressing failed: " + what, ECHILD); },
      out);
}

}  // namespace

constinit const Codec kLzop = {"lzop", is_lzop, lzop_decoder, lzop_encoder, "lzop"};

}  // namespace cairn
